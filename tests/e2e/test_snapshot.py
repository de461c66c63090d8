"""Snapshots: the whole workspace as one commit, as plain git would add it; beside the calls."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import in_process
from e2e.running_daemon import ConnectionEnded, Site, running
from in_process import InProcess
from own_peer import own_peer
from stet.wire.failures import Kind, refuse
from stet.wire.results import SnapshotResult
from stetd.historian.maintenance import snapshots
from stetd.storage.progress import Progress
from stetd.transaction.drafts import Requester
from stetd.upkeep.snapshot import snapshot


def tree(site: Site, commit: str = "history") -> dict[str, str]:
    """Path to mode and id, as git lists them."""
    listed = site.git("ls-tree", "-r", "-z", commit).split("\0")
    rows = (row.partition("\t") for row in listed if row)
    return {path: " ".join(head.split()[::2]) for head, _, path in rows}


def git_would_add(site: Site) -> dict[str, str]:
    """The same of what git itself would add to a new repository in the workspace."""
    index = site.root.parent / f"{site.root.name}-index"
    repository = site.root.parent / f"{site.root.name}-repository"
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        "GIT_DIR": str(repository), "GIT_WORK_TREE": str(site.root), "GIT_INDEX_FILE": str(index),
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    subprocess.run(["git", "init", "-q"], check=True, env=environment)
    subprocess.run(["git", "add", "-A"], check=True, env=environment, cwd=site.root)
    out = subprocess.run(
        ["git", "ls-files", "-s", "-z"],
        check=True, capture_output=True, text=True, env=environment, cwd=site.root,
    ).stdout  # fmt: skip
    rows = (row.partition("\t") for row in out.split("\0") if row)
    return {path: " ".join(head.split()[:2]) for head, _, path in rows}


def filled(site: Site) -> None:
    site.write("README", "hello\n")
    site.write("run.sh", "#!/bin/sh\n", mode=0o755)
    site.write("private.txt", "mine\n", mode=0o600)
    site.write("empty", "")
    site.write("src/a.py", "one\n")
    site.write("src/deep/er/b.py", b"\0\xff binary")
    site.write("src/deep/er/c.o", "object")
    site.write("build/out", "made")
    site.write("src/build/kept", "kept")
    site.write("ünïcode/名前.txt", "x\n")
    site.write(".gitignore", "*.o\n/build\n")
    site.write("src/deep/.gitignore", "!c.o\n")
    (site.root / "link").symlink_to("src/a.py")
    (site.root / "dangling").symlink_to("nowhere")
    (site.root / "dir-link").symlink_to("src")
    (site.root / "nothing").mkdir()


def test_a_snapshot_is_what_git_would_add(own_site: Site) -> None:
    site = own_site
    filled(site)
    result = site.person.call("snapshot", message="before the agents")
    assert tree(site) == git_would_add(site)
    assert (result["files"], result["added"], result["skipped"]) == (14, 14, [])
    [info] = site.log()
    assert (info["kind"], info["method"], info["commit"]) == (
        "snapshot", "snapshot", result["commit"],
    )  # fmt: skip
    assert info["message"].startswith("snapshot: 14 files")
    assert "before the agents" in info["message"]
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    assert site.person.call("snapshot")["commit"] is None
    site.restart()
    assert site.log()[0]["commit"] == result["commit"]
    assert site.person.call("snapshot")["commit"] is None


def test_a_diff_that_is_too_large_for_an_answer_is_refused(site: Site) -> None:
    site.overwrite("a.txt", "one\n")
    for name in ("one", "two"):
        site.write(f"large/{name}.txt", (name * (1 << 18) + "\n") * 45)
    site.write("large/small.txt", "two\n")
    commit = site.person.call("snapshot")["commit"]
    between = {"from": "HEAD~1", "to": commit}
    for method, params in (("show", {"commit": commit}), ("diff", between)):
        refusal = site.person.refusal(method, **params)
        assert refusal.kind == "file_too_large"
        assert "has more than 64 MiB, which is too much for one answer" in refusal.message
    part = site.person.call("diff", **between, paths=["large/small.txt"])
    assert [each["path"] for each in part["files"]] == ["large/small.txt"]


def test_a_second_snapshot_has_what_changed_and_what_went(site: Site) -> None:
    filled(site)
    first = site.person.call("snapshot")["commit"]
    site.write("src/a.py", "two\n")
    site.write("new/file", "new\n")
    (site.root / "README").unlink()
    (site.root / "run.sh").chmod(0o644)
    (site.root / "link").unlink()
    (site.root / "link").symlink_to("README")
    second = site.person.call("snapshot")
    assert (second["added"], second["modified"], second["removed"]) == (1, 3, 1)
    assert tree(site) == git_would_add(site)
    assert site.git("diff", "--name-status", "--no-renames", first, second["commit"]) == (
        "D\tREADME\nM\tlink\nA\tnew/file\nM\trun.sh\nM\tsrc/a.py\n"
    )
    assert site.fsck() == ""


def test_a_file_changed_at_once_with_the_same_size_is_seen(site: Site) -> None:
    for number in range(20):
        site.write("a.txt", f"{number:04}\n")
        assert site.person.call("snapshot")["commit"] is not None
        assert site.git("show", "history:a.txt") == f"{number:04}\n"


def test_what_agents_edited_stays_tracked_where_it_is_ignored(site: Site) -> None:
    site.write(".gitignore", "*.log\nout/\n")
    site.overwrite("a.log", "by the agent\n")
    site.overwrite("out/deep/b.txt", "by the agent\n")
    site.write("c.log", "nobody's\n")
    site.write("out/d.txt", "nobody's\n")
    site.write("a.log", "by hand\n")
    site.person.call("snapshot")
    assert sorted(tree(site)) == [".gitignore", "a.log", "out/deep/b.txt"]
    assert site.git("show", "history:a.log") == "by hand\n"
    (site.root / "a.log").unlink()
    site.person.call("snapshot")
    assert sorted(tree(site)) == [".gitignore", "out/deep/b.txt"]


def test_a_link_or_file_in_place_of_a_tracked_directory_is_left_out_where_it_is_ignored(
    site: Site,
) -> None:
    site.write(".gitignore", "modules\nout\n")
    for folder in ("modules", "out"):
        site.overwrite(f"{folder}/a.txt", "by the agent\n")
        (site.root / folder / "a.txt").unlink()
        (site.root / folder).rmdir()
    (site.root / "modules").symlink_to("elsewhere")
    site.write("out", "nobody's\n")
    site.person.call("snapshot")
    assert sorted(tree(site)) == [".gitignore"]


def test_git_directories_and_odd_things_are_left_out(site: Site) -> None:
    subprocess.run(["git", "init", "-q", str(site.root)], check=True)
    subprocess.run(["git", "init", "-q", "--bare", str(site.root / "bare")], check=True)
    subprocess.run(["git", "init", "-q", str(site.root / "nested")], check=True)
    site.write("nested/file", "of a nested repository\n")
    site.write(".GIT/config", "x")
    os.mkfifo(site.root / "pipe")
    (site.root / ".gitignore").symlink_to("pipe")
    os.mkfifo(site.root / "nested/.gitignore")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(site.root)
        listening.bind("socket")
        os.chdir(here)
    Path(os.fsdecode(os.fsencode(site.root) + b"/\xff\xfe")).write_text("odd")
    site.write("line\nbreak", "odd")
    site.write("sub/HEAD", "no repository\n")
    result = site.person.call("snapshot")
    assert sorted(tree(site)) == ["nested/file", "sub/HEAD"]
    assert result["skipped_count"] == 4
    skipped = sorted(each["path"] for each in result["skipped"])
    assert skipped == [".gitignore", "bare/", "line\nbreak", "\ufffd\ufffd"]
    assert site.fsck() == ""


def test_what_the_history_has_of_something_that_is_passed_over_stays(site: Site) -> None:
    site.overwrite("sub/bare/a.txt", "by the agent\n")
    site.overwrite("sub/gone.txt", "by the agent\n")
    subprocess.run(["git", "init", "-q", "--bare", str(site.root / "sub/bare")], check=True)
    (site.root / "sub/gone.txt").unlink()
    result = site.person.call("snapshot")
    assert [each["path"] for each in result["skipped"]] == ["sub/bare/"]
    assert result["removed"] == 1
    assert sorted(tree(site)) == ["sub/bare/a.txt"]
    assert site.fsck() == ""


def test_links_are_never_followed(site: Site) -> None:
    outside = site.root.parent / f"{site.root.name}-outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (site.root / "way").symlink_to(outside)
    (site.root / "up").symlink_to("..")
    site.person.call("snapshot")
    assert tree(site).keys() == {"way", "up"}


def test_permissions_come_back(site: Site) -> None:
    site.write("private.txt", "mine\n", mode=0o600)
    commit = site.person.call("snapshot")["commit"]
    (site.root / "private.txt").unlink()
    site.person.call("restore", path="private.txt", at=commit)
    assert (site.root / "private.txt").stat().st_mode & 0o777 == 0o600
    assert site.bytes_of("private.txt") == b"mine\n"


def test_edits_go_on_after_it_and_undo_leaves_it_alone(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.person.call("snapshot")
    edit = site.replace("a.txt", "one", "two")
    assert edit["outside"] is None
    site.agent.call("undo")
    assert site.bytes_of("a.txt") == b"one\n"
    assert site.person.refusal("undo").kind == Kind.NOTHING_TO_UNDO
    assert site.kinds() == ["undo", "edit", "snapshot"]


def test_a_workspace_without_files_gives_none(site: Site) -> None:
    assert site.person.call("snapshot")["commit"] is None
    assert site.log() == []


# -- limits


@pytest.fixture
def small() -> Iterator[Site]:
    with running(
        {"snapshot_max_files": 20, "snapshot_max_bytes": 10_000, "max_file_bytes": 4000}
    ) as daemon:
        yield daemon.site("w")


def files_of_state(site: Site) -> list[Path]:
    return sorted(path for path in Path(site.shadow).rglob("*"))


def test_absurd_trees_are_refused_with_numbers_and_nothing_written(small: Site) -> None:
    site = small
    before = files_of_state(site)
    for number in range(30):
        site.write(f"node_modules/{number}.js", "x")
    refusal = site.person.refusal("snapshot")
    assert refusal.kind == Kind.INPUT_TOO_LARGE
    assert "30 files" in refusal.message
    assert "node_modules/ 30" in refusal.message
    site.write(".gitignore", "node_modules\n")
    site.write("large.bin", b"\0" * 5000)
    refusal = site.person.refusal("snapshot")
    assert refusal.kind == Kind.FILE_TOO_LARGE
    assert "large.bin (5,000 bytes)" in refusal.message
    for number in range(3):
        site.write(f"{number}.bin", b"\0" * 3900)
    refusal = site.person.refusal("snapshot", skip_large=True)
    assert refusal.kind == Kind.INPUT_TOO_LARGE
    assert "11," in refusal.message
    assert files_of_state(site) == before
    (site.root / "0.bin").unlink()
    result = site.person.call("snapshot", skip_large=True)
    assert sorted(tree(site)) == [".gitignore", "1.bin", "2.bin"]
    assert [each["path"] for each in result["skipped"]] == ["large.bin"]


# -- beside calls


def test_calls_beside_snapshots_lose_nothing_and_agree(own_site: Site) -> None:
    site = own_site
    for number in range(300):
        site.write(f"d{number % 10}/{number}.txt", f"{number}\n")
    site.person.call("snapshot")
    stop = threading.Event()
    taken: list[object] = []

    def take() -> None:
        while not stop.is_set():
            taken.append(site.person.call("snapshot")["commit"])

    thread = threading.Thread(target=take)
    thread.start()
    try:
        for number in range(60):
            path = f"d{number % 10}/{number}.txt"
            site.replace(path, str(number), f"{number} edited")
            if number % 3 == 0:
                site.agent.call("undo")
            if number % 7 == 0:
                site.write(f"d{number % 10}/by-hand-{number}.txt", "by hand\n")
            site.overwrite(f"new/{number}.txt", "new\n")
    finally:
        stop.set()
        thread.join()
    site.person.call("snapshot")
    assert tree(site) == git_would_add(site)
    assert site.person.call("diff")["files"] == []
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    kinds = site.kinds(limit=1000)
    assert "outside" not in kinds
    assert kinds.count("edit") == 120
    site.restart()
    assert site.person.call("verify")["problems"] == []


def daemon_of_one_file(base: Path) -> tuple[InProcess, Path]:
    root = base / "ws"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return in_process.opened(base), root


def taking(daemon: InProcess) -> SnapshotResult:
    [workspace] = daemon.writer.state.open.values()
    asked = Requester(None, None, None, "snapshot", None)
    return daemon.wait_for(snapshot(daemon.writer, workspace, asked, False, Progress()))


def test_a_text_that_was_there_only_while_it_was_taken_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edit is read, then undone: head before and after are alike, and the file is, too."""
    daemon, root = daemon_of_one_file(tmp_path)
    try:
        person = daemon.connect(control=True, peer=own_peer("test"))
        agent = daemon.connect(control=False, peer=own_peer("test"))
        asyncio.run(person.call("workspace_allow", {"root": str(root)}))
        hello = {"protocol": 1, "workspace": str(root), "session": "s", "agent": "a"}
        asyncio.run(agent.call("hello", hello))
        zero = [{"operation": "overwrite", "newText": "zero\n"}]
        moment = [{"operation": "overwrite", "newText": "for a moment\n"}]
        asyncio.run(agent.call("patch", {"path": "a.txt", "patches": zero}))
        meanwhile = {
            "reading": ("patch", {"path": "a.txt", "patches": moment}),
            "writing directories": ("undo", {}),
        }

        def begin(self: Progress, phase: str, total: int | None = None) -> None:
            self.phase, self.done, self.total = phase, 0, total
            if phase in meanwhile:
                asyncio.run(agent.call(*meanwhile.pop(phase)))

        monkeypatch.setattr(Progress, "begin", begin)
        taken = taking(daemon)
        assert not meanwhile
        assert (root / "a.txt").read_text() == "zero\n"
        assert taken.commit is None, "nothing differs from what the history says"
    finally:
        daemon.close()


def test_a_file_that_can_not_be_read_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, root = daemon_of_one_file(tmp_path)

    def refused(*_: object) -> None:
        raise refuse(Kind.IO_ERROR, "a.txt: Permission denied")

    monkeypatch.setattr(snapshots, "present", refused)
    try:
        person = daemon.connect(control=True, peer=own_peer("test"))
        asyncio.run(person.call("workspace_allow", {"root": str(root)}))
        taken = taking(daemon)
        assert [each.path for each in taken.skipped] == ["a.txt"]
        assert taken.skipped_count == 1
    finally:
        daemon.close()


def test_the_permissions_are_those_of_the_last_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, root = daemon_of_one_file(tmp_path)
    file = root / "a.txt"
    file.chmod(0o600)

    def change_again(_: str) -> None:
        if file.read_text() == "one\n":
            file.write_text("two\n")
            file.chmod(0o640)

    monkeypatch.setattr(snapshots, "failpoint", change_again)
    try:
        person = daemon.connect(control=True, peer=own_peer("test"))
        asyncio.run(person.call("workspace_allow", {"root": str(root)}))
        assert taking(daemon).added == 1
        asyncio.run(person.call("hello", {"protocol": 1, "workspace": str(root)}))
        asyncio.run(person.call("show", {"commit": "HEAD"}))  # Git has it then
        [workspace] = daemon.writer.state.open.values()
        commit = workspace.repository.commit(workspace.head.commit or "")
        assert commit.meta.permissions == (("a.txt", 0o640),)
    finally:
        daemon.close()


@pytest.mark.parametrize(
    "point",
    ["snapshot.pack_written", "snapshot.read", "snapshot.before_record", "snapshot.recorded",
     "journal.after_sync"],
)  # fmt: skip
@pytest.mark.parametrize("boot", ["one", "two"])
def test_killed_in_the_middle_it_is_there_or_not(own_site: Site, point: str, boot: str) -> None:
    site = own_site
    filled(site)
    site.restart(STET_FAILPOINT=point if point[0] == "s" else "", STET_BOOT_ID="one")
    site.overwrite("src/a.py", "by the agent\n")
    site.write("src/a.py", "by hand\n")
    if point[0] == "s":
        with pytest.raises(ConnectionEnded):
            site.person.call("snapshot")
        assert site.daemon.wait() == -9
    else:
        site.person.call("snapshot")
        site.daemon.kill()
    site.daemon.start(STET_BOOT_ID=boot)
    site.connect()
    taken = site.kinds().count("snapshot")
    assert taken == (point in ("snapshot.recorded", "journal.after_sync"))
    assert site.bytes_of("src/a.py") == b"by hand\n"
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    site.person.call("snapshot")
    assert tree(site) == git_would_add(site)
