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
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from stetd.failpoints import hit
from stetd.history.objects import NewObject
from stetd.storage.disk import Disk

_TYPES = {"commit": 1, "tree": 2, "blob": 3}
_FAST = 1
_LARGE_OFFSET = 1 << 31
#: This many packs are joined to one.
_MANY_PACKS = 16
#: Packs larger than this stay as they are.
_MERGED_BYTES = 2 << 20


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


def _folder(repository: str) -> str:
    return os.path.join(repository, "objects", "pack")


def write_pack(repository: str, objects: Iterable[NewObject], disk: Disk) -> list[str]:
    """Write objects as a pack of a repository; gives the paths of its files.

    The files are synced before they get their names, and the index comes last: a pack that
    is seen is whole. (A torn index would make every look-up in the repository fail.) Their
    names are not synced yet.
    """
    return _store(repository, *pack_objects(objects), disk)


def _store(repository: str, pack: bytes, index: bytes, disk: Disk) -> list[str]:
    name = os.path.join(_folder(repository), f"pack-{pack[-20:].hex()}")
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


# -- merging


def merge_packs(repository: str, disk: Disk) -> list[str]:
    """If there are many packs, join the smallest of them to one; gives the new files' paths.

    A look-up asks pack after pack, and every open pack is a file handle. Packs of a kind
    are joined when there are enough of them, so an object is copied only as often as the
    logarithm of their number. The entries are copied as they are. The new pack is durable,
    with its names, before an old one is removed; a reader that knows only the old ones
    looks again (``ShadowRepository``).
    """
    packs = sorted(_mergeable(repository))
    if len(packs) < _MANY_PACKS:
        return []
    old = [name for _, name in packs[:_MANY_PACKS]]
    written = _store(repository, *_join(old), disk)
    disk.sync_directory(_folder(repository))
    hit("git.packs_joined")
    for name in old:
        if name + ".pack" not in written:
            disk.unlink(name + ".idx")
            disk.unlink(name + ".pack")
    return written


def _mergeable(repository: str) -> Iterator[tuple[int, str]]:
    """(size, path without ending) of the packs that are not too large to be copied."""
    for entry in os.scandir(_folder(repository)):
        name, ending = os.path.splitext(entry.path)
        if ending == ".pack" and os.path.exists(name + ".idx"):
            size = entry.stat().st_size
            if size <= _MERGED_BYTES:
                yield size, name


def _join(names: list[str]) -> tuple[bytes, bytes]:
    """One pack with the entries of several, each object once."""
    raw: dict[bytes, tuple[int, bytes]] = {}
    for name in names:
        with open(name + ".pack", "rb") as file:
            pack = file.read()
        with open(name + ".idx", "rb") as file:
            raw.update(_entries(pack, file.read()))
    parts = [b"PACK" + struct.pack(">II", 2, len(raw))]
    offset = len(parts[0])
    entries = []
    for oid, (crc, entry) in raw.items():
        entries.append((oid, crc, offset))
        parts.append(entry)
        offset += len(entry)
    body = b"".join(parts)
    checksum = _digest(body)
    return body + checksum, _index(sorted(entries), checksum)


def _entries(pack: bytes, index: bytes) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
    """(id, (CRC, packed entry)) of a pack that :func:`write_pack` or a merge has written.

    Such a pack has no deltas, so an entry means the same in any pack; and it is small
    enough for 4-byte offsets.
    """
    (count,) = struct.unpack_from(">I", index, 8 + 255 * 4)
    ids = 8 + 256 * 4
    crcs = struct.unpack_from(f">{count}I", index, ids + 20 * count)
    offsets = struct.unpack_from(f">{count}I", index, ids + 24 * count)
    ends = dict(pairwise([*sorted(offsets), len(pack) - 20]))
    for number in range(count):
        oid = index[ids + 20 * number : ids + 20 * number + 20]
        start = offsets[number]
        yield oid, (crcs[number], pack[start : ends[start]])
