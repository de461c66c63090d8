"""What a person sees, held by golden screens at three widths.

``STET_TEST_UPDATE=1`` writes them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from pathlib import Path

import msgspec
import pytest

from stet.terminal import diff_lines, log_lines, render
from stet.terminal.access_lines import sessions
from stet.terminal.diff_colours import coloured
from stet.terminal.log_lines import log
from stet.terminal.spans import Line, line_columns
from stet.wire.results import CommitInfo, FileChange, Peer, SessionInfo, ShowResult

SCREENS = Path(__file__).parent / "screens"
NOW = datetime.datetime(2026, 11, 23, 12, 0, tzinfo=datetime.UTC)
DIFF = """\
diff --git a/src/greeting.py b/src/greeting.py
index 1111111..2222222 100644
--- a/src/greeting.py
+++ b/src/greeting.py
@@ -1,4 +1,5 @@
 import sys
-def greet(name):
-    return "hello " + name
+def greet(name: str) -> str:
+    # polite
+    return f"hello, {name}"
 print(greet(sys.argv[1]))
"""


def commit(
    number: int, minutes: int, *files: FileChange, reverts: Sequence[int] = (), **more: str | None
) -> CommitInfo:
    given: dict[str, str | None] = {
        "kind": "edit",
        "method": "patch",
        "agent": "codex",
        "session": "conv-1",
        "message": f"patch {files[0].path}: 1 edit" if files else "",
    }
    given |= more
    time = NOW - datetime.timedelta(minutes=minutes)
    return CommitInfo(
        commit=_id(number),
        parent=_id(number - 1),
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        peer=Peer(4711, "codex"),
        files=list(files),
        reverts=[_id(each) for each in reverts],
        **given,  # type: ignore[arg-type]
    )


def _id(number: int) -> str:
    return f"{number * 0x1F3D5B79 % 0xFFFFFFFF:08x}" * 5


def changed(
    path: str, added: int, removed: int, status: str = "M", old: str | None = None
) -> FileChange:
    before, after = None if status == "A" else "1" * 40, None if status == "D" else "2" * 40
    return FileChange(path, status, before, after, added, removed, old)


GREETING = changed("src/greeting.py", 3, 2)
UNDONE = commit(2, 9, changed("docs/日本 a very long name of a page that nobody reads.md", 40, 1))
UNDO = commit(
    6, 2, changed(UNDONE.files[0].path, 1, 40), kind="undo", method="undo", reverts=[2],
    agent=None, session=None, message=f"undo {_id(2)[:8]}: {UNDONE.message}",
)  # fmt: skip
LOG = [
    commit(7, 1, GREETING, kind="redo", method="redo", reverts=[5], message=f"redo {_id(5)[:8]}"),
    UNDO,
    commit(5, 3, GREETING, kind="undo", method="undo", reverts=[4], message=f"undo {_id(4)[:8]}"),
    commit(4, 4, GREETING, message="patch src/greeting.py: 1 edit\n\npolite, as was asked"),
    commit(
        3, 8, changed("tests/日本語.py", 12, 0, "A"), changed("b/new.txt", 0, 0, "R", "a/old.txt"),
        agent="claude-code", session="s-20261123", message="apply_patch: 2 files",
    ),
    UNDONE,
    commit(1, 10, changed("src/greeting.py", 4, 0, "A"), kind="outside", agent=None, session=None,
           message="first seen: src/greeting.py"),
]  # fmt: skip
LOG[5] = msgspec.structs.replace(LOG[5], reverted_by=UNDO.commit)
LOG[3] = msgspec.structs.replace(LOG[3], reverted_by=LOG[2].commit)
SHOWN = ShowResult(**{name: getattr(LOG[3], name) for name in LOG[3].__struct_fields__}, diff=DIFF)
SESSIONS = [
    SessionInfo(
        session="conv-1",
        workspace="/home/me/project",
        agent="codex",
        mode="unrestricted",
        created="2026-11-23T10:00:00Z",
        last_seen="2026-11-23T11:59:00Z",
        commits=12,
        until="2026-11-23T12:30:00Z",
    ),
]

DRAWN: dict[str, Callable[[int], Iterable[Line]]] = {
    "log": lambda width: log_lines.burst_page(LOG, repeat(DIFF), NOW, width),
    "log-stat": lambda width: log_lines.burst_page(LOG, repeat(DIFF), NOW, width, stat=True),
    "log-graph": lambda width: log_lines.graph_page(LOG, width),
    "log-table": lambda width: log(LOG, NOW, width),
    "show": lambda width: render.show(SHOWN, NOW, lambda text: coloured(text, width)),
    "sessions": lambda _: sessions(SESSIONS, NOW, where=True),
    "diff": lambda width: coloured(DIFF, width),
    "diff-word": lambda _: diff_lines.diff(DIFF, words=True, marks=True),
}


#: Drawn alike at every width.
ALIKE = ("sessions", "diff-word")


@pytest.mark.parametrize("width", [80, 120, 160])
@pytest.mark.parametrize("name", DRAWN)
def test_screen(name: str, width: int) -> None:
    lines = list(DRAWN[name](width))
    text = "".join("".join(span.text for span in line).rstrip() + "\n" for line in lines)
    path = SCREENS / (f"{name}.txt" if name in ALIKE else f"{name}-{width}.txt")
    if os.environ.get("STET_TEST_UPDATE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(line_columns, lines)) <= width
