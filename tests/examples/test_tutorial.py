"""docs/tutorial.md: its commands do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from client.live import installation

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
SCRIPTS = Path(sys.executable).parent


def steps() -> list[tuple[str, str]]:
    """Each command, and what the page says that it prints."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [
        (command, told)
        for block in blocks
        for command, _, told in (each.partition("\n") for each in block.split("$ ")[1:])
    ]


def test_its_commands_do_what_it_says() -> None:
    with installation() as place:
        marks = [f"{command}\nprintf '\\0'" for command, _ in steps()]
        done = subprocess.run(
            ["bash", "-c", "exec 2>&1\n" + "\n".join(marks)],
            env=place.environ | {"PATH": f"{SCRIPTS}:/usr/bin:/bin"},
            cwd=place.workspace,
            capture_output=True,
            text=True,
            check=True,
        )
    printed = done.stdout.split("\0")
    for (command, told), said in zip(steps(), printed, strict=False):
        expected = told.replace("/home/me/calc", f"{place.workspace}/calc")
        assert said.startswith(expected), command
        assert ("stet: " in said) is ("stet: " in told), f"{command}: {said}"
