"""Tolerant matches as data: whole bytes before and after, and what must be refused.

Each case is one edit. Either it lands where it was meant, by the rung named, or it is refused
(``SEVERAL`` with the rung that found more than one place, ``NOWHERE``). A wrong edit, one
that reports success and leaves other bytes than ``after``, fails. What tests/scenarios/patch
shows is not here again.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stetd.editing.matching.ladder import Several, locate
from stetd.editing.matching.rungs import Rung
from stetd.editing.planning import LocatedEdit
from stetd.editing.text import Document

NOWHERE = "nowhere"


@dataclass(frozen=True)
class Case:
    name: str
    before: bytes
    old: str
    new: str
    after: bytes
    rung: Rung


@dataclass(frozen=True)
class Refusal:
    name: str
    before: bytes
    old: str
    new: str
    #: The rung that found several places, or NOWHERE.
    reason: Rung | str


CASES = [
    Case(
        "of a line without its indentation the lines after it may have theirs",
        b"def f():\n    return a\n",
        "return a\n",
        "return b\n\n\ndef g():\n    return a\n",
        b"def f():\n    return b\n\n\ndef g():\n    return a\n",
        Rung.EXACT,
    ),
    Case(
        "a blank line that the file has only further off, behind what is added",
        b"x()\na()\nb()\nc()\nd()\n\nz()\n",
        "x()\n\n",
        "x()\nnew()\n\n",
        b"x()\nnew()\na()\nb()\nc()\nd()\n\nz()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "a line put two levels further in, in a text whose depth is no number of such steps",
        b"f {\n  a(\n    b)\n}\n",
        "      a(\n",
        "      a(\n          c,\n",
        b"f {\n  a(\n      c,\n    b)\n}\n",
        Rung.INDENT,
    ),
    Case(
        "a block that is taken out of the lines around it was not taken out before",
        b"def f():\n    if a:\n        b()\n        c()\n",
        "if a:\n    b()\n    c()\n",
        "b()\nc()\n",
        b"def f():\n    b()\n    c()\n",
        Rung.INDENT,
    ),
    Case(
        "a new line with the place's indentation before a line that lacks it is shifted with it",
        b"if a:\n    if b:\n        c()\n    if d:\n        e()\n",
        "if d:\n    e()\n",
        "    x()\nif d:\n    e()\n",
        b"if a:\n    if b:\n        c()\n        x()\n    if d:\n        e()\n",
        Rung.INDENT,
    ),
    # exact
    Case(
        "exact wins over a tolerant place",
        b"  x = 1\nx = 1 \n\tx = 1 # y\n",
        "\tx = 1 #",
        "\tx = 2 #",
        b"  x = 1\nx = 1 \n\tx = 2 # y\n",
        Rung.EXACT,
    ),
    Case(
        "a newline added after a lone carriage return stays a line of its own",
        b"a\rb\nc\n",
        "b",
        "\nx",
        b"a\r\rx\nc\n",
        Rung.EXACT,
    ),
    # line_endings
    Case(
        "a new line before a blank one keeps a terminator of its own",
        b"a\rb\n\nc\n",
        "a\nb\n",
        "x\n",
        b"x\r\n\nc\n",
        Rung.LINE_ENDINGS,
    ),
    Case(
        "a blank new line between a carriage return and a newline stays one",
        b"a\rb\n\n",
        "b\n",
        "\n",
        b"a\r\r\n\n",
        Rung.EXACT,
    ),
    Case(
        "a blank new line after a lone carriage return stays one",
        b"a\rb\nc\n",
        "a\nb\n",
        "x\n\n",
        b"x\r\rc\n",
        Rung.LINE_ENDINGS,
    ),
    Case(
        "a line added in a mixed place ends like the one before it",
        b"a\r\nb\nc\r\n",
        "a\nb\n",
        "a\nnew\nb\n",
        b"a\r\nnew\r\nb\nc\r\n",
        Rung.LINE_ENDINGS,
    ),
    Case(
        "text that begins with a newline takes the whole CRLF",
        b"a\r\nb\r\n",
        "\nb",
        "\nc",
        b"a\r\nc\r\n",
        Rung.LINE_ENDINGS,
    ),
    Case(
        "lines added at an unterminated end",
        b"a\r\nb",
        "a\nb\n",
        "a\nb\nc\n",
        b"a\r\nb\r\nc",
        Rung.LINE_ENDINGS,
    ),
    # trailing_space
    Case(
        "trailing space of a replaced line goes with it, without a final newline too",
        b"a\nb   \nc\n",
        "a \nb",
        "a \nx",
        b"a\nx\nc\n",
        Rung.TRAILING_SPACE,
    ),
    Case(
        "U+0085 is white space and no terminator",
        b"a\xc2\x85\nb\n",
        "a\nb\n",
        "a\nx\n",
        b"a\xc2\x85\nx\n",
        Rung.TRAILING_SPACE,
    ),
    Case(
        "trailing space in a CRLF file",
        b"a \r\nb\r\nc\r\n",
        "a\nb\n",
        "a\nx\ny\n",
        b"a \r\nx\r\ny\r\nc\r\n",
        Rung.TRAILING_SPACE,
    ),
    Case(
        "blank lines with spaces in them stay",
        b"a\n    \nb\n",
        "a\n\nb\n",
        "a\n\nc\n",
        b"a\n    \nc\n",
        Rung.TRAILING_SPACE,
    ),
    # indent
    Case(
        "text with more indentation",
        b"def f():\n  return 1\n",
        "    def f():\n      return 1\n",
        "    def f():\n      return 2\n    g()\n",
        b"def f():\n  return 2\ng()\n",
        Rung.INDENT,
    ),
    Case(
        "one line of spaces for tabs",
        b"\tif x:\n\t\ta()\n",
        "        a()\n",
        "        a()\n        b()\n",
        b"\tif x:\n\t\ta()\n\t\tb()\n",
        Rung.INDENT,
    ),
    Case(
        "text without indentation in a file of tabs: its spaces become tabs",
        b"func f() {\n\ta()\n\tb()\n}\n",
        "a()\nb()\n",
        "a()\nif x {\n    b()\n}\n",
        b"func f() {\n\ta()\n\tif x {\n\t\tb()\n\t}\n}\n",
        Rung.INDENT,
    ),
    Case(
        "alignment with spaces behind a tab is copied",
        b"func f() {\n\tg(a,\n\t  b)\n}\n",
        "g(a,\n  b)\n",
        "g(a,\n  c)\n",
        b"func f() {\n\tg(a,\n\t  c)\n}\n",
        Rung.INDENT,
    ),
    # typography
    Case(
        "typography in the text only",
        b"x = 'a'  # no-break\ny\n",
        "x = \u2018a\u2019\xa0 # no\u2011break",
        "x = 'b'",
        b"x = 'b'\ny\n",
        Rung.TYPOGRAPHY,
    ),
    Case(
        "composed in the file, decomposed in the text",
        "# \ud55c\uad6d\nx\n".encode(),
        "# \u1112\u1161\u11ab\u1100\u116e\u11a8\nx",
        "# \u1112\u1161\u11ab\u1100\u116e\u11a8\ny",
        "# \ud55c\uad6d\ny\n".encode(),
        Rung.TYPOGRAPHY,
    ),
    Case(
        "typography across CRLF lines",
        "a \u2014 b\r\nc\r\n".encode(),
        "a - b\nc",
        "a - b\nd\ne",
        "a \u2014 b\r\nd\r\ne\r\n".encode(),
        Rung.TYPOGRAPHY,
    ),
    # indent+typography
    Case(
        "typography, trailing space and indentation at once",
        "class A:\n    # it\u2019s \n    x = 1\n".encode(),
        "# it's\nx = 1\n",
        "# it's\nx = 2\n",
        "class A:\n    # it\u2019s \n    x = 2\n".encode(),
        Rung.INDENT_TYPOGRAPHY,
    ),
    Case(
        "typography and trailing space with the same indentation",
        "  \u201ca\u201d \n  b\n".encode(),
        '  "a"\n  b\n',
        '  "a"\n  c\n',
        "  \u201ca\u201d \n  c\n".encode(),
        Rung.INDENT_TYPOGRAPHY,
    ),
    # trim_edges
    Case(
        "lines added beside blank lines that the file does not have",
        b"a()\nb()\nc()\n",
        "\nb()\n\n",
        "\nb()\nnew()\n\n",
        b"a()\nb()\nnew()\nc()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "lines added at the edge where nothing was dropped, blank lines further off",
        b"q()\n\np()\nb()\nc()\n",
        "b()\n\n",
        "new()\nb()\n\n",
        b"q()\n\np()\nnew()\nb()\nc()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "the same at the other edge",
        b"a()\nb()\nc()\n\nd()\n",
        "\n\nb()\n",
        "\n\nb()\nnew()\n",
        b"a()\nb()\nnew()\nc()\n\nd()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "a line replaced beside blank lines further off",
        b"z()\n\na()\nb()\nc()\n\nd()\n",
        "\nb()\n\n",
        "\nx()\n\n",
        b"z()\n\na()\nx()\nc()\n\nd()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "lines added before fewer blank lines than the text has",
        b"a()\nb()\n\nc()\n",
        "b()\n\n\n",
        "b()\nnew()\n\n\n",
        b"a()\nb()\nnew()\n\nc()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "fewer blank lines in the new text than in the old",
        b"a()\nb()\n",
        "\n\nb()\n",
        "\nc()\n",
        b"a()\nc()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "a last line that is not in the file, the same in both texts",
        b"one()\ntwo()\nend\n",
        "one()\ntwo()\n# ...\n",
        "ONE()\ntwo()\n# ...\n",
        b"ONE()\ntwo()\nend\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "an ellipsis that is the same in both texts, and in the file only within a line",
        b"def f(a: tuple[int, ...]):\n    one()\n    two()\n",
        "# ...\n    one()\n    two()\n",
        "# ...\n    one()\n    three()\n",
        b"def f(a: tuple[int, ...]):\n    one()\n    three()\n",
        Rung.TRIM_EDGES,
    ),
    Case(
        "what is left may be indented differently",
        b"class A:\n    x = 1\n    y = 2\n",
        "\nx = 1\ny = 2\n\n",
        "\nx = 1\ny = 3\n\n",
        b"class A:\n    x = 1\n    y = 3\n",
        Rung.TRIM_EDGES,
    ),
]

REFUSALS = [
    Refusal(
        "only the first of several lines lacks its indentation, and would lose it",
        b"def f():\n    a\n    b\n",
        "a\n    b\n",
        "c\na\n    b\n",
        NOWHERE,
    ),
    Refusal(
        "a text in a wider unit than the file's, of which only one line is known",
        b"f {\n  a {\n    b\n  }\n}\ng {\n  c\n}\n",
        "    a {\n",
        "    a {\n        d\n",
        NOWHERE,
    ),
    Refusal(
        "a text in a wider unit than may be the file's, whose lines are all equally deep",
        b"    a\n    b\n",
        "        a\n",
        "        a\n            c\n",
        NOWHERE,
    ),
    Refusal(
        "old lines lack a level, and the new ones have it",
        b"class A:\n    if a:\n        b\n",
        "if a:\n    b\n",
        "    if c:\n        d\n",
        NOWHERE,
    ),
    Refusal(
        "old lines have a level more, and the new ones have not",
        b"class A:\n    if a:\n        b\n",
        "        if a:\n            b\n",
        "    if c:\n        d\n",
        NOWHERE,
    ),
    Refusal(
        "an old line has a level more than the new line that is put before it",
        b"def f():\n  a()\n",
        "    a()\n",
        "  if b:\n    a()\n",
        NOWHERE,
    ),
    Refusal(
        "without its last newline the new text would take up the next line",
        b"if a:\n    b()\n    return\nc()\n",
        "b()\nreturn\n",
        "return",
        NOWHERE,
    ),
    Refusal(
        "old lines lack all indentation, and the new one has the place's",
        b"if x:\n    a\n    b\n",
        "a\nb\n",
        "a\n    c\nb\n",
        NOWHERE,
    ),
    Refusal(
        "old lines lack one space, and the new one is at a level",
        b"def f():\n    if a:\n        b\n    c\n",
        "       b\n   c\n",
        "       b\n   c\n    d\n",
        NOWHERE,
    ),
    Refusal(
        "old lines have one space more, and the new one is at a level",
        b"def f():\n    if a:\n        b\n    c\n",
        "         b\n     c\n",
        "         b\n     c\n        d\n",
        NOWHERE,
    ),
    # ambiguous at every rung
    Refusal("twice by line endings", b"a\r\nb\r\na\r\nb\r\n", "a\nb", "x", Rung.LINE_ENDINGS),
    Refusal("twice after trimming", b"a\nb\na\nc\n", "\na\n\n", "\nx\n\n", Rung.TRIM_EDGES),
    Refusal(
        "either edge may be dropped, at different places",
        b"h\nm\nx\nm\nt\n",
        "h\nm\nt\n",
        "h\nM\nt\n",
        Rung.TRIM_EDGES,
    ),
    Refusal(
        "what was meant is gone, and a passage is left with other words above it",
        b"one = 1\nqux(zed)\n    alpha beta gamma\n",
        "foo(bar)\n    alpha beta gamma\n",
        "foo(bar)\n    alpha beta delta\n",
        NOWHERE,
    ),
    Refusal(
        "what was meant is gone, and a passage is left with other words above a blank line",
        b"one = 1\nqux(zed)\n\n    alpha beta gamma\n",
        "foo(bar)\n    alpha beta gamma\n",
        "foo(bar)\n    alpha beta delta\n",
        NOWHERE,
    ),
    Refusal(
        "what was meant is gone, and a passage is left with another word below it",
        b"one()\ntwo()\nend\n",
        "one()\ntwo()\nfinish\n",
        "ONE()\ntwo()\nfinish\n",
        NOWHERE,
    ),
    Refusal(
        "nor are lines added to a text that was trimmed",
        b"a()  \nb()\nc()\n",
        "\na()\n\n",
        "\na()\nb()\n\n",
        NOWHERE,
    ),
    Refusal(
        "one line without indentation for several, of which only the first may lack it",
        b"class A:\n    def f(self):\n        go() \n",
        "go()\t\n",
        "go()\n        stop()\n",
        NOWHERE,
    ),
    Refusal(
        "nothing between a lone carriage return and a newline would make them one",
        b"\ra\n",
        "a",
        "",
        NOWHERE,
    ),
    # what no rung relaxes
    Refusal("a word that differs", b"return value\n", "return values\n", "return 1\n", NOWHERE),
    Refusal("white space within a line", b"a  =  1\n", "a = 1", "a = 2", NOWHERE),
    Refusal("the Kelvin sign is no K", "5 \u212a\n".encode(), "5 K", "6 K", NOWHERE),
    Refusal("a line missing in the middle", b"a\nb\nc\n", "a\nc\n", "x\ny\n", NOWHERE),
    Refusal(
        "indentation by another step is no uniform change",
        b"    if x:\n        a()\n",
        "if x:\n  a()\n",
        "if x:\n  b()\n",
        NOWHERE,
    ),
    Refusal(
        "the place with tabs and spaces mixed may be meant as well",
        b"      g ();\n      return x;\n    }\n\t  g ();\n\t  return x;\n",
        "          g ();\n          return x;\n",
        "          g ();\n          return y;\n",
        Rung.INDENT,
    ),
    Refusal(
        "spaces that are no whole number of tabs",
        b"\tif x:\n\t\ta()\n",
        "    if x:\n        a()\n",
        "    if x:\n        a()\n      b()\n",
        NOWHERE,
    ),
    Refusal(
        "a unit that is a guess",
        b"x\n\t\ta()\n",
        "        a()\n",
        "        a()\n                b()\n",
        NOWHERE,
    ),
    Refusal("within an ellipsis", "a\u2026b\n".encode(), "a..", "x", NOWHERE),
    Refusal("between a letter and its accent", "re\u0301sume\n".encode(), "\u2018re", "x", NOWHERE),
    Refusal(
        "a syllable that goes on", "\u2026\u1112\u1161\u11ab\n".encode(), "...\ud558", "x", NOWHERE
    ),
    Refusal("white space alone", b"a\n    \nb\n", "\t\t\t", "x", NOWHERE),
    Refusal("a newline on nothing", b"a", "\n", "\nb\n", NOWHERE),
    Refusal("blank lines alone", b"a\nb\n", "\n\n", "\n", NOWHERE),
    Refusal(
        "a first line with a word of the file: its passage may be gone, and another ends alike",
        b"import os\n\nwith lock:\n    a()\n    b()\n",
        "if os.name:\n    a()\n    b()\n",
        "if os.name:\n    a()\n    c()\n",
        NOWHERE,
    ),
    Refusal(
        "a last line with a word of the file: its passage may be gone, and another begins alike",
        b"import os\n\na()\nb()\nwith lock:\n    c()\n",
        "a()\nb()\nif os.name:\n",
        "A()\nb()\nif os.name:\n",
        NOWHERE,
    ),
    Refusal(
        "a first line that is a bracket: it says nothing, but may have stood above others",
        b"x = [\n    1,\n    2,\n]\n",
        "(\n    1,\n    2,\n",
        "(\n    1,\n    3,\n",
        NOWHERE,
    ),
    Refusal(
        "an ellipsis that stands elsewhere in the file",
        b"def f():\n    ...\n\n\nclass B:\n    one()\n    two()\n",
        "    ...\n    one()\n    two()\n",
        "    ...\n    one()\n    three()\n",
        NOWHERE,
    ),
    Refusal("nothing but a brace is left", b"f() {\n}\n", "g() {\n}\n", "g() {\n}\nx\n", NOWHERE),
    Refusal(
        "lines that differ on one edge are no shared line", b"b\n", "a\nb\n", "A\nx\n", NOWHERE
    ),
    Refusal("what is left must be whole lines", b"xb\n", "\nb\n\n", "\nc\n\n", NOWHERE),
    Refusal(
        "trimming that would join the next line",
        b"a\nb\nc\n",
        "\nb\n\n",
        "\nx",
        NOWHERE,
    ),
    Refusal(
        "a line left out above: anything may stand in between",
        b"one\ntwo\nthree\nfour\n",
        "one\nthree\n",
        "one\nTHREE\n",
        NOWHERE,
    ),
    Refusal(
        "a brace that stands further down: what is added may belong before or after",
        b"f {\n  foo();\n  baz();\n}\n",
        "  foo();\n}\n",
        "  foo();\n  bar();\n}\n",
        NOWHERE,
    ),
    Refusal(
        "what is left stands again with another indentation",
        b"right()\n  b()\nother()\n    b()\n",
        "wrong()\n  b()\n",
        "wrong()\n  c()\n",
        Rung.TRIM_EDGES,
    ),
    Refusal(
        "a line left out before a blank one: what is added may belong before or after",
        b"x()\ny()\n\nz()\n",
        "x()\n\n",
        "x()\nnew()\n\n",
        NOWHERE,
    ),
    Refusal(
        "a line left out after a blank one",
        b"z()\n\ny()\nx()\n",
        "\n\nx()\n",
        "\n\nnew()\nx()\n",
        NOWHERE,
    ),
    Refusal(
        "a line left out between blank ones",
        b"x()\n\ny()\n\nz()\n",
        "x()\n\n\n",
        "x()\n\nnew()\n\n",
        NOWHERE,
    ),
    Refusal(
        "what is left stands once with the blank line before it, twice without",
        b"b()\nc()\n\nb()\nd()\n",
        "\n\nb()\n\n\n",
        "\n\nx()\n\n\n",
        Rung.TRIM_EDGES,
    ),
    Refusal(
        "what is left stands once with the blank line after it, twice without",
        b"b()\n\nc()\nb()\nd()\n",
        "\n\nb()\n\n",
        "\n\nx()\n\n",
        Rung.TRIM_EDGES,
    ),
    Refusal(
        "new lines whose step is half of the file's",
        b"class A:\n    def f(self):\n        a = first\n        return a\n",
        "a = first\nreturn a\n",
        "if a:\n  a = first\nreturn a\n",
        NOWHERE,
    ),
    Refusal("a short line was added after it before", b"a \nc\n", "a\n", "a\nc\n", NOWHERE),
    Refusal("a BOM that says where, elsewhere", b"\xef\xbb\xbfa\nb\n", "\ufeffb", "x", NOWHERE),
]


def edited(before: bytes, old: str, new: str) -> tuple[bytes, str] | str:
    """The file after the edit with its rung; the ambiguous rung; or NOWHERE."""
    document = Document.from_bytes(before)
    found = locate(document, old, new)
    if isinstance(found, Several):
        assert len(found.lines) > 1
        return found.rung
    if found is None:
        return NOWHERE
    assert isinstance(found, LocatedEdit)
    text = document.text[: found.start] + found.replacement + document.text[found.end :]
    return document.to_bytes(text), found.rung


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lands_where_it_was_meant(case: Case) -> None:
    assert (case.after, case.rung) == edited(case.before, case.old, case.new)


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name)
def test_is_refused(case: Refusal) -> None:
    assert case.reason == edited(case.before, case.old, case.new)


#: A line dropped because both texts have it: without another difference nothing tells it apart.
SHARED_LINE_DROPPED = [
    case for case in CASES if case.rung is Rung.TRIM_EDGES and "same in both texts" in case.name
]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c not in SHARED_LINE_DROPPED], ids=lambda case: case.name
)
def test_text_replaced_by_itself_changes_nothing(case: Case) -> None:
    assert (case.before, case.rung) == edited(case.before, case.old, case.old)


@pytest.mark.parametrize("case", SHARED_LINE_DROPPED, ids=lambda case: case.name)
def test_no_line_is_dropped_from_a_text_that_changes_nothing(case: Case) -> None:
    assert edited(case.before, case.old, case.old) == NOWHERE


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.before.endswith((b"\n", b"\r")) and b"\xef\xbb\xbf" not in c.before],
    ids=lambda case: case.name,
)
def test_a_second_copy_makes_it_ambiguous(case: Case) -> None:
    assert case.rung == edited(case.before + case.before, case.old, case.new)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_sent_without_its_indentation_does_not_lose_it_to_one_put_before_it(
    end: str,
) -> None:
    document = Document.from_bytes(f"def f():{end}    return a{end}".encode())
    for last in ("\n", end, ""):
        found = locate(document, f"return a{last}", f"b()\nreturn a{last}")
        assert isinstance(found, LocatedEdit)
        written = f"    b(){end}    return a{end if last else ''}"
        assert (found.rung, found.replacement) == (Rung.INDENT, written)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_edges_are_trimmed_whatever_the_lines_end_with(end: str) -> None:
    def found(before: str, dropped: str) -> LocatedEdit | Several | None:
        document = Document.from_bytes(before.replace("\n", end).encode())
        old, new = (f"{dropped}\nfoo {word}\n".replace("\n", end) for word in ("bar baz", "qux"))
        return locate(document, old, new)

    for dropped in ("", "..."):
        match = found("foo bar baz\nb\n", dropped)
        assert isinstance(match, LocatedEdit)
        assert (match.rung, match.replacement) == (Rung.TRIM_EDGES, f"foo qux{end}")
    assert found("foo bar baz\nb\n...\n", "...") is None, "the file has such a line elsewhere"


def test_a_line_found_within_another_is_taken_away_with_its_indentation() -> None:
    before = "a\n    say(\u201chello\u201d)\nb\n".encode()
    assert (b"a\nb\n", Rung.INDENT_TYPOGRAPHY) == edited(before, 'say("hello")\n', "")


def test_names_are_unique() -> None:
    names = [case.name for case in CASES] + [case.name for case in REFUSALS]
    assert len(names) == len(set(names))
