"""A workspace whose history is damaged when the daemon starts: it alone is put off.

The daemon starts, other workspaces go on, verify names the damage; when the files are put back
from a copy the workspace goes on with every call that was answered.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import in_process
from e2e.running_daemon import DaemonProcess, Site, eventually, running
from historian.test_lost_historian import historian_of
from own_peer import own_peer
from stetd.methods import workspaces
from stetd.processes.historian_client import Historian
from stetd.recovery.workspaces import open_repository


@pytest.fixture
def two() -> Iterator[tuple[Site, Site]]:
    """Two workspaces of a daemon that takes checkpoints only when it stops."""
    with running({"checkpoint_idle_s": 600, "gc_idle_s": 0}) as daemon:
        yield daemon.site("w"), daemon.site("other")


def fill(site: Site, count: int = 3) -> None:
    for number in range(count):
        site.overwrite("sub/a.txt", f"number {number}\n", request_id=f"first-{number}")


def its_tree(site: Site) -> str:
    return site.git("rev-parse", "history^{tree}").strip()


def subtree(site: Site) -> str:
    return site.git("rev-parse", "history:sub").strip()


DAMAGES: dict[str, Callable[[Site, str], Path]] = {
    "the newest commit": lambda site, head: loose(site, head),
    "its tree": lambda site, head: loose(site, its_tree(site)),
    "a directory in it": lambda site, head: loose(site, subtree(site)),
}


def loose(site: Site, oid: str) -> Path:
    return Path(site.shadow, "objects", oid[:2], oid[2:])


def overwritten(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(b"")


def removed(path: Path) -> None:
    path.unlink()


def state_of(daemon: DaemonProcess, root: Path) -> dict[str, Any]:
    everything = daemon.control().call("workspace_list")["workspaces"]
    [own] = [each for each in everything if each["root"] == str(root)]
    found: dict[str, Any] = own
    return found


def hello(site: Site) -> dict[str, Any]:
    return {"protocol": 1, "workspace": str(site.root), "session": site.session}


def assert_deferred(site: Site, *names: str) -> dict[str, Any]:
    """It is told wherever somebody asks, and no call works; the result of verify."""
    daemon = site.daemon
    refusal = daemon.agent().refusal("hello", **hello(site))
    assert refusal.kind == "io_error"
    for name in (*names, "stet verify", site.shadow):
        assert name in refusal.message
    assert state_of(daemon, site.root)["trouble"] == refusal.message
    status = daemon.control().call("status")
    assert status["unavailable"] == {str(site.root): refusal.message}
    assert status["read_only"] is None
    found = daemon.control().call("verify", workspace=str(site.root))
    assert found["ok"] is False
    for name in names:
        assert any(name in problem["message"] for problem in found["problems"][:-1])
    assert found["problems"][-1]["kind"] == "put_off"
    return found


@pytest.mark.parametrize(
    ("what", "checkpointed", "how"),
    [
        ("the newest commit", True, overwritten),
        ("its tree", True, removed),
        ("the newest commit", False, removed),
        ("its tree", False, overwritten),
        # Where nothing is to be made again nobody looks: whoever edits there is told.
        ("a directory in it", False, removed),
    ],
)
def test_a_damaged_history_puts_its_workspace_off_and_no_other(
    two: tuple[Site, Site], what: str, checkpointed: bool, how: Callable[[Path], None]
) -> None:
    site, other = two
    daemon = site.daemon
    fill(site)
    site.restart()
    other.connect()
    damaged = DAMAGES[what](site, site.git("rev-parse", "history").strip())
    kept = site.daemon.base / "copy"
    shutil.copy2(damaged, kept)
    if not checkpointed:  # of these calls only the journal knows for sure
        site.overwrite("sub/a.txt", "acknowledged\n", request_id="late-1")
        site.overwrite("b.txt", "new\n", request_id="late-2")
    log = site.ids()
    daemon.kill()
    how(damaged)
    daemon.start()
    assert_deferred(site, damaged.parent.name + damaged.name)
    other.connect()
    other.overwrite("o.txt", "goes on\n")
    assert other.person.call("verify")["problems"] == []
    # Through more lives, and checkpoints taken for the other workspace.
    for _ in range(2):
        daemon.restart()
        other.connect()
        other.overwrite("o.txt", f"goes on {len(other.log())}\n")
        assert_deferred(site)
    shutil.copy2(kept, damaged)
    daemon.restart()
    site.connect()
    assert site.ids() == log
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""
    assert "unavailable" not in daemon.control().call("status")
    if not checkpointed:
        assert site.overwrite("b.txt", "new\n", request_id="late-2")["replayed"] is True
        assert site.bytes_of("sub/a.txt") == b"acknowledged\n"
    site.overwrite("sub/a.txt", "after\n")
    site.restart()
    assert site.ids()[1:] == log


def test_a_directory_in_place_of_a_file_of_the_repository_puts_no_other_workspace_off(
    two: tuple[Site, Site],
) -> None:
    site, other = two
    fill(site)
    site.daemon.stop()
    head = Path(site.shadow, "HEAD")
    reference = head.read_bytes()
    head.unlink()
    head.mkdir()
    site.daemon.start()
    assert f"{head}: Is a directory" in state_of(site.daemon, site.root)["trouble"]
    other.connect()
    other.overwrite("o.txt", "goes on\n")
    head.rmdir()
    head.write_bytes(reference)
    site.restart()
    site.overwrite("sub/a.txt", "goes on, too\n")
    assert site.person.call("verify")["problems"] == []


def test_a_pack_that_is_put_back_while_the_daemon_runs(two: tuple[Site, Site]) -> None:
    site, _ = two
    fill(site)
    site.restart()
    site.person.call("gc")
    log = site.ids()
    [pack] = Path(site.shadow, "objects/pack").glob("*.pack")
    whole = pack.read_bytes()
    site.daemon.kill()
    pack.chmod(0o600)
    pack.write_bytes(whole[: len(whole) // 2])
    site.daemon.start()
    found = assert_deferred(site)
    assert pack.name in "".join(problem["message"] for problem in found["problems"])
    pack.write_bytes(whole)
    found = site.daemon.control().call("verify", workspace=str(site.root))
    [told] = found["problems"]
    assert told["message"].startswith("Nothing is damaged by now")
    site.connect()
    assert site.ids() == log
    assert "unavailable" not in site.daemon.control().call("status")
    site.overwrite("sub/a.txt", "after\n")
    assert site.person.call("verify")["problems"] == []
    site.restart()
    assert site.ids()[1:] == log


def test_a_reference_is_written_anew_and_what_stands_in_its_place_is_told(
    two: tuple[Site, Site],
) -> None:
    site, _ = two
    fill(site)
    log = site.ids()
    site.daemon.kill()
    reference = Path(site.shadow, "refs/heads/history")
    reference.write_bytes(b"\0" * 41)
    site.daemon.start()
    site.connect()
    assert site.ids() == log
    site.daemon.kill()
    reference.unlink()
    reference.mkdir()
    (reference / "in the way").touch()
    site.daemon.start()
    assert_deferred(site, "refs/heads/history")
    (reference / "in the way").unlink()
    reference.rmdir()
    site.connect()
    assert site.ids() == log


def test_a_history_that_is_lost_can_be_given_up(two: tuple[Site, Site]) -> None:
    site, _ = two
    daemon = site.daemon
    fill(site)
    site.restart()
    daemon.kill()
    moved = daemon.base / "moved away"
    shutil.move(site.shadow, moved)
    daemon.start()
    assert_deferred(site)
    person = daemon.control()
    person.call("workspace_forget", root=str(site.root))
    daemon.restart()  # a history that is lost and of no workspace keeps nobody from starting
    assert f"history of {site.root}, which is no workspace now: " in daemon.log()
    person = daemon.control()
    assert person.call("workspace_allow", root=str(site.root))["commits"] == 0
    site.connect()
    site.overwrite("b.txt", "a new history\n")
    kinds = site.kinds()
    assert kinds == ["edit"]
    assert site.person.call("verify")["problems"] == []
    site.crash()
    assert site.kinds() == kinds
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""


def test_a_history_that_goes_before_its_first_checkpoint_holds_up_none(
    two: tuple[Site, Site],
) -> None:
    site, other = two
    fill(site)
    site.log()
    person = other.daemon.control()
    person.call("workspace_forget", root=str(site.root))
    shutil.rmtree(site.shadow)
    commit = other.overwrite("b.txt", "one\n")["commit"]
    assert other.daemon.stop() == 0
    assert other.daemon.log() == ""
    other.daemon.start()
    other.connect()
    assert other.ids() == [commit]


def test_a_history_that_was_damaged_meanwhile_holds_up_no_checkpoint_once_it_is_forgotten(
    two: tuple[Site, Site],
) -> None:
    site, other = two
    fill(site)
    site.restart()
    shutil.rmtree(f"{site.shadow}/objects")
    site.overwrite("new.txt", "not in Git\n")
    assert "has no objects" in site.person.refusal("log").message
    person = site.daemon.control()
    person.call("workspace_forget", root=str(site.root))
    other.connect()
    other.overwrite("b.txt", "one\n")
    assert site.daemon.stop() == 0
    assert "no checkpoint could be" not in site.daemon.log()


def test_a_history_that_goes_after_its_workspace_was_allowed_again_is_missed(
    two: tuple[Site, Site],
) -> None:
    site, _ = two
    fill(site)
    person = site.daemon.control()
    person.call("workspace_forget", root=str(site.root))
    person.call("workspace_allow", root=str(site.root))
    site.connect()
    site.log()
    shutil.rmtree(site.shadow)
    site.overwrite("new.txt", "not in Git\n")
    site.daemon.stop()
    assert "no checkpoint could be" in site.daemon.log()


@pytest.mark.parametrize("killed", [False, True])
def test_a_new_history_has_what_was_written_to_the_one_that_was_moved_away(
    two: tuple[Site, Site], *, killed: bool
) -> None:
    """The historian did not write again what it had just written to the other repository."""
    site, other = two
    fill(site)
    assert site.fsck() == ""
    other.daemon.control().call("workspace_forget", root=str(site.root))
    if killed:
        other.crash()
        assert other.log() == []
    person = other.daemon.control()
    shutil.move(site.shadow, site.daemon.base / "moved away")
    person.call("workspace_allow", root=str(site.root))
    site.connect()
    commit = site.overwrite("sub/a.txt", "number 3\n")["commit"]
    assert site.ids(limit=1) == [commit]
    assert site.kinds() == ["edit", "outside"]
    assert site.fsck() == ""


def test_verify_names_a_file_that_says_where_the_history_begins_and_cannot_be_read(
    two: tuple[Site, Site],
) -> None:
    """It was an internal error; the message of the workspace sends the person to verify."""
    site, _ = two
    fill(site)
    site.once_written()
    Path(site.shadow, "shallow").mkdir()
    found = site.person.call("verify")
    [problem] = (each for each in found["problems"] if each.get("what") == "shallow")
    site.daemon.restart()
    assert_deferred(site, "shallow")
    subprocess.run(problem["message"].partition("Remove it: ")[2], shell=True, check=True)
    site.connect()
    assert site.person.call("verify")["problems"] == []


def test_nobody_writes_to_a_new_history_what_was_for_the_one_that_was_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the historian was restarted, it could write what it still had into the new one."""
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    order: list[str] = []

    def opened(*arguments: Any, **options: Any) -> Any:
        order.append("made")
        return open_repository(*arguments, **options)

    with in_process.running(tmp_path) as daemon:
        person = daemon.connect(control=True, peer=own_peer("test"))
        shadow = asyncio.run(person.call("workspace_allow", {"root": str(root)})).shadow
        asyncio.run(person.call("snapshot", {"workspace": str(root)}))
        asyncio.run(person.call("workspace_forget", {"root": str(root)}))
        shutil.move(shadow, tmp_path / "moved away")
        monkeypatch.setattr(workspaces, "open_repository", opened)
        monkeypatch.setattr(Historian, "restart", lambda _: order.append("ended"))
        asyncio.run(person.call("workspace_allow", {"root": str(root)}))
    assert order == ["ended", "made"]


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_history_goes_on_when_what_kept_it_from_that_has_passed(
    two: tuple[Site, Site], *, forgotten: bool
) -> None:
    """The historian had given it up: no checkpoint was taken until the next start, and if the
    workspace was forgotten meanwhile, its newest commits were lost.
    """
    site, other = two
    daemon = site.daemon
    fill(site)
    site.restart()
    other.connect()
    kept = [site.overwrite("sub/a.txt", "before\n")["commit"], *site.ids()[1:]]
    shutil.move(site.shadow, daemon.base / "away")
    historian = historian_of(daemon)
    assert historian is not None
    os.kill(historian, signal.SIGKILL)
    assert eventually(lambda: "can't be gone on with" in daemon.log())
    shutil.move(daemon.base / "away", site.shadow)
    kept.insert(0, site.overwrite("sub/a.txt", "after\n")["commit"])
    kept.insert(0, site.overwrite("sub/a.txt", "later\n")["commit"])
    if forgotten:
        daemon.control().call("workspace_forget", root=str(site.root))
        assert daemon.stop() == 0
        daemon.start()
        daemon.control().call("workspace_allow", root=str(site.root))
        site.connect()
    assert site.ids() == kept
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""
    assert daemon.stop() == 0
    assert "no checkpoint could be" not in daemon.log()


def test_a_history_that_cannot_be_gone_on_with_takes_no_descriptors(two: tuple[Site, Site]) -> None:
    """Each question tries it again, and each attempt left its packs open, till no more can be."""
    site, other = two
    fill(site)
    site.git("repack", "-adq")
    head = site.overwrite("sub/a.txt", "newest\n")["commit"]
    site.restart()
    other.connect()
    loose(site, head).unlink()
    historian = historian_of(site.daemon)
    assert historian is not None
    os.kill(historian, signal.SIGKILL)
    site.overwrite("sub/a.txt", "more\n")
    assert eventually(lambda: "can't be gone on with" in site.daemon.log())
    other.log()
    before = len(os.listdir(f"/proc/{historian_of(site.daemon)}/fd"))
    for _ in range(20):
        other.log()
    assert len(os.listdir(f"/proc/{historian_of(site.daemon)}/fd")) < before + 10


def test_a_history_goes_on_with_a_pack_that_was_put_back(two: tuple[Site, Site]) -> None:
    """The damaged one was still open, from the attempt before."""
    site, other = two
    fill(site)
    site.git("repack", "-adq")
    site.restart()
    other.connect()
    [pack] = Path(site.shadow, "objects", "pack").glob("*.pack")
    backup = shutil.copy(pack, site.daemon.base)
    index = site.git("verify-pack", "-v", str(pack.with_suffix(".idx")))
    [at] = [line.split()[4] for line in index.splitlines() if line.startswith(subtree(site))]
    kept = [site.overwrite("sub/a.txt", "newest\n")["commit"]]
    pack.chmod(0o600)
    with pack.open("r+b") as file:
        file.seek(int(at))
        file.write(bytes(10))
    historian = historian_of(site.daemon)
    assert historian is not None
    os.kill(historian, signal.SIGKILL)
    assert eventually(lambda: "can't be gone on with" in site.daemon.log())
    other.log()
    os.replace(backup, pack)
    assert site.ids()[:1] == kept
    assert site.person.call("verify")["problems"] == []


def test_a_history_that_was_moved_away_is_not_made_again_after_a_kill(
    two: tuple[Site, Site],
) -> None:
    """Without a checkpoint the next historian made it again, in the new repository."""
    site, other = two
    fill(site)
    site.log()
    person = other.daemon.control()
    person.call("workspace_forget", root=str(site.root))
    shutil.move(site.shadow, site.daemon.base / "moved away")
    person.call("workspace_allow", root=str(site.root))
    site.crash()
    assert site.log() == []
    assert site.person.call("verify")["problems"] == []


def test_a_history_that_git_had_nothing_of_can_be_given_up(two: tuple[Site, Site]) -> None:
    site, _ = two
    daemon = site.daemon
    site.overwrite("a.txt", "no checkpoint has it\n")
    site.log()
    daemon.kill()
    reference = Path(site.shadow, "refs/heads/history")
    reference.unlink()
    reference.mkdir()
    daemon.start()
    assert "is damaged" in state_of(daemon, site.root)["trouble"]
    person = daemon.control()
    person.call("workspace_forget", root=str(site.root))
    shutil.move(site.shadow, daemon.base / "moved away")
    person.call("workspace_allow", root=str(site.root))
    site.connect()
    site.overwrite("b.txt", "a new history\n")
    assert site.kinds() == ["edit"]
    site.crash()
    assert site.kinds() == ["edit"]
    assert site.person.call("verify")["problems"] == []


def test_a_history_that_is_put_right_after_it_was_given_up_has_all_commits(
    two: tuple[Site, Site],
) -> None:
    site, _ = two
    daemon = site.daemon
    site.overwrite("a.txt", "one\n")
    site.restart()
    site.overwrite("a.txt", "no checkpoint has it\n")
    reference = Path(site.shadow, "refs/heads/history")
    kept = site.ids()
    oid = reference.read_text()
    daemon.kill()
    reference.unlink()
    reference.mkdir()
    daemon.start()
    person = daemon.control()
    person.call("workspace_forget", root=str(site.root))
    reference.rmdir()
    reference.write_text(oid)
    assert person.call("workspace_allow", root=str(site.root))["head"] == kept[0]
    site.connect()
    kept.insert(0, site.overwrite("b.txt", "later\n")["commit"])
    assert site.ids() == kept
    site.crash()
    assert site.ids() == kept
    assert site.person.call("verify")["problems"] == []


@pytest.mark.parametrize("restarted", [True, False])
def test_a_history_that_is_given_up_keeps_no_checkpoint_from_being_taken(
    two: tuple[Site, Site], restarted: bool
) -> None:
    site, other = two
    daemon = site.daemon
    fill(site)
    site.restart()
    site.overwrite("sub/a.txt", "no checkpoint has it\n")
    kept = site.ids()
    root_tree = loose(site, site.git("rev-parse", "history~1^{tree}").strip())
    tree = root_tree.read_bytes()
    daemon.kill()
    removed(root_tree)
    daemon.start()
    assert_deferred(site)
    person = daemon.control()
    person.call("workspace_forget", root=str(site.root))
    other.connect()
    other.overwrite("a.txt", "one\n")
    if restarted:
        assert daemon.stop() == 0
        assert "no checkpoint could be" not in daemon.log()
        daemon.start()
    root_tree.write_bytes(tree)
    daemon.control().call("workspace_allow", root=str(site.root))
    site.connect()
    kept.insert(0, site.overwrite("b.txt", "later\n")["commit"])
    assert site.ids() == kept
    assert site.fsck() == ""


def test_a_damaged_history_is_not_taken_for_a_new_one(two: tuple[Site, Site]) -> None:
    site, _ = two
    fill(site)
    site.restart()
    head = loose(site, site.git("rev-parse", "history").strip())
    kept = site.daemon.base / "copy"
    shutil.copy2(head, kept)
    log = site.ids()
    person = site.daemon.control()
    person.call("workspace_forget", root=str(site.root))
    removed(head)
    site.daemon.restart()
    person = site.daemon.control()
    refusal = person.refusal("workspace_allow", root=str(site.root))
    assert refusal.kind == "io_error"
    assert "stet verify" in refusal.message
    assert site.daemon.agent().refusal("hello", **hello(site)).kind == "workspace_not_allowed"
    shutil.copy2(kept, head)
    person.call("workspace_allow", root=str(site.root))
    site.connect()
    assert site.ids() == log


def test_on_the_command_line(two: tuple[Site, Site]) -> None:
    site, _ = two
    fill(site)
    site.restart()
    head = site.git("rev-parse", "history").strip()
    site.daemon.kill()
    removed(loose(site, head))
    site.daemon.start()

    def stet(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "stet.cli", *arguments, "-C", str(site.root)]
        done = subprocess.run(
            command, env=site.daemon.environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    status, told = stet("verify")
    assert status == 1
    assert head in told
    assert f"put the files named above back from a backup of\n  {site.shadow}" in told
    for command in ("status", "workspaces", "doctor"):
        assert head in stet(command)[1]
    assert stet("log")[0] == 1
    assert "is no workspace any more" in stet("workspaces", "--forget", ".")[1]
    assert str(site.root) not in stet("workspaces")[1]


def test_a_directory_that_was_away_and_a_history_that_is_damaged_then(
    two: tuple[Site, Site],
) -> None:
    """The journal's commits are in Git by then, and are not made a second time."""
    site, _ = two
    fill(site)
    site.restart()
    site.overwrite("sub/a.txt", "acknowledged\n", request_id="late")
    log = site.ids()
    daemon, away = site.daemon, site.root.with_name("away")
    daemon.kill()
    site.root.rename(away)
    daemon.start()
    assert "unavailable" in daemon.control().call("status")
    assert daemon.stop() == 0
    away.rename(site.root)
    head = loose(site, log[0])
    kept = daemon.base / "copy"
    shutil.copy2(head, kept)
    removed(head)
    daemon.start()
    assert_deferred(site, log[0])
    assert daemon.stop() == 0
    shutil.copy2(kept, head)
    daemon.start()
    site.connect()
    assert site.ids() == log
    assert site.overwrite("sub/a.txt", "acknowledged\n", request_id="late")["replayed"] is True
    assert site.person.call("verify")["problems"] == []


@pytest.mark.parametrize("killed", [False, True])
def test_an_older_journal_loses_no_commit_that_git_has(
    two: tuple[Site, Site], tmp_path: Path, killed: bool
) -> None:
    """As in a copy of the directory of a running daemon: the journal was copied first. The newer
    commits were not mentioned any more, and the next gc removed them.
    """
    site, _ = two
    daemon, journal = site.daemon, site.daemon.state / "journal"
    fill(site)
    site.once_written()
    if killed:
        daemon.kill()
    else:
        daemon.stop()
    shutil.copytree(journal, tmp_path / "journal")
    daemon.start()
    site.connect()
    site.overwrite("sub/a.txt", "newer\n")
    newest = site.git("rev-parse", "history").strip()
    daemon.stop()
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "journal", journal)
    kept_in_a_pin(site, newest)


def test_a_checkpoint_beside_verify_of_what_is_put_off_is_no_damage_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new attempt read the journal up to where it had ended at the first."""
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    with in_process.running(tmp_path) as daemon:
        person = daemon.connect(control=True, peer=own_peer("test"))
        shadow = asyncio.run(person.call("workspace_allow", {"root": str(root)})).shadow
        asyncio.run(person.call("snapshot", {"workspace": str(root)}))
    for path in Path(shadow, "objects").rglob("*.*"):
        path.unlink()
    with in_process.running(tmp_path) as daemon:
        ask, troubles = daemon.writer.historian.ask, list[str | None]()

        async def asked(question: str, *rest: Any, **options: Any) -> Any:
            if question == "claim" and not troubles:
                assert await daemon.writer.checkpoints.take(60, fresh=True)
            found = await ask(question, *rest, **options)
            if question == "claim":
                troubles.append(found.journal_trouble)
            return found

        monkeypatch.setattr(Historian, "ask", staticmethod(asked))
        person = daemon.connect(control=True, peer=own_peer("test"))
        found = asyncio.run(person.call("verify", {"workspace": str(root)}))
        assert found.problems[-1].kind == "put_off"
        assert troubles[0] is not None
        assert troubles[1:] == [None, None]


def test_a_journal_from_before_a_forget_can_be_verified(
    two: tuple[Site, Site], tmp_path: Path
) -> None:
    """Its head has a successor for good, and verify took that for a forget that had just ended."""
    site, _ = two
    daemon, journal = site.daemon, site.daemon.state / "journal"
    fill(site)
    daemon.stop()
    shutil.copytree(journal, tmp_path / "journal")
    daemon.start()
    daemon.control().call("forget", workspace=str(site.root), path="sub/a.txt")
    daemon.stop()
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "journal", journal)
    daemon.start()
    assert_deferred(site)


def test_a_state_from_before_a_forget_is_verified_once(
    two: tuple[Site, Site], tmp_path: Path
) -> None:
    """As if it was copied over the newer one: the file of new ids is still there."""
    site, other = two
    daemon, state, old = site.daemon, site.daemon.state, tmp_path / "old"
    fill(site)
    tree = loose(site, site.git("rev-parse", "history~1^{tree}").strip())
    daemon.stop()
    shutil.copytree(state, old)
    daemon.start()
    daemon.control().call("forget", workspace=str(site.root), path="sub/a.txt")
    daemon.stop()
    for name in ("journal", "workspaces"):
        shutil.copytree(old / name, state / name, dirs_exist_ok=True)
    for path in (state / "journal").iterdir():
        if not (old / "journal" / path.name).exists():
            path.unlink()
    overwritten(tree)
    daemon.start()
    other.connect()
    assert other.daemon.control().call("verify", workspace=str(site.root))["problems"]


def test_without_the_journal_a_new_history_loses_no_commit(two: tuple[Site, Site]) -> None:
    """stet init began a new history in the same repository, and gc removed the old one."""
    site, _ = two
    fill(site)
    newest = site.git("rev-parse", "history").strip()
    site.daemon.stop()
    shutil.rmtree(site.daemon.state / "journal")
    kept_in_a_pin(site, newest)


def kept_in_a_pin(site: Site, newest: str) -> None:
    """Start the daemon; its history has not this commit, but verify names it, and gc keeps it."""
    site.daemon.start()
    site.daemon.control().call("workspace_allow", root=str(site.root))
    site.connect()
    site.overwrite("sub/a.txt", "after\n")
    site.person.call("gc")
    assert site.git("show", f"{newest}:sub/a.txt")
    [problem] = site.person.call("verify")["problems"]
    assert f"pin unrecorded-{newest[:12]} names {newest}" in problem["message"]
    assert site.fsck() == ""
    assert "commits that the journal does not have" in site.daemon.log()
    site.restart()
    assert [each["commit"] for each in site.person.call("pin_list")["pins"]] == [newest]
