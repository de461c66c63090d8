r"""Patches as git applies them, byte for byte; and diffs as replies show them. Pure.

    diff --git a/<old> b/<new>
    deleted file mode <mode>  |  new file mode <mode>  |  old mode <mode>, new mode <mode>
    similarity index <n>%, rename from <old>, rename to <new>
    index <id>..<id>[ <mode>]
    --- a/<old>             (/dev/null where there is none)
    +++ b/<new>
    @@ ... @@ hunks  |  GIT binary patch

A name with bytes that are no printable ASCII, or with ``"`` or ``\``, is put in quotes with
escapes. A binary patch holds the whole content both ways, deflated, in base 85: lines of at most
52 bytes, each after its length (A to Z for 1 to 26, a to z for 27 to 52). Ids are written in full,
so that ``git am -3`` finds what a patch was made from.
"""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from typing import NamedTuple

from stetd.history.line_diffs import count_lines, is_binary, unified_hunks
from stetd.history.objects import LINK, is_utf8

#: In place of an id, where there is no file.
_NO_ID = "0" * 40
_BINARY_LINE = 52
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r",
            34: '\\"', 92: "\\\\"}  # fmt: skip


class FileState(NamedTuple):
    """A file at one side of a patch: Git mode, blob id, content."""

    mode: int
    oid: str
    data: bytes


def file_patch(
    path: str,
    before: FileState | None,
    after: FileState | None,
    *,
    old_path: str | None = None,
    utf8: bool = False,
) -> bytes:
    """The patch that makes one state of a file the other; empty if they are the same.

    ``old_path``: where the file was before. ``utf8``: the patch must be valid UTF-8, so text
    that is not is patched as binary.
    """
    if before == after and old_path is None:
        return b""
    if before and after and (before.mode == LINK) != (after.mode == LINK):
        # Git knows no change of a file into a link.
        source = old_path or path
        gone = file_patch(source, before, None, utf8=utf8)
        return gone + file_patch(path, None, after, utf8=utf8)
    header, old, new = _header(path, before, after, old_path)
    old_data, new_data = (side.data if side else b"" for side in (before, after))
    body = b""
    if old_data != new_data:
        is_text = b"\0" not in old_data and b"\0" not in new_data
        text = unified_hunks(old_data, new_data)[0] if is_text else b""
        if not is_text or (utf8 and not is_utf8(text)):
            body = b"GIT binary patch\n" + _binary(new_data) + b"\n" + _binary(old_data) + b"\n"
        else:
            header += ("--- " + _ended(old), "+++ " + _ended(new))
            body = text
    return "".join(line + "\n" for line in header).encode() + body


class LineDiff(NamedTuple):
    """A unified diff of one file and its counts of lines."""

    text: str
    added: int
    removed: int


def line_diff(
    path: str, before: FileState | None, after: FileState | None, *, old_path: str | None = None
) -> LineDiff:
    """The unified diff between two states of a file (None: there is none)."""
    if before is None or after is None:
        path = path if before is None or old_path is None else old_path
        old_path = None
    if before == after and old_path is None:
        return LineDiff("", 0, 0)
    if before and after and (before.mode == LINK) != (after.mode == LINK):
        # Git knows no change of a file into a link.
        gone = line_diff(old_path or path, before, None)
        made = line_diff(path, None, after)
        return LineDiff(gone.text + made.text, *count_lines(before.data, after.data))
    lines, old, new = _header(path, before, after, old_path, digits=7)
    if before and after and before.oid == after.oid:
        return LineDiff("\n".join([*lines, ""]), 0, 0)
    old_data, new_data = (side.data if side else b"" for side in (before, after))
    if is_binary(old_data) or is_binary(new_data):
        lines += (f"Binary files {old} and {new} differ", "")
        return LineDiff("\n".join(lines), 0, 0)
    text, counts = unified_hunks(old_data, new_data)
    lines += (f"--- {_ended(old)}", f"+++ {_ended(new)}")
    lines.append(text.decode("utf-8", "replace"))
    return LineDiff("\n".join(lines), *counts)


def _header(
    path: str,
    before: FileState | None,
    after: FileState | None,
    old_path: str | None,
    digits: int = 40,
) -> tuple[list[str], str, str]:
    """The lines of a patch before ``---``, and the names of both sides. ``digits``: of an id."""
    old, new = _quoted("a/" + (old_path or path)), _quoted("b/" + path)
    lines = [f"diff --git {old} {new}"]
    suffix = ""
    if before is None:
        assert after is not None, "BUG: a patch of no file"
        lines.append(f"new file mode {after.mode:o}")
    elif after is None:
        lines.append(f"deleted file mode {before.mode:o}")
    elif before.mode != after.mode:
        lines += (f"old mode {before.mode:o}", f"new mode {after.mode:o}")
    else:
        suffix = f" {after.mode:o}"
    if old_path is not None and before is not None and after is not None:
        lines += _renamed(old_path, path, before.data, after.data)
    old_id, new_id = (side.oid if side else _NO_ID for side in (before, after))
    if old_id != new_id:
        lines.append(f"index {old_id[:digits]}..{new_id[:digits]}{suffix}")
    return lines, old if before else "/dev/null", new if after else "/dev/null"


def _renamed(old: str, new: str, before: bytes, after: bytes) -> list[str]:
    alike = 100
    if before != after:
        alike = min(99, int(100 * similarity(line_counts(before), line_counts(after))))
    return [
        f"similarity index {alike}%",
        f"rename from {_quoted(old)}",
        f"rename to {_quoted(new)}",
    ]


def line_counts(content: bytes) -> Counter[bytes]:
    """The lines of a content, and how often each is there; CRLF and LF are the same, as in Git."""
    return Counter(content.replace(b"\r\n", b"\n").splitlines(keepends=True))


def similarity(before: Counter[bytes], after: Counter[bytes]) -> float:
    """The share of the longer one's bytes that both have, by whole lines."""
    common = sum(len(line) * count for line, count in (before & after).items())
    longer = max(sum(len(line) * count for line, count in each.items()) for each in (before, after))
    return common / longer if longer else 0.0


def _quoted(name: str) -> str:
    """A name as Git writes it: between quotes if anything in it has to be escaped."""
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return name
    raw = name.encode()
    escaped = (
        _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
        for byte in raw
    )
    return '"' + "".join(escaped) + '"'


def _ended(name: str) -> str:
    """A name in a ``---`` or ``+++`` line: one with spaces is ended by a tab."""
    return name + "\t" if " " in name else name


def _binary(content: bytes) -> bytes:
    """One direction of a binary patch."""
    packed = zlib.compress(content)
    lines = [b"literal %d\n" % len(content)]
    for start in range(0, len(packed), _BINARY_LINE):
        piece = packed[start : start + _BINARY_LINE]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(bytes([length]) + base64.b85encode(piece, pad=True) + b"\n")
    return b"".join(lines)
