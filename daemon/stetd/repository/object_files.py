"""Reads Git objects from loose files and packs, and checks them.

The daemon reads objects only in this way. libgit2 1.9 loops for ever on a truncated loose object
(its issue 7342) and writes beyond its memory for one that is longer than declared (7177), with
Python's interpreter lock held, so one damaged file would stop the daemon; and a pack that is
truncated while it is mapped ends the process with SIGBUS. Here files are read with ``pread``,
nothing is mapped, sizes are limited by the declared ones, and every id is computed again.

Formats (Git's documentation, gitformat-pack and gitformat-loose):

    loose   objects/ab/cdef..: deflated ``<kind> <length>\\0<content>``
    pack    "PACK", version 2 or 3, count; entries; SHA-1 of all before
    entry   type and size (7 bits a byte, the first with 3 bits of type and 4 of size); for a
            delta where its base is: 20 bytes of id, or a distance back; deflated content
    delta   sizes of base and result (7 bits a byte, lowest first); then copies from the base
            (a byte with the top bit set; the others say which bytes of offset, 4, and length, 3,
            follow) and insertions (a byte with a length up to 127; that many bytes)
    idx     see :mod:`stetd.repository.packing`

An instance belongs to one thread. Nothing here writes.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
import zlib
from array import array
from contextlib import suppress
from itertools import pairwise

from stetd.history.objects import object_id
from stetd.repository.recent import Recent
from stetd.storage.disk import open_regular, read_file

#: Kinds of objects, by the number that a pack has for them.
KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
NUMBERS = {kind: number for number, kind in KINDS.items()}
#: Instead of a kind: a delta whose base is given by distance, or by id.
DISTANCE_DELTA, ID_DELTA = 6, 7
_LOOSE_HEADER = re.compile(rb"(blob|tree|commit|tag) (0|[1-9][0-9]{0,18})\0")
_LOOSE_HEADER_BYTES = 32
_LOOSE_NAME = re.compile(r"[0-9a-f]{38}")
#: Largest object in bytes: stet writes none larger, and a damaged length must not be allocated.
_LARGEST = 1 << 32
#: Longest chain of deltas: Git makes 50 by default, 4095 at most.
_LONGEST_CHAIN = 4096
_FANOUT = struct.Struct(">256I")
INDEX_HEAD = 8 + _FANOUT.size
_TRAILER = 20
#: Bytes of cached bases of deltas.
_BASES_BYTES = 4 << 20
#: Cached buckets of an index (the ids with one first byte).
_BUCKETS = 64
#: Packs that one instance keeps open.
_MOST_OPEN = 8
#: Errors of the process, not of a file.
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
#: How often packs are listed again before an object counts as missing: they may be joined.
_LOOKS = 3


class Damaged(Exception):
    """A file of the repository is damaged.

    ``path`` is relative to the repository.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def as_damage(error: Damaged | OSError, path: str) -> Damaged:
    """An error as damage; an error of the disk is attributed to the file at ``path``, or to the
    index of that pack. Raises the error if the process has no descriptor or memory left.
    """
    if isinstance(error, Damaged):
        return error
    if error.errno in _SHORTAGES:
        raise error
    if error.filename:
        path = os.path.splitext(path)[0] + os.path.splitext(error.filename)[1]
    return Damaged(path, f"it can't be read: {error.strerror}")


class Missing(Exception):
    """No file of the repository has this object."""


def big_endian(numbers: array[int]) -> array[int]:
    """Convert numbers between the machine's byte order and that of Git's files."""
    if sys.byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def inflate(data: bytes, size: int, path: str, *, alone: bool) -> bytes:
    """Inflate the beginning of ``data`` to exactly ``size`` bytes; else raises Damaged.

    ``alone``: ``data`` may have nothing after it.
    """
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, size + 1)
        if not stream.eof and len(content) == size:
            content += stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error as error:
        raise Damaged(path, f"it can't be inflated ({error})") from error
    if len(content) > size:
        raise Damaged(path, f"it is longer than the {size} bytes that it says")
    if not stream.eof:
        raise Damaged(path, "it is cut short")
    if len(content) < size:
        raise Damaged(path, f"it holds {len(content)} bytes and says {size}")
    if alone and stream.unused_data:
        raise Damaged(path, f"{len(stream.unused_data)} bytes follow its end")
    return content


# -- loose objects


def loose_name(oid: str) -> str:
    """The path of a loose object, relative to the repository."""
    return f"objects/{oid[:2]}/{oid[2:]}"


def read_loose(repository: str, oid: str) -> tuple[str, bytes]:
    """Kind and content of a loose object. Raises FileNotFoundError, OSError, Damaged."""
    name = loose_name(oid)
    data = read_file(os.path.join(repository, name))
    if not data:
        raise Damaged(name, "it is empty")
    try:
        head = zlib.decompressobj().decompress(data, _LOOSE_HEADER_BYTES)
    except zlib.error as error:
        raise Damaged(name, f"it can't be inflated ({error})") from error
    found = _LOOSE_HEADER.match(head)
    if found is None:
        raise Damaged(name, "it does not begin as an object does")
    length = int(found[2])
    if length > _LARGEST:
        raise Damaged(name, f"it claims a length of {length} bytes")
    content = inflate(data, found.end() + length, name, alone=True)[found.end() :]
    kind = found[1].decode()
    found_id = object_id(kind, content)
    if found_id != oid:
        raise Damaged(name, f"its content is that of {found_id}")
    return kind, content


def all_loose_ids(repository: str) -> bytes:
    """The ordered ids of all loose objects, 20 bytes each."""
    ids: list[str] = []
    for first in (f"{number:02x}" for number in range(256)):
        with suppress(FileNotFoundError, NotADirectoryError):
            names = os.listdir(os.path.join(repository, "objects", first))
            ids += sorted(first + name for name in names if _LOOSE_NAME.fullmatch(name))
    return bytes.fromhex("".join(ids))


# -- packs


def pack_names(repository: str) -> list[str]:
    """The packs with both files, as paths relative to the repository without extension."""
    try:
        names = set(os.listdir(os.path.join(repository, "objects", "pack")))
    except FileNotFoundError:
        return []
    return sorted(
        f"objects/pack/{name[:-4]}"
        for name in names
        if name.endswith(".idx") and name[:-4] + ".pack" in names
    )


class Pack:
    """One pack with its index.

    Opening checks the sizes and counts that look-ups rely on, but no checksums. Raises
    FileNotFoundError, OSError, Damaged.
    """

    def __init__(self, repository: str, name: str) -> None:
        self.name = name
        self.index_name, self.pack_name = name + ".idx", name + ".pack"
        self._repository = repository
        self.index_fd = self.fd = -1
        self._bases: Recent[int, tuple[str, bytes]] = Recent(_BASES_BYTES, least=0)
        self._buckets: Recent[int, bytes] = Recent(_BUCKETS)
        self.fanout: tuple[int, ...] = ()
        self.open()

    def open(self) -> None:
        """Open both files again after :meth:`close`. A pack's name fixes its content, so cached
        parts of the index are still valid.
        """
        if self.fd >= 0:
            return
        try:
            self.index_fd = open_regular(os.path.join(self._repository, self.index_name))
            self.fd = open_regular(os.path.join(self._repository, self.pack_name))
            if not self.fanout:
                self._read_heads()
        except BaseException:
            self.close()
            raise

    def _read_heads(self) -> None:
        head = os.pread(self.index_fd, INDEX_HEAD, 0)
        if len(head) < INDEX_HEAD or head[:8] != b"\377tOc\0\0\0\2":
            raise Damaged(self.index_name, "it is no index of version 2")
        fanout = _FANOUT.unpack_from(head, 8)
        if any(one > two for one, two in pairwise(fanout)):
            raise Damaged(self.index_name, "its counts do not rise")
        self.count = fanout[255]
        self.index_size = os.fstat(self.index_fd).st_size
        large = self.index_size - (INDEX_HEAD + 28 * self.count + 2 * _TRAILER)
        if large < 0 or large % 8 or large // 8 > self.count:
            raise Damaged(
                self.index_name, f"it has {self.index_size} bytes, too few or too many for it"
            )
        self.size = os.fstat(self.fd).st_size
        start = os.pread(self.fd, 12, 0)
        if len(start) < 12 or start[:4] != b"PACK" or start[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
            raise Damaged(self.pack_name, "it does not begin as a pack does")
        if int.from_bytes(start[8:12]) != self.count:
            raise Damaged(self.pack_name, "its index has another number of objects")
        self.fanout = fanout

    def close(self) -> None:
        """Close both files. Cached parts of the index stay, so most look-ups need no file."""
        for fd in (self.index_fd, self.fd):
            if fd >= 0:
                os.close(fd)
        self.index_fd = self.fd = -1

    def index_bytes(self, offset: int, length: int) -> bytes:
        """A piece of the index. Raises Damaged if the file was truncated meanwhile."""
        found = os.pread(self.index_fd, length, offset)
        if len(found) < length:
            raise Damaged(self.index_name, "it is cut short")
        return found

    def all_ids(self) -> bytes:
        """The ordered ids of all objects, 20 bytes each."""
        return self.index_bytes(INDEX_HEAD, 20 * self.count)

    def _bucket(self, first: int) -> tuple[int, bytes]:
        start = self.fanout[first - 1] if first else 0
        ids = self._buckets.get(first)
        if ids is None:
            self.open()
            ids = self.index_bytes(INDEX_HEAD + 20 * start, 20 * (self.fanout[first] - start))
            self._buckets.keep(first, ids)
        return start, ids

    def find(self, oid: bytes) -> int | None:
        """The index of an object in the order of ids; None if it is not in this pack."""
        start, ids = self._bucket(oid[0])
        at = ids.find(oid)  # quicker than halving in Python, however many there are
        while at % 20 and at > 0:
            at = ids.find(oid, at + 1)
        return start + at // 20 if at >= 0 else None

    def offset(self, number: int) -> int:
        """The offset of the object with this index in the pack."""
        table = INDEX_HEAD + 24 * self.count
        small = int.from_bytes(self.index_bytes(table + 4 * number, 4))
        if small >> 31:
            place = table + 4 * self.count + 8 * (small & 0x7FFFFFFF)
            if place + 8 > self.index_size - 2 * _TRAILER:
                raise Damaged(self.index_name, "it points beyond its own end")
            small = int.from_bytes(self.index_bytes(place, 8))
        if not 12 <= small < self.size - _TRAILER:
            raise Damaged(self.index_name, "it points beyond the end of its pack")
        return small

    def read(self, number: int, oid: str) -> tuple[str, bytes]:
        """Kind and content of an object. Raises Damaged if they do not match the id."""
        kind, content = self._resolve(self.offset(number))
        found = object_id(kind, content)
        if found != oid:
            raise Damaged(self.pack_name, f"where {oid} should be it has {found}")
        return kind, content

    def _resolve(self, offset: int) -> tuple[str, bytes]:
        """Kind and content of the entry at an offset, after its deltas are applied."""
        deltas: list[tuple[int, bytes]] = []
        while (known := self._bases.get(offset)) is None:
            kind, size, base, at = self.entry_head(offset)
            # With the most that deflating adds to incompressible content.
            most = min(size + (size >> 8) + 64, max(self.size - _TRAILER - at, 0))
            data = inflate(os.pread(self.fd, most, at), size, self.pack_name, alone=False)
            if kind in KINDS:
                known = KINDS[kind], data
                break
            deltas.append((offset, data))
            if len(deltas) > _LONGEST_CHAIN:
                raise Damaged(self.pack_name, f"the deltas at offset {offset} go round in a circle")
            if isinstance(base, bytes):
                number = self.find(base)
                if number is None:  # git allows no such delta in a pack on disk
                    raise Damaged(self.pack_name, f"it needs {base.hex()}, which it has not")
                offset = self.offset(number)
            else:
                offset = base
        name, content = known
        for place, delta in reversed(deltas):
            self._bases.keep(offset, (name, content), len(content))
            offset, content = place, _apply_delta(content, delta, self.pack_name)
        return name, content

    def entry_head(self, offset: int) -> tuple[int, int, int | bytes, int]:
        """Type, size, base (an offset or an id; 0: none), and the offset of the content."""
        head = os.pread(self.fd, 64, offset)
        try:
            byte, at = head[0], 1
            kind, size = byte >> 4 & 7, byte & 15
            if byte & 0x80:
                more, at = _number(head, at)
                size |= more << 4
            base: int | bytes = 0
            if kind == DISTANCE_DELTA:
                byte, at = head[at], at + 1
                distance = byte & 0x7F
                while byte & 0x80:
                    byte, at = head[at], at + 1
                    distance = (distance + 1) << 7 | byte & 0x7F
                base = offset - distance
                if distance == 0 or base < 12:
                    raise Damaged(self.pack_name, f"the delta at offset {offset} has no base")
            elif kind == ID_DELTA:
                base, at = head[at : at + 20], at + 20
            elif kind not in KINDS:
                raise Damaged(self.pack_name, f"the entry at offset {offset} has no known type")
        except IndexError as error:
            raise Damaged(self.pack_name, "it is cut short") from error
        if size > _LARGEST:
            raise Damaged(self.pack_name, f"the entry at offset {offset} claims {size} bytes")
        return kind, size, base, offset + at


def _apply_delta(base: bytes, delta: bytes, path: str) -> bytes:
    try:
        base_size, at = _number(delta, 0)
        size, at = _number(delta, at)
        if base_size != len(base):
            raise Damaged(path, "a delta in it is for another base")
        pieces = []
        while at < len(delta):
            command, at = delta[at], at + 1
            if command & 0x80:
                start = length = 0
                for bit in range(4):
                    if command >> bit & 1:
                        start, at = start | delta[at] << 8 * bit, at + 1
                for bit in range(3):
                    if command >> 4 + bit & 1:
                        length, at = length | delta[at] << 8 * bit, at + 1
                pieces.append(base[start : start + (length or 0x10000)])
            else:
                pieces.append(delta[at : at + command])
                at += command
    except IndexError as error:
        raise Damaged(path, "a delta in it is cut short") from error
    content = b"".join(pieces)
    if len(content) != size:
        raise Damaged(path, "a delta in it gives another length than it says")
    return content


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number (7 bits a byte, lowest first) at an index, and the index after it."""
    number = shift = 0
    while True:
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, at


def number_bytes(number: int) -> bytes:
    """A number as bytes of 7 bits each, lowest first; all but the last have the highest bit set."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# -- both


class ObjectFiles:
    """All objects of one repository, found by id."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._packs: list[Pack] | None = None

    def close(self) -> None:
        """Close and forget the packs; the next look-up lists them again."""
        self.rest()
        self._packs = None

    def rest(self) -> None:
        """Close the packs until the next look-up: a removed pack takes space while it is open."""
        for pack in self._packs or ():
            pack.close()

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of an intact object. Raises Missing, Damaged, OSError.

        If one of several copies is intact, it is found; Damaged is about the last copy.
        """
        try:
            return self._found(oid)
        finally:
            for pack in (self._packs or [])[_MOST_OPEN:]:
                pack.close()

    def _found(self, oid: str) -> tuple[str, bytes]:
        key = bytes.fromhex(oid)
        damage: Damaged | None = None
        if self._packs is None:
            self._look_for_packs()
        for again in range(_LOOKS):
            if again and not self._look_for_packs():
                break
            assert self._packs is not None, "BUG: packs that were not looked for"
            wrong: Damaged | None = None
            # Packs first, because most objects are there.
            for place, pack in enumerate(self._packs):
                try:
                    number = pack.find(key)
                    if number is not None:
                        pack.open()
                        found = pack.read(number, oid)
                        # The next object is probably in this pack, too.
                        self._packs.insert(0, self._packs.pop(place))
                        return found
                except FileNotFoundError:
                    continue  # the pack was joined with others
                except (Damaged, OSError) as error:
                    wrong = as_damage(error, pack.pack_name)
            try:
                return read_loose(self.path, oid)
            except FileNotFoundError:  # it may have been packed since the packs were listed
                damage = wrong or damage
            except (Damaged, OSError) as error:
                damage = wrong or as_damage(error, loose_name(oid))
        raise damage or Missing(oid)

    def _look_for_packs(self) -> bool:
        """List the packs; returns whether there are new ones."""
        names = pack_names(self.path)
        known = {pack.name: pack for pack in self._packs or ()}
        for gone in set(known) - set(names):
            known.pop(gone).close()
        self._packs = list(known.values())
        for name in names:
            if name not in known:
                try:
                    self._packs.insert(0, Pack(self.path, name))
                except (Damaged, OSError) as error:
                    # A damaged pack is left out: its objects are missing, and verify says why.
                    as_damage(error, name)
        return len(self._packs) > len(known)
