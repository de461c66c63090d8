"""Blocks of code in a document, run from top to bottom in one program, as a reader would.

    ```python     is run, in the namespace that the blocks before it have left
    ```output     is what the block before it prints

Ids and times are others each time, so blocks print none.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Runs the blocks that it is given, and prints what each has printed, up to one that fails.
_RUNNER = """
import contextlib, io, json, sys, traceback
namespace, printed = {"__name__": "__main__"}, []
for name, line, code in json.load(sys.stdin):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile("\\n" * (line - 1) + code, name, "exec"), namespace)
        except BaseException:
            output.write(traceback.format_exc())
    printed.append(output.getvalue())
json.dump(printed, sys.stdout)
"""


class Block(NamedTuple):
    """Code, the line in the document where it begins, and what it is to print."""

    line: int
    code: str
    output: str


def blocks(document: str) -> list[Block]:
    """The Python blocks of a document, in order."""
    found: list[Block] = []
    for fence in _FENCE.finditer(document):
        language, text = fence.groups()
        if language == "output":
            found[-1] = found[-1]._replace(output=text)
        elif language == "python":
            found.append(Block(document[: fence.start(2)].count("\n") + 1, text, ""))
    return found


def run(path: Path, found: list[Block], cwd: str, environ: Mapping[str, str]) -> list[str]:
    """What each block prints; a traceback names the line in the document."""
    given = [(path.name, block.line, block.code) for block in found]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _RUNNER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=dict(environ),
        timeout=100,
        check=True,
    )
    printed: list[str] = json.loads(done.stdout)
    return printed
