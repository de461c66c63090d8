r"""Constructors for the edits of the dialects ``patch`` and ``patch_file``.

    s.patch("src/a.py", [stet.replace("old", "new", to_clipboard="c"), stet.append_eof("end\n")])
    s.patch_file("src/a.py", [stet.change("DEBUG = True", "DEBUG = False")])

Each function returns the object that is sent, without the parameters that were not given
(docs/dialects.md). The daemon checks it; nothing is checked here.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, cast

__all__ = [
    "Change", "Patch", "Reindent", "append_eof", "change", "overwrite", "prepend_bof", "replace",
]  # fmt: skip


class Reindent(TypedDict, total=False):
    """Remove ``strip`` from the start of each non-empty inserted line, then put ``add`` there."""

    strip: str
    add: str


class Patch(TypedDict, total=False):
    """One patch, with the member names of the protocol."""

    operation: Literal["replace", "append_eof", "prepend_bof", "overwrite"]
    oldText: str
    newText: str
    toClipboard: str
    fromClipboard: str
    reindent: Reindent


class Change(TypedDict):
    """One change of ``patch_file``, with the member names of the protocol."""

    search: str
    replace: str
    occurrence: NotRequired[int]
    regex: NotRequired[bool]
    fuzzy: NotRequired[float]
    near_line: NotRequired[int]


def given(**params: Any) -> dict[str, Any]:
    """The parameters that are not None; the others are not sent.

    ``from_`` is sent as ``from`` and ``for_`` as ``for``, which are keywords of Python.
    """
    return {name.rstrip("_"): value for name, value in params.items() if value is not None}


def replace(
    old: str,
    new: str | None = None,
    *,
    to_clipboard: str | None = None,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Replace ``old``, which must occur exactly once, by ``new`` or a clipboard's text.

    ``to_clipboard`` stores the text that was found in the file. Without ``new`` and
    ``from_clipboard`` the text is deleted. The same name in both copies it and keeps it.
    """
    if new is None and from_clipboard is None:
        new = ""
    found = given(oldText=old, toClipboard=to_clipboard)
    return _patch("replace", new, from_clipboard, reindent, **found)


def append_eof(
    new: str | None = None,
    *,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Add text at the end of the file, which is created if it is missing."""
    return _patch("append_eof", new, from_clipboard, reindent)


def prepend_bof(
    new: str | None = None,
    *,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Add text at the beginning of the file (after a BOM), which is created if it is missing."""
    return _patch("prepend_bof", new, from_clipboard, reindent)


def overwrite(
    new: str | None = None,
    *,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Replace the whole file by the text; the file is created if it is missing."""
    return _patch("overwrite", new, from_clipboard, reindent)


def _patch(
    operation: str,
    new: str | None,
    clipboard: str | None,
    reindent: Reindent | None,
    **more: str,
) -> Patch:
    text = given(newText=new, fromClipboard=clipboard, reindent=reindent)
    return cast("Patch", {"operation": operation, **more, **text})


def change(
    search: str,
    replace: str = "",
    *,
    occurrence: int | None = None,
    regex: bool = False,
    fuzzy: float | None = None,
    near_line: int | None = None,
) -> Change:
    r"""Replace ``search``, which must occur exactly once, by ``replace``.

    ``occurrence``: the n-th of several places, from 1; ``near_line``: the one nearest to that line.
    ``regex``: ``search`` is a pattern; ``\1`` and ``\g<name>`` work in ``replace``. ``fuzzy``: the
    only passage of at least that similarity, 0.5 to 1. Without ``replace`` the text is deleted.
    """
    options = given(occurrence=occurrence, regex=regex or None, fuzzy=fuzzy, near_line=near_line)
    return cast("Change", {"search": search, "replace": replace, **options})
