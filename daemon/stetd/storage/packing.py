"""Writing Git packs: many objects as two files instead of one file each.

libgit2 holds Python's interpreter lock while it writes, and a loose object costs several
system calls; a busy daemon writes hundreds of objects a second. So what has gathered is
written as one pack, without deltas.

Formats (Git's documentation, gitformat-pack):

    pack   "PACK", version 2, count; per object a header (type and size, 7 bits a byte, the
           first byte with 3 bits of type and 4 of size) and the deflated content; SHA-1
    idx    "\\377tOc", version 2; 256 cumulative counts by first byte of the id; the ids in
           order; CRC-32 of each packed entry; offsets (4 bytes, or an index with the top
           bit set into a table of 8-byte ones); SHA-1 of the pack; SHA-1 of all before
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable
from itertools import accumulate

from stetd.failpoints import hit
from stetd.history.objects import NewObject
from stetd.storage.disk import Disk

_TYPES = {"commit": 1, "tree": 2, "blob": 3}
_FAST = 1
_LARGE_OFFSET = 1 << 31


def _entry_header(kind: str, size: int) -> bytes:
    byte = _TYPES[kind] << 4 | size & 0x0F
    size >>= 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    header.append(byte)
    return bytes(header)


def _digest(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def pack_objects(objects: Iterable[NewObject]) -> tuple[bytes, bytes]:
    """The pack and its index. Objects given twice are packed once."""
    unique = {item.oid: item for item in objects}
    parts = [b"PACK" + struct.pack(">II", 2, len(unique))]
    offset = len(parts[0])
    entries: list[tuple[bytes, int, int]] = []  # id, CRC, offset
    for oid, item in unique.items():
        entry = _entry_header(item.kind, len(item.content)) + zlib.compress(item.content, _FAST)
        entries.append((bytes.fromhex(oid), zlib.crc32(entry), offset))
        parts.append(entry)
        offset += len(entry)
    body = b"".join(parts)
    checksum = _digest(body)
    return body + checksum, _index(sorted(entries), checksum)


def _index(entries: list[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    counts = [0] * 256
    for oid, _, _ in entries:
        counts[oid[0]] += 1
    large = [offset for _, _, offset in entries if offset >= _LARGE_OFFSET]
    small = []
    far = 0
    for _, _, offset in entries:
        if offset < _LARGE_OFFSET:
            small.append(offset)
        else:
            small.append(_LARGE_OFFSET | far)
            far += 1
    body = b"".join(
        [
            b"\377tOc",
            struct.pack(">I", 2),
            struct.pack(">256I", *accumulate(counts)),
            b"".join(oid for oid, _, _ in entries),
            struct.pack(f">{len(entries)}I", *(crc for _, crc, _ in entries)),
            struct.pack(f">{len(small)}I", *small),
            struct.pack(f">{len(large)}Q", *large),
            checksum,
        ]
    )
    return body + _digest(body)


def write_pack(repository: str, objects: Iterable[NewObject], disk: Disk) -> list[str]:
    """Write objects as a pack of a repository; gives the paths of its files.

    The files are synced before they get their names, and the index comes last: a pack that
    is seen is whole. (A torn index would make every look-up in the repository fail.) Their
    names are not synced yet.
    """
    pack, index = pack_objects(objects)
    folder = os.path.join(repository, "objects", "pack")
    name = os.path.join(folder, f"pack-{pack[-20:].hex()}")
    for suffix, content in ((".pack", pack), (".idx", index)):
        temporary = f"{name}{suffix}.tmp"
        fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            disk.write_all(fd, content)
            disk.fdatasync(fd)
        finally:
            os.close(fd)
        hit("git.pack_staged")
        os.replace(temporary, name + suffix)
    return [name + ".pack", name + ".idx"]
