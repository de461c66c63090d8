"""Laws that hold for every text: of planning and assembly, and of the dialect on top."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memory_world import append, plan_patch, refusal, replace
from stet.wire.failures import Refused
from stetd.editing.planning import (
    LocatedEdit,
    Rank,
    apply_changes,
    arrange,
    changed_parts,
    line_numbers,
    overlaps,
)
from stetd.editing.text import Document

#: Few characters, so that repetitions, shared edges and terminators are common.
TEXTS = st.text(alphabet="ab \t\n\r\u00e9\ufeff", max_size=30)
LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "  a\n", "c\r\n"]), max_size=8).map("".join)
UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@st.composite
def texts_and_edits(draw: st.DrawFn) -> tuple[str, list[LocatedEdit]]:
    text = draw(LINES)
    edits = []
    for index in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, len(text)))
        edits.append(LocatedEdit(index, start, end, draw(LINES), "exact"))
    return text, edits


@given(TEXTS, TEXTS)
@example("b", "b\nc")
@example("b\nc", "b")
@example("b\r\nc", "c")
@example("a\nb", "a\nb\n")
def test_changed_parts_turn_the_old_text_into_the_new(old: str, new: str) -> None:
    built, position = "", 0
    for start, end, new_start, new_end in changed_parts(old, new):
        built += old[position:start] + new[new_start:new_end]
        assert old[start:end] != new[new_start:new_end]
        position = end
    assert built + old[position:] == new


@given(texts_and_edits())
def test_edits_that_do_not_touch_are_independent(case: tuple[str, list[LocatedEdit]]) -> None:
    text, edits = case
    ordered = sorted(edits, key=lambda edit: edit.start)
    apart = all(a.end < b.start for a, b in pairwise(ordered))
    assume(apart)
    expected = text
    for edit in reversed(ordered):
        expected = expected[: edit.start] + edit.replacement + expected[edit.end :]
    changes = arrange(text, edits)
    assert not overlaps(changes)
    assert apply_changes(text, changes) == expected


@given(texts_and_edits())
@example(
    (
        "a\na\na\na\n",
        [
            LocatedEdit(0, 5, 7, "\n", "exact"),
            LocatedEdit(1, 0, 6, "", "exact"),
            LocatedEdit(2, 0, 6, "a\n", "exact"),
        ],
    )
)
def test_the_order_of_the_call_only_orders_insertions(
    case: tuple[str, list[LocatedEdit]],
) -> None:
    text, edits = case
    forward, backward = arrange(text, edits), arrange(text, edits[::-1])
    assert forward == backward


@given(texts_and_edits())
def test_changes_that_are_accepted_can_be_assembled(case: tuple[str, list[LocatedEdit]]) -> None:
    text, edits = case
    changes = arrange(text, edits)
    if overlaps(changes):
        return
    expected = text
    for change in reversed(changes):
        expected = expected[: change.start] + change.replacement + expected[change.end :]
    assert expected == apply_changes(text, changes)


@given(texts_and_edits())
@example(("a\nb\nc", [LocatedEdit(0, 0, 3, "A\nb", ""), LocatedEdit(1, 2, 5, "b\nC", "")]))
@example(("aXbZc", [LocatedEdit(0, 0, 3, "aYb", ""), LocatedEdit(1, 2, 5, "bWc", "")]))
def test_each_accepted_edit_changes_what_it_would_change_alone(
    case: tuple[str, list[LocatedEdit]],
) -> None:
    text, edits = case
    changes = arrange(text, edits)
    assume(not overlaps(changes))
    for edit in edits:
        own = [change for change in changes if change.index == edit.index]
        alone = text[: edit.start] + edit.replacement + text[edit.end :]
        assert apply_changes(text, own) == alone


@given(texts_and_edits())
def test_no_two_accepted_edits_change_the_same_text(case: tuple[str, list[LocatedEdit]]) -> None:
    text, edits = case
    changes = arrange(text, edits)
    assume(not overlaps(changes))
    for first, second in pairwise(changes):
        assert first.end <= second.start


@given(TEXTS, st.lists(st.integers(0, 29), min_size=1))
@example("a\r\nb\r\n", [1, 2, 3, 5])
@example("\r\r\n\n", [0, 1, 2, 3])
def test_line_numbers_are_those_of_the_document(text: str, offsets: list[int]) -> None:
    inside = [offset for offset in offsets if offset < len(text)]
    document = Document(bom=False, text=text)
    assert line_numbers(text, inside) == {each: document.line_at(each) for each in inside}


def test_beginning_and_end_of_an_empty_text_are_told_apart() -> None:
    edits = [
        LocatedEdit(0, 0, 0, "end", "exact", Rank.AT_END),
        LocatedEdit(1, 0, 0, "middle", "exact"),
        LocatedEdit(2, 0, 0, "begin", "exact", Rank.AT_BEGINNING),
    ]
    assert apply_changes("", arrange("", edits)) == "beginmiddleend"


@given(UNICODE, UNICODE, UNICODE, UNICODE)
def test_replace_is_reversible(before: str, old: str, new: str, after: str) -> None:
    original = (before + old + after).encode()
    try:
        there = plan_patch(original, replace(old, new))
        changed = there.files[0].after
        back = plan_patch(changed, replace(new, old))
    except Refused:
        return
    assume(there.edits[0].rung == back.edits[0].rung == "exact")
    assume("\r" not in before + old + new + after)
    assert back.files[0].after == original


@given(UNICODE, UNICODE)
@example("a\r\nb\r\n", "x\ny\n")
def test_clipboard_round_trip_preserves_the_text(text: str, rest: str) -> None:
    """Cut from one file, write to another that is new: the same text."""
    assume(text and "\0" not in text + rest)
    data = (rest + text).encode()
    try:
        cut = plan_patch(data, replace(text, "", toClipboard="c"))
    except Refused:
        return
    assume(cut.edits[0].rung == "exact")
    assert cut.clipboards == {"c": text}
    pasted = plan_patch(None, append("", fromClipboard="c"), clipboards=cut.clipboards)
    assert pasted.files[0].after == text.encode()


@given(UNICODE, st.text(alphabet="xy\n", min_size=1, max_size=9))
def test_cut_and_paste_in_place_restores_the_file(around: str, text: str) -> None:
    assume(not {"x", "y", "\r", "\0"} & set(around))
    data = (around + "x" + text + "y" + around).encode()
    try:
        cut = plan_patch(data, replace("x" + text + "y", "<here>", toClipboard="c"))
        paste = replace("<here>", fromClipboard="c")
        back = plan_patch(cut.files[0].after, paste, clipboards=cut.clipboards)
    except Refused:
        return
    assert back.files[0].after == data


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from(["new", "", "x\ny"]))
@example(b"\xef\xbb\xbf\xff\r\n", b"\rcaf\xe9\x85 \xe2\x80\xa8\n", "x\ny")
def test_bytes_that_no_edit_touches_stay_untouched(before: bytes, after: bytes, new: str) -> None:
    anchor = b"<<<anchor>>>"
    assume(b"\0" not in before + after)
    plan = plan_patch(before + anchor + after, replace(anchor.decode(), new))
    (planned,) = plan.files
    assert planned.after is not None
    assert planned.after.startswith(before)
    assert planned.after.endswith(after)
    inserted = planned.after[len(before) : len(planned.after) - len(after)]
    assert inserted.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == new.encode()


@given(st.binary(max_size=60))
def test_appending_and_prepending_keep_every_byte(data: bytes) -> None:
    assume(b"\0" not in data)
    appended = plan_patch(data, append("<end>")).files[0].after
    assert appended == data + b"<end>"


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | UNICODE,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["operation", "oldText", "new_text", "toClipboard", "reindent", "strip", "x"]
        ),
        inner | st.sampled_from(["replace", "append_eof", "a"]),
        max_size=4,
    ),
    max_leaves=8,
))  # fmt: skip
def test_no_input_meets_anything_but_a_plan_or_a_refusal(patches: object) -> None:
    from memory_world import MemoryWorld
    from stetd.editing.dialects import DIALECTS

    world = MemoryWorld({"a.txt": b"a\nb\n"})
    try:
        DIALECTS["patch"]({"path": "a.txt", "patches": patches}, world)
    except Refused as refused:
        refused.message.encode()


@pytest.mark.parametrize("count", [2, 5])
def test_each_edit_in_conflict_is_reported(count: int) -> None:
    refused = refusal(b"abc\n", *[replace("abc", str(number)) for number in range(count)])
    assert [failure.index for failure in refused.failures] == list(range(1, count))
