"""Checks that commits and trees have the form that stetd gives them. Pure.

An id proves that an object is unchanged. These checks prove that it was made as by
:mod:`stetd.history.commits` and :mod:`stetd.history.objects`, so that a history made with other
tools does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from stetd.history.objects import EXECUTABLE, FILE, LINK, TREE, is_utf8, order_key
from stetd.history.undone import ABOUT_HISTORY, TAKES_BACK

#: Every kind of commit (CommitInfo).
KINDS = frozenset(
    {"edit", "outside", "undo", "redo", "rollback", "restore", "snapshot", "observed"}
    | ABOUT_HISTORY
)
#: Every method that a commit may name.
METHODS = (KINDS - {"edit", "outside"}) | {
    *("patch", "patch_file", "patch_block", "apply_patch", "transaction", "recovery")
}
#: Kinds that are always made by a call. (Recovery makes some of kind restore itself.)
_CALLS = frozenset({"edit", *TAKES_BACK})
_HEADER = re.compile(
    rb"tree ([0-9a-f]{40})\n(?:parent ([0-9a-f]{40})\n)?"
    rb"author [^<>\n]+ <[^<>\n]*> ([0-9]{1,15}) \+0000\n"
    rb"committer stetd <stetd@stet\.invalid> ([0-9]{1,15}) \+0000\n\n"
)
#: The part of any commit that is needed to follow its parents.
_ANY_HEADER = re.compile(
    rb"tree ([0-9a-f]{40})\n(?:parent ([0-9a-f]{40})\n)?"
    rb"(?:[^\n]+\n)*?author [^\n]* ([0-9]{1,15}) [^\n]*\n"
    rb"committer [^\n]* ([0-9]{1,15}) [^\n]*\n"
)
_TRAILER = re.compile(r"Stet-([A-Z][A-Za-z-]*): ?(.*)")
#: The form of some trailers' values.
_FORMS = {
    "Reverts": re.compile(r"[0-9a-f]{40}"),
    "Permissions": re.compile(r"[0-7]{1,4}( .*)?"),
    "Peer": re.compile(r"[0-9]+( .*)?"),
    "Excluded": re.compile(r"[AMD] .+"),
}
_MANY = frozenset(
    {"Reverts", "Flagged", "Permissions", "Regraded", "Directory", "Forgotten", "Moved", "Excluded"}
)
#: Any entry, whatever its mode and name.
_ENTRY = re.compile(rb"([^ \0]*) ([^\0]*)\0((?s:.{20}))")
_MODES = {b"%o" % mode for mode in (FILE, EXECUTABLE, LINK, TREE)}
_NO_NAMES = frozenset({b"", b".", b"..", b".git"})


class CheckedCommit(NamedTuple):
    """A commit's data for verification, and its faults, one sentence each."""

    tree: str
    parent: str | None
    time: int
    reverts: tuple[str, ...]
    faults: list[str]


def check_commit(content: bytes) -> CheckedCommit | None:
    """Check a commit object's content; None if it can't be read as a commit."""
    faults: list[str] = []
    header = _HEADER.match(content)
    if header is None:
        faults.append("its header is not one that stetd writes")
        header = _ANY_HEADER.match(content)
        if header is None:
            return None
    elif header[3] != header[4]:
        faults.append("author and committer have different times")
    message = content.partition(b"\n\n")[2]
    trailers = _trailers(message.decode("utf-8", "replace"), faults)
    reverts = tuple(trailers.get("Reverts", ()))
    _check_trailers(trailers, faults)
    return CheckedCommit(
        header[1].decode(),
        header[2].decode() if header[2] else None,
        int(header[4]),
        tuple(oid for oid in reverts if _FORMS["Reverts"].fullmatch(oid)),
        faults,
    )


def _trailers(message: str, faults: list[str]) -> dict[str, list[str]]:
    """The last paragraph as trailers."""
    found: dict[str, list[str]] = {}
    paragraphs = message.rstrip("\n").split("\n\n")
    if len(paragraphs) < 2:
        faults.append("it has no trailers")
        return found
    for line in paragraphs[-1].split("\n"):
        trailer = _TRAILER.fullmatch(line)
        if trailer is None:
            faults.append(f"among its trailers stands {line[:60]!r}")
            continue
        found.setdefault(trailer[1], []).append(trailer[2])
    return found


def _check_trailers(trailers: Mapping[str, list[str]], faults: list[str]) -> None:
    for key, values in trailers.items():
        if len(values) > 1 and key not in _MANY:
            faults.append(f"it says Stet-{key} {len(values)} times")
    kind = trailers.get("Kind", [""])[0]
    if kind not in KINDS:
        faults.append(f"its kind is {kind!r}" if kind else "it says no kind")
        return
    if kind in _CALLS and "Method" not in trailers:
        faults.append("it says no method")
    for key, form in _FORMS.items():
        wrong = [value for value in trailers.get(key, ()) if not form.fullmatch(value)]
        if wrong:
            faults.append(f"its Stet-{key} is {wrong[0][:60]!r}")
    if kind in TAKES_BACK and not trailers.get("Reverts"):
        faults.append(f"it is of kind {kind} and takes nothing back")
    if kind not in TAKES_BACK and trailers.get("Reverts"):
        faults.append(f"it is of kind {kind} and says that it takes commits back")


#: Mode and id by name, all as stored.
RawTree = dict[bytes, tuple[bytes, bytes]]


def check_tree(content: bytes) -> tuple[RawTree, list[str]]:
    """The entries of a tree object, and its faults, one sentence each."""
    entries: RawTree = {}
    faults: list[str] = []
    at, last = 0, b""
    while at < len(content):
        entry = _ENTRY.match(content, at)
        if entry is None:
            return entries, [*faults, "it ends within an entry"]
        mode, name, oid = entry.groups()
        wrong = []
        if mode not in _MODES:
            wrong.append("has a mode that stetd does not write")
        if name.lower() in _NO_NAMES or b"/" in name or not is_utf8(name):
            wrong.append("is no name for a file")
        key = order_key(mode, name)
        if key <= last or name in entries:
            wrong.append("is not in its place")
        faults += [f"{name.decode('utf-8', 'replace')!r} {fault}" for fault in wrong]
        entries[name] = mode, oid
        at, last = entry.end(), key
    return entries, faults
