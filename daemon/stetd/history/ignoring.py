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
_WILDCARD = re.compile(rb"[*?\[\\]")
_LITERAL = re.compile(rb"(?:\\.|[^*?\[\\/])+", re.DOTALL)
_QUOTED = re.compile(rb"\\(.)", re.DOTALL)
#: A member of a set: the name of a class, a character, or the first and the last of a range. A
#: backslash quotes a character; no set is made of one without, or of an unknown name.
_MEMBER = re.compile(rb"\[:([^\]]*):\]|\\?+(.)(?:-(?!\])\\?+(.))?", re.DOTALL)
_BOM = b"\xef\xbb\xbf"


class _Rule(NamedTuple):
    """One pattern: of a path from the file's directory on if ``whole_path``, else of a name.

    ``end``: what its last component matches.
    """

    pattern: re.Pattern[bytes]
    end: bytes
    whole_path: bool
    directories_only: bool
    takes_back: bool


class IgnoreFile:
    """The patterns of one file in the directory ``folder``: "", or a path that ends in a slash."""

    def __init__(self, content: bytes, folder: str) -> None:
        self.folder = folder
        #: The last one that matches decides, so they are tried in this order.
        self._rules = list(_rules(content))[::-1]
        #: What any of them matches a path's last name with: most names match none.
        ends = b"|".join(b"(?:" + rule.end + b")" for rule in self._rules)
        self._ends = re.compile(ends or b"(?!)", re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, *, directory: bool) -> bool | None:
        """Whether a path below ``folder`` is left out; None where no pattern matches."""
        below = path[len(self.folder) :].encode("utf-8", "surrogateescape")
        name = below[below.rfind(b"/") + 1 :]
        if not self._ends.fullmatch(name):
            return None
        for rule in self._rules:
            if rule.directories_only and not directory:
                continue
            if rule.pattern.fullmatch(below if rule.whole_path else name):
                return not rule.takes_back
        return None


def is_ignored(path: str, files: Sequence[IgnoreFile], *, directory: bool) -> bool:
    """Whether a path is left out; ``files`` from the root's down to its directory's.

    None of the directories above it may be left out.
    """
    for file in reversed(files):
        verdict = file.verdict(path, directory=directory)
        if verdict is not None:
            return verdict
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
        line = line.removesuffix(b"\r").partition(b"\0")[0]  # where Git's strings end
        line = _without_trailing_spaces(line)
        if not line or line.startswith(b"#"):
            continue
        takes_back = line.startswith(b"!")
        line = line.removeprefix(b"!")
        directories_only = line.endswith(b"/")
        line = line.removesuffix(b"/")
        whole_path = b"/" in line
        line = line.removeprefix(b"/")
        translated = _translated(line) if line else None
        if translated is not None:
            yield _Rule(*translated, whole_path, directories_only, takes_back)


def _without_trailing_spaces(line: bytes) -> bytes:
    kept = len(line.rstrip(b" "))
    backslashes = len(line[:kept]) - len(line[:kept].rstrip(b"\\"))
    if backslashes % 2 and kept < len(line):
        kept += 1  # the space is quoted
    return line[:kept]


def _translated(pattern: bytes) -> tuple[re.Pattern[bytes], bytes] | None:
    """What a pattern and its last component match; None for one that matches nothing."""
    pattern = _QUOTED.sub(lambda found: b"/" if found[1] == b"/" else found[0], pattern)
    plain = len(_WILDCARD.split(pattern, 1)[0])
    segments = [b""]  # components, between those of two stars
    pieces = [b""]  # of the present component, between stars
    ahead = b""  # what the last name may have before the last component
    at = start = 0
    while True:
        char = pattern[at : at + 1]
        if char in (b"", b"/"):
            # Git compares the text before the first wildcard by itself. Two stars after it begin
            # a pattern of their own, as if a slash came before them: a**/b matches a/x/b and ab.
            begun = max(start, plain)
            stars = pattern[begun:at]
            if len(stars) > 1 and not stars.strip(b"*"):
                end = b".*"
                ahead = end if begun > start else ahead
                segments[-1] += re.escape(pattern[start:begun])
                segments.append(b"" if char else end)
            else:
                end = _first_fits(pieces, b"[^/]*")
                segments[-1] += end + char
            if not char:
                return re.compile(_first_fits(segments, b"(?:[^/]*/)*"), re.DOTALL), ahead + end
            pieces, at = [b""], at + 1
            start = at
        elif char == b"*":
            pieces.append(b"")
            at += 1
        elif char == b"?":
            pieces[-1] += b"[^/]"
            at += 1
        elif char == b"[":
            found = _set(pattern, at)
            if found is None:
                return None
            pieces[-1] += b"(?!/)" + found[0]
            at = found[1]
        else:
            literal = _LITERAL.match(pattern, at)
            if literal is None:  # a backslash at the end
                return None
            pieces[-1] += re.escape(_QUOTED.sub(rb"\1", literal[0]))
            at = literal.end()


def _first_fits(pieces: list[bytes], gap: bytes) -> bytes:
    """The pieces with gaps between them. A piece after a gap is taken where it first fits: that
    loses nothing, and nothing is tried twice, however many stars there are.
    """
    first, *rest = pieces
    if not rest:
        return first
    between = b"".join(b"(?>" + gap + b"?" + piece + b")" for piece in rest[:-1])
    return first + between + gap + rest[-1]


def _set(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """A set in brackets that begins at ``at``, and where it ends; None if it does not end."""
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members = b""
    while not members or pattern[at : at + 1] != b"]":
        member = _MEMBER.match(pattern, at)
        if member is None:
            return None
        named, low, high = member.groups()
        if low is not None:
            # The first of a range is a member also where the range is empty.
            members += b"\\x%02x-\\x%02x" % (low[0], max(low, high or low)[0])
        elif named in _CLASSES:
            members += _CLASSES[named]
        else:
            return None
        at = member.end()
    return (b"[^" if negated else b"[") + members + b"]", at + 1
