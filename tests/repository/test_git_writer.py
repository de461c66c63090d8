"""The background thread: order, waiting, failures that are tried again and those that are not."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from stetd.history.commits import CommitMeta, commit_object
from stetd.history.objects import EMPTY_TREE, NewObject
from stetd.repository.git_writer import GitWriter, Unwritten
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.repository.stored_objects import MissingObject
from stetd.storage.disk import Disk, SyncFailed
from storage.histories import blob
from unwritable import unwritable


class TroubledDisk(Disk):
    """Remembers what was synced; fails on request."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.broken = False

    def fsync(self, fd: int) -> None:
        if self.broken:
            raise SyncFailed(errno.EIO, "Input/output error")
        self.synced.append(os.readlink(f"/proc/self/fd/{fd}"))


@pytest.fixture
def disk() -> TroubledDisk:
    return TroubledDisk()


@pytest.fixture
def git_writer(disk: TroubledDisk) -> Iterator[GitWriter]:
    thread = GitWriter(disk)
    yield thread
    thread.close()


@pytest.fixture
def shadow(tmp_path: Path) -> str:
    path = str(tmp_path / "shadow")
    create_repository(path, Disk())
    return path


def chain(length: int, blobs_each: int = 0) -> list[tuple[list[NewObject], str]]:
    """Commits one after the other, with objects."""
    parent, made = None, []
    for n in range(length):
        meta = CommitMeta(kind="edit", time=n, subject=f"number {n}")
        commit = commit_object(meta, EMPTY_TREE, parent)
        blobs = [blob(f"{n} {k}".encode()) for k in range(blobs_each)]
        made.append(([NewObject("tree", EMPTY_TREE, b""), *blobs, commit], commit.oid))
        parent = commit.oid
    return made


def history(shadow: str) -> list[str]:
    repository = ShadowRepository(shadow)
    try:
        return [commit.meta.subject for commit in repository.walk(repository.head())]
    finally:
        repository.close()


def checkpoint_begun(git_writer: GitWriter) -> list[str]:
    """Begin a checkpoint; where "done" will be, or why not."""
    outcome: list[str] = []

    def ended(taken: Future[None]) -> None:
        outcome.append(str(taken.exception() or "done"))

    git_writer.checkpoint(lambda: None).add_done_callback(ended)
    return outcome


def checkpoint(git_writer: GitWriter) -> str:
    """Take a checkpoint; "done", or why not."""
    outcome = checkpoint_begun(git_writer)
    eventually(lambda: bool(outcome))
    return outcome[0]


def test_what_was_waited_for_is_there(git_writer: GitWriter, shadow: str) -> None:
    for objects, head in chain(3):
        git_writer.write(shadow, objects, head)
    git_writer.wait_for(shadow)
    assert history(shadow) == ["number 2", "number 1", "number 0"]


@pytest.mark.parametrize("blobs_each", [0, 100])
def test_checkpoint_syncs_every_object_reference_and_directory(
    git_writer: GitWriter, disk: TroubledDisk, shadow: str, blobs_each: int
) -> None:
    for objects, head in chain(2, blobs_each):
        git_writer.write(shadow, objects, head)
    assert checkpoint(git_writer) == "done"
    files = [p for p in Path(shadow, "objects").rglob("*") if p.is_file()]
    assert len(files) == (2 if blobs_each else 3)
    if blobs_each:  # a pack is synced before it gets its name
        files = []
    folders = {p.parent for p in files}
    expected = {*files, *folders, Path(shadow, "refs/heads/history")}
    for name in ("objects", "objects/pack", "refs/heads", "refs", "."):
        expected.add(Path(shadow, name))
    assert {str(path) for path in expected} <= set(disk.synced)


def test_a_checkpoint_that_the_disk_refuses_is_tried_again(git_writer: GitWriter) -> None:
    refusals = [OSError(errno.ENOSPC, "No space left on device")]
    told: list[str | None] = []
    git_writer.on_trouble = lambda reason, _: told.append(reason)

    def sync_more() -> None:
        if refusals:
            raise refusals.pop()

    assert git_writer.checkpoint(sync_more).result(60) is None
    eventually(lambda: told[-1:] == [None])
    assert [reason is None for reason in told] == [False, True]


def test_a_reader_does_not_wait_for_the_checkpoint_behind_its_objects(
    git_writer: GitWriter, shadow: str
) -> None:
    [(first, _), (second, head)] = chain(2)
    written, synced = threading.Event(), threading.Event()

    def hold(until: threading.Event) -> None:
        until.wait(60)

    git_writer.on_commits = lambda _: hold(written)
    git_writer.write(shadow, first + second, head)
    reader = threading.Thread(target=git_writer.wait_for, args=(shadow,))
    git_writer.checkpoint(lambda: hold(synced))
    reader.start()
    written.set()
    reader.join(60)
    assert not reader.is_alive()
    assert not synced.is_set()
    synced.set()


def test_failed_sync_gives_the_checkpoint_up_and_is_not_tried_again(
    git_writer: GitWriter, disk: TroubledDisk, shadow: str
) -> None:
    [(objects, head)] = chain(1)
    git_writer.write(shadow, objects, head)
    git_writer.wait_for(shadow)
    disk.broken = True
    assert "Input/output error" in checkpoint(git_writer)
    git_writer.close()
    assert not git_writer._queue


def test_failed_write_is_tried_again_and_told_to_who_needs_it(
    git_writer: GitWriter, shadow: str
) -> None:
    [(items, head)] = chain(1)
    with unwritable(shadow):
        git_writer.write(shadow, items, head)
        with pytest.raises(Unwritten) as unwritten:
            git_writer.wait_for(shadow)
        assert unwritten.value.args == (git_writer.failure,)
    eventually(lambda: git_writer.failure is None)
    assert history(shadow) == ["number 0"]


def test_one_that_can_not_be_written_keeps_no_other_waiting(
    git_writer: GitWriter, shadow: str, tmp_path: Path
) -> None:
    [(items, head)] = chain(1)
    other, ran = str(tmp_path / "other"), threading.Event()
    create_repository(other, Disk())
    with unwritable(shadow):
        git_writer.write(shadow, items, head)
        git_writer.write(other, items, head)
        with pytest.raises(Unwritten):
            git_writer.wait_for(shadow)
        git_writer.wait_for(other)
        git_writer.run(other, ran.set).result(60)
        outcome = checkpoint_begun(git_writer)
        git_writer.write(other, items, head)
        git_writer.wait_for(other)
        with pytest.raises(Unwritten):
            git_writer.wait_for(shadow)  # the round with the checkpoint is over
        late = git_writer.run(shadow, lambda: outcome.append("task"))
        assert outcome == []  # a checkpoint waits for all, a task for its own repository
    late.result(60)
    assert history(shadow) == history(other) == ["number 0"]
    assert checkpoint(git_writer) == "done"
    assert sorted(outcome) == ["done", "task"]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_belongs_to_a_forgotten_history_that_is_gone_keeps_nobody_waiting(
    git_writer: GitWriter, shadow: str
) -> None:
    """A person moves it away before the last edits are written: the next second is early enough."""
    [(objects, head)] = chain(1)
    git_writer.write(shadow, objects, head)
    git_writer.forgotten.add(shadow)
    shutil.rmtree(shadow)
    git_writer.checkpoint(lambda: None).result(timeout=20)
    assert git_writer.failure is None
    assert not os.path.exists(shadow)


def test_nothing_is_kept_of_a_forgotten_history_once_it_is_synced(
    git_writer: GitWriter, disk: TroubledDisk, shadow: str
) -> None:
    """The ids of its objects stayed in memory until the next start, those of each workspace."""
    one, two = chain(2)
    git_writer.write(shadow, *one)
    git_writer.forgotten.add(shadow)
    assert checkpoint(git_writer) == "done"
    assert ShadowRepository(shadow).reference_path in disk.synced
    assert not git_writer._unsynced
    git_writer.forgotten.discard(shadow)
    git_writer.write(shadow, *two)
    assert checkpoint(git_writer) == "done"
    assert len(history(shadow)) == 2


def test_closing_finishes_what_was_handed_over(disk: TroubledDisk, shadow: str) -> None:
    git_writer = GitWriter(disk)
    for objects, head in chain(5):
        git_writer.write(shadow, objects, head)
    git_writer.close()
    assert len(history(shadow)) == 5


@pytest.mark.parametrize("blobs_each", [0, 100])
def test_damaged_objects_are_written_again(
    git_writer: GitWriter, shadow: str, blobs_each: int
) -> None:
    """Empty loose objects are what a power cut leaves of those that were not synced."""
    [(objects, head)] = chain(1, blobs_each)
    for _, oid, _ in objects:
        path = Path(shadow, "objects", oid[:2], oid[2:])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    git_writer.write(shadow, objects, head)
    git_writer.wait_for(shadow)
    assert checkpoint(git_writer) == "done"
    done = subprocess.run(
        ["git", "--git-dir", shadow, "fsck", "--strict"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_only_what_was_loose_before_the_first_write_is_looked_at(
    git_writer: GitWriter, shadow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for each object takes long, and what this process writes is whole."""
    looked: list[set[str]] = []
    monkeypatch.setattr(ShadowRepository, "clear_damaged", lambda _, ids: looked.append(set(ids)))
    [first, second] = chain(2)
    ShadowRepository(shadow).write(first[0][:1])
    for objects, head in (first, second):
        git_writer.write(shadow, objects, head)
        git_writer.wait_for(shadow)
    assert looked == [{EMPTY_TREE}, set()]


def test_a_checkpoint_passes_over_what_plain_git_gc_has_packed(
    git_writer: GitWriter, shadow: str
) -> None:
    """It packs loose objects durably, and removes them with the directories that they were in."""
    [first, second] = chain(2)
    git_writer.write(shadow, *first)
    git_writer.wait_for(shadow)
    subprocess.run(["git", "--git-dir", shadow, "gc", "--quiet", "--prune=now"], check=True)
    assert not Path(shadow, "objects", first[1][:2]).exists()
    assert checkpoint(git_writer) == "done"
    git_writer.write(shadow, *second)
    git_writer.wait_for(shadow)
    assert history(shadow) == ["number 1", "number 0"]


def test_an_object_that_was_loose_once_may_be_written_again(
    git_writer: GitWriter, shadow: str
) -> None:
    """The list of loose objects is made once; gc packs them later."""
    [(objects, head)] = chain(1)
    ShadowRepository(shadow).write(objects[:1])
    git_writer.write(shadow, [], "0" * 40)
    git_writer.wait_for(shadow)
    os.unlink(ShadowRepository(shadow).loose_path(EMPTY_TREE))
    git_writer.write(shadow, objects, head)
    git_writer.wait_for(shadow)
    assert history(shadow) == ["number 0"]


def test_two_repositories_with_the_same_objects(git_writer: GitWriter, tmp_path: Path) -> None:
    [(objects, head)] = chain(1)
    for name in ("one", "two"):
        path = str(tmp_path / name)
        create_repository(path, Disk())
        git_writer.write(path, objects, head)
        git_writer.wait_for(path)
        assert history(path) == ["number 0"]


def test_missing_and_damaged_objects_are_told_apart_from_nothing_else(shadow: str) -> None:
    repository = ShadowRepository(shadow)
    with pytest.raises(MissingObject):
        repository.blob("1" * 40)
    path = Path(repository.loose_path("2" * 40))
    path.parent.mkdir()
    path.write_bytes(b"damaged")
    with pytest.raises(MissingObject):
        repository.blob("2" * 40)
    repository.close()
