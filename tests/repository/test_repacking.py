"""Repositories packed tightly are judged by git itself: strictly whole, every byte as it was."""

import os
import random
import signal
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from e2e.running_daemon import git
from stetd import failpoints
from stetd.history.objects import NewObject, object_id
from stetd.repository import packing, repacking
from stetd.repository.object_files import ObjectFiles
from stetd.repository.packing import merge_packs, write_pack
from stetd.repository.reachable import BrokenHistory
from stetd.repository.references import set_pin
from stetd.repository.repacking import Repacking
from stetd.repository.shadow_repo import create_repository
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress
from storage.histories import Histories, blob


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    return Histories(tmp_path)


def fsck(repository: str) -> str:
    command = ["git", "--git-dir", repository, "fsck", "--strict", "--full", "--no-dangling"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr.replace("notice: HEAD points to an unborn branch", "").strip()


def all_objects(repository: str) -> bytes:
    """Every object that the references need, as git reads it."""
    listed = git(repository, "rev-list", "--objects", "--all").split("\n")
    ids = sorted({line.split(" ")[0] for line in listed if line})
    command = ["git", "--git-dir", repository, "cat-file", "--batch"]
    text = "".join(f"{oid}\n" for oid in ids).encode()
    found = subprocess.run(command, input=text, check=True, capture_output=True).stdout
    assert b" missing\n" not in found
    return found


def repack(repository: str, *, drop: bool = False, before_sweep: object = None) -> Repacking:
    def on_background(run: Callable[[], None]) -> None:
        if callable(before_sweep):
            before_sweep()
        run()

    work = Repacking(repository, Disk(), on_background, Progress(), drop)
    work.run()
    return work


def grown(histories: Histories, commits: int, start: int = 0) -> None:
    """A history of edits in a large file and a directory of many files."""
    lines = [f"line {number} of a file that is edited often\n" for number in range(300)]
    if start == 0:
        files = {f"src/file_{number:03}.py": f"# {number}\n" for number in range(60)}
        histories.commit({**files, "src/large.py": "".join(lines), "a/b/c.txt": "deep\n"})
    for number in range(start, start + commits):
        lines[number * 7 % 300] = f"edit {number}\n"
        histories.commit({"src/large.py": "".join(lines), "a/b/c.txt": f"deep {number}\n"})


def objects_bytes(repository: str) -> int:
    folder = Path(repository) / "objects"
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def loose(repository: str) -> list[Path]:
    return [p for p in (Path(repository) / "objects").glob("??/*") if p.is_file()]


def packs(repository: str) -> list[str]:
    return sorted(p.name for p in (Path(repository) / "objects/pack").iterdir())


def test_loose_objects_become_one_small_pack_and_git_reads_the_same(histories: Histories) -> None:
    grown(histories, 80)
    before, size = all_objects(histories.path), objects_bytes(histories.path)
    repack(histories.path)
    assert loose(histories.path) == []
    assert len(packs(histories.path)) == 2
    assert all_objects(histories.path) == before
    assert fsck(histories.path) == ""
    assert objects_bytes(histories.path) < size / 3
    reader = ObjectFiles(histories.path)
    for line in git(histories.path, "rev-list", "--objects", "--all").splitlines():
        reader.read(line.split(" ")[0])
    reader.close()


def test_commits_are_looked_at_once_however_many_pins_name_them(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(histories, 30)
    for number, oid in enumerate(histories.oids):
        set_pin(histories.path, f"pin-{number}", oid, Disk())
    phases: list[str] = []
    monkeypatch.setattr(Progress, "step", lambda self, _=1: phases.append(self.phase))
    before = all_objects(histories.path)
    repack(histories.path, drop=True)
    assert phases.count("comparing versions") == len(histories.oids)
    assert all_objects(histories.path) == before
    assert fsck(histories.path) == ""


def test_a_pass_after_another_packs_what_is_new_and_chains_stay_short(
    histories: Histories,
) -> None:
    for turn in range(6):
        grown(histories, 50, start=turn * 50)
        repack(histories.path)
    before = all_objects(histories.path)
    repack(histories.path, drop=True)
    assert all_objects(histories.path) == before
    assert fsck(histories.path) == ""
    for name in packs(histories.path):
        if name.endswith(".idx"):
            path = os.path.join(histories.path, "objects/pack", name)
            listed = git(histories.path, "verify-pack", "-v", path).splitlines()
            depths = [int(line.split()[5]) for line in listed if len(line.split()) == 7]
            assert max(depths, default=0) <= 30


def test_two_packs_of_like_size_become_one_of_the_version_that_git_writes(
    histories: Histories,
) -> None:
    for content in (b"one", b"two"):
        write_pack(histories.path, [blob(content)], Disk())
    repack(histories.path)
    [pack] = Path(histories.path, "objects/pack").glob("*.pack")
    assert pack.read_bytes()[:8] == b"PACK\0\0\0\2"


def test_nothing_to_do_changes_nothing(histories: Histories) -> None:
    grown(histories, 10)
    repack(histories.path, drop=True)
    folder = Path(histories.path, "objects/pack")
    before = {file: file.stat().st_ino for file in folder.iterdir()}
    repack(histories.path, drop=True)
    repack(histories.path)
    assert {file: file.stat().st_ino for file in folder.iterdir()} == before


def test_large_packs_are_not_written_again_for_a_few_objects(histories: Histories) -> None:
    grown(histories, 60)
    repack(histories.path)
    histories.commit({"big.bin": os.urandom(200_000)})
    repack(histories.path)
    before = packs(histories.path)
    histories.commit({"a/b/c.txt": "one more\n"})
    repack(histories.path)
    assert set(before) < set(packs(histories.path))
    assert fsck(histories.path) == ""


def test_objects_that_nothing_needs_are_dropped_and_those_of_pins_kept(
    histories: Histories,
) -> None:
    grown(histories, 5)
    garbage = [blob(b"loose one"), blob(b"packed one")]
    histories.repository.write(garbage[:1])
    write_pack(histories.path, garbage[1:], Disk())
    kept = histories.oids[-1]
    pins = Path(histories.path) / "refs/pins"
    pins.mkdir(exist_ok=True)
    (pins / "good").write_text(kept + "\n")
    back = histories.oids[-3]
    histories.repository.set_head(back)
    before = all_objects(histories.path)
    work = repack(histories.path, drop=True)
    assert work.dropped == 2
    assert all_objects(histories.path) == before
    for item in garbage:
        command = ["git", "--git-dir", histories.path, "cat-file", "-e", item.oid]
        assert subprocess.run(command, check=False, capture_output=True).returncode != 0
    assert fsck(histories.path) == ""


def test_garbage_in_a_large_pack_is_dropped_as_well(histories: Histories) -> None:
    """By its size alone it would stay, and what was forgotten with it."""
    grown(histories, 5)
    content = os.urandom(400_000)
    write_pack(histories.path, [blob(content)], Disk())
    assert repack(histories.path, drop=True).dropped == 1
    sizes = [path.stat().st_size for path in Path(histories.path).glob("objects/pack/*.pack")]
    assert max(sizes) < len(content)


def test_a_submodule_that_a_person_has_fetched_is_no_missing_object(histories: Histories) -> None:
    """Its commit is in another repository."""
    grown(histories, 3)
    entries = b"160000 lib\0" + b"\x11" * 20
    tree = NewObject("tree", object_id("tree", entries), entries)
    written_by = b"a <a@b> 0 +0000"
    content = b"tree %s\nauthor %s\ncommitter %s\n\nx\n" % (
        tree.oid.encode(), written_by, written_by,
    )  # fmt: skip
    commit = NewObject("commit", object_id("commit", content), content)
    write_pack(histories.path, [tree, commit], Disk())
    git(histories.path, "update-ref", "refs/heads/theirs", commit.oid)
    repack(histories.path, drop=True)
    assert commit.oid in git(histories.path, "rev-list", "theirs")


def test_an_incremental_pass_drops_nothing(histories: Histories) -> None:
    grown(histories, 5)
    content = b"nobody needs this yet"
    histories.repository.write([blob(content)])
    repack(histories.path)
    assert git(histories.path, "cat-file", "-p", object_id("blob", content)) == content.decode()


def test_what_comes_to_be_needed_while_garbage_is_collected_stays(histories: Histories) -> None:
    grown(histories, 5)
    content = b"garbage, at first\n"
    histories.repository.write([blob(content)])

    def commit_it() -> None:
        histories.commit({"late.txt": content})

    work = repack(histories.path, drop=True, before_sweep=commit_it)
    assert work.dropped == 0
    assert git(histories.path, "show", f"{histories.oids[-1]}:late.txt") == content.decode()
    assert fsck(histories.path) == ""


@pytest.mark.parametrize("drop", [True, False])
def test_copied_objects_are_removed_in_steps_and_none_on_the_background_thread(
    histories: Histories, drop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls whose objects Git needs would wait for the removal of all."""
    grown(histories, 60)
    copied = len(loose(histories.path))
    seen: list[str] = []

    def unlink(disk: Disk, name: str, dir_fd: int | None = None) -> None:
        seen.append("removed")
        os.unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(Disk, "unlink", unlink)
    monkeypatch.setattr(Progress, "step", lambda _progress, _count=1: seen.append("others' turn"))
    removing = Repacking.__dict__["_remove"]

    def on_background(work: Repacking, packs: list[str], oids: bytes) -> None:
        seen.clear()
        removing(work, packs, oids)
        assert seen == []

    monkeypatch.setattr(Repacking, "_remove", on_background)
    repack(histories.path, drop=drop)
    assert (loose(histories.path), seen.count("removed")) == ([], copied)
    assert max(len(list(run)) for what, run in groupby(seen) if what == "removed") <= 64 < copied


def test_a_whole_copy_stays_where_the_other_one_is_damaged(histories: Histories) -> None:
    content = random.Random(7).randbytes(30_000)
    oid = object_id("blob", content)
    histories.commit({"kept.bin": content})
    repack(histories.path)
    [pack] = Path(histories.path, "objects/pack").glob("*.pack")
    data = bytearray(pack.read_bytes())
    data[data.find(zlib.compress(content, 6)[100:200])] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(data)
    copy = Path(histories.path, "objects", oid[:2], oid[2:])
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(zlib.compress(b"blob %d\0%b" % (len(content), content)))
    histories.commit({"a.txt": b"one more\n"})
    repack(histories.path)
    assert loose(histories.path) == []
    assert pack.name in packs(histories.path), "it was large enough to stay"
    assert ObjectFiles(histories.path).read(oid) == ("blob", content)


def test_a_history_with_a_missing_object_is_left_as_it_is(histories: Histories) -> None:
    grown(histories, 5)
    tree = git(histories.path, "rev-parse", "history^^:src").strip()
    (Path(histories.path) / "objects" / tree[:2] / tree[2:]).unlink()
    before = sorted(loose(histories.path))
    with pytest.raises(BrokenHistory, match=tree):
        repack(histories.path, drop=True)
    assert sorted(loose(histories.path)) == before


def test_packs_made_by_plain_git_are_understood(histories: Histories) -> None:
    grown(histories, 60)
    git(histories.path, "repack", "-a", "-d", "-q")
    grown(histories, 60, start=60)
    before = all_objects(histories.path)
    repack(histories.path)
    repack(histories.path, drop=True)
    assert len(packs(histories.path)) == 2
    assert all_objects(histories.path) == before
    assert fsck(histories.path) == ""


def test_joining_small_packs_leaves_those_of_plain_git_alone(histories: Histories) -> None:
    grown(histories, 20)
    git(histories.path, "repack", "-a", "-d", "-q")
    [by_git] = [n for n in packs(histories.path) if n.endswith(".pack")]
    for number in range(20):
        write_pack(histories.path, [blob(b"%d" % number)], Disk())
    merge_packs(histories.path, Disk())
    assert by_git in packs(histories.path)
    assert fsck(histories.path) == ""


def test_joining_small_packs_keeps_deltas_right(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repacking, "_chosen_packs", lambda _, packs: [])  # only loose objects
    for turn in range(20):
        grown(histories, 6, start=turn * 6)
        repack(histories.path)
    before = all_objects(histories.path)
    assert len(packs(histories.path)) > 30
    assert merge_packs(histories.path, Disk()) != []
    assert all_objects(histories.path) == before
    assert fsck(histories.path) == ""


@settings(max_examples=12, deadline=None)
@given(
    turns=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=8),
            st.sampled_from(["pack", "drop", "merge", "git", "nothing"]),
        ),
        min_size=2,
        max_size=6,
    )
)
@example(turns=[([("a", n % 2) for n in range(8)], "pack")] * 4)
@example(turns=[([("a", 0), ("a", 1)], "pack"), ([("a", 1), ("a", 0)], "drop")] * 2)
def test_contents_that_come_again_never_make_a_circle(
    turns: list[tuple[list[tuple[str, int]], str]],
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        histories = Histories(Path(directory))
        text = "".join(f"line {number} of a text that is long enough\n" for number in range(60))
        for edits, work in turns:
            for name, number in edits:
                changed = text.replace(f"line {number * 9} ", "changed ")
                part = changed[: number * 99]
                histories.commit({f"d/{name}.txt": changed, f"{name}/x.txt": part})
            before = all_objects(histories.path)
            if work in ("pack", "drop"):
                repack(histories.path, drop=work == "drop")
            elif work == "git":
                git(histories.path, "repack", "-d", "-q")
            elif work == "merge":
                merge_packs(histories.path, Disk())
            assert all_objects(histories.path) == before
        histories.repository.close()
        assert fsck(histories.path) == ""


# -- killed


def die_at(monkeypatch: pytest.MonkeyPatch, wanted: str, times: int) -> None:
    failpoint = failpoints._armed(f"{wanted}:{times}", None)
    monkeypatch.setattr(repacking, "failpoint", failpoint)
    monkeypatch.setattr(packing, "failpoint", failpoint)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("point", "times"),
    [
        ("gc.before_pack", 1),
        ("git.pack_staged", 1),
        ("git.pack_staged", 2),
        ("gc.pack_written", 1),
        ("gc.pack_durable", 1),
        ("gc.before_removing", 1),
        ("git.pack_unindexed", 1),
        ("git.pack_unindexed", 2),
        ("gc.removed_pack", 1),
        ("gc.removed_loose", 1),
        ("gc.removed_loose", 20),
        ("gc.swept", 1),
    ],
)
def test_killed_at_any_step_nothing_is_lost(
    histories: Histories, monkeypatch: pytest.MonkeyPatch, point: str, times: int, drop: bool
) -> None:
    grown(histories, 20)
    repack(histories.path)
    grown(histories, 20, start=20)
    histories.repository.close()
    write_pack(histories.path, [blob(b"g")], Disk())
    before = all_objects(histories.path)
    child = os.fork()
    if child == 0:
        die_at(monkeypatch, point, times)
        try:
            repack(histories.path, drop=drop)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert all_objects(histories.path) == before
    create_repository(histories.path, Disk())  # what a start does
    names = packs(histories.path)
    assert not [name for name in names if name.endswith(".tmp")]
    assert len([n for n in names if n.endswith(".pack")]) * 2 == len(names)
    assert fsck(histories.path) == ""
    repack(histories.path, drop=drop)
    assert all_objects(histories.path) == before
    assert fsck(histories.path) == ""


def test_a_tag_that_the_person_has_made_is_packed_as_well(histories: Histories) -> None:
    grown(histories, 3)
    identity = ["-c", "user.name=a", "-c", "user.email=b"]
    git(histories.path, *identity, "tag", "-a", "-m", "the first", "v1", histories.oids[0])
    before = all_objects(histories.path)
    repack(histories.path, drop=True)
    assert all_objects(histories.path) == before
    assert git(histories.path, "count-objects").startswith("0 objects")
    assert fsck(histories.path) == ""


@pytest.mark.parametrize("link", ["parent", "tree", "object"])
def test_an_agent_with_the_name_of_a_line_of_a_commit_stops_no_gc(
    histories: Histories, link: str
) -> None:
    for number in range(5):
        histories.commit({"a.txt": f"{number}\n"}, agent=f"{link} {'0123456789' * 4}")
    before = all_objects(histories.path)
    repack(histories.path, drop=True)
    assert all_objects(histories.path) == before
    assert loose(histories.path) == []
