"""Reading and replacing files: exchange, comparing what came out, modes, links, attributes."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stet.wire.failures import Refused
from stetd.history.objects import Image, object_id
from stetd.storage.disk import Disk
from stetd.storage.paths_on_disk import Target, open_real
from stetd.storage.worktree import OnDisk, Worktree, mode_for_new_file, temporary_name

LIMIT = 1 << 24


class DiskWithoutExchange(Disk):
    """A file system that knows no flags of ``renameat2``."""

    def exchange(self, first: str, second: str, dir_fd: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    def rename_new(self, src: str, dst: str, dir_fd: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


@pytest.fixture(params=[Disk, DiskWithoutExchange], ids=["exchange", "rename"])
def worktree(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Worktree]:
    opened = Worktree(str(tmp_path), request.param())
    yield opened
    opened.close()


def target_of(worktree: Worktree, path: str) -> Target:
    return worktree.resolver.resolve(path, follow_last=False)


def read(worktree: Worktree, path: str) -> OnDisk:
    found = worktree.read(target_of(worktree, path), LIMIT)
    assert found is not None
    return found


def staged(
    worktree: Worktree, path: str, content: bytes, mode: int = 0o100644
) -> tuple[Target, str]:
    """A target with a staged file beside it."""
    target, name = target_of(worktree, path), temporary_name()
    handle = worktree.stage(target, name, content, mode, like=worktree.read(target, LIMIT))
    if handle >= 0:
        os.close(handle)
    return target, name


def replacing(root: Path, worktree: Worktree) -> tuple[Target, str, OnDisk]:
    """A file "old" that was read, with a staged "new" beside it."""
    (root / "a").write_bytes(b"old")
    before = read(worktree, "a")
    return *staged(worktree, "a", b"new"), before


# -- reading


def test_reading_gives_content_mode_and_id(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "a").write_bytes(b"text\0\xff")
    (tmp_path / "a").chmod(0o640)
    found = read(worktree, "a")
    assert (found.data, found.image) == (
        b"text\0\xff",
        Image(object_id("blob", b"text\0\xff"), 0o100640),
    )


def test_no_file_is_none(worktree: Worktree) -> None:
    assert worktree.read(target_of(worktree, "a"), LIMIT) is None
    assert worktree.read(target_of(worktree, "no/such/a"), LIMIT) is None


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(
    tmp_path: Path, worktree: Worktree, kind: str
) -> None:
    if kind == "directory":
        (tmp_path / "a").mkdir()
    else:
        os.mkfifo(tmp_path / "a")
    with pytest.raises(Refused) as refused:
        worktree.read(target_of(worktree, "a"), LIMIT)
    assert refused.value.kind == "not_a_file"


@pytest.mark.parametrize("call", ["readlink", "open"])
def test_what_changes_its_type_while_it_is_looked_at_is_looked_at_again(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = getattr(os, call)
    (tmp_path / "a").symlink_to("elsewhere") if call == "readlink" else (tmp_path / "a").touch()

    def changed_before(name: str, *arguments: int, **named: int) -> object:
        if name == "a":
            monkeypatch.setattr(os, call, real)
            (tmp_path / "a").unlink()
            if call == "readlink":
                (tmp_path / "a").write_bytes(b"by now a file")
            else:
                with socket.socket(socket.AF_UNIX) as bound:
                    bound.bind(str(tmp_path / "a"))
        return real(name, *arguments, **named)

    target = target_of(worktree, "a")
    monkeypatch.setattr(os, call, changed_before)
    found = worktree.read_name(target)
    assert found.data == (b"by now a file" if call == "readlink" else None)
    target.close()


def test_large_file_is_refused_unread(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(Refused) as refused:
        worktree.read(target_of(worktree, "a"), 4)
    assert refused.value.kind == "file_too_large"
    assert read(worktree, "a").size == 5


def test_link_is_read_as_a_link(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "a").symlink_to("elsewhere")
    found = read(worktree, "a")
    assert (found.data, stat.S_ISLNK(found.mode)) == (b"elsewhere", True)
    assert found.image is not None
    assert found.image.git_mode == 0o120000


# -- replacing


def test_swap_puts_the_new_file_in_and_the_old_one_out(tmp_path: Path, worktree: Worktree) -> None:
    target, name, before = replacing(tmp_path, worktree)
    worktree.swap(target, name)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / name).read_bytes() == b"old"
    assert worktree.compare_displaced(target, name, before) is None
    worktree.discard(target, name)
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("size", [3, (1 << 20) + 7])
@pytest.mark.parametrize(
    "how",
    ["rename", "in place", "same size and time", "old, rename", "old", "old, same size"],
)
def test_save_in_between_comes_out(tmp_path: Path, worktree: Worktree, how: str, size: int) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"o" * size)
    if how.startswith("old"):
        os.utime(file, (1e9, 1e9))
    before = read(worktree, "a")
    target, name = staged(worktree, "a", b"new")
    if how.endswith("rename"):
        (tmp_path / "b").write_bytes(b"s" * size)
        os.utime(tmp_path / "b", ns=(before.mtime_ns, before.mtime_ns))
        os.rename(tmp_path / "b", file)
    elif "same size" in how:
        file.write_bytes(b"s" * size)
        if how.endswith("time"):
            os.utime(file, ns=(before.mtime_ns, before.mtime_ns))
    else:
        file.write_bytes(b"s" * (size + 1))
    saved = file.read_bytes()
    worktree.swap(target, name)
    out = worktree.compare_displaced(target, name, before)
    assert out is not None
    assert out.data == saved


@pytest.mark.parametrize(
    "how", ["not at all", "rename", "rename, same content", "in place", "same time", "mode", "gone"]
)
def test_the_handle_of_staging_tells_whether_the_file_is_out(
    tmp_path: Path, worktree: Worktree, how: str
) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"old")
    before = read(worktree, "a")
    target, name = target_of(worktree, "a"), temporary_name()
    handle = worktree.stage(target, name, b"new", 0o100644, like=before)
    assert handle >= 0
    if how.startswith("rename"):
        other.write_bytes(b"old" if "same" in how else b"own")
        os.utime(other, ns=(before.mtime_ns, before.mtime_ns))
        other.rename(file)
    elif how in ("in place", "same time"):
        file.write_bytes(b"own" if how == "same time" else b"longer")
        if how == "same time":
            os.utime(file, ns=(before.mtime_ns, before.mtime_ns))
    elif how == "mode":
        file.chmod(0o755)
    worktree.swap(target, name)
    if how == "gone":
        (tmp_path / name).unlink()
    assert worktree.matches_descriptor(target, name, before, handle) == (how == "not at all")
    os.close(handle)


def test_another_file_than_was_read_has_no_handle(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "a").write_bytes(b"old")
    before = read(worktree, "a")
    (tmp_path / "b").write_bytes(b"old")
    (tmp_path / "b").rename(tmp_path / "a")
    target = target_of(worktree, "a")
    assert worktree.stage(target, temporary_name(), b"new", 0o100644, like=before) == -1


def test_a_file_that_grows_while_it_is_read_is_read_again(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real = tmp_path / "a", os.read
    file.write_bytes(b"x" * 10)

    def grows(fd: int, size: int) -> bytes:
        if file.stat().st_size == 10:
            file.write_bytes(b"y" * (3 << 20))
        return real(fd, size)

    monkeypatch.setattr(os, "read", grows)
    assert read(worktree, "a").data == b"y" * (3 << 20)


def test_changed_permission_comes_out(tmp_path: Path, worktree: Worktree) -> None:
    target, name, before = replacing(tmp_path, worktree)
    (tmp_path / "a").chmod(0o600)
    worktree.swap(target, name)
    out = worktree.compare_displaced(target, name, before)
    assert out is not None
    assert out.mode == 0o100600


def test_touched_file_with_the_same_content_does_not_count_as_changed(
    tmp_path: Path, worktree: Worktree
) -> None:
    target, name, before = replacing(tmp_path, worktree)
    os.utime(tmp_path / "a")
    worktree.swap(target, name)
    assert worktree.compare_displaced(target, name, before) is None


@pytest.mark.parametrize("becomes", ["directory", "link"])
def test_what_is_no_regular_file_any_more_comes_out(tmp_path: Path, becomes: str) -> None:
    worktree = Worktree(str(tmp_path), Disk())
    target, name, before = replacing(tmp_path, worktree)
    (tmp_path / "a").unlink()
    if becomes == "directory":
        (tmp_path / "a").mkdir()
    else:
        (tmp_path / "a").symlink_to("old")
    worktree.swap(target, name)
    out = worktree.compare_displaced(target, name, before)
    assert out is not None
    assert (out.image is None) == (becomes == "directory")
    worktree.close()


def test_swap_with_a_file_that_is_gone(worktree: Worktree) -> None:
    target, name = staged(worktree, "a", b"new")
    with pytest.raises(FileNotFoundError):
        worktree.swap(target, name)
    # An error of the call is not one of the file system, which status would report as lesser.
    assert (worktree.replacement == "exchange") == (type(worktree._disk) is Disk)


def test_new_file_does_not_replace_one_that_was_made_meanwhile(
    tmp_path: Path, worktree: Worktree
) -> None:
    target, name = staged(worktree, "a", b"new")
    (tmp_path / "a").write_bytes(b"somebody's")
    with pytest.raises(FileExistsError):
        worktree.rename_in(target, name)
    assert (tmp_path / "a").read_bytes() == b"somebody's"


def test_file_put_in_and_taken_out(tmp_path: Path, worktree: Worktree) -> None:
    target, name = staged(worktree, "a", b"new")
    worktree.rename_in(target, name)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new"}
    worktree.rename_out(target, name)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {name: b"new"}


def test_staging_takes_over_mode_and_attributes(tmp_path: Path, worktree: Worktree) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system keeps no user attributes")
    target, name = staged(worktree, "a", b"new", 0o100751)
    worktree.swap(target, name)
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert os.getxattr(file, "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_staging_takes_over_the_owner(tmp_path: Path, worktree: Worktree) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    os.chown(file, 1234, 4321)
    target, name = staged(worktree, "a", b"new")
    worktree.swap(target, name)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


def test_staging_never_follows_or_overwrites_what_has_the_temporary_name(
    tmp_path: Path, worktree: Worktree
) -> None:
    (tmp_path / "outside").write_bytes(b"precious")
    (tmp_path / "t").symlink_to("outside")
    with pytest.raises(FileExistsError):
        worktree.stage(target_of(worktree, "a"), "t", b"new", 0o100644, like=None)
    assert (tmp_path / "outside").read_bytes() == b"precious"


def test_link_is_staged_as_a_link(tmp_path: Path, worktree: Worktree) -> None:
    target, name = target_of(worktree, "a"), temporary_name()
    worktree.stage(target, name, b"where", stat.S_IFLNK | 0o777, like=None)
    worktree.rename_in(target, name)
    assert os.readlink(tmp_path / "a") == "where"


def test_hard_link_is_broken_and_the_other_name_keeps_its_bytes(
    tmp_path: Path, worktree: Worktree
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    os.link(tmp_path / "a", tmp_path / "store")
    assert read(worktree, "a").links == 2
    target, name = staged(worktree, "a", b"new")
    worktree.swap(target, name)
    worktree.discard(target, name)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new", "store": b"old"}


def test_a_directory_on_a_lesser_file_system_is_no_reason_to_exchange_nowhere(
    tmp_path: Path,
) -> None:
    class Mixed(Disk):
        def exchange(self, first: str, second: str, dir_fd: int) -> None:
            if second == "lesser":
                raise OSError(errno.EINVAL, "Invalid argument")
            super().exchange(first, second, dir_fd)

        def rename(self, src: str, dst: str, dir_fd: int) -> None:
            renamed.append(dst)
            super().rename(src, dst, dir_fd)

    renamed: list[str] = []
    worktree = Worktree(str(tmp_path), Mixed())
    for name, by_renaming in (("lesser", True), ("other", False)):
        (tmp_path / name).write_bytes(b"old")
        target, temporary = staged(worktree, name, b"new")
        worktree.swap(target, temporary)
        assert (name in renamed) == by_renaming
        target.close()
    assert worktree.replacement == "rename"
    worktree.close()


def test_what_fails_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """A daemon that lost one with every refusal would serve nobody after a thousand."""

    class Unchangeable(Disk):
        def fchmod(self, fd: int, mode: int) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    for name in ("HEAD", "objects", "refs", "a"):
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"old")
    worktree = Worktree(str(tmp_path), Unchangeable())
    with worktree.resolver.locate("d/a") as target:
        like = worktree.read(target, LIMIT)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(PermissionError):
            worktree.stage(target, temporary_name(), b"new", 0o100644, like=like)
        with pytest.raises(Refused, match="Git repository"):
            worktree.resolver.resolve("a")
        with pytest.raises(FileNotFoundError):
            open_real(str(tmp_path / "gone" / "e"))
        assert os.listdir("/proc/self/fd") == before
    worktree.close()


# -- directories


def test_missing_directories_are_made_like_the_one_above(
    tmp_path: Path, worktree: Worktree
) -> None:
    tmp_path.chmod(0o2770)
    target, made = target_of(worktree, "x/y/a"), list[str]()
    assert target.missing == ("x", "y")
    worktree.make_directories(target, made)
    assert made == ["x", "x/y"]
    assert len(target.missing) == 0
    assert [stat.S_IMODE((tmp_path / d).stat().st_mode) for d in made] == [0o2770, 0o2770]
    target.close()


def test_directories_that_somebody_made_meanwhile_are_not_claimed(
    tmp_path: Path, worktree: Worktree
) -> None:
    target, made = target_of(worktree, "x/y/a"), list[str]()
    (tmp_path / "x").mkdir()
    worktree.make_directories(target, made)
    assert made == ["x/y"]
    target.close()


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_what_is_in_the_way_of_a_directory_is_told_and_what_was_made_is_known(
    tmp_path: Path, worktree: Worktree, obstacle: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, made = target_of(worktree, "x/y/a"), list[str]()
    (tmp_path / "x").mkdir()
    if obstacle == "file":
        (tmp_path / "x" / "y").write_bytes(b"")
    else:
        (tmp_path / "x" / "y").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError):
        worktree.make_directories(target, made)
    assert made == []
    assert os.listdir(tmp_path / "elsewhere") == []
    target.close()


@pytest.mark.parametrize("moved", [False, True])
def test_directories_that_were_made_are_removed_wherever_they_are(
    tmp_path: Path, worktree: Worktree, moved: bool
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "elsewhere").mkdir()
    target, made = target_of(worktree, "x/y/z/a"), list[str]()
    worktree.make_directories(target, made)
    place = tmp_path / "x"
    if moved:
        place = place.rename(tmp_path / "elsewhere" / "x")
    worktree.remove_made(target, made)
    assert os.listdir(place) == []
    target.close()


def test_directory_that_was_made_and_never_entered_is_removed(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, made = target_of(worktree, "x/y/a"), list[str]()
    opened = os.open

    def refused(path: str, *arguments: int, **named: int) -> int:
        if path == "y":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError):
        worktree.make_directories(target, made)
    assert made == ["x", "x/y"]
    worktree.remove_made(target, made)
    assert os.listdir(tmp_path) == []
    target.close()


def test_directories_that_can_not_be_removed_yet_are_all_remembered(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, made = target_of(worktree, "x/y/z/a"), list[str]()
    worktree.make_directories(target, made)

    def refused(*arguments: object, **named: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", refused)
        worktree.remove_made(target, made)
    assert worktree.leftovers == {"x/", "x/y/", "x/y/z/"}
    worktree.clear_leftovers()
    assert os.listdir(tmp_path) == []
    target.close()


def test_directory_that_was_made_and_filled_stays(tmp_path: Path, worktree: Worktree) -> None:
    target, made = target_of(worktree, "x/y/a"), list[str]()
    worktree.make_directories(target, made)
    (tmp_path / "x" / "b").write_bytes(b"")
    worktree.remove_made(target, made)
    assert os.listdir(tmp_path / "x") == ["b"]
    target.close()


def test_directory_with_something_in_it_stays(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "b").write_bytes(b"")
    worktree.remove_directory("x")
    assert os.listdir(tmp_path) == ["x"]
    (tmp_path / "x" / "b").unlink()
    worktree.remove_directory("x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("directory", "file"),
    [(0o755, 0o644), (0o700, 0o600), (0o775, 0o664), (0o2770, 0o660), (0o555, 0o644)],
)
def test_new_file_is_as_private_as_its_directory(directory: int, file: int) -> None:
    assert mode_for_new_file(directory) == stat.S_IFREG | file


# -- syncing


class CountingDisk(Disk):
    def __init__(self) -> None:
        self.synced: list[str] = []

    def fsync(self, fd: int) -> None:
        self.synced.append(os.readlink(f"/proc/self/fd/{fd}"))


def test_sync_covers_files_and_every_directory_above_them(tmp_path: Path) -> None:
    disk = CountingDisk()
    worktree = Worktree(str(tmp_path), disk)
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "a").write_bytes(b"")
    worktree.sync(["x/y/a", "x/y/deleted"])
    root = str(tmp_path)
    assert sorted(disk.synced) == [root, f"{root}/x", f"{root}/x/y", f"{root}/x/y/a"]
    worktree.close()


@pytest.mark.parametrize("becomes", ["link", "socket", "pipe", "directory"])
def test_sync_passes_over_what_is_no_file_any_more(tmp_path: Path, becomes: str) -> None:
    disk = CountingDisk()
    worktree = Worktree(str(tmp_path), disk)
    if becomes == "link":
        (tmp_path / "a").symlink_to("/etc/passwd")
    elif becomes == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(tmp_path / "a"))
    elif becomes == "pipe":
        os.mkfifo(tmp_path / "a")
    else:
        (tmp_path / "a").mkdir()
    worktree.sync(["a"])
    assert set(disk.synced) <= {str(tmp_path), str(tmp_path / "a")}
    worktree.close()


def test_root_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    worktree = Worktree(str(root), Disk())
    assert not worktree.gone()
    root.rename(tmp_path / "moved")
    assert worktree.gone()
    root.mkdir()
    assert worktree.gone()
    worktree.close()


# -- file systems that can do less


@pytest.fixture
def without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worktree]:
    """Neither flags of ``renameat2`` nor hard links, as on FAT."""

    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    opened = Worktree(str(tmp_path), DiskWithoutExchange())
    yield opened
    opened.close()


def test_files_are_replaced_where_there_are_no_links_either(
    tmp_path: Path, without_links: Worktree
) -> None:
    target, name, before = replacing(tmp_path, without_links)
    without_links.swap(target, name)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new", name: b"old"}
    assert without_links.compare_displaced(target, name, before) is None


def test_files_are_made_where_there_are_no_links_either(
    tmp_path: Path, without_links: Worktree
) -> None:
    target, name = staged(without_links, "a", b"new")
    without_links.rename_in(target, name)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new"}
    target, name = staged(without_links, "a", b"newer")
    with pytest.raises(FileExistsError):
        without_links.rename_in(target, name)
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("fail_at", [1, 2])
def test_swap_by_renaming_that_was_interrupted_is_finished(tmp_path: Path, fail_at: int) -> None:
    class Interrupted(DiskWithoutExchange):
        renames = 0

        def rename(self, src: str, dst: str, dir_fd: int) -> None:
            self.renames += 1
            if self.renames == fail_at:
                raise KeyboardInterrupt
            super().rename(src, dst, dir_fd)

    worktree = Worktree(str(tmp_path), Interrupted())
    (tmp_path / "a").write_bytes(b"old")
    target, name = staged(worktree, "a", b"new")
    with pytest.raises(KeyboardInterrupt):
        worktree.swap(target, name)
    worktree.finish_swap(target, name)
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert files == ({"a": b"old", name: b"new"} if fail_at == 1 else {"a": b"new", name: b"old"})
    worktree.finish_swap(target, name)
    worktree.close()
