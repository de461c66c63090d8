"""Looks into trees as they are stored, and compares them, without making objects of all entries.

A directory may have tens of thousands of files. One of them is looked up, or the one that a
commit changed is found, by passing over the others' bytes. The format is Git's (see
:mod:`stetd.history.objects`): the name ends at a NUL, and the 20 bytes of the id follow, which may
be anything, NULs and digits too; so entries are always counted off from the beginning.
:mod:`stetd.history.checking` reads what may be no tree of stetd's.
"""

from __future__ import annotations

import re

from rapidfuzz.distance import Prefix

from stetd.history.objects import Entry, order_key

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
        # This may be a part of an id: only the entry around it tells.
        found = _ENTRY.match(content, _last_start(content, at))
        if found is not None and found.start(2) == at + 1:
            return Entry(int(found[1], 8), found[3].hex())
        at = content.find(sought, at + 1)
    return None


def differing_entries(old: bytes, new: bytes) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """The entries of each tree that the other does not have, or has with another mode or id."""
    old_at = new_at = _last_start(old, Prefix.similarity(old, new))
    olds: dict[str, Entry] = {}
    news: dict[str, Entry] = {}
    while old_at < len(old) or new_at < len(new):
        if len(old) - old_at == len(new) - new_at and old[old_at:] == new[new_at:]:
            break
        one, two = _ENTRY.match(old, old_at), _ENTRY.match(new, new_at)
        assert one or two, "BUG: a tree that ends in the middle of an entry"
        if one and two and one[0] == two[0]:
            old_at, new_at = one.end(), two.end()
        elif two is None or (one and order_key(one[1], one[2]) <= order_key(two[1], two[2])):
            assert one is not None, "BUG: nothing to compare"
            olds[one[2].decode()] = Entry(int(one[1], 8), one[3].hex())
            old_at = one.end()
        else:
            news[two[2].decode()] = Entry(int(two[1], 8), two[3].hex())
            new_at = two.end()
    return olds, news


def _last_start(content: bytes, upto: int) -> int:
    """Where the last entry begins that begins at or before a place."""
    found = _WHOLE_ENTRIES.match(content, 0, upto)
    assert found is not None, "BUG: no entries are entries, too"
    return found.end()
