"""Packs are judged by git itself: it must accept them strictly and read back every byte."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2e.running_daemon import git
from stetd.repository.packing import merge_packs, remove_pack, write_pack
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.storage.disk import Disk
from storage.histories import blob


@pytest.fixture
def repository(tmp_path: Path) -> str:
    path = os.fspath(tmp_path / "shadow")
    create_repository(path, Disk())
    return path


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(contents=st.lists(st.binary(max_size=400), min_size=1, max_size=40))
def test_git_verifies_a_pack_and_gives_back_every_blob(
    repository: str, contents: list[bytes]
) -> None:
    contents += [b"", b"x" * 15, b"x" * 16, b"y" * 2047, b"y" * 2048, os.urandom(70_000)]
    objects = [blob(content) for content in contents]
    pack, index = write_pack(repository, objects, Disk())
    assert pack.endswith(".pack")
    git(repository, "verify-pack", index)
    reader = ShadowRepository(repository)
    for item in objects:
        assert reader.blob(item.oid) == item.content
    reader.close()


def test_an_object_given_twice_is_packed_once(repository: str) -> None:
    _, index = write_pack(repository, [blob(b"same"), blob(b"same")], Disk())
    listed = git(repository, "verify-pack", "-v", index).splitlines()
    assert [line for line in listed if " blob " in line] == listed[:1]


def test_a_reader_opened_before_sees_a_pack_written_after(repository: str) -> None:
    reader = ShadowRepository(repository)
    write_pack(repository, [blob(b"late")], Disk())
    assert reader.blob(blob(b"late").oid) == b"late"
    reader.close()


def packs(repository: str) -> list[str]:
    return sorted(os.listdir(os.path.join(repository, "objects", "pack")))


def test_many_packs_are_joined_and_every_object_is_still_there(repository: str) -> None:
    reader = ShadowRepository(repository)
    written = []
    for number in range(40):
        new = [blob(b"%d of %d " % (n, number) * 20) for n in range(number % 5 + 1)]
        written += new
        write_pack(repository, [*new, blob(b"in all of them")], Disk())
        merge_packs(repository, Disk())
        assert reader.blob(written[0].oid) == written[0].content
    assert len(packs(repository)) < 2 * 16
    for item in [*written, blob(b"in all of them")]:
        assert reader.blob(item.oid) == item.content
    reader.close()
    for name in packs(repository):
        if name.endswith(".idx"):
            git(repository, "verify-pack", os.path.join(repository, "objects", "pack", name))
    assert "missing" not in git(repository, "fsck", "--strict", "--full")


def test_few_packs_are_left_alone(repository: str) -> None:
    for number in range(15):
        write_pack(repository, [blob(b"%d" % number)], Disk())
    before = packs(repository)
    assert merge_packs(repository, Disk()) == []
    assert packs(repository) == before


def test_a_damaged_pack_is_left_alone_when_others_are_joined(repository: str) -> None:
    """Joining would be tried again for ever, and nothing of the history written meanwhile."""
    items = [blob(b"%d" % number) for number in range(17)]
    for item in items[:16]:
        write_pack(repository, [item], Disk())
    pack, _ = write_pack(repository, items[16:], Disk())
    os.truncate(pack, 10)
    assert merge_packs(repository, Disk()) != []
    reader = ShadowRepository(repository)
    assert [reader.blob(item.oid) for item in items[:16]] == [item.content for item in items[:16]]
    reader.close()
    assert os.path.basename(pack) in packs(repository)


def test_a_pack_whose_index_somebody_has_removed_is_removed(repository: str) -> None:
    pack, index = write_pack(repository, [blob(b"of plain git gc")], Disk())
    os.unlink(index)
    remove_pack(pack.removesuffix(".pack"), Disk())
    assert packs(repository) == []


def test_a_reader_that_opened_a_pack_before_it_was_joined_finds_its_objects(
    repository: str,
) -> None:
    items = [blob(b"%d" % number) for number in range(16)]
    for item in items:
        write_pack(repository, [item], Disk())
    reader = ShadowRepository(repository)
    assert reader.blob(items[0].oid) == b"0"
    assert merge_packs(repository, Disk()) != []
    for number, item in enumerate(items):
        assert reader.blob(item.oid) == b"%d" % number
    reader.close()


def test_a_large_pack_is_not_copied_again_for_a_few_small_ones(repository: str) -> None:
    large, _ = write_pack(repository, [blob(os.urandom(100_000))], Disk())
    for number in range(15):
        write_pack(repository, [blob(b"%d" % number)], Disk())
    assert merge_packs(repository, Disk()) == []
    write_pack(repository, [blob(b"the sixteenth")], Disk())
    joined = [os.path.basename(path) for path in merge_packs(repository, Disk())]
    assert packs(repository) == sorted([*joined, *files_of(large)])


def files_of(pack: Any) -> list[str]:
    name = os.path.basename(pack).removesuffix(".pack")
    return [name + ".idx", name + ".pack"]


def test_joining_packs_takes_far_less_memory_than_their_objects(repository: str) -> None:
    number, count = 16, 200
    for _ in range(number):
        write_pack(repository, [blob(os.urandom(500)) for _ in range(count)], Disk())
    tracemalloc.start()
    try:
        assert merge_packs(repository, Disk()) != []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < number * count * 500 / 2
