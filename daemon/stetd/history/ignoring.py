r"""What ``.gitignore`` files leave out, by Git's rules (gitignore(5)). Pure: no file is read here.

A file of patterns, one a line:

    # a comment; blank lines say nothing; \# and \! begin a pattern with that character
    *.o        no slash, or only at the end: the last component of a path, at any depth below
    /build     a slash at the beginning or in the middle: from the file's own directory
    a/**/b     **/ at the beginning, /**/ and /** at the end: any number of directories
    dir/       a slash at the end: directories only
    !keep.o    takes back what an earlier pattern left out

``*`` and ``?`` match no slash, ``[a-z]``, ``[!a]`` and ``[[:digit:]]`` a set, ``\`` takes the next
character as it is. Spaces at the end count only after a backslash. The last pattern that matches
decides; those of a deeper file come later. Below a directory that is left out nothing can be
taken back. Names are bytes, and letters differ by case.

Nothing else is asked: no ``info/exclude``, and no configuration of the user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9", b"graph": rb"!-~", b"lower": rb"a-z", b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~", b"space": rb" \t\n\r\x0b\x0c", b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip
_BOM = b"\xef\xbb\xbf"


#: Stands for a component of two stars: any number of components, at the end one at least.
_ANY = None
_Component = re.Pattern[bytes] | None


class _Rule(NamedTuple):
    """One pattern, component by component; a ``whole_path`` from the file's directory on."""

    components: tuple[_Component, ...]
    whole_path: bool
    directories_only: bool
    takes_back: bool

    def matches(self, components: Sequence[bytes]) -> bool:
        if not self.whole_path:
            return _fits(self.components[0], components[-1])
        # Where in the pattern one may be after each component: never many places.
        places = self._reached({0})
        for component in components:
            places = self._reached(self._after(places, component))
        return len(self.components) in places

    def _after(self, places: set[int], component: bytes) -> set[int]:
        after = set()
        for place in places:
            if place < len(self.components):
                wanted = self.components[place]
                if wanted is _ANY:
                    after.add(place)
                    if place + 1 == len(self.components):
                        after.add(place + 1)
                elif _fits(wanted, component):
                    after.add(place + 1)
        return after

    def _reached(self, places: set[int]) -> set[int]:
        """And where two stars may be passed over."""
        for place in range(len(self.components) - 1):
            if place in places and self.components[place] is _ANY:
                places.add(place + 1)
        return places


def _any(components: Sequence[_Component]) -> re.Pattern[bytes]:
    """What any of these matches, two stars left aside."""
    pieces = [b"(?:" + each.pattern + b")" for each in components if each is not None]
    return re.compile(b"|".join(pieces) or b"(?!)", re.DOTALL)


def _fits(wanted: _Component, component: bytes) -> bool:
    return wanted is not None and wanted.fullmatch(component) is not None


class IgnoreFile:
    """The patterns of one file in the directory ``folder``: "", or a path that ends in a slash."""

    def __init__(self, content: bytes, folder: str) -> None:
        self.folder = folder
        #: The last one that matches decides, so they are tried in this order.
        self._rules = list(_rules(content))[::-1]
        #: Any of the patterns for a name alone: most names match none of them.
        self._names = _any([rule.components[0] for rule in self._rules if not rule.whole_path])
        #: Any of the ends of the others: a path's last name is what a pattern's end matches.
        ends = [rule.components[-1] for rule in self._rules if rule.whole_path]
        self._ends = _any(ends)
        self._any_end = _ANY in ends

    def __bool__(self) -> bool:
        return bool(self._rules)

    def says(self, path: str, *, directory: bool) -> bool | None:
        """Whether a path below ``folder`` is left out; None where no pattern matches."""
        components = path[len(self.folder) :].encode("utf-8", "surrogateescape").split(b"/")
        named = self._names.fullmatch(components[-1]) is not None
        ended = self._any_end or self._ends.fullmatch(components[-1]) is not None
        if not (named or ended):
            return None
        for rule in self._rules:
            if not (ended if rule.whole_path else named):
                continue
            if rule.directories_only and not directory:
                continue
            if rule.matches(components):
                return not rule.takes_back
        return None


def is_ignored(path: str, files: Sequence[IgnoreFile], *, directory: bool) -> bool:
    """Whether a path is left out; ``files`` from the root's down to its directory's.

    None of the directories above it may be left out.
    """
    for file in reversed(files):
        said = file.says(path, directory=directory)
        if said is not None:
            return said
    return False


def is_left_out(path: str, rules: Callable[[str], IgnoreFile | None]) -> bool:
    """Whether a file is, or a directory above it; ``rules`` by the directory ("", "src/")."""
    files: list[IgnoreFile] = []
    folder = ""
    for name in path.split("/"):
        own = rules(folder)
        files += [own] if own else []
        directory = len(folder) + len(name) < len(path)
        if is_ignored(folder + name, files, directory=directory):
            return True
        folder += name + "/"
    return False


def _rules(content: bytes) -> Iterator[_Rule]:
    for line in content.removeprefix(_BOM).split(b"\n"):
        line = _without_trailing_spaces(line.removesuffix(b"\r"))
        if not line or line.startswith(b"#"):
            continue
        takes_back = line.startswith(b"!")
        line = line.removeprefix(b"!")
        directories_only = line.endswith(b"/")
        line = line.removesuffix(b"/")
        whole_path = b"/" in line
        line = line.removeprefix(b"/")
        components = _translated(line) if line else None
        if components is not None:
            yield _Rule(components, whole_path, directories_only, takes_back)


def _without_trailing_spaces(line: bytes) -> bytes:
    kept = len(line.rstrip(b" "))
    backslashes = len(line[:kept]) - len(line[:kept].rstrip(b"\\"))
    if backslashes % 2 and kept < len(line):
        kept += 1  # the space is quoted
    return line[:kept]


def _translated(pattern: bytes) -> tuple[_Component, ...] | None:
    """What a pattern's components match; None for one that matches nothing."""
    components: list[_Component] = []
    pieces = [b""]  # of the present component, between stars
    at = start = 0
    while True:
        char = pattern[at : at + 1]
        if char in (b"", b"/"):
            stars = pattern[start:at]
            alone = len(stars) > 1 and not stars.strip(b"*")
            components.append(_ANY if alone and b"/" in pattern else _compiled(pieces))
            if not char:
                return tuple(components)
            pieces, at = [b""], at + 1
            start = at
        elif char == b"*":
            pieces.append(b"")
            at += 1
        elif char == b"?":
            pieces[-1] += b"."
            at += 1
        elif char == b"[":
            found = _set(pattern, at)
            if found is None:
                return None
            pieces[-1] += found[0]
            at = found[1]
        else:
            at += char == b"\\"
            if at == len(pattern):
                return None
            pieces[-1] += re.escape(pattern[at : at + 1])
            at += 1


def _compiled(pieces: list[bytes]) -> re.Pattern[bytes]:
    """A component. What stands after a star is taken where it first fits: that loses nothing,
    and nothing is tried twice, however many stars there are.
    """
    first, *rest = pieces
    if not rest:
        return re.compile(first, re.DOTALL)
    between = b"".join(b"(?>.*?" + piece + b")" for piece in rest[:-1])
    return re.compile(first + between + b".*" + rest[-1], re.DOTALL)


def _set(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """A set in brackets that begins at ``at``, and where it ends; None if it does not end."""
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members = b""
    first = True
    while first or pattern[at : at + 1] != b"]":
        if at >= len(pattern):
            return None
        named = re.compile(rb"\[:([a-z]*):\]").match(pattern, at)
        if named is not None:
            if named[1] not in _CLASSES:
                return None
            members += _CLASSES[named[1]]
            at = named.end()
        else:
            low, at = _member(pattern, at)
            if low is None:
                return None
            high = low
            if pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] not in (b"]", b""):
                last, at = _member(pattern, at + 1)
                if last is None:
                    return None
                high = last
            if low <= high:
                members += b"\\x%02x-\\x%02x" % (low[0], high[0])
        first = False
    if not members:
        return (b"." if negated else b"(?!)"), at + 1
    return (b"[^" if negated else b"[") + members + b"]", at + 1


def _member(pattern: bytes, at: int) -> tuple[bytes | None, int]:
    """One character of a set, which a backslash may quote."""
    if pattern[at : at + 1] == b"\\":
        at += 1
    char = pattern[at : at + 1]
    return (char or None), at + 1
