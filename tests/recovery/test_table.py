"""The table of ARCHITECTURE.md 6, row by row."""

from __future__ import annotations

import pytest

from stetd.history.objects import Image
from stetd.recovery.table import ChainImage, decide, looks_torn

A, B, C, OTHER = (Image(letter * 40, 0o100644) for letter in "abcd")
#: Whether what is there is recorded, and whether the last image is written.
DONE, WRITE, KEEP, TORN = (False, False), (False, True), (True, False), (True, True)

UNMARKED = [ChainImage(A, published=True), ChainImage(B)]
MARKED = [ChainImage(A, published=True), ChainImage(B, published=True)]
CREATED = [ChainImage(None, published=True), ChainImage(B)]
DELETED = [ChainImage(A, published=True), ChainImage(None)]
THEN_C = [*MARKED, ChainImage(C)]
UNDONE = [*MARKED, ChainImage(A, published=True)]
ABORTED = [*UNMARKED, ChainImage(A)]
ABORTED_AND_PUT_BACK = [*UNMARKED, ChainImage(A, published=True)]

#: chain, on disk, torn, in the same boot, in another boot
TABLE = [
    # the last image
    (UNMARKED, B, False, DONE, DONE),
    (MARKED, B, False, DONE, DONE),
    (DELETED, None, False, DONE, DONE),
    (UNDONE, A, False, DONE, DONE),
    (ABORTED, A, False, DONE, DONE),
    # an earlier image: an unfinished call, or a person's doing if the call was marked
    (UNMARKED, A, False, WRITE, WRITE),
    (MARKED, A, False, KEEP, WRITE),
    (CREATED, None, False, WRITE, WRITE),
    (DELETED, A, False, WRITE, WRITE),
    (THEN_C, B, False, WRITE, WRITE),
    (THEN_C, A, False, KEEP, WRITE),
    (UNDONE, B, False, KEEP, WRITE),
    (ABORTED, B, False, WRITE, WRITE),
    (ABORTED_AND_PUT_BACK, B, False, KEEP, WRITE),
    # a torn shape
    (MARKED, OTHER, True, KEEP, TORN),
    (UNMARKED, OTHER, True, KEEP, TORN),
    # anything else
    (MARKED, OTHER, False, KEEP, KEEP),
    (UNMARKED, OTHER, False, KEEP, KEEP),
    (MARKED, None, False, KEEP, KEEP),
    (CREATED, OTHER, False, KEEP, KEEP),
]


@pytest.mark.parametrize(("chain", "found", "torn", "same_boot", "another_boot"), TABLE)
def test_row(
    chain: list[ChainImage],
    found: Image | None,
    torn: bool,
    same_boot: tuple[bool, bool],
    another_boot: tuple[bool, bool],
) -> None:
    assert decide(chain, found, same_boot=True, torn=torn) == same_boot
    assert decide(chain, found, same_boot=False, torn=torn) == another_boot


def test_image_counts_by_what_git_sees_of_it() -> None:
    private = Image(B.oid, 0o100600)
    assert decide(UNMARKED, private, same_boot=True, torn=False) == DONE
    executable = Image(B.oid, 0o100755)
    assert decide(UNMARKED, executable, same_boot=True, torn=False) == KEEP


@pytest.mark.parametrize(
    ("data", "torn"),
    [
        (b"", True),
        (b"con", True),
        (b"conten", True),
        (b"con\0\0\0\0", True),
        (b"\0\0\0", True),
        (b"\0" * 7, True),
        (b"content", False),
        (b"\0" * 8, False),
        (b"contents", False),
        (b"cont\0nt", False),
        (b"other", False),
    ],
)
def test_torn_shapes_of_a_content(data: bytes, torn: bool) -> None:
    assert looks_torn(data, [b"content"]) is torn


def test_nothing_is_torn_if_no_content_is_known() -> None:
    assert not looks_torn(b"", [])


def test_a_directory_stays_whatever_the_chain_says() -> None:
    for same_boot in (True, False):
        assert decide(CREATED, None, same_boot=same_boot, torn=False, other=True) == KEEP
