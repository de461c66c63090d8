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
from enum import StrEnum

import msgspec

from stet.wire.failures import Failure, Kind
from stetd.editing.refusals import visible
from stetd.editing.text import WHITE_SPACE, is_blank

#: Faults after which the rest of an answer is not read.
_MOST_FAULTS = 20
#: Characters of a line that a fault repeats.
_SHOWN = 80
_START = "===SKIPPY_PATCH_START:path==="
_EDGES = WHITE_SPACE + "\r\ufeff"
#: A path can't end with "=", which would look like a marker with too many of them.
_EXACT_START = re.compile(r"===SKIPPY_PATCH_START:\s*([^\s=](?:.*[^\s=])?)\s*===")
_RESEMBLANCE = re.compile(
    r"={2,}\s*(?:(?P<find>FIND)|(?P<replace>REPLACE)|"
    r"(?P<end>(?:SKIPPY[ _-]?PATCH[ _-]?)?END))\s*={2,}"
    r"|={2,}\s*(?P<start>SKIPPY[ _-]?PATCH[ _-]?START).*",
    re.IGNORECASE,
)


class Pair(msgspec.Struct, frozen=True):
    """One FIND with its REPLACE."""

    find: str
    replace: str


class Block(msgspec.Struct, frozen=True):
    """One block: the path as in its START, and the line of the START, from 1."""

    path: str
    line: int
    pairs: tuple[Pair, ...]
    #: Whether every marker ends with CRLF; then CRLF says nothing about the file.
    crlf: bool


class Prose(msgspec.Struct, frozen=True):
    """A piece of text outside of blocks; ``line``: its first line, from 1."""

    text: str
    line: int


class Answer(msgspec.Struct):
    """A parsed answer; ``blocks`` are complete and valid only without ``faults``."""

    #: The paths of all STARTs, in order, also of blocks without an END.
    paths: list[str] = []
    blocks: list[Block] = []
    prose: list[Prose] = []
    faults: list[Failure] = []


def parse_answer(text: str) -> Answer:
    """Parse a model's whole answer into blocks and faults; see the module."""
    answer = Answer()
    reader = _Reader(answer)
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


class _Mark(StrEnum):
    """The markers, with their spelling as value."""

    START = _START
    FIND = "===FIND==="
    REPLACE = "===REPLACE==="
    END = "===SKIPPY_PATCH_END==="


class _Place(StrEnum):
    OUTSIDE = "outside"
    BLOCK = "block"  # after START, before the first FIND
    FIND = "find"
    REPLACE = "replace"


#: The parser's state after each marker, and the states in which the marker is allowed.
_AFTER = {
    _Mark.START: (_Place.BLOCK, (_Place.OUTSIDE,)),
    _Mark.FIND: (_Place.FIND, (_Place.BLOCK, _Place.REPLACE)),
    _Mark.REPLACE: (_Place.REPLACE, (_Place.FIND,)),
    _Mark.END: (_Place.OUTSIDE, (_Place.REPLACE,)),
}


class _Reader(msgspec.Struct):
    """The parser's state between two lines."""

    answer: Answer
    _place: _Place = _Place.OUTSIDE
    #: The present block.
    _path: str = ""
    _line: int = 0
    _pairs: list[Pair] = []
    _crlf: bool = True
    #: The present pair: line of its FIND, its find text, and the collected lines.
    _find_line: int = 0
    _find: str = ""
    _content: list[str] = []
    _content_line: int = 1
    #: Such a fault was reported, so following ones are not: stray markers, text before FIND.
    _reported: bool = False

    def read(self, number: int, line: str) -> None:
        bare = line.strip(_EDGES)
        unescaped = bare.lstrip("\\")
        resembled = _RESEMBLANCE.fullmatch(unescaped) if unescaped.startswith("==") else None
        if resembled is None:
            self._text(number, line)
        elif unescaped != bare:
            at = line.index("\\")
            self._text(number, line[:at] + line[at + 1 :])
        else:
            self._marker(number, line, resembled)

    def end(self, last: int) -> None:
        if self._place is _Place.OUTSIDE:
            self._end_prose()
        else:
            begun = f"the block that begins at line {self._line} is not ended"
            unended = {
                _Place.REPLACE: f"{begun}: expected {_Mark.END} on a line of its own after the "
                "last replacement.",
                _Place.FIND: f"{_Mark.FIND} at line {self._find_line} has no {_Mark.REPLACE}, and "
                f"the block is not ended: expected {_Mark.REPLACE}, the new text, and {_Mark.END}.",
                _Place.BLOCK: f"{begun} and has no pair: expected {_Mark.FIND}, {_Mark.REPLACE} "
                f"and {_Mark.END}.",
            }
            self._fault(last, unended[self._place])
        if not self.answer.blocks and not self.answer.faults:
            self._fault(last, _NO_BLOCK)

    def _text(self, number: int, line: str) -> None:
        if self._place is not _Place.BLOCK:
            self._content.append(line)
        elif not is_blank(line.rstrip("\r")) and not self._reported:
            self._reported = True
            self._fault(
                number,
                f"expected {_Mark.FIND} after {_START.replace('path', self._path)}, but found the "
                f"text {visible(line)}. Nothing but pairs stands in a block.",
            )

    def _marker(self, number: int, line: str, resembled: re.Match[str]) -> None:
        mark = _Mark[str(resembled.lastgroup).upper()]
        written = line.rstrip(_EDGES)
        start = _EXACT_START.fullmatch(written)
        path = start.group(1) if start else ""
        exact = bool(path) if mark is _Mark.START else written == mark.value
        if not exact:
            if self._place is _Place.OUTSIDE and "SKIPPY" not in line.upper():
                self._content.append(line)
                return
            self._fault(
                number,
                f"{visible(written)} is no marker: expected {mark} at the beginning of the line "
                f"and nothing else on it.{self._as_text(written)}",
            )
        elif self._place not in _AFTER[mark][1]:
            self._misplaced(number, mark)
        self._enter(number, mark, path, ends_with_cr=line.endswith("\r"))

    def _enter(self, number: int, mark: _Mark, path: str, *, ends_with_cr: bool) -> None:
        """Change the state after a marker. After a fault the values are useless, but harmless."""
        text = "\n".join(self._content).removesuffix("\r")
        if self._place is _Place.OUTSIDE:
            self._end_prose()
        elif self._place is _Place.FIND:
            self._find = text
            if not text and mark is _Mark.REPLACE:
                self._fault(
                    self._find_line,
                    f"{_Mark.FIND} holds no text: expected the text to look for, copied exactly "
                    "from the file. To add text, find a line beside it and replace it by that "
                    "line and the new one.",
                )
        elif self._place is _Place.REPLACE and mark in (_Mark.FIND, _Mark.END):
            self._pairs.append(Pair(self._find, text))
        self._content, self._content_line = [], number + 1
        if mark is _Mark.START:
            self._path, self._line, self._pairs, self._crlf = path, number, [], True
            if path:
                self.answer.paths.append(path)
        self._crlf = self._crlf and ends_with_cr
        if mark is _Mark.FIND:
            self._find_line = number
        if mark is _Mark.END and self._place is not _Place.OUTSIDE:
            self.answer.blocks.append(Block(self._path, self._line, tuple(self._pairs), self._crlf))
        stray = self._place is _Place.OUTSIDE and mark is not _Mark.START
        if not stray:
            self._place = _AFTER[mark][0]
            self._reported = self._reported and mark not in (_Mark.START, _Mark.END)

    def _misplaced(self, number: int, mark: _Mark) -> None:
        match self._place, mark:
            case _Place.OUTSIDE, _:
                if not self._reported:
                    self._reported = True
                    self._fault(number, f"{mark} outside of a block: expected {_START} before it.")
                return
            case _, _Mark.START:
                missing = {
                    _Place.REPLACE: f"{_Mark.END}",
                    _Place.FIND: f"{_Mark.REPLACE} and {_Mark.END}",
                    _Place.BLOCK: f"{_Mark.FIND}, {_Mark.REPLACE} and {_Mark.END}",
                }
                sentence = (
                    f"{mark.replace(':path', '')} inside the block that begins at line "
                    f"{self._line}: expected {missing[self._place]} before another block."
                )
            case _Place.BLOCK, _Mark.REPLACE:
                sentence = f"{mark} without {_Mark.FIND}: expected {_Mark.FIND} and the old text."
            case _Place.BLOCK, _:
                sentence = (
                    f"the block that begins at line {self._line} has no pair: expected "
                    f"{_Mark.FIND} and {_Mark.REPLACE} before {mark}."
                )
            case _Place.FIND, _:
                sentence = (
                    f"{mark}, but {_Mark.FIND} at line {self._find_line} has no "
                    f"{_Mark.REPLACE} yet: expected {_Mark.REPLACE} and the new text."
                )
            case _:
                sentence = (
                    f"a second {mark} for the {_Mark.FIND} at line {self._find_line}: expected "
                    f"{_Mark.FIND} or {_Mark.END}."
                )
        self._fault(number, sentence + self._as_text(mark.value))

    def _as_text(self, line: str) -> str:
        """Advice for a line that may have been meant as text, in a block."""
        if self._place not in (_Place.FIND, _Place.REPLACE):
            return ""
        bare = line.strip(_EDGES)[:_SHOWN]
        return f" If the line is text of the file, write it with a backslash: \\{bare}"

    def _fault(self, number: int, sentence: str) -> None:
        path = self._path if self._place is not _Place.OUTSIDE else None
        message = f"line {number} of text: {sentence}"
        self.answer.faults.append(
            Failure(Kind.PARSE_ERROR.value, message, path=path or None, line=number)
        )

    def _end_prose(self) -> None:
        if self._content:
            self.answer.prose.append(Prose("\n".join(self._content), self._content_line))


_NO_BLOCK = (
    "there is no patch block, so nothing would be changed. Expected, with the changes in it and "
    f"not in JSON:\n{_START}\n{_Mark.FIND}\nthe old text, exactly as it stands in the file\n"
    f"{_Mark.REPLACE}\nthe new text\n{_Mark.END}"
)


#: Names of this tool in calls.
_OURS = ("patchfiletool", "patch_block")
#: Members that contain a call's arguments in an envelope.
_INWARD = ("actions", "tool_calls", "function", "arguments", "parameters", "input")
_DEEPEST = 8
_OBJECT = re.compile(r'\{\s*"')
#: Failed attempts to parse an object, after which no more are made.
_MOST_BROKEN = 100
_decoder = json.JSONDecoder(strict=False)


class NamedFile(msgspec.Struct, frozen=True):
    """A path in the JSON of a call; ``line``: the first line of that JSON, from 1."""

    path: str
    line: int


def named_files(prose: Iterable[Prose]) -> list[NamedFile]:
    """The files that calls of this tool in ``prose`` name, in order, without duplicates."""
    found: dict[str, NamedFile] = {}
    for stretch in prose:
        for value, offset in _objects(stretch.text):
            for path in _filepaths(value, _DEEPEST):
                line = stretch.line + stretch.text.count("\n", 0, offset)
                found.setdefault(path, NamedFile(path, line))
    return list(found.values())


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
    if isinstance(value, list) and depth:
        for each in value:
            yield from _filepaths(each, depth - 1)
    if not isinstance(value, dict):
        return
    names = (value.get("tool"), value.get("name"))
    if any(isinstance(name, str) and name.lower() not in _OURS for name in names):
        return  # the call is for another tool
    path = value.get("filepath")
    if isinstance(path, str) and path:
        yield path
    if depth:
        for name in _INWARD:
            if isinstance(value.get(name), dict | list | str):
                yield from _filepaths(value[name], depth - 1)
