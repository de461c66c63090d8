"""What happens inside a daemon that may be killed: run by the zygote, in a child of its own.

The daemon is the real one without its sockets: requests enter where a connection hands them
to the handlers. What was answered is written to ``acks`` at once (it survives the kill, as a
client's memory would); what is seen is written to ``seen``.
"""

from __future__ import annotations

import asyncio
import errno
import glob
import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec

import msgspec

from in_process import InProcess
from own_peer import own_peer
from stet.wire.failures import Refused
from stetd.config.directories import Directories
from stetd.config.settings import load_settings
from stetd.repository import git_writer
from stetd.storage.disk import Disk, SyncFailed

Json = dict[str, Any]

MANY_LINES = "".join(f"line {n}\n" for n in range(3000))


class Agent:
    """One session on a daemon in this process."""

    def __init__(self, base: str, daemon: InProcess, session: str | None) -> None:
        self.base = base
        self.daemon = daemon
        self.session = session
        self.connection = daemon.connect(control=session is None, peer=own_peer("test"))

    async def call(self, method: str, **params: Any) -> Json:
        """A request's result, in builtins. Raises Refused."""
        answer: Json = msgspec.to_builtins(await self.connection.call(method, params))
        return answer

    async def answer(self, method: str, params: Json) -> Json:
        """A request's result, or the kind of its refusal, noted in ``acks``."""
        try:
            answer = await self.call(method, **params)
        except Refused as refusal:
            answer = {"refused": refusal.kind, "message": refusal.message}
        note(self.base, "acks", {"request": params.get("request_id"), "answer": answer})
        return answer

    async def checkpoint(self) -> None:
        """Take a checkpoint and wait for it."""
        await asyncio.to_thread(self.daemon.checkpoint)


def note(base: str, name: str, value: object) -> None:
    """Append a line to a file of the test, in one write."""
    fd = os.open(os.path.join(base, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, json.dumps(value).encode() + b"\n")
    finally:
        os.close(fd)


@asynccontextmanager
async def opened(base: str, session: str | None = "s") -> AsyncIterator[Agent]:
    """A daemon on the test's directories, with a session in its workspace."""
    daemon = daemon_at(base)
    try:
        yield await entered(base, daemon, "ws", session)
    finally:
        await asyncio.to_thread(daemon.close)


P = ParamSpec("P")


def on_a_daemon(
    story: Callable[Concatenate[Agent, P], Awaitable[None]],
) -> Callable[Concatenate[str, P], None]:
    """A story of a session, to be told on a daemon of its own on the test's directories."""

    def tell(base: str, /, *arguments: P.args, **more: P.kwargs) -> None:
        async def main() -> None:
            async with opened(base) as agent:
                await story(agent, *arguments, **more)

        asyncio.run(main())

    return tell


def daemon_at(base: str) -> InProcess:
    """A daemon on the test's directories."""
    directories = Directories(*(os.path.join(base, name) for name in ("run", "state", "c.toml")))
    settings = load_settings(directories.config)
    os.makedirs(directories.state, exist_ok=True)
    return InProcess(settings, directories)


async def entered(base: str, daemon: InProcess, name: str, session: str | None = "s") -> Agent:
    """A session in the workspace of this name, which is allowed first."""
    root = os.path.join(base, name)
    await Agent(base, daemon, None).call("workspace_allow", root=root)
    agent = Agent(base, daemon, session)
    await agent.call("hello", protocol=1, workspace=root, session=session, agent="tester")
    return agent


async def world(agent: Agent) -> Json:
    """Everything that a crash must leave either as before a call or as after it."""
    commits: list[Json] = []
    cursor = None
    while cursor is not None or not commits:
        page = await agent.call("log", limit=200, cursor=cursor)
        commits += page["commits"]
        cursor = page["cursor"]
        if cursor is None:
            break
    listed = (await agent.call("clipboard_list"))["clipboards"]
    texts = {c["name"]: (await agent.call("clipboard_get", name=c["name"])) for c in listed}
    return {
        "files": dict(files_below(os.path.join(agent.base, "ws"))),
        "clipboards": {name: text["text"] for name, text in texts.items()},
        "mode": (await agent.call("mode_get"))["mode"],
        # Ids differ from run to run, with the time.
        "commits": [
            [c["kind"], re.sub("[0-9a-f]{8,}", "ID", c["message"]), c["request"]] for c in commits
        ],
    }


def files_below(root: str) -> Iterator[tuple[str, str]]:
    """(path, mode and content) of every file or link; directories only by what is in them."""
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            if os.path.islink(path):
                content = os.readlink(path)
            else:
                with open(path, encoding="latin-1", newline="") as file:
                    content = file.read()
            yield os.path.relpath(path, root), f"{info.st_mode:o} {content}"


# -- the story whose every instruction is a place to die


def _replace(old: str, new: str, **more: object) -> list[Json]:
    return [{"operation": "replace", "oldText": old, "newText": new, **more}]


def _append(text: str) -> list[Json]:
    return [{"operation": "append_eof", "newText": text}]


def _patch(path: str, patches: list[Json]) -> tuple[str, Json]:
    return "patch", {"path": path, "patches": patches}


#: Three files at once, one of them new, in directories that are new.
TOGETHER = [
    {"method": method, "params": params}
    for method, params in (
        _patch("a.txt", _replace("two", "TWO")),
        _patch("b.txt", _replace("beta", "BETA")),
        _patch("new/deep/c.txt", _append("created\n")),
    )
]

#: A step is a list of calls that share a batch, or the name of something else to do.
STORY: list[str | list[tuple[str, Json]]] = [
    [_patch("a.txt", _replace("one", "1"))],
    [_patch("long.txt", _replace("line 7\n", "line seven\n"))],
    [("transaction", {"calls": TOGETHER})],
    "checkpoint",
    [_patch("b.txt", _replace("gamma\n", "", toClipboard="cut"))],
    # Takes b.txt back around the cut, and deletes new/deep/c.txt.
    [("undo", {"request": "r3"})],
    [
        _patch("a.txt", _replace("three", "3")),
        _patch("a.txt", _replace("3", "III")),
        _patch("e.txt", _append("x\n")),
    ],
]

FIRST_FILES = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "alpha\nbeta\n\n\n\ngamma\ndelta\n",
    "long.txt": MANY_LINES,
}


def _requests() -> Iterator[tuple[str, Json]]:
    number = 0
    for step in STORY:
        for method, params in step if isinstance(step, list) else []:
            number += 1
            yield method, {**params, "request_id": f"r{number}"}


async def _tell(agent: Agent) -> None:
    requests = _requests()
    for step in STORY:
        if step == "checkpoint":
            await agent.checkpoint()
            continue
        await _at_once(agent, [next(requests) for _ in step])


async def _at_once(agent: Agent, requests: list[tuple[str, Json]]) -> None:
    """Send calls that share a batch, however slow the machine is."""
    vars(sys.modules["stetd.engine.writer"])["TURN_S"] = 60.0
    await at_once(agent, requests)


async def at_once(agent: Agent, requests: list[tuple[str, Json]]) -> None:
    """Send calls that are all queued before the writer takes the first."""
    held, gate = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        gate.wait()

    agent.daemon.daemon.loop.call_soon_threadsafe(hold)
    held.wait()
    calls = [asyncio.ensure_future(agent.answer(method, params)) for method, params in requests]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*calls)


@on_a_daemon
async def story(agent: Agent) -> None:
    """Tell the story; it may be killed anywhere."""
    await _tell(agent)


@on_a_daemon
async def story_call_by_call(agent: Agent) -> None:
    """Note the world before the story and after each of its calls, none in a batch."""
    note(agent.base, "seen", await world(agent))
    for method, params in _requests():
        await agent.answer(method, params)
        note(agent.base, "seen", await world(agent))


def start_and_stop(base: str) -> None:
    """Recover, and stop in good order."""

    async def main() -> None:
        async with opened(base):
            pass

    asyncio.run(main())


@on_a_daemon
async def look_and_retry(agent: Agent) -> None:
    """Note the world, send every call of the story again, note what it gave and the world."""
    note(agent.base, "seen", await world(agent))
    for method, params in _requests():
        await agent.answer(method, params)
    note(agent.base, "seen", await world(agent))


# -- long work on the history, which may be killed anywhere as well

SECRET = "a-secret-of-the-story"


@on_a_daemon
async def upkeep(agent: Agent) -> None:
    """Edits, a collection, a snapshot, a path forgotten, a collection, edits."""
    person, root = Agent(agent.base, agent.daemon, None), os.path.join(agent.base, "ws")

    async def edits(first: int, last: int) -> None:
        for number in range(first, last):
            path, text = f"d/{number % 3}.txt", f"text {number}\n" * 20
            if number == 4:
                path, text = "secret.txt", SECRET
            params = {
                "path": path,
                "patches": [{"operation": "overwrite", "newText": text}],
            }
            await agent.answer("patch", {**params, "request_id": f"e{number}"})
            await agent.call("log", limit=1)  # makes Git follow

    await edits(0, 8)
    await person.answer("gc", {"workspace": root})
    await edits(8, 12)
    await person.answer("snapshot", {"workspace": root})
    os.unlink(os.path.join(root, "secret.txt"))
    await person.answer("forget", {"workspace": root, "path": "secret.txt"})
    await edits(12, 14)
    await person.answer("gc", {"workspace": root})


@on_a_daemon
async def upkeep_look(agent: Agent) -> None:
    """Finish what was left, and note the world and what verifying says."""
    person, root = Agent(agent.base, agent.daemon, None), os.path.join(agent.base, "ws")
    await person.call("gc", workspace=root)
    note(agent.base, "seen", await world(agent))
    note(agent.base, "verified", await person.call("verify", workspace=root))


# -- calls in contest with somebody who saves the same files

CONTESTED_FILES = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "alpha\nbeta\n",
    "x.txt": "exists\n",
}
CONTESTED_CALLS: list[tuple[str, Json]] = [
    ("patch", {"path": "a.txt", "patches": _replace("one", "1"), "request_id": "c1"}),
    (
        "transaction",
        {
            "calls": [
                {"method": method, "params": params}
                for method, params in (
                    _patch("n/new.txt", _append("made by c2\n")),
                    _patch("b.txt", _replace("beta", "BETA")),
                    _patch("a.txt", _replace("two", "2")),
                )
            ],
            "request_id": "c2",
        },
    ),
    ("patch", {"path": "x.txt", "patches": _replace("exists", "EXISTS"), "request_id": "c3"}),
    ("patch", {"path": "a.txt", "patches": _replace("three", "3"), "request_id": "c4"}),
]


def _somebody(root: str, action: list[str]) -> bool:
    """Do what another program might do at just this moment; whether it could."""
    what, name, *content = action
    path = os.path.join(root, name)
    if what == "delete":
        for found in filter(os.path.isfile, glob.glob(path)):
            os.unlink(found)
    elif what == "directory":
        if os.path.isfile(path):
            os.unlink(path)
        os.makedirs(path, exist_ok=True)
    elif what == "link":
        os.unlink(path)
        os.symlink(content[0], path)
    elif what == "directory away":
        os.rmdir(path)
    elif what in ("disk", "lacks", "ignores"):
        failed = SyncFailed(errno.EIO, "Input/output error")
        _fail(name, {"disk": failed, "lacks": OSError(errno.EINVAL, "Invalid argument")}.get(what))
    elif what == "wait":
        time.sleep(0.3)
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif os.path.isdir(path):
        return False
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        aside = path + "~"
        with open(aside if what == "save" else path, "w", newline="") as file:
            file.write(content[0])
        if what == "save":
            os.rename(aside, path)
    return True


def _fail(call: str, error: OSError | None) -> None:
    """From now on a system call of the daemon's, a method of ``Disk`` by name, fails, or does
    nothing.
    """

    def failing(*_: object, **__: object) -> None:
        if error is not None:
            raise error

    setattr(Disk, call, failing)


def _content(path: str) -> str | None:
    """What a deed at this path does away with."""
    if not os.path.isfile(path):
        return None
    with open(path, newline="") as file:
        return file.read()


def _meddle(base: str, script: dict[str, list[list[str]]]) -> None:
    """Arm the failpoints so that somebody acts at them. Keys: ``name:k``."""
    reached: Counter[str] = Counter()
    lock = threading.Lock()

    def failpoint(name: str) -> None:
        with lock:
            reached[name] += 1
            point = f"{name}:{reached[name]}"
        note(base, "points", point)
        for action in script.get(point, []):
            removed = _content(os.path.join(base, "ws", action[1]))
            if _somebody(os.path.join(base, "ws"), action):
                note(base, "deeds", action)
                note(base, "removed", removed)

    for module in list(sys.modules.values()):
        if module.__name__.startswith("stetd") and hasattr(module, "failpoint"):
            module.failpoint = failpoint  # type: ignore[attr-defined]


@on_a_daemon
async def contest(
    agent: Agent,
    script: dict[str, list[list[str]]],
    calls: Sequence[tuple[str, Json]] = CONTESTED_CALLS,
) -> None:
    """Calls in one batch, while somebody does things at given points."""
    _meddle(agent.base, script)
    await _at_once(agent, list(calls))
    note(agent.base, "seen", await world(agent))
    note(agent.base, "status", (await agent.call("status"))["read_only"])


def recover_meddled(base: str, script: dict[str, list[list[str]]]) -> None:
    """Recover while somebody does things at given points."""
    _meddle(base, script)

    async def main() -> None:
        async with opened(base) as agent:
            note(base, "seen", await world(agent))
            note(base, "status", (await agent.call("status"))["read_only"])

    asyncio.run(main())


def recover_deferred(base: str, script: dict[str, list[list[str]]], other: str) -> None:
    """As before, and the workspace can't be settled; another one is edited meanwhile."""
    _meddle(base, script)

    async def main() -> None:
        daemon = daemon_at(base)
        try:
            await entered(base, daemon, "ws")
        except Refused as refusal:
            note(base, "put_off", [refusal.kind, refusal.message])
        agent = await entered(base, daemon, other)
        note(
            base,
            "elsewhere",
            await agent.answer("patch", {"path": "o.txt", "patches": _append("x\n")}),
        )
        await agent.checkpoint()
        note(base, "status", await agent.call("status"))
        await asyncio.to_thread(daemon.close)

    asyncio.run(main())


def edit_elsewhere(base: str) -> None:
    """A daemon's whole life while the directory of the workspace is away."""

    async def main() -> None:
        daemon = daemon_at(base)
        os.makedirs(os.path.join(base, "other"), exist_ok=True)
        agent = await entered(base, daemon, "other")
        for _ in range(3):
            await agent.answer("patch", {"path": "log.txt", "patches": _append("a line\n" * 5000)})
            await agent.checkpoint()
        await asyncio.to_thread(daemon.close)
        note(base, "segments", sorted(os.listdir(os.path.join(base, "state", "journal"))))

    asyncio.run(main())


def comes_back(base: str) -> None:
    """The directory of the workspace is away when the daemon starts, and back later."""
    root = os.path.join(base, "ws")

    async def main() -> None:
        daemon = daemon_at(base)
        os.rename(root + ".away", root)
        agent = Agent(base, daemon, "s")
        await agent.call("hello", protocol=1, workspace=root, session="s", agent="tester")
        note(base, "seen", await world(agent))
        await agent.answer("patch", {"path": "a.txt", "patches": _append("after\n")})
        await agent.checkpoint()
        await asyncio.to_thread(daemon.close)

    asyncio.run(main())


def forget_while_away(base: str) -> None:
    """The workspace is forgotten while its directory is away."""

    async def main() -> None:
        daemon = daemon_at(base)
        await Agent(base, daemon, None).call("workspace_forget", root=os.path.join(base, "ws"))
        await asyncio.to_thread(daemon.close)

    asyncio.run(main())


def allow_again(base: str) -> None:
    """The workspace is forgotten while its directory is away, and allowed when it is back. The
    daemon is killed before a checkpoint is taken.
    """

    async def main() -> None:
        daemon, root = daemon_at(base), os.path.join(base, "ws")
        person = Agent(base, daemon, None)
        await person.call("workspace_forget", root=root)
        os.rename(f"{root}.away", root)
        await person.call("workspace_allow", root=root)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())


@on_a_daemon
async def retry_contest(agent: Agent) -> None:
    """Send the contested calls again, one after the other."""
    for method, params in CONTESTED_CALLS:
        await agent.answer(method, params)


@on_a_daemon
async def call_during_checkpoint(agent: Agent, script: dict[str, list[list[str]]]) -> None:
    """A call that is answered while a checkpoint, begun before it, has synced but not ended."""
    _meddle(agent.base, script)
    synced, answered = threading.Event(), threading.Event()
    meddled = vars(git_writer)["failpoint"]

    def wait_for_the_call(name: str) -> None:
        meddled(name)
        if name == "checkpoint.synced":
            synced.set()
            answered.wait(10)

    vars(git_writer)["failpoint"] = wait_for_the_call
    checkpoint = asyncio.ensure_future(agent.checkpoint())
    assert await asyncio.to_thread(synced.wait, 10)
    method, params = CONTESTED_CALLS[0]
    await agent.answer(method, params)
    answered.set()
    await checkpoint


@on_a_daemon
async def many_outcomes(agent: Agent) -> None:
    """Calls that end in every way, again and again; notes how many handles are open."""
    numbers = iter(range(10_000))
    for round_number in range(12):
        await _one_of_each_outcome(agent, numbers)
        await agent.checkpoint()
        if round_number >= 2:
            note(agent.base, "handles", _open_handles())


def _open_handles() -> int:
    """How many handles are open, but for packs and the index: those come and go by themselves."""
    count = 0
    for handle in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that listed them
            name = os.readlink(f"/proc/self/fd/{handle}")
            count += not (name.endswith((".pack", ".idx")) or "/index/" in name)
    return count


async def _one_of_each_outcome(agent: Agent, numbers: Iterator[int]) -> None:
    text = f"{next(numbers)}\n"
    for method, params in [
        _patch("a.txt", _append(text)),
        _patch(f"new/{text[:-1]}/a.txt", _append(text)),
        _patch("a.txt", _replace("not there", "x")),
        _patch("a.txt", _replace("one", "one")),
        _patch(".git/config", _append("x")),
        _patch("../outside", _append("x")),
        _patch("b.txt", _replace("alpha\n", "", toClipboard="large")),
        ("undo", {"last": 1}),
        ("undo", {"commits": ["0123456789"]}),
        ("transaction", {"calls": TOGETHER}),
        ("read", {"path": "a.txt"}),
        ("log", {"limit": 3}),
    ]:
        await agent.answer(method, params)
        if method == "patch":
            await agent.answer(method, {**params, "preview": True})
            await agent.answer(method, {**params, "if_match": "0" * 40})
    _meddle(agent.base, {"publish.staged:1": [["save", "a.txt", f"one\nsaved {text}"]]})
    await _at_once(agent, [_patch("a.txt", _replace("one", "1")), _patch("a.txt", _append("y\n"))])
    _meddle(agent.base, {"publish.staged:1": [["delete", "a.txt"]]})
    await agent.answer(*_patch("a.txt", _replace("1", "one")))
    _meddle(agent.base, {})
    await agent.answer(*_patch("a.txt", _append("one\n")))
