"""Whether Codex runs stet's hooks: asked of ``codex app-server``, in JSON lines.

Codex passes a hook over in silence until a person has trusted it as it stands now. Which it trusts
is for Codex to say: stet neither reads nor writes where that is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Any

from stet.cli.finding import Finding

#: Codex takes a third of a second.
_WITHIN_S = 5.0
_TRUST = "start codex, run /hooks there, and trust the hooks of stet"


def finding(path: str, program: str, directory: str) -> Finding:
    """What Codex does with the hooks in a file of its configuration, which start this program."""
    from stet.agents.entries import own_handler

    starts = f"{path} starts {program}"
    if shutil.which("codex") is None:
        return Finding("codex", True, f"{starts}; no codex is on PATH to ask whether it is trusted")
    listed = _listed(directory)
    if listed is None:
        return Finding("codex", True, f"{starts}; codex did not say whether it is trusted")
    same = os.path.realpath(path)
    own = [
        each
        for each in listed
        if own_handler(each) and os.path.realpath(str(each.get("sourcePath"))) == same
    ]
    if not own:
        trust = f"start codex in {directory}, and say that you trust the directory"
        return Finding("codex", False, f"Codex does not read {path}", trust)
    passed_over = {why: None for each in own if (why := _passed_over(each))}
    if passed_over:
        detail = f"Codex does not run the hooks in {path}: {', '.join(passed_over)}"
        return Finding("codex", False, detail, _TRUST)
    return Finding("codex", True, f"{starts}, which Codex trusts")


def _passed_over(hook: dict[str, Any]) -> str | None:
    """Why Codex does not run a hook; None if it does."""
    if not hook.get("enabled"):
        return "disabled"
    status = str(hook.get("trustStatus"))
    return None if status in ("trusted", "managed") else status


def _listed(directory: str) -> list[dict[str, Any]] | None:
    """The hooks that Codex knows of in a directory; None if it does not say."""
    messages: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {"clientInfo": {"name": "stet", "version": "1"}},
        },
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [directory]}},
    ]
    # A session of its own: what npm installs is a script that has started the program.
    with suppress(OSError, ValueError, LookupError, TypeError), subprocess.Popen(
        ["codex", "app-server"], cwd=directory, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as codex:  # fmt: skip
        timer = threading.Timer(_WITHIN_S, _end, [codex])
        timer.start()
        try:
            assert codex.stdin is not None
            assert codex.stdout is not None
            codex.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
            codex.stdin.flush()
            for line in codex.stdout:
                answer = json.loads(line)
                if answer.get("id") == 2:
                    return [dict(each) for each in answer["result"]["data"][0]["hooks"]]
        finally:
            timer.cancel()
            _end(codex)
    return None


def _end(codex: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(codex.pid, signal.SIGKILL)
