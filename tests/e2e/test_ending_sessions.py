"""A session that the person ends, and idle ones that are let go; through restarts and kills.

The daemon runs in the test's own process, without its sockets: what matters here is in its state.
A kill is a copy of the state directory, as it was at that moment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.running_daemon import eventually
from in_process import Asking, InProcess
from own_peer import own_peer
from stet.wire.failures import Refused
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.session import sessions

Json = dict[str, Any]
REPLACE = [{"operation": "replace", "oldText": "one", "newText": "two"}]
FIRST, SECOND = [{"operation": "overwrite", "newText": text} for text in ("1\n", "2\n")]


class World:
    """A daemon, one workspace, the person's connection."""

    def __init__(self, base: Path, **settings: Any) -> None:
        self.base = base
        self.root = base / "ws"
        self.root.mkdir(exist_ok=True)
        self._settings: Json = {"gc_idle_s": 0, "log_level": "error", **settings}
        self.start()

    _running: InProcess | None = None

    def start(self, state: str = "state") -> None:
        names = (os.fspath(self.base / name) for name in ("run", state, "c.toml"))
        self.daemon = self._running = InProcess(Settings(**self._settings), Directories(*names))
        self.person = self.daemon.connect(control=True, peer=own_peer("person"))
        self.of_person("workspace_allow", root=str(self.root))
        hello = {"protocol": 1, "workspace": str(self.root), "agent": "person"}
        self.of_person("hello", **hello)

    def stop(self) -> None:
        daemon, self._running = self._running, None
        if daemon is not None:
            daemon.close()

    def restart(self, **settings: Any) -> None:
        self.stop()
        self._settings |= settings
        self.start()

    def killed(self, state: str = "copy") -> Path:
        """The state directory that a kill would leave now.

        The engine waits meanwhile; the historian may remove a file that was just listed.
        """
        copy = self.base / state

        def is_copied() -> bool:
            shutil.rmtree(copy, ignore_errors=True)
            try:
                shutil.copytree(self.base / "state", copy)
            except shutil.Error:
                return False
            return True

        assert eventually(lambda: self.daemon.on_loop(is_copied))
        return copy

    def agent(self, session: str | None = "s", **more: Any) -> Asking:
        agent = self.daemon.connect(control=False, peer=own_peer("agent"))
        hello = {"protocol": 1, "workspace": str(self.root), "session": session, "agent": "bot"}
        call(agent, "hello", **hello, **more)
        return agent

    def of_person(self, method: str, **params: Any) -> Json:
        return call(self.person, method, **params)

    def sessions(self) -> list[Json]:
        found: list[Json] = self.of_person("session_list")["sessions"]
        return found

    def checkpoint(self) -> None:
        self.daemon.checkpoint()


def call(connection: Asking, method: str, **params: Any) -> Json:
    result: Json = msgspec.to_builtins(run(connection.call(method, params)))
    return result


def run(awaitable: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(awaitable)


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, **getattr(request, "param", {}))
    try:
        yield made
    finally:
        made.stop()


RESTRICTING = pytest.mark.parametrize("world", [{"default_mode": "restricted"}], indirect=True)


def test_what_a_session_held_goes_and_what_it_did_stays(world: World) -> None:
    agent = world.agent()
    first = call(agent, "patch", path="a", patches=[FIRST], request_id="r1")
    call(agent, "clipboard_set", name="c", text="t")
    call(agent, "clipboard_set", name="d", text="t")
    ended = world.of_person("session_end", session="s")
    assert ended == {
        "session": "s",
        "workspace": str(world.root),
        "clipboards": 2,
        "request": None,
        "next_mode": "unrestricted",
    }
    assert world.sessions() == []
    [commit] = call(agent, "log")["commits"]
    assert (commit["commit"], commit["session"], commit["agent"]) == (first["commit"], "s", "bot")
    world.restart()
    assert world.sessions() == []
    assert call(world.agent(), "clipboard_list")["clipboards"] == []


def test_calls_that_were_sent_before_are_done_before_it_ends(world: World) -> None:
    agent = world.agent()
    call(agent, "clipboard_set", name="c", text="t")

    async def both() -> None:
        edit = {"path": "a", "patches": [FIRST]}
        await asyncio.gather(
            agent.connection.call("patch", edit),
            world.person.connection.call("session_end", {"session": "s"}),
        )

    asyncio.run_coroutine_threadsafe(both(), world.daemon.daemon.loop).result(60)
    assert world.sessions() == []
    assert (world.root / "a").read_text() == "1\n"


def test_a_connection_goes_on_as_a_new_session_of_that_name(world: World) -> None:
    agent = world.agent()
    done = call(agent, "patch", path="a", patches=[FIRST], request_id="r1")
    call(agent, "clipboard_set", name="c", text="t")
    world.of_person("session_end", session="s")
    assert call(agent, "clipboard_list")["clipboards"] == []
    assert call(agent, "mode_get")["session_mode"] == "unrestricted"
    assert world.sessions() == []  # it holds nothing yet
    call(agent, "patch", path="a", patches=[SECOND], request_id="r2")
    call(agent, "clipboard_set", name="e", text="t")
    [again] = world.sessions()
    assert ("s", "bot", 1) == (again["session"], again["agent"], again["commits"])
    # History goes by names: what was the session's before is still its own to take back.
    call(agent, "undo", commits=[call(agent, "log")["commits"][0]["commit"]])
    assert [done["commit"]] == call(agent, "undo", request="r1")["undone"]
    state = world.killed()
    world.stop()
    world.start("copy")
    assert state.name == "copy"
    assert [{**again, "commits": 3, "last_seen": world.sessions()[0]["last_seen"]}] == (
        world.sessions()
    )
    assert [c["name"] for c in call(world.agent(), "clipboard_list")["clipboards"]] == ["e"]


def test_a_request_id_of_an_ended_session_is_answered_and_not_applied_again(world: World) -> None:
    append = [{"operation": "append_eof", "newText": "more\n"}]
    (world.root / "a").write_text("one\n")
    agent = world.agent()
    told = {"path": "a", "patches": append, "request_id": "r1"}
    first = call(agent, "patch", **told)
    world.of_person("session_end", session="s")
    assert first["commit"] == call(agent, "patch", **told)["commit"]
    world.restart()  # from the request store now
    again = call(world.agent(), "patch", **told)
    assert (again["commit"], again["replayed"]) == (first["commit"], True)
    assert (world.root / "a").read_text() == "one\nmore\n"


@RESTRICTING
def test_a_grant_ends_with_its_session_and_the_new_one_is_restricted(world: World) -> None:
    agent = world.agent()
    world.of_person("mode_set", mode="unrestricted", session="s", **{"for": 600})
    call(agent, "patch", path="a", patches=[FIRST])
    assert world.of_person("session_end", session="s")["next_mode"] == "restricted"
    with pytest.raises(Refused) as refused:
        call(agent, "patch", path="a", patches=[SECOND])
    assert refused.value.kind == "tool_disabled"
    with pytest.raises(Refused):
        call(agent, "undo")
    world.restart()
    assert call(world.agent(), "mode_get")["mode"] == "restricted"


@RESTRICTING
def test_a_pending_request_is_denied_and_who_waits_is_told(world: World) -> None:
    agent = world.agent()

    async def waiting() -> Json:
        asked = agent.call("request_mode_upgrade", {"reason": "why", "wait": 15})
        wait = asyncio.create_task(asked)
        await asyncio.sleep(0)
        end = await world.person.call("session_end", {"session": "s"})
        return {"ended": msgspec.to_builtins(end), "told": msgspec.to_builtins(await wait)}

    answers = run(waiting())
    assert answers["told"]["status"] == "denied"
    assert answers["told"]["note"].startswith("The person has ended this session")
    assert answers["told"]["request"] == answers["ended"]["request"]
    assert world.of_person("upgrade_list", status="pending")["requests"] == []
    state = world.killed()
    anew = call(agent, "request_mode_upgrade", reason="again")
    assert (anew["status"], world.sessions()[0]["session"]) == ("pending", "s")
    world.stop()
    world.start(state.name)
    [known] = world.of_person("upgrade_list")["requests"]
    assert (known["request"], known["status"]) == (answers["ended"]["request"], "denied")


def test_a_name_that_is_free_again_may_be_taken_with_another_secret(world: World) -> None:
    old = world.agent(secret="theirs")
    call(old, "clipboard_set", name="c", text="t")
    world.of_person("session_end", session="s")
    new = world.agent(secret="ours")
    call(new, "clipboard_set", name="d", text="t")
    # The connection from before must not get at it.
    tried: list[tuple[str, Json]] = [
        ("clipboard_get", {"name": "d"}),
        ("clipboard_set", {"name": "d", "text": "x"}),
        ("mode_set", {"mode": "restricted"}),
        ("patch", {"path": "a", "patches": [FIRST]}),
        ("request_mode_upgrade", {}),
    ]
    for method, params in tried:
        with pytest.raises(Refused) as refused:
            call(old, method, **params)
        assert refused.value.kind == "not_permitted", method
    assert call(new, "clipboard_get", name="d")["text"] == "t"
    # Ended again, it is whoever comes first; who had a secret begins with it.
    world.of_person("session_end", session="s")
    call(old, "clipboard_set", name="e", text="t")
    with pytest.raises(Refused):
        world.agent(secret="ours")
    assert [c["name"] for c in call(world.agent(secret="theirs"), "clipboard_list")[
        "clipboards"
    ]] == ["e"]  # fmt: skip


def test_a_session_that_is_not_there_can_not_be_ended(world: World) -> None:
    with pytest.raises(Refused) as refused:
        world.of_person("session_end", session="nobody")
    assert refused.value.message == (
        f"session_end: there is no session 'nobody' in {world.root}. "
        "`session_list` lists those that are there."
    )
    with pytest.raises(Refused) as refused:
        call(world.agent(), "session_end", session="s")
    assert refused.value.kind == "not_permitted"


def test_a_preview_in_an_ended_session_records_nothing(world: World) -> None:
    agent = world.agent()
    world.of_person("session_end", session="s")
    call(agent, "patch", path="a", patches=[FIRST], preview=True)
    with pytest.raises(Refused):
        call(agent, "patch", path="a", patches=REPLACE)
    assert world.sessions() == []


@RESTRICTING
def test_a_kill_while_a_session_is_ended_leaves_it_ended_or_as_it_was(world: World) -> None:
    agent = world.agent()
    call(agent, "clipboard_set", name="c", text="t")
    asked = call(agent, "request_mode_upgrade")["request"]
    [before] = world.sessions()
    journal = world.daemon.writer.journal.position
    world.of_person("session_end", session="s")
    end = world.daemon.writer.journal.position
    assert end.segment == journal.segment
    seen = []
    for length in (journal.offset, journal.offset + 1, end.offset - 1, end.offset):
        copy = world.killed(f"cut-{length}")
        segment = copy / "journal" / f"{end.segment:08d}.wal"
        with segment.open("r+b") as file:
            file.truncate(length)
        there = World.__new__(World)
        there.base, there.root, there._settings = world.base, world.root, world._settings
        there.start(copy.name)
        requests = there.of_person("upgrade_list")["requests"]
        seen.append((there.sessions(), [(r["request"], r["status"]) for r in requests]))
        there.stop()
    whole = ([before], [(asked, "pending")])
    assert seen == [whole, whole, whole, ([], [(asked, "denied")])]


# -- idle sessions


@RESTRICTING
def test_a_session_is_kept_for_a_request_that_waits_and_not_for_one_that_is_decided(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_IDLE", 0)
    asked = {}
    for name in ("waits", "denied"):
        agent = world.agent(name)
        asked[name] = call(agent, "request_mode_upgrade")["request"]
        agent.disconnected()
    world.of_person("upgrade_decide", request=asked["denied"], approve=False)
    world.checkpoint()
    assert [("waits", "restricted")] == [(s["session"], s["mode"]) for s in world.sessions()]
    world.of_person("upgrade_decide", request=asked["waits"], approve=True)
    world.restart()
    assert call(world.agent("waits"), "mode_get")["mode"] == "unrestricted"


def test_a_person_who_enters_a_session_leaves_it_its_agent(world: World) -> None:
    world.agent("s")
    hello = {"protocol": 1, "workspace": str(world.root), "session": "s"}
    world.of_person("hello", **hello, agent="person")
    assert [each["agent"] for each in world.sessions() if each["session"] == "s"] == ["bot"]


def test_idle_sessions_are_let_go_and_what_holds_something_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_IDLE", 2)
    held = world.agent("holds")
    call(held, "clipboard_set", name="c", text="t")
    restricted = world.agent("restricted")
    call(restricted, "mode_set", mode="restricted")
    guarded = world.agent("guarded", secret="x")
    call(guarded, "patch", path="g", patches=[FIRST])
    asking = world.agent("asking")
    call(asking, "mode_set", mode="restricted")
    call(asking, "request_mode_upgrade")
    open_still = world.agent("connected")
    names = [f"idle-{n}" for n in range(5)]
    idle = {name: world.agent(name) for name in names}
    told = {"path": "a", "patches": [FIRST], "request_id": "r1"}
    first = call(idle["idle-0"], "patch", **told)
    for connection in [held, restricted, guarded, asking, *idle.values()]:
        connection.disconnected()
    world.checkpoint()
    kept = {"holds", "restricted", "guarded", "asking", "connected"}
    left = {each["session"] for each in world.sessions()}
    assert kept < left
    assert len(left - kept) == 2
    # One that was let go begins anew, and a retry is no second call.
    gone = next(name for name in names if name not in left)
    world.agent(gone)
    again = call(world.agent("idle-0"), "patch", **told)
    assert (again["commit"], again["replayed"]) == (first["commit"], True)
    # A kill right after, and the end of all connections: recovery goes by the same rule.
    world.killed()
    world.stop()
    world.start("copy")
    found = {each["session"] for each in world.sessions()}
    assert {"holds", "restricted", "guarded", "asking"} < found
    assert len(found) == 4 + 2
    assert call(world.agent("restricted"), "mode_get")["mode"] == "restricted"
    assert open_still is not None


def test_a_session_that_was_let_go_while_it_was_used_can_be_gone_on_with(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that the daemon does not know of: what comes is recorded, and is recovered."""
    monkeypatch.setattr(sessions, "MOST_IDLE", 0)
    agent = world.agent()
    world.daemon.daemon.handlers.callers.clear()
    world.checkpoint()
    assert world.sessions() == []
    call(agent, "clipboard_set", name="c", text="t")
    world.killed()
    world.stop()
    world.start("copy")
    assert [c["name"] for c in call(world.agent(), "clipboard_list")["clipboards"]] == ["c"]


@RESTRICTING
def test_a_session_that_began_restricted_is_not_let_go_when_new_ones_begin_otherwise(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.agent("kept").disconnected()
    world.restart(default_mode="unrestricted")
    monkeypatch.setattr(sessions, "MOST_IDLE", 0)
    world.checkpoint()
    assert [("kept", "restricted")] == [(s["session"], s["mode"]) for s in world.sessions()]
