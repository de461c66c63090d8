r"""Parses the text of ``patch_block``: from a model's answer to blocks of find/replace pairs.

Never raises; errors become faults (``parse_error``), up to 20 of them::

    answer  = *( block / prose )          ; lines end with LF or CRLF, a lone CR is text
    block   = START 1*( FIND content REPLACE content ) END

The newlines beside a marker belong to it. A line that only resembles a marker is a fault in a
block, because it would be written into the file. Outside of blocks a line that resembles START or
END is one, because the block would be ignored silently. A backslash before such a line makes it
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from stet.wire.failures import Failure, Kind
from stetd.editing.refusals import visible
from stetd.editing.text import WHITE_SPACE, is_blank

#: Faults after which the rest of an answer is not read.
_MOST_FAULTS = 20
#: Characters of a line that a fault repeats.
_SHOWN = 80
_EDGES = WHITE_SPACE + "\r\ufeff"
#: A path can't end with "=", which would look like a marker with too many of them.
_EXACT_START = re.compile(r"===SKIPPY_PATCH_START:(\s*([^\s=](?:.*[^\s=])?)\s*)===")
_RESEMBLANCE = re.compile(
    r"={2,}\s*(?:(?P<find>FIND)|(?P<replace>REPLACE)|"
    r"(?P<end>(?:SKIPPY[ _-]?PATCH[ _-]?)?END))\s*={2,}"
    r"|={2,}\s*(?P<start>SKIPPY[ _-]?PATCH[ _-]?START).*",
    re.IGNORECASE,
)


#: The spellings of the markers, by their names in _RESEMBLANCE.
_MARKS = {
    "start": "===SKIPPY_PATCH_START:path===",
    "find": "===FIND===",
    "replace": "===REPLACE===",
    "end": "===SKIPPY_PATCH_END===",
}
_START, _FIND, _REPLACE, _END = _MARKS.values()
_INSIDE = f"{_START.replace(':path', '')} inside the block that begins at line {{block}}"
#: The faults in the order of markers: one marker, or the end of the text (None), after another.
#: ``block`` and ``find``: the lines of the last START and FIND. All other orders are sound.
_FAULTS: dict[tuple[str, str | None], str] = {
    **{
        (_END, stray): f"{stray} outside of a block: expected {_START} before it."
        for stray in (_FIND, _REPLACE, _END)
    },
    (_START, _START): f"{_INSIDE}: expected {_FIND}, {_REPLACE} and {_END} before another block.",
    (_START, _REPLACE): f"{_REPLACE} without {_FIND}: expected {_FIND} and the old text.",
    (_START, _END): "the block that begins at line {block} has no pair: expected "
    f"{_FIND} and {_REPLACE} before {_END}.",
    (_START, None): "the block that begins at line {block} is not ended and has no pair: expected "
    f"{_FIND}, {_REPLACE} and {_END}.",
    (_FIND, _START): f"{_INSIDE}: expected {_REPLACE} and {_END} before another block.",
    **{
        (_FIND, early): f"{early}, but {_FIND} at line {{find}} has no {_REPLACE} yet: expected "
        f"{_REPLACE} and the new text."
        for early in (_FIND, _END)
    },
    (_FIND, None): f"{_FIND} at line {{find}} has no {_REPLACE}, and the block is not ended: "
    f"expected {_REPLACE}, the new text, and {_END}.",
    (_REPLACE, _START): f"{_INSIDE}: expected {_END} before another block.",
    (_REPLACE, _REPLACE): f"a second {_REPLACE} for the {_FIND} at line {{find}}: expected "
    f"{_FIND} or {_END}.",
    (_REPLACE, None): f"the block that begins at line {{block}} is not ended: expected {_END} on "
    "a line of its own after the last replacement.",
}
_NO_BLOCK = (
    "there is no patch block, so nothing would be changed. Expected, with the changes in it and "
    f"not in JSON:\n{_START}\n{_FIND}\nthe old text, exactly as it stands in the file\n"
    f"{_REPLACE}\nthe new text\n{_END}"
)


class Block(msgspec.Struct):
    """One block: the path as in its START, and the line of the START, from 1."""

    path: str
    line: int
    #: Each FIND with its REPLACE.
    pairs: list[tuple[str, str]] = []
    #: Whether every marker ends with CRLF; then CRLF says nothing about the file.
    crlf: bool = True
    #: The path with the blanks around it that are left out of ``path``.
    spelled: str = ""


class Answer(msgspec.Struct):
    """A parsed answer; ``blocks`` are complete and valid only without ``faults``."""

    #: The paths of all STARTs, in order, also of blocks without an END.
    paths: list[str] = []
    blocks: list[Block] = []
    #: The pieces of text outside of blocks, each with the number of its first line, from 1.
    prose: list[tuple[int, str]] = []
    faults: list[Failure] = []


def parse_answer(text: str) -> Answer:
    """Parse a model's whole answer into blocks and faults; see the module."""
    answer = Answer()
    reader = _Reader(answer, Block("", 0))
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        reader.read(number, line)
        if len(answer.faults) >= _MOST_FAULTS:
            break
    else:
        reader.end(max(1, len(lines)))
    answer.faults.sort(key=lambda fault: fault.line or 0)
    return answer


class _Reader(msgspec.Struct):
    """The parser's state between two lines."""

    answer: Answer
    #: The present block, or the one before.
    block: Block
    #: The marker before; END: outside of a block.
    mark: str = _END
    #: The lines since that marker, and the number of the first.
    content: list[str] = []
    content_line: int = 1
    #: The last FIND: its line, and its text.
    find_line: int = 0
    find: str = ""
    #: Such a fault was reported, so following ones are not: stray markers, text before FIND.
    reported: bool = False

    def read(self, number: int, line: str) -> None:
        bare = line.strip(_EDGES)
        unescaped = bare.lstrip("\\")
        resembled = _RESEMBLANCE.fullmatch(unescaped) if unescaped.startswith("==") else None
        if resembled is None:
            self._text(number, line)
        elif unescaped != bare:
            self._text(number, line.replace("\\", "", 1))
        else:
            self._marker(number, line, _MARKS[str(resembled.lastgroup)])

    def end(self, last: int) -> None:
        self._end_content(None)
        self._check_order(last, None)
        if not self.answer.blocks and not self.answer.faults:
            self._fault(last, _NO_BLOCK)

    def _text(self, number: int, line: str) -> None:
        if self.mark != _START:
            self.content.append(line)
        elif not is_blank(line.rstrip("\r")) and not self.reported:
            self.reported = True
            self._fault(
                number,
                f"expected {_FIND} after {_START.replace('path', self.block.path)}, but found the "
                f"text {visible(line)}. Nothing but pairs stands in a block.",
            )

    def _marker(self, number: int, line: str, mark: str) -> None:
        """Read a marker. After a fault the values are useless, but harmless."""
        written = line.rstrip(_EDGES)
        start = _EXACT_START.fullmatch(written)
        if start or written == mark:
            self._check_order(number, mark)
        elif self.mark == _END and "SKIPPY" not in line.upper():
            self.content.append(line)
            return
        else:
            self._fault(
                number,
                f"{visible(written)} is no marker: expected {mark} at the beginning of the line "
                "and nothing else on it.",
                written,
            )
        self._end_content(mark)
        self.content, self.content_line = [], number + 1
        if mark == _FIND:
            self.find_line = number
        if mark == _START:
            self.block = Block(start[2] if start else "", number)
            if start:
                self.block.spelled = start[1]
                self.answer.paths.append(start[2])
        elif self.mark == _END:
            return
        self.block.crlf = self.block.crlf and line.endswith("\r")
        if mark == _END:
            self.answer.blocks.append(self.block)
        self.reported = self.reported and mark not in (_START, _END)
        self.mark = mark

    def _check_order(self, number: int, mark: str | None) -> None:
        fault = _FAULTS.get((self.mark, mark))
        stray = self.mark == _END
        if fault and not (stray and self.reported):
            self.reported = self.reported or stray
            sentence = fault.format(block=self.block.line, find=self.find_line)
            self._fault(number, sentence, mark)

    def _end_content(self, mark: str | None) -> None:
        """End the text before ``mark``, or before the end of the answer."""
        text = "\n".join(self.content)
        if self.mark == _END and self.content:
            self.answer.prose.append((self.content_line, text))
        elif self.mark == _FIND:
            self.find = text.removesuffix("\r")
            if not self.find and mark == _REPLACE:
                self._fault(
                    self.find_line,
                    f"{_FIND} holds no text: expected the text to look for, copied exactly from "
                    "the file. To add text, find a line beside it and replace it by that line and "
                    "the new one.",
                )
        elif self.mark == _REPLACE and mark in (_FIND, _END):
            self.block.pairs.append((self.find, text.removesuffix("\r")))

    def _fault(self, number: int, sentence: str, line: str | None = None) -> None:
        """Note a fault; ``line``: a marker that may have been meant as text, in a pair."""
        if line and self.mark in (_FIND, _REPLACE):
            bare = line.strip(_EDGES)[:_SHOWN]
            sentence += f" If the line is text of the file, write it with a backslash: \\{bare}"
        path = (self.mark != _END and self.block.path) or None
        message = f"line {number} of text: {sentence}"
        self.answer.faults.append(Failure(Kind.PARSE_ERROR.value, message, path=path, line=number))


#: Names of this tool in calls.
_OURS = ("patchfiletool", "patch_block")
#: Members that contain a call's arguments in an envelope.
_INWARD = ("actions", "tool_calls", "function", "arguments", "parameters", "input")
_DEEPEST = 8
_OBJECT = re.compile(r'\{\s*"')
#: Failed attempts to parse an object, after which no more are made.
_MOST_BROKEN = 100
_decoder = json.JSONDecoder(strict=False)


def named_files(prose: Iterable[tuple[int, str]]) -> dict[str, int]:
    """The files that calls of this tool in ``prose`` name, in order.

    With each path the first line of its JSON, from 1.
    """
    found: dict[str, int] = {}
    for line, text in prose:
        for value, offset in _objects(text):
            for path in _filepaths(value, _DEEPEST):
                found.setdefault(path, line + text.count("\n", 0, offset))
    return found


def _objects(text: str) -> Iterator[tuple[object, int]]:
    """The outermost JSON objects in ``text``, and their offsets."""
    position = broken = 0
    while broken < _MOST_BROKEN and (opening := _OBJECT.search(text, position)):
        position = opening.start() + 1
        try:
            value, position = _decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            broken += 1
            continue
        yield value, opening.start()


def _filepaths(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = _decoder.decode(value)
        except (ValueError, RecursionError):
            return
    inner: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        names = (value.get("tool"), value.get("name"))
        if any(isinstance(name, str) and name.lower() not in _OURS for name in names):
            return  # the call is for another tool
        path = value.get("filepath")
        if isinstance(path, str) and path:
            yield path
        inner = map(value.get, _INWARD)
    if depth:
        for each in inner:
            yield from _filepaths(each, depth - 1)
