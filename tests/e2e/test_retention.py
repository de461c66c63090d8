"""Retention: the beginning of a history is dropped whole, and nothing else changes."""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import in_process
from e2e.running_daemon import ConnectionEnded, Gate, Refusal, Site, fsck, git, running
from in_process import InProcess
from own_peer import own_peer
from stet.wire.failures import Kind, Refused
from stetd.engine.checkpointing import Checkpointer
from stetd.historian.maintenance import gc as choosing
from stetd.processes.historian_client import Historian
from stetd.storage.progress import Progress
from stetd.upkeep import retention
from stetd.upkeep.retention import retain
from stetd.upkeep.schedule import collect
from unwritable import unwritable


@pytest.fixture
def small() -> Iterator[Site]:
    """A daemon that keeps a megabyte of history, and a workspace with some more."""
    with running({"retention_mb": 1, "gc_idle_s": 0, "checkpoint_idle_s": 0.2}) as daemon:
        site = daemon.site("w")
        site.overwrite("lines.txt", "a line\n")
        grown(site, 32)
        yield site


def grown(site: Site, calls: int) -> None:
    """Calls whose contents can't be made smaller, and are binary, so that nobody indexes them."""
    for number in range(calls):
        line = base64.b64encode(random.Random(number).randbytes(40_000)).decode()
        site.overwrite(f"{number % 4}.txt", f"{number}\n\0{line}\n")


def oldest_first(site: Site) -> list[str]:
    return site.git("rev-list", "--reverse", "history").split()


def collected(site: Site) -> dict[str, Any]:
    """The result of ``gc``, once the index of what is left is made."""
    result = site.person.call("gc")
    site.once_written()
    return result


def test_the_oldest_commits_go_and_the_others_keep_their_ids(small: Site) -> None:
    site = small
    before = oldest_first(site)
    files = {path: site.bytes_of(path) for path in ("0.txt", "1.txt", "2.txt", "3.txt")}
    result = collected(site)
    after = oldest_first(site)
    dropped = result["dropped_commits"]
    assert 2 < dropped < 31
    assert after[:-1] == before[dropped:]
    assert result["bytes_after"] < 1 << 20
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    page = site.person.call("log", limit=1000)
    assert [info["commit"] for info in page["commits"]] == after[::-1]
    assert (page["commits"][0]["kind"], page["commits"][0]["files"]) == ("retention", [])
    assert f"{dropped} commits before {after[0]} are dropped" in page["commits"][0]["message"]
    assert (page["dropped"]["commits"], page["dropped"]["oldest"]) == (dropped, after[0])
    assert "dropped" not in site.person.call("log", limit=1)
    assert page["commits"][-1]["parent"] is None
    site.restart()
    assert oldest_first(site) == after
    assert site.person.call("verify")["problems"] == []
    assert {path: site.bytes_of(path) for path in files} == files
    assert collected(site)["dropped_commits"] == 0


def test_nothing_is_recorded_as_dropped_while_no_checkpoint_can_be_taken(small: Site) -> None:
    """It needs a checkpoint, and that needs the histories of all workspaces."""
    site = small
    stuck = site.daemon.site("stuck")
    site.once_written()
    with unwritable(stuck.shadow):
        stuck.overwrite("b.txt", "b\n")
        refusal = site.person.refusal("gc")
        assert "no checkpoint could be taken" in refusal.message
        assert "retention" not in site.kinds()
    assert collected(site)["dropped_commits"] > 2


def test_what_was_dropped_is_named_so_and_the_rest_can_be_undone(small: Site) -> None:
    site = small
    before = oldest_first(site)
    collected(site)
    after = oldest_first(site)
    for method, params in (
        ("undo", {"commits": [before[0]]}),
        ("show", {"commit": before[1]}),
        ("restore", {"path": "0.txt", "at": before[2]}),
        ("rollback", {"to": before[0]}),
    ):
        refusal = site.person.refusal(method, **params)
        assert refusal.kind == Kind.UNKNOWN_COMMIT, method
        assert "retention" in refusal.message
        assert after[0][:12] in refusal.message
    assert site.person.refusal("undo", commits=[after[0]]).kind == Kind.NOTHING_TO_UNDO
    assert site.person.refusal("undo", commits=[after[-1]]).kind == Kind.NOTHING_TO_UNDO
    site.agent.call("undo")
    assert site.bytes_of("3.txt").startswith(b"27\n")
    site.person.call("rollback", to=after[0])
    assert site.person.call("verify")["problems"] == []
    assert site.person.call("show", commit=after[0])["diff"] != ""
    (first,) = site.person.call("blame", path="lines.txt", at=after[0])["lines"]
    assert (first["commit"], first["kind"]) == (after[0], "retention")
    assert not {"agent", "session", "time"} & {key for key in first if first[key] is not None}
    blame = site.person.call("blame", path="lines.txt")
    assert {line["commit"] for line in blame["lines"]} <= set(after) | {
        site.log(limit=1)[0]["commit"]
    }


def test_what_was_dropped_is_named_so_by_its_id_from_before_a_forget(small: Site) -> None:
    site = small
    before = oldest_first(site)
    site.person.call("forget", path="lines.txt")
    assert site.person.call("show", commit=before[1])["commit"] != before[1]
    assert collected(site)["dropped_commits"] > 2
    refusal = site.person.refusal("show", commit=before[1])
    assert (refusal.kind, "retention" in refusal.message) == (Kind.UNKNOWN_COMMIT, True)


def test_a_private_file_whose_bits_were_in_a_dropped_commit_stays_private(small: Site) -> None:
    site = small
    site.write("private.txt", "1\n", mode=0o600)
    site.replace("private.txt", "1\n", "2\n")
    grown(site, 32)
    collected(site)
    site.write("private.txt", "3\n", mode=0o600)
    found = site.agent.call("observe", phase="before", tool="Bash", use="1")["outside"]
    site.person.call("undo", commits=[found])
    assert site.bytes_of("private.txt") == b"2\n"
    assert (site.root / "private.txt").stat().st_mode & 0o777 == 0o600


def test_blame_names_nobody_for_lines_that_came_back_from_a_dropped_commit() -> None:
    """It named the person who had taken back the edit, or restored the file."""
    with running({"retention_mb": 1, "gc_idle_s": 0, "checkpoint_idle_s": 0.2}) as daemon:
        site = daemon.site("w")
        before = ""
        for path in ("undone.txt", "restored.txt"):
            site.write(path, "1\n2\n3\n")
            before = site.replace(path, "2", "two")["outside"]
        grown(site, 32)
        undo = site.person.call("undo", last=1, paths=["undone.txt"])["commit"]
        restore = site.person.call("restore", path="restored.txt", at=before)["commit"]
        site.replace("undone.txt", "3", "three")
        collected(site)
        oldest = oldest_first(site)[0]
        assert {undo, restore} < set(oldest_first(site))
        for path in ("undone.txt", "restored.txt"):
            for line in site.person.call("blame", path=path)["lines"]:
                named = (line["commit"], line["kind"], line["agent"])
                assert named == (oldest, "retention", None) or line["text"] == "three\n"


def test_a_pin_keeps_its_commit_and_all_after_it(small: Site) -> None:
    site = small
    before = oldest_first(site)
    site.person.call("pin_set", name="keep", commit=before[2])
    assert collected(site)["dropped_commits"] == 2
    assert oldest_first(site)[:-1] == before[2:]
    assert site.person.call("verify")["problems"] == []
    site.person.call("pin_delete", name="keep")
    assert collected(site)["dropped_commits"] > 2
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""


def test_more_truncation_than_recorded_is_found(small: Site) -> None:
    site = small
    collected(site)
    after = oldest_first(site)
    shallow = Path(site.shadow, "shallow")
    shallow.write_text(after[2] + "\n")
    assert site.person.call("verify")["ok"] is False
    shallow.write_text(after[0] + "\n")
    assert site.person.call("verify")["ok"] is True
    assert site.person.call("verify", expect=after[0])["ok"] is True


@pytest.mark.parametrize(
    "point",
    ["retention.recorded", "retention.checkpointed", "retention.cut", "gc.pack_durable",
     "gc.removed_pack", "gc.before_removing"],
)  # fmt: skip
def test_killed_in_the_middle_it_goes_on(small: Site, point: str) -> None:
    site = small
    before = oldest_first(site)
    content = site.git("cat-file", "-p", "history^{tree}")
    site.restart(STET_FAILPOINT=point)
    with pytest.raises(ConnectionEnded):
        site.person.call("gc")
    assert site.daemon.wait() == -9
    site.daemon.start()
    site.connect()
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    collected(site)
    after = oldest_first(site)
    assert 2 < len(before) - (len(after) - 1)
    assert [oid for oid in after if oid in before] == before[-(len(after) - 1) :]
    assert site.git("cat-file", "-p", "history^{tree}") == content
    assert collected(site)["bytes_after"] < 1 << 20
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []


def reached(site: Site, point: str) -> Gate:
    """Start ``gc`` and wait until it is held at a point."""
    gate = Gate(site.daemon.base, point)
    site.restart(**gate.environment)
    site.person.send("gc")
    gate.once_reached()
    return gate


def answer(site: Site) -> dict[str, Any]:
    """The answer to that ``gc``."""
    return site.person.result_of(site.person.receive())


def test_a_pin_that_is_set_while_it_is_chosen_what_goes_keeps_its_commit(small: Site) -> None:
    site = small
    oldest, *_ = before = oldest_first(site)
    gate = reached(site, "retention.chosen")
    beside = site.greeted(site.daemon.control())
    assert beside.call("pin_set", name="keep", commit=oldest)["commit"] == oldest
    gate.open()
    assert answer(site)["dropped_commits"] == 0
    assert oldest_first(site) == before
    assert site.person.call("show", commit="keep")["commit"] == oldest
    assert site.person.call("verify")["problems"] == []


def test_what_is_left_of_a_history_can_be_pinned(small: Site) -> None:
    collected(small)
    newest = small.person.call("log", limit=1)["commits"][0]["commit"]
    assert small.person.call("pin_set", name="newest")["commit"] == newest


def test_what_is_about_to_go_can_not_be_pinned_any_more(small: Site) -> None:
    site = small
    oldest, *_ = oldest_first(site)
    gate = reached(site, "retention.recorded")
    beside = site.greeted(site.daemon.control())
    beside.send("pin_set", name="late", commit=oldest)
    beside.until_begun()
    gate.open()
    error = beside.receive().error
    assert error is not None
    assert error.data["kind"] == Kind.UNKNOWN_COMMIT
    assert answer(site)["dropped_commits"] > 2
    assert beside.call("pin_list")["pins"] == []
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""


def test_what_is_too_old_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_SELDOM_S", 0)
    daemon = in_process.opened(tmp_path, retention_days=1)
    try:
        times = in_three_seconds(daemon, tmp_path)
        [workspace] = daemon.writer.state.open.values()
        clock = times[-1] + 86_399.5

        def drop(at: float) -> int:
            monkeypatch.setattr(choosing, "time", SimpleNamespace(time=lambda: at))
            return daemon.wait_for(retain(daemon.writer, workspace, Progress()))

        assert drop(times[0] + 86_400) == 0
        assert drop(clock) == sum(1 for each in times if each < clock - 86_400)
        assert drop(clock) == 0
        # The checkpoint that has the cut before is none that has this one.
        before = git(workspace.shadow, "rev-list", "history^")
        with monkeypatch.context() as patch:
            patch.setattr(Checkpointer, "begin", lambda _, done, **__: done())
            with pytest.raises(Refused, match="no checkpoint could be taken"):
                drop(clock + 10)
        reached = daemon.daemon.writer.historian.ask("reached", workspace.shadow, type(None))
        daemon.wait_for(reached)
        assert git(workspace.shadow, "rev-list", "history^^") == before
        assert drop(clock + 10) == 0, "that is only finished"
        left = git(workspace.shadow, "rev-list", "history").split()
        assert len(left) == 2, "the newest commit stays, whatever its age"
        assert fsck(workspace.shadow) == ""
    finally:
        daemon.close()


def test_where_only_garbage_goes_no_removed_pack_is_kept_open(tmp_path: Path) -> None:
    """It took disk space for as long as the daemon ran."""
    daemon = in_process.opened(tmp_path, retention_mb=1)
    try:
        in_three_seconds(daemon, tmp_path)
        [workspace] = daemon.writer.state.open.values()
        daemon.wait_for(collect(daemon.writer, workspace, Progress(), drop=False))
        [pack] = Path(workspace.shadow).glob("objects/pack/*.pack")
        in_three_seconds(daemon, tmp_path)
        daemon.wait_for(daemon.daemon.writer.historian.ask("reached", workspace.shadow, type(None)))
        garbage = tmp_path / "garbage"
        garbage.write_bytes(os.urandom(2 << 20))
        git(workspace.shadow, "hash-object", "-w", str(garbage))
        assert daemon.wait_for(retain(daemon.writer, workspace, Progress())) == 0
        assert not pack.exists()
        assert f"{pack} (deleted)" not in opened_files()
    finally:
        daemon.close()


def opened_files() -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


def test_a_commit_that_is_dropped_while_a_pin_is_set_is_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked up after the cut was recorded, and the history is cut before the pin is set."""
    monkeypatch.setattr(choosing, "_SELDOM_S", 0)
    recorded, looked_up, cut = (asyncio.Event() for _ in range(3))

    async def reached(name: str) -> None:
        if name == "retention.recorded":
            recorded.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(looked_up.wait(), 1)
        if name == "retention.cut":
            cut.set()

    monkeypatch.setattr(retention, "reached", reached)
    daemon = in_process.opened(tmp_path, retention_days=1)
    historian = daemon.writer.historian
    ask = historian.ask

    async def asked(question: str, *rest: Any, **options: Any) -> Any:
        answer = await ask(question, *rest, **options)
        if question == "pin":
            looked_up.set()
            await cut.wait()
        return answer

    monkeypatch.setattr(Historian, "ask", staticmethod(asked))
    try:
        times = in_three_seconds(daemon, tmp_path)
        [workspace] = daemon.writer.state.open.values()
        oldest, *_ = git(workspace.shadow, "rev-list", "--reverse", "history").split()
        clock = times[-1] + 86_399.5
        person = daemon.connect(control=True, peer=own_peer("test"))

        async def work() -> Refused:
            monkeypatch.setattr(choosing, "time", SimpleNamespace(time=lambda: clock))
            dropping = retain(daemon.writer, workspace, Progress())
            dropped = asyncio.ensure_future(dropping)
            await recorded.wait()
            with pytest.raises(Refused) as refused:
                await person.connection.call("pin_set", {"name": "late", "commit": oldest})
            assert await dropped > 0
            return refused.value

        asyncio.run(person.call("hello", {"protocol": 1, "workspace": str(tmp_path / "ws")}))
        assert daemon.wait_for(work()).kind == Kind.UNKNOWN_COMMIT
    finally:
        daemon.close()


def in_three_seconds(daemon: InProcess, base: Path) -> list[int]:
    root = base / "ws"
    root.mkdir(exist_ok=True)

    async def call(connection: Any, method: str, **params: Any) -> Any:
        return await connection.call(method, params)

    async def work() -> list[int]:
        person = daemon.connect(control=True, peer=own_peer("test"))
        await call(person, "workspace_allow", root=str(root))
        agent = daemon.connect(control=False, peer=own_peer("test"))
        await call(agent, "hello", protocol=1, workspace=str(root), session="s", agent="a")
        for number in range(4):
            patches = [{"operation": "overwrite", "newText": f"{number}\n"}]
            await call(agent, "patch", path="a.txt", patches=patches)
            await asyncio.sleep(1)
        log = (await call(agent, "log")).commits
        return [int(datetime.fromisoformat(info.time).timestamp()) for info in reversed(log)]

    return asyncio.run(work())


@pytest.mark.parametrize("how", ["retention", "forget"])
def test_what_goes_while_a_history_is_verified_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It goes after the claim; the first answer names commits that are gone since."""
    monkeypatch.setattr(choosing, "_SELDOM_S", 0)
    daemon = in_process.opened(tmp_path, retention_days=1)
    historian = daemon.writer.historian
    ask = historian.ask
    answers: list[Any] = []
    try:
        times = in_three_seconds(daemon, tmp_path)
        [workspace] = daemon.writer.state.open.values()
        clock = times[-1] + 86_399.5
        person = daemon.connect(control=True, peer=own_peer("test"))
        asyncio.run(person.call("hello", {"protocol": 1, "workspace": str(tmp_path / "ws")}))

        async def asked(question: str, *rest: Any, **options: Any) -> Any:
            if question != "verify":
                return await ask(question, *rest, **options)
            if not answers and how == "retention":
                monkeypatch.setattr(choosing, "time", SimpleNamespace(time=lambda: clock))
                assert await retain(daemon.writer, workspace, Progress()) > 0
            elif not answers:
                await person.connection.call("forget", {"path": "a.txt"})
            answers.append(await ask(question, *rest, **options))
            return answers[-1]

        monkeypatch.setattr(Historian, "ask", staticmethod(asked))
        found = asyncio.run(person.call("verify", {}))
        assert [each.ok for each in answers] == [False, True], [a.problems for a in answers]
        assert found == answers[1]
    finally:
        daemon.close()


@pytest.mark.parametrize("then", ["gc", "forget"])
def test_a_cut_that_failed_after_its_record_is_finished_before_the_next_step(
    small: Site, then: str
) -> None:
    """The next pass counted the dropped commits twice, and forget gave the cut another place."""
    site = small
    before = oldest_first(site)
    gate = reached(site, "retention.checkpointed")
    in_the_way = Path(site.shadow, "shallow.tmp")
    in_the_way.mkdir()
    gate.open()
    with pytest.raises(Refusal, match="Is a directory"):
        answer(site)
    in_the_way.rmdir()
    assert oldest_first(site)[:-1] == before
    if then == "forget":
        site.person.call("forget", path="0.txt")
    else:
        assert collected(site)["dropped_commits"] == 0
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""
    page = site.person.call("log", limit=1000)
    assert page["dropped"]["commits"] == len(before) + 1 + (then == "forget") - len(page["commits"])
    assert site.person.call("pin_set", name="newest")["commit"] == page["commits"][0]["commit"]
    site.restart()
    assert site.person.call("verify")["problems"] == []


def test_a_pass_while_a_forget_is_unfinished_leaves_the_cut_to_it(small: Site) -> None:
    """The pin is still on the old history, which has another first commit."""
    site = small
    assert collected(site)["dropped_commits"] > 0
    site.person.call("pin_set", name="here")
    gate = Gate(site.daemon.base, "forget.recorded")
    site.restart(**gate.environment)
    site.person.send("forget", path="0.txt")
    gate.once_reached()
    in_the_way = Path(site.shadow, "refs/pins/here.lock")
    in_the_way.mkdir()
    gate.open()
    with pytest.raises(Refusal, match="this is not finished"):
        answer(site)
    in_the_way.rmdir()
    collected(site)
    assert site.fsck() == ""
    assert site.person.call("forget", path="1.txt")["commit"]
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""
