"""Laws of ``patch_file``: order, counting with overlap, and lines told for the final text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_world import MemoryWorld
from stetd.editing.dialects import DIALECTS
from stetd.editing.matching.rungs import Rung, nth_place
from stetd.editing.patch_file.dialect import ChangingText
from stetd.editing.planning import LocatedEdit
from stetd.editing.refusals import Subject
from stetd.editing.text import Document


@given(st.text("ab", max_size=60), st.text("ab", min_size=1, max_size=6), st.integers(1, 12))
def test_occurrences_are_counted_as_by_looking_at_every_offset(
    text: str, wanted: str, number: int
) -> None:
    offsets = [at for at in range(len(text)) if text.startswith(wanted, at)]
    rung, places, count = nth_place(Document(False, text), wanted, number)
    assert count == min(number, len(offsets))
    if number <= len(offsets):
        offsets = [offsets[number - 1]]
    assert [place.start for place in places] == offsets
    assert rung is (Rung.EXACT if offsets else Rung.LINE_ENDINGS)


@given(st.text("a\r\n", max_size=30), st.text("a\r\n", min_size=1, max_size=4))
def test_no_occurrence_splits_a_terminator(text: str, wanted: str) -> None:
    document = Document(False, text)
    for number in range(1, 8):
        for place in nth_place(document, wanted, number)[1]:
            assert not document.splits_terminator(place.start)
            assert not document.splits_terminator(place.end)


@st.composite
def successions(draw: st.DrawFn) -> ChangingText:
    steps = ChangingText(Document(False, draw(st.text("ab\n", max_size=30))))
    for index in range(draw(st.integers(1, 6))):
        size = len(steps.document.text)
        start = draw(st.integers(0, size))
        end = draw(st.integers(start, min(size, start + 8)))
        mark = chr(ord("A") + index)
        written = draw(st.sampled_from(["{}", "{}\n", "\n{}", "x\n{}\ny", "{}{}"])).format(
            mark, mark
        )
        step = LocatedEdit(index, start, end, written, "exact")
        steps.make(Subject("change", index, "a"), step)
    return steps


@given(successions())
def test_every_mark_that_is_left_stands_where_its_step_is_reported(steps: ChangingText) -> None:
    reports = steps.reports("a")
    lines = steps.document.text.split("\n")
    for landed, report in zip(steps.landed, reports, strict=True):
        mark = chr(ord("A") + landed.step.index)
        standing = [number for number, line in enumerate(lines, start=1) if mark in line]
        if standing:
            assert report.line <= standing[0]
            assert standing[-1] <= report.end_line
        else:
            assert landed.changed_by is not None
        assert 0 <= landed.place[0] <= landed.place[1] <= len(steps.document.text)


@given(successions())
def test_a_step_that_no_later_one_touched_stands_there_as_it_was_written(
    steps: ChangingText,
) -> None:
    for landed in steps.landed:
        if landed.changed_by is None:
            part = steps.document.text[slice(*landed.changed)]
            assert part in landed.step.replacement
    assert len(steps.landed) == len(steps.changed_lines())


WORDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


@given(WORDS, st.data())
def test_changes_in_one_call_are_the_same_as_one_call_each(
    words: list[str], data: st.DataObject
) -> None:
    text = "".join(f"<{word}>\n" for word in words)
    changes = []
    now = text
    for number in range(data.draw(st.integers(1, 4))):
        word = data.draw(st.sampled_from([line for line in now.split("\n") if line]))
        new = f"<{number}>{data.draw(st.sampled_from(['', chr(10) + 'more', '!']))}"
        if now.count(word) != 1:
            continue
        changes.append({"search": word, "replace": new})
        now = now.replace(word, new)
    if not changes:
        return
    together = _after(text, changes)
    one_by_one = text
    for change in changes:
        one_by_one = _after(one_by_one, [change])
    assert now == together == one_by_one


def _after(text: str, changes: list[dict[str, str]]) -> str:
    params = {"path": "a", "changes": changes}
    made = DIALECTS["patch_file"](params, MemoryWorld({"a": text.encode()}))
    after = made.files[0].after
    assert after is not None
    return after.decode()
