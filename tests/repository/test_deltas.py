"""Deltas are judged by the reader of packs, and packs with them by git."""

import os

from hypothesis import given
from hypothesis import strategies as st

from stetd.history.objects import object_id
from stetd.repository.deltas import make_delta
from stetd.repository.object_files import _apply_delta

LINES = [b"a line of a file %d\n" % number for number in range(2000)]


def applied(base: bytes, content: bytes) -> int:
    """The delta's length; it must give the content back."""
    delta = make_delta(base, content)
    assert delta is not None
    assert _apply_delta(base, delta, "here") == content
    return len(delta)


def test_one_changed_line_costs_a_few_bytes() -> None:
    changed = [*LINES[:700], b"another\n", *LINES[701:]]
    assert applied(b"".join(LINES), b"".join(changed)) < 40


def test_changes_far_apart_cost_a_few_bytes_each() -> None:
    changed = list(LINES)
    for number in (3, 500, 900, 1500):
        changed[number] = b"changed\n"
    del changed[1200:1210]
    assert applied(b"".join(LINES), b"".join(changed)) < 120


def test_content_longer_than_a_copy_says() -> None:
    base = b"a line to begin with\n" * 3 + os.urandom(1 << 18)
    assert applied(base, b"x\n" + base + b"y") < 60


def test_a_directory_with_entries_changed_far_apart() -> None:
    def tree(changed: dict[int, bytes]) -> bytes:
        ids = {n: bytes.fromhex(object_id("blob", b"%d" % n)) for n in range(1000)} | changed
        return b"".join(b"100644 file-%04d.py\0" % n + oid for n, oid in ids.items())

    other = os.urandom(20)
    length = applied(tree({}), tree({10: other, 500: bytes(20), 999: other}))
    assert length < 220


def test_what_has_nothing_in_common_has_no_delta() -> None:
    assert make_delta(os.urandom(1000), os.urandom(1000)) is None
    assert make_delta(b"", b"") is None


def test_repeated_lines_are_matched_in_reasonable_time() -> None:
    base = b"the same line again\n" * 30_000
    content = (b"the same line again\n" * 3 + b"but not here, no\n") * 8000
    make_delta(base, content)


@given(
    base=st.lists(st.sampled_from([*LINES[:8], b"\0" * 21, b"", b"\n", b"x"])).map(b"".join),
    content=st.lists(st.sampled_from([*LINES[:8], b"\0" * 21, b"", b"\n", b"x"])).map(b"".join),
)
def test_every_delta_gives_its_content_back(base: bytes, content: bytes) -> None:
    delta = make_delta(base, content)
    if delta is not None:
        assert _apply_delta(base, delta, "here") == content
