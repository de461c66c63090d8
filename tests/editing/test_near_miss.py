"""What is said about a text that stands nowhere."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import pytest
from rapidfuzz import fuzz

from stet.wire.failures import Nearest
from stetd.editing.matching import near_miss
from stetd.editing.matching.near_miss import quoted
from stetd.editing.text import Document

SOURCE = (
    "import os\n"
    "\n"
    "\n"
    "def first(value):\n"
    "    result = compute(value)\n"
    "    return result\n"
    "\n"
    "\n"
    "def second(value):\n"
    "    result = compute(value, 2)\n"
    "    return result + 1\n"
)


def explain_miss(document: Document, old: str, new: str = "") -> tuple[str, Nearest | None]:
    return near_miss.explain_miss(document, old, new, "oldText")


def told(text: str, old: str, new: str = "") -> str:
    return explain_miss(Document(False, text), old, new)[0]


def difference(text: str, old: str) -> str:
    nearest = explain_miss(Document(False, text), old)[1]
    assert nearest is not None
    return nearest.first_difference


def test_the_nearest_passage_is_given_by_lines_and_text() -> None:
    old = "def second(value):\n    result = compute(value, 3)\n    return result + 1\n"
    nearest = explain_miss(Document(False, SOURCE), old)[1]
    assert nearest is not None
    assert (nearest.line, nearest.end_line) == (9, 11)
    assert nearest.text == SOURCE[SOURCE.index("def second") :]
    assert nearest.first_difference == (
        'line 10 is the first that differs: the file has "    result = compute(value, 2)", '
        'oldText has "    result = compute(value, 3)".'
    )


def test_the_sentence_shows_the_passage_with_line_numbers() -> None:
    assert told(SOURCE, "    result = compute(valu)\n    return result\n") == (
        "The nearest passage is at lines 5-6; line 5 is the first that differs: the file has "
        '"    result = compute(value)", oldText has "    result = compute(valu)".\n'
        "5|     result = compute(value)\n"
        "6|     return result\n"
        "Send the text exactly as it stands in the file."
    )


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        (
            "if x:\n\tgo(there)\n\tstop\n",
            "if x:\n    go(there)\n  stop\n",
            "line 2 is the first that differs (only in indentation: 1 tab in the file, 4 spaces "
            'in oldText): the file has "\\tgo(there)", oldText has "    go(there)".',
        ),
        (
            "alpha = 1  \nbeta = 2\n",
            "alpha = 1\nbeta = 3\n",
            "line 1 is the first that differs (only in white space at its end): the file has "
            '"alpha = 1\\x20\\x20", oldText has "alpha = 1".',
        ),
        (
            "alpha = 1\r\nbeta = 2\r\n",
            "alpha = 1\nbeta = 3\n",
            'line 2 is the first that differs: the file has "beta = 2\\r\\n", '
            'oldText has "beta = 3\\n".',
        ),
        (
            "say \u201chello\u201d\nworld\n",
            'say "hello"\nword\n',
            "line 1 is the first that differs (only in typography: the file has U+201C LEFT DOUBLE "
            "QUOTATION MARK where oldText has U+0022 QUOTATION MARK): the file has "
            '"say \\u{201C}hello\\u{201D}", oldText has "say "hello"".',
        ),
        (
            "Alpha\nbeta\n",
            "alpha\nbeta\n",
            "line 1 is the first that differs (only in upper and lower case): the file has "
            '"Alpha", oldText has "alpha".',
        ),
        (
            "alpha  =  one\nbeta\n",
            "alpha = one\nbeta\n",
            "line 1 is the first that differs (only in white space): the file has "
            '"alpha  =  one", oldText has "alpha = one".',
        ),
        (
            "alpha beta\n",
            "alpha beta\ngamma\n",
            'the file ends after line 1, before "gamma".',
        ),
    ],
)
def test_the_first_difference_is_spelled_out(text: str, old: str, expected: str) -> None:
    assert difference(text, old) == expected


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert quoted("\ta\x0b\xa0e\u0301\udcff  ", "\r\n") == (
        '"\\ta\\u{000B}\\u{00A0}e\\u{0301}\\xff\\x20\\x20\\r\\n"'
    )


def test_an_edit_that_was_made_before_is_noticed() -> None:
    text = SOURCE.replace("compute(value, 2)", "calculate(value)")
    sentences = told(text, "    result = compute(value, 2)\n", "    result = calculate(value)\n")
    assert sentences.startswith(
        "The new text already stands at line 10: the edit seems to be already applied. "
    )


@pytest.mark.parametrize("new", ["}", "result", ""])
def test_a_new_text_that_stands_there_anyway_is_no_sign(new: str) -> None:
    assert "already stands" not in told(SOURCE + "}\n", "    result = computes(value, 2)\n", new)


def test_a_part_of_a_line_finds_its_line() -> None:
    nearest = explain_miss(Document(False, SOURCE), "compute(valeu, 2)")[1]
    assert nearest is not None
    assert nearest.line == 10


def test_a_line_left_out_still_finds_the_passage() -> None:
    nearest = explain_miss(Document(False, SOURCE), "def second(value):\n    return result + 1\n")[
        1
    ]
    assert nearest is not None
    assert nearest.line in (9, 10)


@pytest.mark.parametrize(
    ("text", "old"),
    [(SOURCE, "nothing alike here\n"), ("", "a"), (SOURCE, "\n\t\n"), (SOURCE, "}}")],
)
def test_nothing_is_made_up(text: str, old: str) -> None:
    assert explain_miss(Document(False, text), old)[1] is None
    assert told(text, old) == "Nothing in the file resembles it; read the file again."


def test_a_long_passage_is_cut() -> None:
    text = "".join(f"line number {index}\n" for index in range(500))
    old = text.replace("number 7\n", "nr 7\n")
    nearest = explain_miss(Document(False, text), old)[1]
    assert nearest is not None
    assert (nearest.line, nearest.end_line) == (1, 500)
    assert len(nearest.text.split("\n")) <= 61
    assert "... to line 500" in told(text, old)


def test_bytes_that_are_not_utf_8_are_shown_so_that_the_answer_can_be_sent() -> None:
    document = Document.from_bytes(b"caf\xe9 au lait\n")
    sentences, nearest = explain_miss(document, "caf\u00e9 au lait,")
    assert nearest is not None
    assert nearest.text == "caf\ufffd au lait\n"
    assert "1| caf\ufffd au lait" in sentences
    assert r'the file has "caf\xe9 au lait"' in sentences


@pytest.mark.parametrize("old_lines", [1, 10, 1000])
def test_the_search_is_bounded(old_lines: int) -> None:
    text = "".join(f"    value_{index} = compute({index % 7})\n" for index in range(100_000))
    old = "".join(f"    value_{index} = computes({index})\n" for index in range(50, 50 + old_lines))
    document = Document(False, text)
    start = time.process_time()
    explain_miss(document, old, "    value_0 = 1\n")
    assert time.process_time() - start < 2


WORDS = ["define", "returns", "value", "x", "foo_bar", "elsewhere", "forty", "range", "(n)", "="]


def among_many_alike() -> tuple[str, str]:
    """Sixty lines of a file in which every line stands several times, one of them shortened."""
    chance = Random(1)
    lines = ["    " + " ".join(chance.choices(WORDS, k=8)) + "\n" for _ in range(400)]
    text = chance.choices(lines, k=3000)
    old = text[1000:1060]
    old[5] = old[5].rpartition(" ")[0] + "\n"
    return "".join(text), "".join(old)


def within_a_paragraph() -> tuple[str, str]:
    """3,500 characters of a paragraph that is one line, among others, and one more."""
    chance = Random(1)
    words = [f"{chance.choice(WORDS)}{chance.randrange(200)}" for _ in range(28_000)]
    paragraphs = [" ".join(words[start : start + 700]) for start in range(0, 28_000, 700)]
    return "\n\n".join(paragraphs), paragraphs[20][100:3600] + "Q"


@pytest.mark.parametrize("texts", [among_many_alike, within_a_paragraph])
def test_long_texts_are_not_compared_at_every_offset(
    texts: Callable[[], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes time with the square of what is looked for: 2 to 10 s with all of it."""
    asked: list[int] = []

    def partial_ratio(wanted: str, passage: str) -> float:
        asked.append(len(wanted))
        return fuzz.partial_ratio(wanted, passage)

    monkeypatch.setattr(
        near_miss, "fuzz", SimpleNamespace(partial_ratio=partial_ratio, ratio=fuzz.ratio)
    )
    text, old = texts()
    assert old not in text
    assert explain_miss(Document(False, text), old, "new text\n")[1] is not None
    assert 0 < max(asked) <= 300


def test_short_lines_lead_to_the_nearest_passage_when_nothing_else_does() -> None:
    nearest = explain_miss(Document(False, "10\n20\n30\n40\n"), "21\n30\n40\n")[1]
    assert nearest is not None
    assert (nearest.line, nearest.end_line) == (2, 4)
    assert nearest.first_difference == (
        'line 2 is the first that differs: the file has "20", oldText has "21".'
    )


@pytest.mark.parametrize(
    ("text", "old"), [("a\nx = 10\nb\n", "x = 11"), ("a = 1\nb = 2\n", "b = 3\n"), ("i++;", "i--;")]
)
def test_short_words_do_when_no_longer_one_is_in_the_file(text: str, old: str) -> None:
    nearest = explain_miss(Document(False, text), old)[1]
    assert nearest is not None
    assert nearest.text.strip()[0] == old[0]


@pytest.mark.parametrize(
    ("text", "old", "owner"),
    [
        ("\tcc -o hello\n", "\\tcc -o hello\n", "oldText"),
        ("def f():\n    pass\n", "def f():\\n    pass\\n", "oldText"),
        ('say("hello")\n', 'say(\\"hello\\")\n', "oldText"),
        ('say("hello\\nyou")\n', 'say("hello\nyou")\n', "the file"),
    ],
)
def test_a_backslash_too_many_or_missing_is_told(text: str, old: str, owner: str) -> None:
    assert f"(only in escaping: {owner} has a backslash" in difference(text, old)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("    if a < b and c:\n", "    if a &lt; b and c:\n"),
        ('    say("hello")\n', "    say(&quot;hello&quot;)"),
        ("<b>R&amp;D at work</b>\n", "<b>R&D at work</b>\n"),
    ],
)
def test_html_entities_are_told(text: str, old: str) -> None:
    assert "differs (only in HTML entities): " in difference(text, old)


def test_an_entity_of_more_digits_than_a_number_may_have_is_a_difference_like_others() -> None:
    line = f"&#{'1' * 5000};"
    told = difference(f"f()\n{line}\n", f"f()\n{line}x\n")
    assert told.startswith("line 2 is the first that differs: ")


@pytest.mark.parametrize(
    "number", ["12\t", "    12\t", "12: ", "12|", "  12\u2192", "L12: ", "12 | "]
)
def test_a_line_number_that_was_copied_is_told(number: str) -> None:
    told = difference("def f():\n    return total\n", f"{number}    return total\n")
    assert "differs (only in a number before it: send no line numbers): " in told
    other = difference("def f():\n    return total\n", f"{number}    return totals\n")
    assert "line numbers" not in other


@pytest.mark.parametrize("sent", ["a = 1, b = 2", "a = 1," * 50_000])
def test_a_long_line_is_not_copied_many_times_to_tell_how_it_differs(sent: str) -> None:
    document = Document(False, "a = 1, b = 3, " * 25_000 + "\n")
    assert document.folded_lines
    tracemalloc.start()
    try:
        assert "differs: " in near_miss._first_difference(document, [sent], [""], "oldText", 0)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_long_line_of_blanks_is_no_ellipsis_and_that_is_seen_soon() -> None:
    """It took the square of its length, which is minutes here."""
    sent = "import os\nimport sys\n" + " " * 100_000 + "\n"
    assert "(one of the two is blank)" in difference("import os\nimport sys\nx = 1\n", sent)


def test_an_ellipsis_is_told_beside_a_blank_line() -> None:
    told = difference("import os\nimport sys\n\nx = 1\n", "import os\nimport sys\n# ... rest ...\n")
    assert "differs (an ellipsis does not stand for lines that are left out): " in told
    both = difference("import os\n# ... before\n", "import os\n# ... behind\n")
    assert "ellipsis" not in both


def test_a_text_that_is_escaped_once_too_often_is_told_where_it_stands() -> None:
    document = Document.from_bytes(b"def f():\n    a = 1\n    return a\n")
    told, nearest = near_miss.explain_miss(document, "    a = 1\\n    return a", "b", "oldText")
    assert told.startswith("It stands at line 2 if the backslashes in oldText are read as escapes")
    assert nearest is None
    told, _ = near_miss.explain_miss(document, "a = 1 \\\n    return b", "b", "oldText")
    assert "backslashes" not in told
    told, _ = near_miss.explain_miss(
        Document.from_bytes(b"see foo_bar now\n"), "foo\\_bar", "foo_bar", "oldText"
    )
    assert told.startswith("The new text already stands at line 1")
    assert "backslashes" not in told


def test_a_line_that_differs_in_white_space_alone_is_found() -> None:
    assert "(only in white space)" in difference("i=0\n| a  | 12 |\n", "| a | 12 |\n")
    assert 'the file has "    (2, 2, 4),"' in difference("[\n    (2, 2, 4),\n]\n", "(2,2,4)")


def test_missing_indentation_is_told_if_nothing_else_differs() -> None:
    assert "(only in indentation: 4 spaces in the file, no indentation in oldText)" in difference(
        "def f():\n    return a\n", "return a\n"
    )


def test_a_line_of_short_words_leads_to_its_passage_before_a_word_elsewhere() -> None:
    text = "a = b + c * d\ne = f / g\nh = i\n\nlog(configuration)\n"
    nearest = explain_miss(Document(False, text), "a = b + c * d\ne = f / g\nconfiguration\n")[1]
    assert nearest is not None
    assert nearest.line == 1
