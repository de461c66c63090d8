"""``stet undo``, ``redo``, ``rollback``, ``restore`` and ``oops``, as a person meets them."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest
from msgspec import structs

import stet
from client.live import Installation
from stet.cli.taking_back import _later_changes, _newest_burst, last_burst
from stet.wire.results import CommitInfo, FileChange

A = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
TEN = A.replace("return 1", "return 10")


@pytest.fixture
def ws(ws: Installation) -> Installation:
    """The workspace, with files in it."""
    ws.write("src/a.py", A)
    return ws


def test_an_undo_is_redone_and_a_second_redo_says_that_there_is_none(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    assert ws.stet("undo").returncode == 0
    assert ws.text("src/a.py") == A
    preview = ws.stet("redo", "--preview")
    assert preview.stdout.startswith("Would redo:\n")
    assert preview.stdout.endswith("Preview: nothing was changed.\n")
    assert ws.text("src/a.py") == A
    redone = ws.stet("redo")
    assert (redone.returncode, redone.stderr) == (0, "")
    assert redone.stdout.startswith("Redone:\n")
    assert ws.text("src/a.py") == TEN
    again = ws.stet("redo")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == (
        "stet: there is no undo left to redo. Each undo is redone once.\nTry: stet log\n"
    )


def test_a_rollback_takes_back_what_came_after_a_commit(ws: Installation) -> None:
    first = ws.patch("src/a.py", "return 1", "return 10")["commit"]
    ws.patch("src/a.py", "return 2", "return 20", STET_SESSION="one")
    ws.patch("src/a.py", "return 20", "return 200", STET_SESSION="two")
    rolled = ws.stet("rollback", first[:10], "-m", "back to ten")
    assert (rolled.returncode, rolled.stderr) == (0, "")
    assert rolled.stdout.startswith("Rolled back:\n")
    assert ws.text("src/a.py") == TEN
    assert ws.json("log", "-n", "1")["commits"][0]["message"] == (
        f"rollback to {first[:8]}: 2 commits\n\nback to ten"
    )


def test_a_rollback_of_one_session_keeps_the_others(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10", STET_SESSION="one")
    first = ws.json("log")["commits"][-1]["commit"]
    ws.patch("src/a.py", "return 2", "return 20", STET_SESSION="two")
    result = ws.json("rollback", first, "--session", "one", "--path", "src")
    assert len(result["undone"]) == 1
    assert ws.text("src/a.py") == A.replace("return 2", "return 20")


def test_a_file_is_restored_as_it_was(ws: Installation) -> None:
    first = ws.patch("src/a.py", "return 1", "return 10")["commit"]
    ws.patch("src/a.py", "return 2", "return 20")
    run = ws.stet("restore", "src/a.py", "--at", first)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"Restored src/a.py as it was after {first[:8]}.\n")
    assert ws.text("src/a.py") == TEN
    again = ws.stet("restore", "a.py", "--at", first, cwd="src")
    assert again.stderr.endswith("Try: stet log a.py\n")
    assert again.returncode == 1
    assert "is as it was" in again.stderr
    assert ws.stet("restore", "src/a.py").returncode == 2


def test_a_file_that_was_moved_is_one_file(ws: Installation) -> None:
    moved = "*** Update File: src/a.py\n*** Move to: src/b.py\n@@\n-    return 1\n+    return 10\n"
    done = ws.stet("apply-patch", stdin=f"*** Begin Patch\n{moved}*** End Patch\n")
    assert done.returncode == 0, done.stderr
    assert "last burst 1 edit by cli/cli in 1 file, " in ws.stet().stdout


def test_stet_alone_where_no_agent_has_edited_says_so(ws: Installation) -> None:
    alone = ws.stet()
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "last burst no edit of an agent to take back\n" in alone.stdout
    assert "next       stet connect CLIENT, stet log;" in alone.stdout


def test_a_conflict_is_exit_status_4_with_the_hunks(ws: Installation) -> None:
    first = ws.patch("src/a.py", "return 1", "return 10")["commit"]
    ws.write("src/a.py", A.replace("return 1", "return 7"))
    for arguments in (["undo", first], ["rollback", "HEAD~1"], ["oops", "--yes"]):
        run = ws.stet(*arguments)
        assert run.returncode == 4, arguments
        assert run.stderr.startswith("stet: src/a.py: later changes are in the way")
        assert "return 7\n" in run.stderr
        assert "<<<<<<<" in run.stderr
    assert ws.text("src/a.py") == A.replace("return 1", "return 7")


# -- oops


def test_oops_undoes_the_last_burst_of_the_newest_session(ws: Installation) -> None:
    ws.patch("src/a.py", "return 2", "return 20", STET_SESSION="one")
    ws.patch("src/a.py", "return 1", "return 10", STET_SESSION="two")
    ws.patch("src/a.py", "return 10", "return 100", STET_SESSION="two")
    run = ws.stet("oops", "--yes")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("The last burst, 2 edits by cli/two:\n")
    assert "Undone: 2 edits\nBy:\n" in run.stdout
    assert ws.text("src/a.py") == A.replace("return 2", "return 20")
    assert ws.stet("oops", "-y").returncode == 0
    assert ws.text("src/a.py") == A
    assert ws.stet("oops", "--yes").stderr == (
        "stet: there is no edit of an agent left to undo.\nTry: stet log\n"
    )


def test_oops_passes_over_what_the_history_was_asked_to_forget(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    ws.write(".env", "key = 1\n")
    ws.patch(".env", "key = 1", "key = 2")
    ws.patch("src/a.py", "return 2", "return 20")
    assert ws.stet("forget", ".env", "--yes").returncode == 0
    run = ws.stet("oops", "--yes")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("The last burst, 2 edits by cli/cli:\n")
    assert (ws.text("src/a.py"), ws.text(".env")) == (A, "key = 2\n")


def test_oops_without_a_terminal_shows_the_burst_and_undoes_nothing(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    run = ws.stet("oops")
    assert run.returncode == 2
    assert run.stdout.startswith("The last burst, 1 edit by cli/cli:\n")
    assert run.stderr == (
        "stet: nothing was done: there is no terminal to ask on. Add --yes\nTry: stet oops --help\n"
    )
    assert ws.stet("oops", "--json").returncode == 2
    shown = ws.stet("oops", "--preview").stdout
    assert "-    return 10\n+    return 1\n" in shown
    assert "\nWhich would change:\nM src/a.py" in shown  # and not the list of edits again
    assert ws.json("oops", "--preview")["commit"] is None
    assert ws.text("src/a.py") == TEN
    assert ws.json("oops", "--yes")["files"][0]["path"] == "src/a.py"
    assert ws.text("src/a.py") == A


def test_oops_says_who_else_has_changed_the_files_since(ws: Installation) -> None:
    ws.patch("src/a.py", "def b", "def bb", STET_SESSION="before")
    ws.patch("src/a.py", "return 1", "return 10", STET_SESSION="one")
    ws.patch("src/a.py", "def bb", "def b2", STET_SESSION="two")
    ws.patch("src/a.py", "def b2", "def b3", STET_SESSION="two")
    ws.write("src/other.py", "other\n")
    ws.patch("src/other.py", "other", "by two", STET_SESSION="two")
    ws.write("src/a.py", ws.text("src/a.py").replace("return 2", "return 20"))
    ws.write("src/b.py", "stood there before\n")
    ws.patch("src/b.py", "before", "after", STET_SESSION="one")
    ws.patch("src/a.py", "return 10", "return 100", STET_SESSION="one")
    also = {"cli/two": 2, "outside": 1}
    shown = ws.stet("oops", "--preview", "--session", "one")
    line = "\nalso changed these files since: cli/two (2 edits), outside (1)\n"
    assert (line in shown.stdout, shown.stderr) == (True, "")
    assert ws.json("oops", "--preview", "--session", "one")["also_changed"] == also
    assert ws.json("oops", "--yes", "--session", "one")["also_changed"] == also
    assert ws.text("src/a.py") == A.replace("return 2", "return 20").replace("def b", "def b3")
    assert ws.text("src/b.py") == "stood there before\n"
    # A conflict is an error as ever, after the list.
    refused = ws.stet("oops", "--yes", "--session", "two")
    assert refused.stdout.endswith("\nalso changed these files since: outside (1)\n")
    assert (refused.returncode, "<<<<<<<" in refused.stderr) == (4, True)


def test_oops_takes_back_what_a_session_did_with_tools_of_its_own_too(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10", STET_SESSION="s")
    with stet.connect(ws.workspace, "s", "a", endpoint=ws.endpoint()) as session:
        session.observe("before", ["src/a.py"], use="t1")
        ws.write("src/a.py", ws.text("src/a.py").replace("return 2", "return 20"))
        session.observe("after", ["src/a.py"], use="t1")
    run = ws.stet("oops", "--yes")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("The last burst, 2 edits by ")
    assert ws.text("src/a.py") == A


def test_oops_asks_on_a_terminal(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    for answer, after in ((b"n\n", TEN), (b"\n", TEN), (b"y\n", A)):
        assert b"in 1 file? [y/N] " in on_terminal(ws, answer, "oops")
        assert ws.text("src/a.py") == after


def test_undo_takes_back_what_it_showed_when_it_asked(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")

    def edit_elsewhere() -> None:
        ws.patch("src/a.py", "return 2", "return 20")

    said = on_terminal(ws, b"y\n", "undo", meanwhile=edit_elsewhere)
    assert b"Undo 1 edit by " in said
    assert ws.text("src/a.py") == A.replace("return 2", "return 20")


def on_terminal(
    ws: Installation,
    typed: bytes,
    *arguments: str,
    program: Sequence[str] = (),
    meanwhile: Callable[[], None] = lambda: None,
    **environ: str,
) -> bytes:
    """What a command says to a person who types this when it asks, and after ``meanwhile``."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(ws.workspace)
            command = [*program] or [sys.executable, "-m", "stet.cli", *arguments]
            os.execvpe(command[0], command, ws.environ | {"TERM": "xterm"} | environ)
        finally:
            os._exit(127)
    said, asked, deadline = b"", False, time.monotonic() + 60
    poll = select.poll()
    poll.register(terminal, select.POLLIN)
    try:
        while time.monotonic() < deadline:
            if not poll.poll(100):
                continue
            try:
                data = os.read(terminal, 4096)
            except OSError:  # EIO: the other end is closed
                break
            said += data
            if not asked and b"[y/N] " in said:
                meanwhile()
                os.write(terminal, typed)
                asked = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return said


def commit(
    minute: float, kind: str = "edit", undone: bool = False, method: str = "patch"
) -> CommitInfo:
    time = f"2026-11-22T10:{int(minute):02}:{round(minute % 1 * 60):02}Z"
    name = f"{kind}@{minute:g}"
    by = "u" if undone else None
    return CommitInfo(
        commit=name, parent=None, time=time, kind=kind, method=method, session="s", reverted_by=by
    )


@pytest.mark.parametrize(
    ("newest_first", "expected"),
    [
        ([], []),
        ([commit(9), commit(8), commit(3)], ["edit@9", "edit@8", "edit@3"]),
        ([commit(9), commit(8), commit(2.9)], ["edit@9", "edit@8"]),
        ([commit(9), commit(5, undone=True), commit(1)], ["edit@9", "edit@1"]),
        ([commit(9, undone=True), commit(3)], ["edit@3"]),
        ([commit(9, "undo"), commit(8), commit(4, "undo"), commit(1)], ["edit@8"]),
        ([commit(9, "restore", method="restore"), commit(8)], ["restore@9", "edit@8"]),
        ([commit(9, "restore", method="recovery"), commit(8)], ["edit@8"]),
        # The clock was set back in between: how long the pause was is not known.
        ([commit(3), commit(9), commit(8)], ["edit@3"]),
        ([commit(5), commit(9)], ["edit@5", "edit@9"]),
    ],
)
def test_a_burst_ends_at_a_pause_of_five_minutes(
    newest_first: list[CommitInfo], expected: list[str]
) -> None:
    assert [each.commit for each in last_burst(newest_first)] == expected


class _Log:
    """A session whose log has these commits, newest first."""

    def __init__(self, newest_first: list[CommitInfo]) -> None:
        self._commits = newest_first

    def history(self, *, since: str = "", limit: int) -> list[CommitInfo]:
        return [each for each in self._commits if each.time >= since][:limit]


def test_who_changed_the_files_since_is_known_after_the_clock_was_set_back() -> None:
    file = FileChange("a", "M", before="1", after="2", added=1, removed=1)
    other, own = (structs.replace(commit(minute), files=[file]) for minute in (3, 9))
    other = structs.replace(other, session="other")
    log = cast("stet.Session", _Log([other, own]))
    assert _later_changes(log, [own]) == {"other": 1}


class _UndoneMeanwhile(stet.Session):
    """A session whose log is another one each time that it is read."""

    def __init__(self, *logs: list[CommitInfo]) -> None:
        self._logs = list(logs)

    def history(self, path: str | None = None, **filters: object) -> Iterator[CommitInfo]:
        return iter(self._logs.pop(0))


def test_a_burst_that_another_terminal_undoes_meanwhile_is_passed_over() -> None:
    undone, older = commit(9, undone=True), structs.replace(commit(3), session="other")
    logs = [[commit(9), older], [undone], [undone, older], [older]]
    assert _newest_burst(_UndoneMeanwhile(*logs), None) == [older]
    with pytest.raises(stet.NothingToUndo):
        _newest_burst(_UndoneMeanwhile([commit(9)], [undone], [undone]), None)
