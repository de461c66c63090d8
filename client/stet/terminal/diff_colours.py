"""A unified diff for a terminal with many colours: syntax colours, on backgrounds for changes.

Each file has a title instead of git's header. Added lines have a green background and removed lines
a red one; if a line was replaced by a similar one, the differing parts are brighter. Text on such a
background has its own colour, so that it is readable on light and dark terminals. Tokens are
pygments'; a hunk is lexed by itself, once as it was and once as it is. Large diffs are not lexed:
it would take long, and nobody reads them whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from stet.terminal.diff_lines import FileDiff, Hunk, files_of
from stet.terminal.spans import Line, Span, columns, line_columns, visible

if TYPE_CHECKING:
    from pygments.lexer import Lexer

#: Limits for lexing: characters of a diff, and of a line.
_LEXED_TEXT, _LEXED_LINE = 100_000, 1000
#: Limits for comparing words: lines of a run, characters of a line.
_COMPARED_LINES, _COMPARED_LINE = 50, 400
#: Lines that differ more than this are not compared word by word.
_ALIKE = 0.5
_TAB = 4

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
#: A quoted path in a git header.
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

#: Styles by prefixes of token types; the longest matching prefix counts.
_TOKENS = {
    "Token.Comment": "dim italic",
    "Token.Comment.Preproc": "magenta",
    "Token.Keyword": "magenta",
    "Token.Literal.String": "cyan",
    "Token.Literal.String.Doc": "dim italic",
    "Token.Literal.Number": "blue",
    "Token.Name.Function": "bold",
    "Token.Name.Class": "bold",
    "Token.Name.Tag": "magenta",
    "Token.Name.Attribute": "cyan",
    "Token.Name.Decorator": "magenta",
    "Token.Operator.Word": "magenta",
    "Token.Generic.Heading": "bold",
}


class Grounds(NamedTuple):
    """Styles of one kind of terminal, by sign: for changed lines, and for differing parts of lines.

    ``colours``: those of tokens on such a background.
    """

    lines: dict[str, str]
    parts: dict[str, str]
    colours: dict[str, str]


DARK = Grounds(
    lines={"+": "#d5e8d8 on #10301c", "-": "#ecd4d4 on #3b1719"},
    parts={"+": "#ffffff on #1f6b3a", "-": "#ffffff on #84292d"},
    colours={"magenta": "#dda6f0", "cyan": "#93d8e0", "blue": "#a3c4fb"},
)
LIGHT = Grounds(
    lines={"+": "#12351d on #dafbe1", "-": "#4a1014 on #ffebe9"},
    parts={"+": "#0a2912 on #9be9a8", "-": "#3c0a0e on #ffc1bc"},
    colours={"magenta": "#7a2fc0", "cyan": "#0b4a6f", "blue": "#0550ae"},
)


def coloured(
    text: str, width: int, grounds: Grounds = DARK, *, titles: bool = True
) -> Iterator[Line]:
    """A coloured unified diff; ``titles``: with a line for each file."""
    lexed = len(text) <= _LEXED_TEXT
    for number, file in enumerate(files_of(text)):
        if titles:
            if number:
                yield ()
            yield from title(file, width)
        lexer = _lexer_for(names(file)[0]) if lexed and file.hunks else None
        for hunk in file.hunks:
            yield (Span(visible(hunk.header), "cyan"),)
            yield from _hunk(hunk, lexer, width, grounds)


# -- titles


def names(file: FileDiff) -> tuple[str, list[str]]:
    """The file's path, and the rest of its header in words."""
    path, notes = "", []
    for written in file.header:
        line = _QUOTED.sub(_unquoted, written)
        if line.startswith(("--- ", "+++ ")):
            name = line[4:].rstrip("\t")
            if name != "/dev/null":
                path = name[2:] if name.startswith(("a/", "b/")) else name
        elif line.startswith("diff --git "):
            path = line[-((len(line) - len("diff --git a/ b/")) // 2) :]  # both names are the same
        elif line.startswith("rename to "):
            path = line.removeprefix("rename to ")
            notes.append(line)
        elif not line.startswith("index "):
            notes.append(line)
    return path, notes


def _unquoted(found: re.Match[str]) -> str:
    escaped = found[1].encode("latin-1", "replace").decode("unicode_escape", "replace")
    return escaped.encode("latin-1", "replace").decode("utf-8", "replace")


def title(file: FileDiff, width: int) -> Iterator[Line]:
    """A file's title over the whole width: its path, and the rest of its header in words."""
    path, notes = names(file)
    name = (Span("── ", "dim"), Span(visible(path), "bold"), Span(" ", "dim"))
    rule = "─" * max(0, width - line_columns(name))
    yield (*name, Span(rule, "dim"))
    for note in notes:
        yield (Span("   " + visible(note), "dim"),)


# -- hunks


def _hunk(hunk: Hunk, lexer: Lexer | None, width: int, grounds: Grounds) -> Iterator[Line]:
    old = iter(_lexed([line[1:] for line in hunk.lines if line[:1] not in ("+", "\\")], lexer))
    new = iter(_lexed([line[1:] for line in hunk.lines if line[:1] not in ("-", "\\")], lexer))
    differing = _differing(hunk.lines)
    for number, line in enumerate(hunk.lines):
        sign = line[:1]
        if sign == "\\":
            yield (Span(visible(line), "dim"),)
        elif sign in ("+", "-"):
            tokens = next(new if sign == "+" else old)
            yield _on_ground(sign, tokens, differing.get(number, ()), grounds, width)
        else:
            next(old)
            yield (Span(" "), *_expanded(next(new)))


def _on_ground(
    sign: str, tokens: Sequence[Span], differing: Sequence[bool], grounds: Grounds, width: int
) -> Line:
    ground = grounds.lines[sign]
    text, _, below = ground.partition(" ")
    spans = [Span(sign, f"bold {ground}")]
    marks = iter(differing)
    for token in tokens:
        # Dim text would not be readable on a background.
        words = [grounds.colours.get(word, word) for word in token.style.split() if word != "dim"]
        if not any(word.startswith("#") for word in words):
            words.append(text)
        style = " ".join([*words, below])
        for differs, run in groupby(token.text, lambda _: next(marks, False)):
            spans.append(Span("".join(run), grounds.parts[sign] if differs else style))
    line = _expanded(spans)
    fill = width - line_columns(line)
    return (*line, Span(" " * fill, ground)) if fill > 0 else line


def _expanded(spans: Sequence[Span]) -> Line:
    """Tabs as spaces, so that the background covers them, and control characters spelled out."""
    at, found = -1, []  # the sign is before the first column
    for span in spans:
        pieces = []
        for piece in re.split(r"(\t)", visible(span.text)):
            shown = " " * (_TAB - at % _TAB) if piece == "\t" else piece
            at += columns(shown)
            pieces.append(shown)
        found.append(Span("".join(pieces), span.style))
    return tuple(found)


# -- what differs within lines


def _differing(lines: Sequence[str]) -> dict[int, list[bool]]:
    """By line number, which characters differ from the line that it replaced, or that replaced it.

    A line that is not alike has none.
    """
    found: dict[int, list[bool]] = {}
    signs = [line[:1] for line in lines]
    runs = [list(run) for _, run in groupby(range(len(lines)), signs.__getitem__)]
    for removed, added in pairwise(runs):
        is_replaced = signs[removed[0]] == "-" and signs[added[0]] == "+"
        if is_replaced and max(len(removed), len(added)) <= _COMPARED_LINES:
            for old, new in zip(removed, added, strict=False):
                found[old], found[new] = _compared(lines[old][1:], lines[new][1:])
    return found


def _compared(old: str, new: str) -> tuple[list[bool], list[bool]]:
    """For each character of two lines, whether it differs; empty if they are not alike."""
    in_old, in_new = list[bool](), list[bool]()
    if max(len(old), len(new)) > _COMPARED_LINE:
        return in_old, in_new
    before, after = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() >= _ALIKE:
        for kind, begin, end, new_begin, new_end in matcher.get_opcodes():
            in_old += [kind != "equal"] * sum(map(len, before[begin:end]))
            in_new += [kind != "equal"] * sum(map(len, after[new_begin:new_end]))
    return in_old, in_new


# -- tokens


def _lexer_for(path: str) -> Lexer | None:
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    except (ClassNotFound, ImportError, ValueError):
        return None


def _lexed(lines: Sequence[str], lexer: Lexer | None) -> list[list[Span]]:
    """Each line as tokens; as one token if it can't be lexed, or is over a limit."""
    plain = [[Span(line)] for line in lines]
    if lexer is None or any(len(line) > _LEXED_LINE for line in lines):
        return plain
    found: list[list[Span]] = [[]]
    for token, text in lexer.get_tokens("\n".join(lines)):
        name = str(token)
        while name and name not in _TOKENS:
            name = name.rpartition(".")[0]
        style = _TOKENS.get(name, "")
        first, *rest = text.split("\n")
        found[-1].append(Span(first, style))
        found.extend([Span(piece, style)] for piece in rest)
    # A lexer may drop or normalize characters (\r, a BOM); the shown text must be unchanged.
    texts = ["".join(span.text for span in line) for line in found[: len(lines)]]
    return found[: len(lines)] if texts == list(lines) else plain


def lexed_lines(text: str, path: str) -> list[list[Span]]:
    """A file's lines as tokens, up to the limits."""
    lines = text.split("\n")
    lexer = _lexer_for(path) if len(text) <= _LEXED_TEXT else None
    return _lexed(lines, lexer)
