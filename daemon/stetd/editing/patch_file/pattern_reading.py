"""Reading a regular expression before it is compiled: what it may hold, and how large it is.

Patterns come from language models and are compiled by the package ``regex``, on the thread
that everybody waits for. What stands here makes that safe, without a search:

* The package reads ``{`` as *approximate* matching where Python's ``re`` reads a brace:
  ``f"{i}"`` would match any text with insertions. A brace that is no counted repetition is
  escaped, so that nothing but what was written can match.
* A counted repetition is unfolded when it is compiled (``a{100000000}`` takes all memory there
  is), so the unfolded size is limited; so are length and depth.
* Recursion, ``(?R)`` or ``(?1)``, can fill the memory before the time is up, and searching
  backwards, ``(?r)``, counts from the end: neither is taken.
* Whether a group that captures is repeated without limit is told: every repetition is kept,
  some 180 bytes a character of the text.
* A ``\\r\\n`` is read as ``\\n``, which is how the text is shown to patterns.

Not a parser: what it does not understand is left as it is, for the compiler to refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

#: Limits of a pattern: characters, nested groups, and size with counted repetitions unfolded.
MOST_CHARACTERS = 4_000
MOST_NESTED = 50
MOST_UNFOLDED = 20_000

_COUNTED = re.compile(r"\{(?:(\d{1,9})(?:,(\d{0,9}))?|,(\d{1,9}))\}")
_RECURSION = re.compile(r"\(\?(?:R|[+-]?\d+|&\w*|P>\w*)\)")
_FLAGS = re.compile(r"\(\?([A-Za-z0-9]*)(?:-[A-Za-z]*)?[:)]")
_NAMED_ESCAPE = re.compile(r"\\(?:[pPN]\{[^}]*\}|[gkL]<[^>]*>)")
#: ``(?<name>`` and ``(?P<name>`` capture; ``(?<=`` and ``(?<!`` look behind.
_NAMED_GROUP = re.compile(r"\(\?P?<(?![=!])")
_WHOLE = re.compile(r"\(\?#[^)]*\)|\(\*[A-Z]+\)")
_CONDITION = re.compile(r"\(\?\([\w<>']*\)")


class BadPattern(msgspec.Struct, frozen=True):
    """Why a pattern is not taken; ``position``: the character (from 0) that shows it."""

    reason: str
    position: int | None = None


class ReadPattern(msgspec.Struct, frozen=True):
    """A pattern that may be compiled.

    ``text`` is what to compile; its character ``i`` comes from character ``origin[i]`` of the
    pattern that was sent. ``keeps_repetitions``: a group that captures is repeated without
    limit.
    """

    text: str
    origin: tuple[int, ...]
    keeps_repetitions: bool


@dataclass(slots=True)
class _Group:
    """A group that is being read: its unfolded size, the size of what stands last in it."""

    captures: bool = False
    size: int = 0
    last: int = 0
    last_captures: bool = False

    def add(self, size: int, *, captures: bool = False) -> None:
        self.size += size
        self.last, self.last_captures = size, captures
        self.captures |= captures


class _TooMuch(Exception):
    """A limit of this module was passed at ``position``."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason, self.position = reason, position


class _Reader:
    """Goes through a pattern once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._text: list[str] = []
        self._origin: list[int] = []
        self._groups = [_Group()]
        self._verbose = False
        self._keeps = False

    def read(self) -> ReadPattern:
        """The whole pattern. Raises _TooMuch."""
        while self._at < len(self._pattern):
            self._step()
        return ReadPattern("".join(self._text), tuple(self._origin), self._keeps)

    def _take(self, length: int, written: str | None = None) -> None:
        """Copy ``length`` characters, or write something else for them."""
        text = self._pattern[self._at : self._at + length] if written is None else written
        self._text.append(text)
        self._origin += (
            range(self._at, self._at + length) if written is None else [self._at] * len(text)
        )
        self._at += length

    def _step(self) -> None:
        char, pattern, at = self._pattern[self._at], self._pattern, self._at
        group = self._groups[-1]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._set()
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char in "*+?":
            self._repeat(1, endless=char != "?")
            self._take(1)
        elif char == "{":
            counted = _COUNTED.match(pattern, at)
            if counted:
                self._counted(counted)
            else:
                group.add(1)
                self._take(1, "\\{")
        elif char == "#" and self._verbose:
            end = pattern.find("\n", at)
            self._take((end if end >= 0 else len(pattern)) - at)
        elif pattern.startswith("\r\n", at):
            group.add(1)
            self._take(2, "\n")
        else:
            group.add(1)
            self._take(1)
        if self._groups[-1].size > MOST_UNFOLDED:
            raise _TooMuch(
                f"it is too large: with its counted repetitions written out it has more than "
                f"{MOST_UNFOLDED:,} parts",
                at,
            )

    def _escape(self) -> None:
        self._groups[-1].add(1)
        named = _NAMED_ESCAPE.match(self._pattern, self._at)
        if named:
            self._take(len(named.group()))
        elif self._pattern.startswith(r"\r\n", self._at):
            self._take(4, r"\n")
        else:
            self._take(2 if self._at + 1 < len(self._pattern) else 1)

    def _set(self) -> None:
        """``[...]``; what begins like one and does not end is left to the compiler."""
        pattern, at = self._pattern, self._at + 1
        at += pattern.startswith("^", at)
        at += pattern.startswith("]", at)
        while at < len(pattern) and pattern[at] != "]":
            if pattern.startswith("[:", at) and pattern.find(":]", at + 2) >= 0:
                at = pattern.find(":]", at + 2) + 2
            else:
                at += 2 if pattern[at] == "\\" else 1
        self._groups[-1].add(1)
        self._take(min(at + 1, len(pattern)) - self._at)

    def _open(self) -> None:
        pattern, at = self._pattern, self._at
        if _RECURSION.match(pattern, at):
            raise _TooMuch("it calls itself, which is not supported", at)
        whole = _WHOLE.match(pattern, at)
        if whole:
            self._take(len(whole.group()))
            return
        flags = _FLAGS.match(pattern, at)
        if flags:
            if "r" in flags[1]:
                raise _TooMuch("it searches backwards, which is not supported", at)
            self._verbose |= "x" in flags[1]
        if flags and flags.group().endswith(")"):
            self._take(len(flags.group()))
            return
        if len(self._groups) > MOST_NESTED:
            raise _TooMuch(f"more than {MOST_NESTED} groups are nested in it", at)
        condition = _CONDITION.match(pattern, at)
        named = _NAMED_GROUP.match(pattern, at)
        self._groups.append(_Group(captures=bool(named) or pattern[at + 1 : at + 2] != "?"))
        opening = flags or condition or named
        self._take(len(opening.group()) if opening else 2 if pattern[at + 1 : at + 2] == "?" else 1)

    def _close(self) -> None:
        if len(self._groups) > 1:
            group = self._groups.pop()
            self._groups[-1].add(max(1, group.size), captures=group.captures)
        self._take(1)

    def _counted(self, found: re.Match[str]) -> None:
        least, most, only_most = found.groups()
        numbers = [int(each) for each in (least, most, only_most) if each]
        self._repeat(max(numbers), endless=most == "")
        self._take(len(found.group()))

    def _repeat(self, times: int, *, endless: bool) -> None:
        group = self._groups[-1]
        group.size += group.last * (max(1, times) - 1)
        group.last *= max(1, times)
        self._keeps |= group.last_captures and (endless or times > 1)


def read_pattern(pattern: str) -> ReadPattern | BadPattern:
    """``pattern`` in the form to compile, or why it is not taken."""
    if len(pattern) > MOST_CHARACTERS:
        return BadPattern(f"it has {len(pattern):,} characters; {MOST_CHARACTERS:,} is the most")
    try:
        return _Reader(pattern).read()
    except _TooMuch as excess:
        return BadPattern(excess.reason, excess.position)
