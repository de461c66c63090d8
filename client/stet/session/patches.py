r"""The four operations of the ``patch`` dialect, as values to put into a call (DIALECTS.md 1).

    s.patch("src/a.py", [stet.replace("old", "new", to_clipboard="c"), stet.append_eof("end\n")])

Each function returns the object that goes over the wire and leaves out what was not
given. Whether it is acceptable is the daemon's to say: nothing is checked here.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class Reindent(TypedDict, total=False):
    """From each non-empty inserted line take ``strip``, then put ``add`` before it."""

    strip: str
    add: str


class Patch(TypedDict, total=False):
    """One patch, with the names of the wire."""

    operation: Literal["replace", "append_eof", "prepend_bof", "overwrite"]
    oldText: str
    newText: str
    toClipboard: str
    fromClipboard: str
    reindent: Reindent


def replace(
    old: str,
    new: str | None = None,
    *,
    to_clipboard: str | None = None,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Replace ``old``, which must stand exactly once, by ``new`` or a clipboard's text.

    ``to_clipboard`` stores the text that was really matched. Without ``new`` and
    ``from_clipboard`` the text is deleted. The same name in both is a copy.
    """
    patch: Patch = {"operation": "replace", "oldText": old}
    if new is None and from_clipboard is None:
        new = ""
    if to_clipboard is not None:
        patch["toClipboard"] = to_clipboard
    return _with_text(patch, new, from_clipboard, reindent)


def append_eof(
    new: str | None = None,
    *,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Put text at the end of the file, which is created if it is missing."""
    return _with_text({"operation": "append_eof"}, new, from_clipboard, reindent)


def prepend_bof(
    new: str | None = None,
    *,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Put text at the beginning of the file (after a BOM), created if it is missing."""
    return _with_text({"operation": "prepend_bof"}, new, from_clipboard, reindent)


def overwrite(
    new: str | None = None,
    *,
    from_clipboard: str | None = None,
    reindent: Reindent | None = None,
) -> Patch:
    """Make the text the whole file, literally; it is created if it is missing."""
    return _with_text({"operation": "overwrite"}, new, from_clipboard, reindent)


def _with_text(
    patch: Patch, new: str | None, from_clipboard: str | None, reindent: Reindent | None
) -> Patch:
    if new is not None:
        patch["newText"] = new
    if from_clipboard is not None:
        patch["fromClipboard"] = from_clipboard
    if reindent is not None:
        patch["reindent"] = reindent
    return patch
