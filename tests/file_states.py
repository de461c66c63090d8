"""Diffs of contents, without the modes and ids that do not matter to a test."""

from __future__ import annotations

from stetd.history.git_patch import FileState, LineDiff, line_diff
from stetd.history.objects import FILE, object_id


def state(
    content: bytes | None, mode: int | None = None, oid: str | None = None
) -> FileState | None:
    """A plain file of this content, if nothing else is said."""
    if content is None:
        return None
    return FileState(mode or FILE, oid or object_id("blob", content), content)


def diff_of(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    old_path: str | None = None,
    modes: tuple[int | None, int | None] = (None, None),
    ids: tuple[str | None, str | None] = (None, None),
) -> LineDiff:
    """The diff between two contents of a file."""
    one, two = state(before, modes[0], ids[0]), state(after, modes[1], ids[1])
    return line_diff(path, one, two, old_path=old_path)
