"""Laws of matching, and the ladder against a slow reading of docs/dialects.md.

The reference below tries every stretch and every run of lines by definition, without normal
forms, offsets maps or bounds. It knows where a text stands and by which rung; what is written
there is checked by the laws.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stetd.editing.matching.ladder import Several, locate
from stetd.editing.matching.rungs import Rung
from stetd.editing.planning import LocatedEdit
from stetd.editing.text import WHITE_SPACE, Document, adopt_terminators, split_lines
from stetd.editing.typography import TABLE

TOKENS = (
    *("a", "b", "a\n", "b\n", "a \n", " ", "  ", "    ", "\t", "\n", "\n", "\r\n", "\r\n", "\r"),
    *("\u201c", '"', "\u2026", ".", "...", "e\u0301", "\u00e9", "\xa0", "\u2014", "-", "\u212a"),
)
texts = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join)
plain_texts = st.lists(st.sampled_from(("a", "b", "c", " ", "\n", "\t")), max_size=10).map("".join)
many = settings(max_examples=150, deadline=None)


@st.composite
def texts_and_parts(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and a part of it with a few things changed, so that rungs are reached."""
    text = draw(texts)
    start = draw(st.integers(0, len(text)))
    part = text[start : draw(st.integers(start, len(text)))]
    for change in draw(st.lists(st.sampled_from(CHANGES), max_size=3)):
        part = change(part)
    return text, part or "a"


def _each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(
        (change(line) if line.strip() else line) + end
        for line, end in zip(*split_lines(text), strict=True)
    )


CHANGES: list[Callable[[str], str]] = [
    lambda text: text.replace("\r\n", "\n"),
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text + "\n",
    lambda text: text.rstrip("\r\n"),
    _each_line(lambda line: line + " "),
    _each_line(lambda line: line.rstrip()),
    _each_line(lambda line: "  " + line),
    _each_line(lambda line: "\t" + line),
    _each_line(lambda line: line.removeprefix(" ")),
    lambda text: text.replace("\t", "    "),
    lambda text: text.replace("    ", "\t"),
    lambda text: text.replace("\u201c", '"').replace("\u2026", "..."),
    lambda text: text.replace('"', "\u201f").replace("-", "\u2013"),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: "\n" + text + "\n",
]


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fold(text: str) -> str:
    for char, plain in TABLE.items():
        text = text.replace(char, plain)
    kelvin = "\ue000"
    return unicodedata.normalize("NFC", text.replace("\u212a", kelvin)).replace(kelvin, "\u212a")


def _boundary(text: str, offset: int, *, combining: bool = False) -> bool:
    if 0 < offset < len(text):
        pair = text[offset - 1 : offset + 1]
        if pair == "\r\n":
            return False
        if combining and unicodedata.combining(pair[1]) and pair[0] not in "\r\n":
            return False
    return True


def _stretches(
    text: str, old: str, form: Callable[[str], str], *, combining: bool
) -> set[tuple[int, int]]:
    ends = [end for end in range(len(text) + 1) if _boundary(text, end, combining=combining)]
    open_end = not text.endswith(("\n", "\r"))
    return {
        (start, end)
        for start in ends
        for end in ends
        if start < end
        and (
            form(text[start:end]) == form(old)
            or (open_end and end == len(text) and form(text[start:end] + "\n") == form(old))
        )
    }


def _line_places(
    text: str, old: str, alike: Callable[[list[str], list[str]], bool]
) -> set[tuple[int, int]]:
    lines, ends = split_lines(text)
    wanted, wanted_ends = split_lines(old)
    places = set()
    for first in range(len(lines) - len(wanted) + 1):
        last = first + len(wanted)
        if alike(lines[first:last], wanted):
            start = len("".join(map("".join, zip(lines[:first], ends[:first], strict=True))))
            stretch = "".join(map("".join, zip(lines[first:last], ends[first:last], strict=True)))
            if not wanted_ends[-1]:
                stretch = stretch[: len(stretch) - len(ends[last - 1])]
            places.add((start, start + len(stretch)))
    return places


def _trailing(lines: list[str], wanted: list[str]) -> bool:
    return [a.rstrip(WHITE_SPACE) for a in lines] == [b.rstrip(WHITE_SPACE) for b in wanted]


def _indented(lines: list[str], wanted: list[str]) -> bool:
    if [bool(a.strip(WHITE_SPACE)) for a in lines] != [bool(b.strip(WHITE_SPACE)) for b in wanted]:
        return False
    filled = [(a, b) for a, b in zip(lines, wanted, strict=True) if a.strip(WHITE_SPACE)]
    if any(a.lstrip(" \t") != b.lstrip(" \t") for a, b in filled):
        return False
    here = [a[: len(a) - len(a.lstrip(" \t"))] for a, _ in filled]
    there = [b[: len(b) - len(b.lstrip(" \t"))] for _, b in filled]
    for longer, shorter in ((here, there), (there, here)):
        prefix = longer[0][: len(longer[0]) - len(shorter[0])]
        if [prefix + line for line in shorter] == longer:
            return True
    return _converted(here, there) or _converted(there, here)


def _converted(tabs: list[str], spaces: list[str]) -> bool:
    if set("".join(tabs)) != {"\t"} or set("".join(spaces)) != {" "}:
        return False
    return any(
        all(
            len(wide) - len(spaces[0]) == unit * (len(deep) - len(tabs[0]))
            for deep, wide in zip(tabs, spaces, strict=True)
        )
        for unit in range(2, 9)
    )


def _indented_and_folded(lines: list[str], wanted: list[str]) -> bool:
    return _indented(
        [_fold(line).rstrip(WHITE_SPACE) for line in lines],
        [_fold(line).rstrip(WHITE_SPACE) for line in wanted],
    )


def reference(text: str, old: str) -> tuple[Rung, set[tuple[int, int]]] | None:
    """The first rung with a place, and all its places; None below indent+typography."""
    exact = {
        (start, start + len(old))
        for start in range(len(text))
        if text.startswith(old, start)
        and _boundary(text, start)
        and _boundary(text, start + len(old))
    }
    answers = [
        (Rung.EXACT, exact),
        (Rung.LINE_ENDINGS, _stretches(text, old, _lf, combining=False)),
    ]
    if old.strip(WHITE_SPACE + "\r\n"):
        answers += [
            (Rung.TRAILING_SPACE, _line_places(text, old, _trailing)),
            (Rung.INDENT, _line_places(text, old, _indented)),
            (
                Rung.TYPOGRAPHY,
                _stretches(text, old, lambda part: _fold(_lf(part)), combining=True),
            ),
            (Rung.INDENT_TYPOGRAPHY, _line_places(text, old, _indented_and_folded)),
        ]
    if not any(map(str.isalnum, old)):
        shifted = (Rung.INDENT, Rung.INDENT_TYPOGRAPHY)
        answers = [answer for answer in answers if answer[0] not in shifted]
    if Document(False, text).eol == "mixed" and "\n" in old and "\r" not in old:
        # Terminators alone don't tell which of two places is meant.
        answers = answers[len(exact) == 1 and len(answers[1][1]) > 1 :]
    return next(((rung, places) for rung, places in answers if places), None)


@settings(max_examples=500, deadline=None)
@given(texts_and_parts())
@example(("aaa", "aa"))
@example(("a\r\nb", "\nb"))
@example(("a\r\n\nb", "\n\nb"))
@example(("\u2026.", ".."))
@example(("e\u0301", "e"))
@example(("\n\u0301a", "\u201c"))
def test_the_ladder_agrees_with_the_slow_reading(pair: tuple[str, str]) -> None:
    text, old = pair
    document = Document(False, text)
    found = locate(document, old, old)
    expected = reference(text, old)
    if expected is None:
        assert found is None or found.rung is Rung.TRIM_EDGES
    elif len(expected[1]) == 1:
        assert isinstance(found, LocatedEdit)
        assert (expected[0], expected[1]) == (found.rung, {(found.start, found.end)})
    else:
        assert isinstance(found, Several)
        lines = sorted(document.line_at(start) for start, _ in expected[1])
        assert (expected[0], lines) == (found.rung, list(found.lines))


@many
@given(texts_and_parts())
def test_replacing_a_text_by_itself_changes_nothing(pair: tuple[str, str]) -> None:
    text, old = pair
    found = locate(Document(False, text), old, old)
    if isinstance(found, LocatedEdit):
        assert text[found.start : found.end] == found.replacement


@many
@given(texts_and_parts(), plain_texts)
def test_lines_beyond_the_match_keep_content_and_terminator(
    pair: tuple[str, str], new: str
) -> None:
    text, old = pair
    document = Document(False, text)
    found = locate(document, old, new)
    if not isinstance(found, LocatedEdit):
        return
    lines = list(zip(*split_lines(text), strict=True))
    edited = list(
        zip(*split_lines(text[: found.start] + found.replacement + text[found.end :]), strict=True)
    )
    before = document.line_at(found.start) - 1
    after = len(lines) - document.line_at(found.end)
    assert lines[:before] == edited[:before]
    if after > 0:
        assert lines[-after:] == edited[-after:]


@many
@given(texts_and_parts(), plain_texts, st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_file_of_one_terminator_stays_one(
    pair: tuple[str, str], new: str, terminator: str
) -> None:
    text, old = adopt_terminators(_lf(pair[0]), terminator), pair[1]
    document = Document(False, text)
    found = locate(document, old, new)
    if isinstance(found, LocatedEdit) and document.eol != "none":
        edited = text[: found.start] + found.replacement + text[found.end :]
        assert Document(False, edited).eol in (document.eol, "none")


code_lines = st.tuples(
    st.sampled_from(("", "  ", "    ", "        ", "\t", "\t\t", "\t  ", "  \t")),
    st.sampled_from(("a()", "b()", "b()", "", "# it\u2019s", "# it's ")),
).map("".join)
code = st.lists(code_lines, min_size=1, max_size=8).map(lambda lines: "\n".join(lines) + "\n")


def _bare_lines(text: str) -> list[str]:
    return [_fold(line).strip(WHITE_SPACE) for line in split_lines(text)[0]]


@settings(max_examples=500, deadline=None)
@given(code, code, st.data())
def test_only_white_space_and_typography_of_the_new_text_change(
    text: str, new: str, data: st.DataObject
) -> None:
    lines = text.splitlines(keepends=True)
    first = data.draw(st.integers(0, len(lines) - 1))
    old = "".join(lines[first : first + data.draw(st.integers(1, 4))])
    for change in data.draw(st.lists(st.sampled_from(CHANGES), max_size=2)):
        old = change(old)
    if not old:
        return
    found = locate(Document(False, text), old, new)
    if isinstance(found, LocatedEdit) and found.rung is not Rung.TRIM_EDGES:
        assert _bare_lines(new) == _bare_lines(found.replacement)
        _assert_descends_alike(new, found.replacement)


def _assert_descends_alike(new: str, written: str) -> None:
    """A line added deeper than the line added before it is not written less deep."""
    pairs = [
        (_width(a), _width(b))
        for a, b in zip(split_lines(new)[0], split_lines(written)[0], strict=True)
        if a.strip() and _width(a) >= 0 and _width(b) >= 0
    ]
    widths = dict(pairs)
    if len(widths) == len(set(pairs)):
        assert sorted(widths.values()) == [widths[given] for given in sorted(widths)]


def _width(line: str) -> int:
    """How deep a line is, tabs counted as eight; -1 when both kinds are mixed."""
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    if len(set(indentation)) > 1:
        return -1
    return len(indentation.replace("\t", " " * 8))


@many
@given(texts, plain_texts.filter(bool), plain_texts)
def test_exact_text_is_taken_literally_in_a_file_of_newlines(
    around: str, old: str, new: str
) -> None:
    text = _lf(around) + "\n" + old + "\n" + _lf(around)
    found = locate(Document(False, text), old, new)
    if isinstance(found, LocatedEdit):
        assert (Rung.EXACT, new) == (found.rung, found.replacement)
    else:
        assert isinstance(found, Several)
        assert found.rung is Rung.EXACT


@many
@given(texts)
def test_lines_and_offsets_agree(text: str) -> None:
    document = Document(False, text)
    contents, ends = split_lines(text)
    assert contents == document.lines
    assert "".join(map("".join, zip(contents, ends, strict=True))) == text
    for index, content in enumerate(contents):
        start = document.line_starts[index]
        assert text.startswith(content, start)
        assert document.content_end(index) == start + len(content)
        assert text[document.content_end(index) : document.line_end(index)] == ends[index]
        assert document.line_at(start) == index + 1
        assert document.offset_from_lf(document.lf_starts[index]) == start
        assert document.offset_from_lf(document.lf_starts[index] + len(content)) == (
            start + len(content)
        )
    assert document.offset_from_lf(len(document.lf_text)) == len(text)
