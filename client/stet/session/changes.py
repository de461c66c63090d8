r"""The changes of the ``patch_file`` dialect, as values to put into a call (DIALECTS.md 2).

    s.patch_file("src/a.py", [stet.change("DEBUG = True", "DEBUG = False")])

The function returns the object that goes over the wire and leaves out what was not given.
Whether it is acceptable is the daemon's to say: nothing is checked here.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Change(TypedDict):
    """One change, with the names of the wire."""

    search: str
    replace: str
    occurrence: NotRequired[int]
    regex: NotRequired[bool]
    fuzzy: NotRequired[float]
    near_line: NotRequired[int]


def change(
    search: str,
    replace: str = "",
    *,
    occurrence: int | None = None,
    regex: bool = False,
    fuzzy: float | None = None,
    near_line: int | None = None,
) -> Change:
    r"""Put ``replace`` in the place of ``search``, which must stand exactly once.

    ``occurrence``: the n-th place of several, from 1; ``near_line``: the one nearest to that
    line. ``regex``: ``search`` is a pattern, ``\1`` and ``\g<name>`` work in ``replace``.
    ``fuzzy``: the one passage that is at least so similar, 0.5 to 1. Without ``replace`` the
    text is deleted.
    """
    made: Change = {"search": search, "replace": replace}
    if occurrence is not None:
        made["occurrence"] = occurrence
    if regex:
        made["regex"] = True
    if fuzzy is not None:
        made["fuzzy"] = fuzzy
    if near_line is not None:
        made["near_line"] = near_line
    return made
