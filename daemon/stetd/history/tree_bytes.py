"""Trees as they are stored: looked into, and compared, without making objects of all entries.

A directory may have tens of thousands of files. One of them is looked up, or the one that a
commit changed is found, by passing over the others' bytes. The format is Git's (see
:mod:`stetd.history.objects`): the name ends at a NUL, and 20 bytes follow that may be anything,
NULs and digits too; so entries are always counted off from the beginning.
"""

from __future__ import annotations

import re

from rapidfuzz.distance import Prefix

from stetd.history.objects import Entry

_ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_WHOLE_ENTRIES = re.compile(rb"(?:[0-7]+ [^\0]+\0.{20})*", re.DOTALL)


def entries_of(content: bytes) -> dict[str, Entry]:
    """The entries of a tree by name."""
    return {
        name.decode(): Entry(int(mode, 8), oid.hex()) for mode, name, oid in _ENTRY.findall(content)
    }


def find_in(content: bytes, name: str) -> Entry | None:
    """The entry with this name; None if there is none."""
    sought = b" " + name.encode() + b"\0"
    at = content.find(sought)
    while at >= 0:
        # Where the entry begins that this is in; it may be in an id, which is no name.
        found = _ENTRY.match(content, _last_start(content, at))
        if found is not None and found.start(2) == at + 1:
            return Entry(int(found[1], 8), found[3].hex())
        at = content.find(sought, at + 1)
    return None


def differing_entries(old: bytes, new: bytes) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """The entries of each tree that the other has not, or has otherwise; by name."""
    at = _last_start(old, Prefix.similarity(old, new))
    one, other = at, at
    olds: dict[str, Entry] = {}
    news: dict[str, Entry] = {}
    while one < len(old) or other < len(new):
        if len(old) - one == len(new) - other and old[one:] == new[other:]:
            break
        first, second = _ENTRY.match(old, one), _ENTRY.match(new, other)
        assert first or second, "BUG: a tree that ends in the middle of an entry"
        if first and second and first[0] == second[0]:
            one, other = first.end(), second.end()
        elif second is None or (first is not None and _key(first) <= _key(second)):
            assert first is not None, "BUG: nothing to compare"
            olds[first[2].decode()] = Entry(int(first[1], 8), first[3].hex())
            one = first.end()
        else:
            news[second[2].decode()] = Entry(int(second[1], 8), second[3].hex())
            other = second.end()
    return olds, news


def _key(entry: re.Match[bytes]) -> bytes:
    """What entries are ordered by: directories as if they ended in a slash."""
    return entry[2] + b"/" if entry[1] == b"40000" else entry[2]


def _last_start(content: bytes, upto: int) -> int:
    """Where the last entry begins that begins at or before a place."""
    found = _WHOLE_ENTRIES.match(content, 0, upto)
    assert found is not None, "BUG: no entries are entries, too"
    return found.end()
