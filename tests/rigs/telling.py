"""Telling a story to a daemon in this process, and looking at the world it leaves.

The daemon is the real one without its sockets: requests enter where a connection hands them
to the handlers. What has begun and what was answered is noted in a file beside the disk, at
once: it survives a crash, as a client's memory would.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from in_process import InProcess
from own_peer import own_peer
from rigs.crashable_disk import CrashableDisk
from rigs.stories import Call, Durability, Event, Json, Other, Save, Step
from stet.wire.failures import Refused
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.storage.disk import Disk

SESSION = "s"
#: Commits that nobody asked for.
_UNASKED = ("outside", "restore")


class Notes:
    """What has begun and what is done, a JSON line each."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add(self, **note: object) -> None:
        """Append a note, in one write."""
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(fd, json.dumps(note).encode() + b"\n")
        finally:
            os.close(fd)

    def read(self) -> tuple[set[str], dict[str, Json]]:
        """Names of the events that have begun, and the answers of those that are done."""
        begun: set[str] = set()
        done: dict[str, Json] = {}
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                for note in map(json.loads, file):
                    if "begun" in note:
                        begun.add(note["begun"])
                    else:
                        done[note["done"]] = note["answer"]
        return begun, done


class Teller:
    """A daemon on the directories below ``base``, an agent and a person that talk to it."""

    def __init__(
        self, base: str, disk: Disk, durability: Durability, notes: Notes | None = None
    ) -> None:
        self.root = os.path.join(base, "ws")
        self._disk = disk
        self._notes = notes
        state = os.path.join(base, "state")
        # A segment is closed after 16 KiB; checkpoints come when the story says so.
        settings = Settings(
            durability=durability,
            checkpoint_bytes=65536,
            checkpoint_idle_s=3600,
            grace_s=0.01,
            log_level="error",
        )
        self.daemon = InProcess(
            settings,
            Directories(os.path.join(base, "run"), state, os.path.join(base, "c.toml")),
            disk,
        )
        self._agent = self.daemon.connect(control=False, peer=own_peer("agent"))
        self._person = self.daemon.connect(control=True, peer=own_peer("person"))

    async def greet(self) -> None:
        """Allow the workspace, and open the session."""
        await self._person.call("workspace_allow", {"root": self.root})
        hello = {"protocol": 1, "workspace": self.root, "session": SESSION, "agent": "teller"}
        await self._agent.call("hello", hello)
        await self._person.call("hello", {"protocol": 1, "workspace": self.root})

    # -- events

    async def perform(self, event: Event) -> Json:
        """Let one event happen; what came of it."""
        match event:
            case Call(name, method, params):
                return await self._ask(method, {**params, "request_id": name})
            case Save():
                self._save(event)
                return {}
            case Other(_, "checkpoint"):
                await asyncio.to_thread(self.daemon.checkpoint)
                return {}
            case Other(_, method, params, control):
                connection = self._person if control else self._agent
                return dict(msgspec.to_builtins(await connection.call(method, params)))

    async def _ask(self, method: str, params: Json) -> Json:
        try:
            answer = msgspec.to_builtins(await self._agent.call(method, params))
        except Refused as refusal:
            return {"refused": refusal.kind, "message": refusal.message}
        return {"commit": answer["commit"], "replayed": answer["replayed"]}

    def _save(self, save: Save) -> None:
        path = os.path.join(self.root, save.path)
        if isinstance(self._disk, CrashableDisk):
            self._disk.saved_outside(path, save.text)
        else:
            save_by_renaming(path, save.text)

    # -- steps, as the story has them

    async def tell(self, steps: list[Step]) -> list[str]:
        """Tell the story on a disk that may stop at any moment; the saves that did not land."""
        missing = []
        for step in steps:
            missing += await self._tell_step(step)
        return missing

    async def _tell_step(self, step: Step) -> list[str]:
        notes = self._notes
        assert notes is not None
        for event in step:
            notes.add(begun=event.name)
        waiting = [event for event in step if isinstance(event, Save) and event.lands]
        self._arm(waiting)
        # Held back until all of the step are queued, so that they share a batch. It must be
        # held before: else it may take the first of them along with what holds it.
        held, gate = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            gate.wait()

        self.daemon.daemon.loop.call_soon_threadsafe(hold)
        held.wait()
        tasks = []
        for event in step:
            if event not in waiting:
                tasks.append(asyncio.ensure_future(self._perform_and_note(event)))
                await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*tasks)
        return [save.name for save in waiting]

    async def _perform_and_note(self, event: Event) -> None:
        assert self._notes is not None
        self._notes.add(done=event.name, answer=await self.perform(event))

    def _arm(self, waiting: list[Save]) -> None:
        """Let saves land when their moments come, in order."""
        disk, notes = self._disk, self._notes
        assert isinstance(disk, CrashableDisk)
        assert notes is not None

        def before(what: str, names: tuple[str, ...]) -> None:
            lands = waiting[0].lands if waiting else None
            if lands is not None and lands[0] == what and lands[1] in names:
                save = waiting.pop(0)
                self._save(save)
                notes.add(done=save.name, answer={})

        disk.before = before

    # -- looking

    async def world(self) -> Json:
        """Everything that a crash must leave either as before a call or as after it."""
        log = msgspec.to_builtins(await self._person.call("log", {"limit": 1000}))
        listed = msgspec.to_builtins(await self._agent.call("clipboard_list", {}))
        clipboards = {}
        for clipboard in listed["clipboards"]:
            name = clipboard["name"]
            got = msgspec.to_builtins(await self._agent.call("clipboard_get", {"name": name}))
            clipboards[name] = got["text"]
        modes = msgspec.to_builtins(await self._agent.call("mode_get", {}))
        status: Any = msgspec.to_builtins(await self._person.call("status", {}))
        asked = [c["request"] for c in log["commits"] if c["kind"] not in _UNASKED]
        return {
            "files": dict(files_below(self.root)),
            "clipboards": clipboards,
            "modes": [modes["session_mode"], modes["workspace_mode"]],
            "requests": asked[::-1],
            "read_only": status["read_only"],
        }


def save_by_renaming(path: str, text: str) -> None:
    """What editors do to save a file."""
    with open(path + "~", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.chmod(path + "~", 0o644)
    os.rename(path + "~", path)


def files_below(root: str) -> Iterator[tuple[str, str]]:
    """(path, mode and content) of every file; directories only by what is in them."""
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, encoding="latin-1", newline="") as file:
                yield os.path.relpath(path, root), f"{os.lstat(path).st_mode:o} {file.read()}"
