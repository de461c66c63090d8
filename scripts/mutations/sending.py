"""A draft as a call of each dialect, and what the dialect makes of it.

The engine is asked through the dialects' own functions, on a file in memory.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mutations.drafts import ADDED, GONE, KEPT, Draft, Line
from stet.wire.failures import Refused
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import SourceFile

PATH = "source.py"
_REGULAR = stat.S_IFREG | 0o644
Call = dict[str, object]


@dataclass(frozen=True)
class OneFile:
    """A world of one file."""

    data: bytes
    clipboards: Mapping[str, str] = field(default_factory=dict)
    root: str = "/workspace"

    def read(self, path: str) -> SourceFile:
        """The file, or none."""
        here = path == PATH
        return SourceFile(path, self.data if here else None, _REGULAR if here else None)

    look = read


@dataclass(frozen=True)
class Answer:
    """The file's bytes afterwards and the rung of the spoilt hunk; None: refused, and why."""

    after: bytes | None
    rung: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Sent:
    """What is sent of one hunk: its lines, as text."""

    old: str
    new: str


def sent_hunks(draft: Draft) -> list[tuple[int, tuple[Line, ...]]]:
    """The hunks of the call in the order of the file: index of the first line, lines."""
    hunks = [(draft.true.first, draft.sent)]
    hunks += [(hunk.first, hunk.lines) for hunk in draft.others]
    return sorted(hunks, key=lambda each: each[0])


def texts(draft: Draft, lines: Sequence[Line]) -> Sent:
    """Old and new text of a hunk, for dialects that don't speak in lines."""
    old = [line.text for line in lines if line.tag != ADDED]
    new = [line.text for line in lines if line.tag != GONE]
    end = draft.sent_end if draft.terminated else ""
    return Sent(
        draft.sent_end.join(old) + end,
        draft.sent_end.join(new) + (end if new else ""),
    )


# -- the dialects


def _patch(pairs: Sequence[Sent], _: str) -> Call:
    patches = [{"operation": "replace", "oldText": each.old, "newText": each.new} for each in pairs]
    return {"path": PATH, "patches": patches}


def _patch_file(pairs: Sequence[Sent], _: str) -> Call:
    changes = [{"search": each.old, "replace": each.new} for each in pairs]
    return {"path": PATH, "changes": changes}


def _patch_block(pairs: Sequence[Sent], end: str) -> Call:
    lines = [f"===SKIPPY_PATCH_START:{PATH}==="]
    for each in pairs:
        lines += ["===FIND===", each.old, "===REPLACE===", *([each.new] if each.new else [])]
    return {"text": end.join([*lines, "===SKIPPY_PATCH_END===", ""])}


#: Old and new texts, and how lines end, as calls of the dialects that don't speak in lines.
IN_TEXTS: Mapping[str, Callable[[Sequence[Sent], str], Call]] = {
    "patch": _patch,
    "patch_file": _patch_file,
    "patch_block": _patch_block,
}


def _apply_patch(draft: Draft) -> Call:
    lines = ["*** Begin Patch", f"*** Update File: {PATH}"]
    # Models write an empty context line with its space or without.
    bare = len(draft.file) % 2 == 0
    for _, hunk in sent_hunks(draft):
        written = (line.tag + line.text for line in hunk)
        lines += ["@@", *("" if bare and line == KEPT else line for line in written)]
    return {"input": draft.sent_end.join([*lines, "*** End Patch", ""])}


#: Dialects whose hunks are lines, with or without a final newline.
IN_LINES = frozenset({"apply_patch"})


def dialects() -> list[str]:
    """The dialects that can be asked."""
    return [name for name in (*IN_TEXTS, "apply_patch") if name in DIALECTS]


def can_send(draft: Draft, dialect: str) -> bool:
    """Whether the hunk says in this dialect what it means."""
    if not any(line.tag != ADDED for line in draft.sent):
        return False
    if dialect in IN_LINES:
        return not draft.as_text
    # Without its last newline a text that takes away whole lines leaves an empty one behind.
    return draft.terminated or all(texts(draft, lines).new for _, lines in sent_hunks(draft))


def _call(draft: Draft, dialect: str) -> Call:
    if dialect in IN_LINES:
        return _apply_patch(draft)
    pairs = [texts(draft, lines) for _, lines in sent_hunks(draft)]
    return IN_TEXTS[dialect](pairs, draft.sent_end)


def ask(draft: Draft, dialect: str) -> Answer:
    """What the dialect makes of the draft's call."""
    before = draft.before()
    try:
        plan = DIALECTS[dialect](_call(draft, dialect), OneFile(before))
    except Refused as refused:
        return Answer(None, refusal=refused.kind)
    assert [planned.path for planned in plan.files] == [PATH], "BUG: another file is touched"
    [planned] = plan.files
    index = [first for first, _ in sent_hunks(draft)].index(draft.true.first)
    rung = next((report.rung for report in plan.edits if report.index == index), "")
    return Answer(planned.after, rung)
