"""Publishing and aborting sealed calls, on a real directory and journal, without a daemon."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stetd.storage.disk import Disk
from stetd.storage.journal import Journal, read_journal
from stetd.storage.journal_format import Abort, Change, Published, Record
from stetd.storage.worktree import Worktree
from stetd.transaction import transaction
from stetd.transaction.drafts import Draft, DraftFile, Requester
from stetd.transaction.heads import HistoryBuilder
from stetd.transaction.sealing import seal
from stetd.transaction.transaction import Displaced, Prepared, abort, mark_published
from storage.histories import Histories


class Told(Journal):
    """Notes what is appended, and when it is synced."""

    told: list[Record | str]

    def append(self, *records: Record, reserve: int = 0) -> None:
        super().append(*records, reserve=reserve)
        self.told += records

    def sync(self, *, always: bool = False) -> None:
        super().sync(always=always)
        self.told.append("synced")


class FullDisk(Disk):
    """Refuses to write once it is full."""

    full = False

    def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
        if self.full and any(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().pwrite_all(fd, data, offset)


class Calls:
    """A workspace in which one call after the other is sealed."""

    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.root.mkdir()
        (base / "journal").mkdir()
        self.histories = Histories(base)
        self.disk = FullDisk()
        self.worktree = Worktree(str(self.root), self.disk)
        self.journal = Told(str(base / "journal"), self.disk, boot="boot", version="1")
        self.journal.told = []

    def sealed(self, path: str, after: bytes | None) -> Prepared:
        target = self.worktree.resolver.resolve(path)
        found = self.worktree.read(target, 1 << 20)
        prepared = seal(
            Draft("edit", f"write {path}", [DraftFile(target, found, after)]),
            Requester("bot", "s", None, "patch", "r1"),
            history=self.history(),
            number=1,
            digest=b"",
            workspace="w",
            worktree=self.worktree,
            session=None,
        )
        self.journal.append(prepared.record, reserve=prepared.abort_reserve)
        self.journal.sync()
        self.journal.told.clear()
        return prepared

    def aborted(self, prepared: Prepared, cause: Displaced) -> HistoryBuilder:
        history = self.history()
        abort(
            [prepared],
            cause,
            history=history,
            number=2,
            journal=self.journal,
            worktree=self.worktree,
        )
        return history

    def history(self) -> HistoryBuilder:
        return HistoryBuilder(self.histories.head, self.histories.repository.load_tree, 0)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    made = Calls(tmp_path)
    yield made
    made.journal.close()
    made.worktree.close()
    made.histories.repository.close()


def displaced(calls: Calls, prepared: Prepared) -> Displaced:
    with pytest.raises(Displaced) as raised:
        prepared.publish(calls.worktree)
    return raised.value


def test_a_file_that_was_deleted_meanwhile_stays_so_and_that_is_recorded(calls: Calls) -> None:
    (calls.root / "f").write_text("one\n")
    calls.histories.commit({"f": "one\n"})
    prepared = calls.sealed("f", b"two\n")
    (calls.root / "f").unlink()
    cause = displaced(calls, prepared)
    assert (cause.path, cause.found) == ("f", None)
    aborted = calls.aborted(prepared, cause)
    prepared.close()
    [record, *_] = calls.journal.told
    assert isinstance(record, Abort)
    assert record.stands == {"f": None}
    assert [commit.meta.subject for commit in record.commits] == ["changed outside: f"]
    assert aborted.head.commit == record.commits[-1].oid
    assert os.listdir(calls.root) == []


def test_of_a_file_whose_directory_is_gone_no_file_above_is_recorded(calls: Calls) -> None:
    (calls.root / "d").mkdir()
    (calls.root / "f").write_text("another file\n")
    prepared = calls.sealed("d/f", b"one\n")
    (calls.root / "d").rename(calls.root / "elsewhere")
    cause = displaced(calls, prepared)
    prepared.close()
    assert (cause.path, cause.found) == ("d/f", None)


def test_a_file_that_takes_the_name_of_a_missing_directory_is_found_when_planned_again(
    calls: Calls,
) -> None:
    prepared = calls.sealed("d/f", b"one\n")
    (calls.root / "d").write_text("a file\n")
    cause = displaced(calls, prepared)
    prepared.close()
    assert (cause.path, cause.found) == ("d/f", None)


def test_a_created_file_whose_temporary_file_somebody_removed_is_written_again(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = calls.sealed("f", b"one\n")

    def failpoint(name: str) -> None:
        if name == "publish.staged":
            (calls.root / prepared.files[0].temporary).unlink()

    monkeypatch.setattr(transaction, "failpoint", failpoint)
    cause = displaced(calls, prepared)
    prepared.close()
    assert (cause.path, cause.found) == ("f", None)


def _deleted(path: Path) -> None:
    path.unlink()


def _saved_again(path: Path) -> None:
    path.with_name("~").write_text("a later save\n")
    path.with_name("~").rename(path)


@pytest.mark.parametrize(
    ("there", "meanwhile", "left"),
    [(True, _deleted, None), (True, _saved_again, "a later save\n"),
     (False, _saved_again, "a later save\n")],
)  # fmt: skip
def test_what_was_done_to_the_transient_text_is_durable_when_the_call_is_voided(
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    there: bool,
    meanwhile: Callable[[Path], None],
    left: str | None,
) -> None:
    path = calls.root / "f"
    if there:
        path.write_text("one\n")
    prepared = calls.sealed("f", b"two\n")
    if there:
        _saved_again(path)
        cause = displaced(calls, prepared)
    else:
        prepared.publish(calls.worktree)
        cause = Displaced("other", None)  # as if a later file of the call were another

    def failpoint(name: str) -> None:
        if name == "abort.before_put_back":
            meanwhile(path)

    monkeypatch.setattr(transaction, "failpoint", failpoint)
    calls.aborted(prepared, cause)
    prepared.close()
    assert (path.read_text() if path.exists() else None) == left
    kinds = [each if isinstance(each, str) else type(each) for each in calls.journal.told]
    assert kinds[:2] == [Abort, "synced"]
    assert kinds[2] is Change
    assert kinds.index("synced", 2) < kinds.index(Published)


def test_a_directory_that_took_a_files_place_comes_back_if_the_transient_text_was_deleted(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = calls.root / "f"
    path.write_text("one\n")
    prepared = calls.sealed("f", b"two\n")
    path.unlink()
    path.mkdir()
    (path / "in it").touch()
    cause = displaced(calls, prepared)

    def failpoint(name: str) -> None:
        if name == "abort.before_put_back":
            path.unlink()

    monkeypatch.setattr(transaction, "failpoint", failpoint)
    calls.aborted(prepared, cause)
    prepared.close()
    assert [each.name for each in calls.root.rglob("*")] == ["f", "in it"]


def test_a_deletion_is_voided_if_somebody_removes_the_directory_meanwhile(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    (calls.root / "d").mkdir()
    (calls.root / "d/f").write_text("one\n")
    prepared = calls.sealed("d/f", None)

    def failpoint(name: str) -> None:
        if name == "publish.in_place":
            shutil.rmtree(calls.root / "d")

    monkeypatch.setattr(transaction, "failpoint", failpoint)
    calls.aborted(prepared, displaced(calls, prepared))
    prepared.close()
    assert list(calls.root.iterdir()) == []


class EmptiedWorkspace(Disk):
    """Somebody removes all directories as soon as a name was exchanged or renamed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def exchange(self, first: str, second: str, dir_fd: int) -> None:
        super().exchange(first, second, dir_fd)
        self._empty()

    def rename_new(self, src: str, dst: str, dir_fd: int) -> None:
        super().rename_new(src, dst, dir_fd)
        self._empty()

    def _empty(self) -> None:
        for path in self.root.iterdir():
            shutil.rmtree(path)


@pytest.mark.parametrize("there", [True, False], ids=["replaced", "created"])
def test_a_call_is_voided_if_a_directory_is_removed_between_its_exchange_and_the_look_at_it(
    calls: Calls, there: bool
) -> None:
    (calls.root / "d").mkdir()
    if there:
        (calls.root / "d/f").write_text("one\n")
    prepared = calls.sealed("d/f", b"two\n")
    for work in prepared.files:
        transaction.install(work, calls.worktree)
    calls.worktree._disk = EmptiedWorkspace(calls.root)
    calls.aborted(prepared, Displaced("other", None))  # as if a later file of the call were another
    prepared.close()
    assert list(calls.root.iterdir()) == []
    assert calls.worktree.leftovers == set()


def test_the_directories_that_a_voided_call_has_made_are_gone(calls: Calls) -> None:
    (calls.root / "there").mkdir()
    prepared = calls.sealed("there/a/b/f", b"one\n")
    prepared.publish(calls.worktree)
    calls.aborted(prepared, Displaced("other", None))  # as if a later file of the call were another
    prepared.close()
    assert [path.name for path in calls.root.rglob("*")] == ["there"]


def test_a_call_that_a_full_disk_keeps_from_being_marked_has_happened(
    calls: Calls, tmp_path: Path
) -> None:
    calls.disk.full = True
    mark_published(calls.journal, 1)
    calls.disk.full = False
    mark_published(calls.journal, 2)
    records = [placed.record for placed in read_journal(str(tmp_path / "journal"), Disk())]
    assert [each for each in records if isinstance(each, Published)] == [Published(2)]


def test_only_a_name_that_keeps_a_file_is_said_to_have_one_of_its_own(calls: Calls) -> None:
    (calls.root / "f").write_text("one\n")
    os.link(calls.root / "f", calls.root / "g")
    replaced, deleted = calls.sealed("f", b"two\n"), calls.sealed("f", None)
    replaced.close()
    deleted.close()
    assert (len(replaced.result.warnings), deleted.result.warnings) == (1, [])
