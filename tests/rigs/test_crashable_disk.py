"""What the disk double lets a power cut take away, and what not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rigs.crashable_disk import CrashableDisk, power_cut

SEEDS = range(60)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "old.txt").write_bytes(b"old")
    return folder


def a_disk(root: Path) -> CrashableDisk:
    return CrashableDisk(str(root), str(root) + ".remains")


def write(disk: CrashableDisk, root: Path, name: str, content: bytes, *, sync: bool) -> None:
    fd = disk.open(str(root / name), os.O_WRONLY | os.O_CREAT)
    disk.write_all(fd, content)
    if sync:
        disk.fdatasync(fd)
    os.close(fd)


def after(disk: CrashableDisk, root: Path, mode: str, seed: int = 0) -> dict[str, bytes]:
    power_cut(str(root), disk.remains(), mode, seed)
    return {path.name: path.read_bytes() for path in root.iterdir()}


def exchanged(root: Path) -> CrashableDisk:
    """A disk on which a new file has taken the place of the old one, nothing synced."""
    disk = a_disk(root)
    write(disk, root, "new.tmp", b"new", sync=False)
    fd = os.open(root, os.O_RDONLY)
    disk.exchange("new.tmp", "old.txt", fd)
    os.close(fd)
    return disk


def test_a_name_that_was_not_synced_is_lost_though_its_content_was_synced(root: Path) -> None:
    disk = a_disk(root)
    write(disk, root, "new.txt", b"new", sync=True)
    assert after(disk, root, "drop") == {"old.txt": b"old"}


def test_content_that_was_not_synced_is_lost_though_its_name_was_synced(root: Path) -> None:
    disk = a_disk(root)
    write(disk, root, "new.txt", b"new", sync=False)
    disk.sync_path(str(root))
    assert after(disk, root, "drop") == {"old.txt": b"old", "new.txt": b""}


def test_what_was_synced_stays(root: Path) -> None:
    disk = a_disk(root)
    write(disk, root, "new.txt", b"new", sync=True)
    disk.sync_path(str(root))
    assert after(disk, root, "drop") == {"old.txt": b"old", "new.txt": b"new"}


def test_a_removal_that_was_not_synced_is_undone(root: Path) -> None:
    disk = a_disk(root)
    disk.unlink(str(root / "old.txt"))
    assert after(disk, root, "drop") == {"old.txt": b"old"}


def test_an_exchange_that_was_not_synced_is_undone(root: Path) -> None:
    assert after(exchanged(root), root, "drop") == {"old.txt": b"old"}


def test_an_exchange_is_kept_or_lost_as_a_whole(tmp_path: Path) -> None:
    seen = set()
    for seed in SEEDS:
        root = tmp_path / str(seed)
        root.mkdir()
        (root / "old.txt").write_bytes(b"old")
        found = after(exchanged(root), root, "garble", seed)
        kept = found.get("old.txt") != b"old"
        seen.add(kept)
        assert (found.get("new.tmp") == b"old") == kept, found
    assert seen == {True, False}


def test_what_was_synced_is_never_garbled(tmp_path: Path) -> None:
    for seed in SEEDS:
        root = tmp_path / str(seed)
        root.mkdir()
        disk = a_disk(root)
        write(disk, root, "a", b"synced" * 500, sync=True)
        disk.sync_path(str(root))
        write(disk, root, "b", b"not synced", sync=False)
        assert after(disk, root, "garble", seed)["a"] == b"synced" * 500


def test_after_a_kill_what_the_killed_process_has_not_synced_can_still_be_lost(root: Path) -> None:
    killed = exchanged(root)
    disk = CrashableDisk(str(root), str(root) + ".remains", after_kill=killed.remains())
    write(disk, root, "more.txt", b"more", sync=True)
    assert after(disk, root, "drop") == {"old.txt": b"old"}
