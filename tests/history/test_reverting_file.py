"""Taking one change of one file back, around later edits: the table of revert_file, row by row."""

from __future__ import annotations

import pytest

from stetd.history.reverting_commits import FileConflict, Version, revert_file
from stetd.repository.merging import merge_file

FILE, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120000


def version(text: str, mode: int = FILE) -> Version:
    return Version(text.encode(), mode)


OLD, NEW = version("1\n2\n3\n4\n5\n"), version("1\nTWO\n3\n4\n5\n")


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        (OLD, NEW, NEW, OLD),
        (OLD, NEW, OLD, OLD),
        (None, NEW, NEW, None),
        (OLD, None, None, OLD),
        (None, NEW, None, None),
        (OLD, NEW, version("1\nTWO\n3\n4\nfive\n"), version("1\n2\n3\n4\nfive\n")),
        (OLD, NEW, version("0\n1\nTWO\n3\n4\n5\n"), version("0\n1\n2\n3\n4\n5\n")),
        (OLD, version("1\n2\n3\n4\n5\n", EXECUTABLE), version("x\n", EXECUTABLE), version("x\n")),
        (
            OLD,
            NEW,
            version("1\nTWO\n3\n4\n5\n", EXECUTABLE),
            version("1\n2\n3\n4\n5\n", EXECUTABLE),
        ),
    ],
)
def test_taken_back(
    before: Version | None, after: Version | None, now: Version | None, expected: Version | None
) -> None:
    assert revert_file("a", before, after, now, merge_file) == expected


@pytest.mark.parametrize(
    ("before", "after", "now", "hunk"),
    [
        (OLD, NEW, version("1\ntwo\n3\n4\n5\n"), "<<<<<<<"),
        (OLD, None, version("again\n"), "the commit deleted this file"),
        (None, NEW, version("changed\n"), "the commit created this file"),
        (OLD, NEW, None, "this file was deleted since"),
        (version("x", LINK), version("y", LINK), version("z", LINK), "symbolic link"),
        (Version(b"\0a", FILE), Version(b"\0b", FILE), Version(b"\0c", FILE), "binary"),
    ],
)
def test_conflict(
    before: Version | None, after: Version | None, now: Version | None, hunk: str
) -> None:
    with pytest.raises(FileConflict) as conflict:
        revert_file("a", before, after, now, merge_file)
    assert hunk in conflict.value.hunks[0]


def test_merging_keeps_every_byte_that_nobody_changed() -> None:
    tail = bytes(range(1, 256)).replace(b"\n", b"") + b"\r\nlast\r\n"
    merged = revert_file(
        "a",
        Version(b"one\r\n\r\n\r\n\r\n" + tail, FILE),
        Version(b"ONE\r\n\r\n\r\n\r\n" + tail, FILE),
        Version(b"ONE\r\n\r\n\r\n\r\n" + tail + b"more", FILE),
        merge_file,
    )
    assert merged == Version(b"one\r\n\r\n\r\n\r\n" + tail + b"more", FILE)
