"""Owners that a user namespace does not know: all of them have one id there, that of nobody.

A daemon that runs as a hardened service is in such a namespace, where only its own user and group
have ids (user_namespaces(7)). Root's files seem to be nobody's, and a file can't be given to any
group but the daemon's own. Outside of a user namespace every id is known.
"""

from __future__ import annotations

import functools


@functools.cache
def unknown_user() -> int:
    """The id that stands for users without one; -1 where every user has one. Raises OSError."""
    return _overflow("uid")


@functools.cache
def unknown_group() -> int:
    """The id that stands for groups without one; -1 where every group has one. Raises OSError."""
    return _overflow("gid")


def _overflow(kind: str) -> int:
    with open(f"/proc/sys/kernel/overflow{kind}", encoding="ascii") as file:
        nobody = int(file.read())
    with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    known = any(first <= nobody < first + count for first, _, count in ranges)
    return -1 if known else nobody
