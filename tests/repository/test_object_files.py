"""Objects read from their files: as git reads them, and damage told without a hang or a crash."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stetd.history.objects import NewObject, object_id
from stetd.repository.object_files import Damaged, Missing, ObjectFiles, Pack, all_loose_ids
from stetd.repository.packing import write_pack
from stetd.repository.references import HISTORY, write_reference
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.repository.stored_objects import KeptHandles, MissingObject, StoredObjects
from stetd.storage.disk import Disk
from storage.histories import blob


def git(repository: str, *arguments: str, data: bytes = b"") -> bytes:
    command = ["git", "--git-dir", repository, *arguments]
    return subprocess.run(command, check=True, capture_output=True, input=data).stdout


@pytest.fixture
def repository(tmp_path: Path) -> str:
    path = os.fspath(tmp_path / "shadow")
    create_repository(path, Disk())
    return path


@pytest.fixture
def files(repository: str) -> Iterator[ObjectFiles]:
    opened = ObjectFiles(repository)
    yield opened
    opened.close()


def versions(count: int) -> list[NewObject]:
    """Contents that git makes deltas of, one of them larger than a copy command can be long."""
    rng = random.Random(5)
    lines = [f"line {n} {rng.random()}\n".encode() for n in range(400)]
    found = []
    for number in range(count):
        lines[rng.randrange(len(lines))] = f"changed {number}\n".encode()
        found.append(blob(b"".join(lines)))
    return [*found, blob(rng.randbytes(200_000) * 2), blob(b""), blob(b"\0")]


class OneBucket(Pack):
    """A pack of which nothing is there but the ids of its objects, in one piece."""

    def __init__(self, ids: bytes) -> None:
        self._ids = ids

    def _bucket(self, first: int) -> tuple[int, bytes]:
        return 0, self._ids


def test_an_id_that_stands_across_two_others_is_not_found_there() -> None:
    sought = b"\1" * 19 + b"\2"
    across = b"\1" * 10 + sought + b"\1" * 10
    assert OneBucket(across).find(sought) is None
    assert OneBucket(across + sought).find(sought) == 2


@pytest.mark.parametrize("options", [[], ["--no-reuse-delta", "--depth=200", "--window=250"]])
@pytest.mark.parametrize("offsets", ["true", "false"])
def test_packs_of_git_are_read_with_their_deltas(
    repository: str, files: ObjectFiles, options: list[str], offsets: str
) -> None:
    objects = versions(120)
    shadow = ShadowRepository(repository)
    shadow.write(objects)
    shadow.close()
    git(repository, "config", "repack.usedeltabaseoffset", offsets)
    names = "".join(o.oid + "\n" for o in objects).encode()
    folder = os.path.join(repository, "objects/pack/pack")
    base = [] if offsets == "false" else ["--delta-base-offset"]
    git(repository, "pack-objects", *base, *options, folder, data=names)
    git(repository, "prune-packed")
    for item in objects:
        assert files.read(item.oid) == ("blob", item.content)


def test_a_pack_that_is_gone_hides_no_object_of_another_one(
    repository: str, files: ObjectFiles
) -> None:
    left, gone = blob(b"first"), blob(b"second")
    for item in (left, gone):
        write_pack(repository, [item], Disk())
        assert files.read(item.oid) == ("blob", item.content)
    files.rest()
    for pack in Path(repository, "objects", "pack").glob("*.pack"):
        opened = Pack(repository, f"objects/pack/{pack.stem}")
        if opened.find(bytes.fromhex(gone.oid)) is not None:
            pack.unlink()
            pack.with_suffix(".idx").unlink()
        opened.close()
    assert files.read(left.oid) == ("blob", left.content)


def test_what_is_no_object_among_loose_ones_is_passed_over(repository: str) -> None:
    """A killed git leaves such files."""
    shadow = ShadowRepository(repository)
    shadow.write([blob(b"loose")])
    Path(shadow.loose_path(blob(b"loose").oid)).with_name("tmp_obj_a1B2c3").write_bytes(b"half")
    assert all_loose_ids(repository).hex() == blob(b"loose").oid
    shadow.close()


def test_what_can_not_be_opened_leaves_no_descriptor_open(repository: str) -> None:
    """It is tried again with every question, and a process may open a thousand files."""
    pack, _ = write_pack(repository, [blob(b"packed")], Disk())
    kept = KeptHandles()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(MissingObject), kept.opened(repository) as handle:
        handle.blob("0" * 40)
    assert os.listdir("/proc/self/fd") == before
    os.truncate(pack, 10)
    with pytest.raises(Damaged):
        Pack(repository, os.path.relpath(pack, repository).removesuffix(".pack"))
    assert os.listdir("/proc/self/fd") == before


def test_loose_and_packed_objects_are_found_also_when_they_move(
    repository: str, files: ObjectFiles
) -> None:
    objects = versions(5)
    shadow = ShadowRepository(repository)
    shadow.write(objects)
    for item in objects:
        assert files.read(item.oid) == ("blob", item.content)
    write_pack(repository, objects, Disk())
    for item in objects:
        os.unlink(shadow.loose_path(item.oid))
        assert files.read(item.oid) == ("blob", item.content)
    shadow.close()


def test_what_is_not_there_is_missing(files: ObjectFiles) -> None:
    with pytest.raises(Missing):
        files.read("0" * 40)


def test_many_packs_do_not_stay_open(repository: str, files: ObjectFiles) -> None:
    objects = versions(60)
    for item in objects:
        write_pack(repository, [item], Disk())
    before = len(os.listdir("/proc/self/fd"))
    for item in objects:
        assert files.read(item.oid) == ("blob", item.content)
    assert len(os.listdir("/proc/self/fd")) <= before + 16


# -- damage


@pytest.fixture
def loose(repository: str) -> tuple[Path, NewObject]:
    item = blob(b"".join(b"%d\n" % n for n in range(200)))
    shadow = ShadowRepository(repository)
    shadow.write([item])
    path = Path(shadow.loose_path(item.oid))
    path.chmod(0o600)
    shadow.close()
    return path, item


def test_a_loose_object_cut_short_anywhere_is_damaged(
    loose: tuple[Path, NewObject], files: ObjectFiles
) -> None:
    """libgit2 loops for ever on most of these."""
    path, item = loose
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(Damaged, match=path.name):
            files.read(item.oid)


def test_a_loose_object_with_a_bit_flipped_is_damaged_or_the_same(
    loose: tuple[Path, NewObject], files: ObjectFiles
) -> None:
    path, item = loose
    whole = path.read_bytes()
    same = 0
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert files.read(item.oid) == ("blob", item.content)
            same += 1  # filling of the last byte before the checksum
        except Damaged:
            continue
    assert same < 8


@pytest.mark.parametrize("extra", [b"x", b"\0"])
def test_bytes_after_a_loose_object_are_damage(
    loose: tuple[Path, NewObject], files: ObjectFiles, extra: bytes
) -> None:
    path, item = loose
    path.write_bytes(path.read_bytes() + extra)
    with pytest.raises(Damaged, match="1 bytes follow its end"):
        files.read(item.oid)


@pytest.mark.parametrize(
    "content",
    [
        b"blob 3\0abcd",
        b"blob 4\0abc",
        b"blob 3\0abx",
        b"tree 3\0abc",
        b"blob 99999999999\0abc",
        b"blob -1\0",
        b"blob 03\0abc",
        b"blob 3",
        b"",
        b"blob 3\0" + b"x" * 100_000,
    ],
)
def test_an_object_that_says_other_than_it_holds_is_damaged(
    repository: str, files: ObjectFiles, content: bytes
) -> None:
    oid = object_id("blob", b"abc")
    path = Path(repository, "objects", oid[:2], oid[2:])
    path.parent.mkdir()
    path.write_bytes(zlib.compress(content))
    with pytest.raises(Damaged):
        files.read(oid)


@pytest.mark.parametrize("ending", [".pack", ".idx"])
def test_a_damaged_pack_or_index_gives_damage_or_the_object_and_nothing_else(
    repository: str, ending: str
) -> None:
    rng = random.Random(7)
    objects = [blob(rng.randbytes(rng.randrange(60))) for _ in range(30)]
    pack, _ = write_pack(repository, objects, Disk())
    path = Path(pack.removesuffix(".pack") + ending)
    whole = path.read_bytes()
    found = 0
    for round_ in range(400):
        if round_ % 2:
            damaged = bytearray(whole)
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        else:
            damaged = bytearray(whole[: rng.randrange(len(whole))])
        path.write_bytes(damaged)
        reader = ObjectFiles(repository)
        for item in objects:
            try:
                assert reader.read(item.oid) == ("blob", item.content)
            except (Damaged, Missing):
                found += 1
        reader.close()
    assert found > 400


def test_a_pack_cut_short_while_it_is_open_is_damage(repository: str, files: ObjectFiles) -> None:
    """Mapped, it would end the process with SIGBUS."""
    rng = random.Random(3)
    objects = [blob(rng.randbytes(9000)) for _ in range(20)]
    pack, index = write_pack(repository, objects, Disk())
    for item in objects:
        files.read(item.oid)
    os.truncate(pack, 4096)
    for item in objects:
        with pytest.raises(Damaged):
            files.read(item.oid)
    os.truncate(index, 1100)
    with pytest.raises(Damaged):
        files.read(objects[0].oid)


@pytest.mark.parametrize("packed", [False, True])
def test_a_process_without_descriptors_has_no_damage(
    repository: str, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """The daemon said that its history was damaged, and that a person had to act."""
    written = blob(b"content")
    if packed:
        write_pack(repository, [written], Disk())
    else:
        ShadowRepository(repository).write([written])
    write_reference(repository, HISTORY, written.oid, Disk())
    stored = StoredObjects(repository)

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    for where in ("listdir", "open"):
        with monkeypatch.context() as without:
            without.setattr(os, where, full)
            with pytest.raises(OSError, match="Too many open files"):
                stored.blob(written.oid)
    with monkeypatch.context() as without:
        without.setattr(os, "open", full)
        with pytest.raises(OSError, match="Too many open files"):
            stored.head()
    assert stored.blob(written.oid) == b"content"
    stored.close()


def test_a_whole_copy_is_found_beside_a_damaged_one(
    repository: str, files: ObjectFiles, loose: tuple[Path, NewObject]
) -> None:
    path, item = loose
    pack, _ = write_pack(repository, [item], Disk())
    whole = path.read_bytes()
    path.write_bytes(b"damaged")
    assert files.read(item.oid) == ("blob", item.content)
    path.write_bytes(whole)
    damaged = bytearray(Path(pack).read_bytes())
    damaged[20] ^= 1
    Path(pack).write_bytes(damaged)
    assert files.read(item.oid) == ("blob", item.content)
