"""The ways to carry out a scenario: as a pure plan, in this process, over the socket.

Each takes a scenario and gives an :class:`Outcome`; :func:`check` compares it with what the
scenario demands. The pure plan knows no modes, commits or diffs; what it does not know is not
compared.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

import in_process
from e2e.running_daemon import Client, DaemonProcess, Refusal
from own_peer import own_peer
from scenarios.scenario import Json, Scenario
from stet.wire.failures import Refused
from stet.wire.framing import Encoding
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan
from stetd.parameters import split_common
from tree_world import Tree, TreeWorld

_FILE_MODE = 0o644
#: What a plan does not say of its files.
_UNPLANNED = frozenset({"before", "after", "added", "removed"})


@dataclass(frozen=True)
class Outcome:
    """What a call did. One of ``reply`` and ``error`` is given (``error`` with its ``kind``).

    ``changed`` tells whether there was a commit.
    """

    scenario: Scenario
    tree: Tree
    clipboards: Mapping[str, str]
    reply: Json | None = None
    error: Json | None = None
    changed: bool = False
    #: Members of a reply, and of its files, that this way can't tell.
    untold: frozenset[str] = field(default=frozenset())


class Way(Protocol):
    """A way to carry out a scenario."""

    def run(self, scenario: Scenario) -> Outcome:
        """Carry it out in a workspace of its own."""
        ...


# -- as a pure plan


class PurePlan:
    """The dialect's function on a world in memory; no disk, no daemon."""

    root = "/workspace"

    def run(self, scenario: Scenario) -> Outcome:
        scenario = scenario.at(self.root)
        common, own = split_common(scenario.params)
        world = TreeWorld(scenario.before, scenario.clipboards, self.root)
        try:
            plan = DIALECTS[scenario.dialect](own, world)
        except Refused as refused:
            return Outcome(scenario, scenario.before, scenario.clipboards, error=_data(refused))
        dry = plan.preview or bool(common.get("preview"))
        reply = _reply(plan, preview=dry)
        return Outcome(
            scenario,
            scenario.before if dry else scenario.before.after(plan),
            scenario.clipboards if dry else {**scenario.clipboards, **plan.clipboards},
            reply=reply,
            changed=bool(plan.files) and not dry,
            untold=frozenset(scenario.reply) - set(reply) - {"changed"} | _UNPLANNED,
        )


def _data(refused: Refused) -> Json:
    return {
        "kind": refused.kind,
        "message": refused.message,
        "failures": _plain(refused.failures),
        **refused.extra,
    }


def _plain(value: object) -> Any:
    """As it would be on the wire: lists for tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _reply(plan: Plan, *, preview: bool) -> Json:
    """What the plan says of the members of an EditResult."""
    told = plan.preview_message if preview else ""
    known: Json = {
        "message": told or plan.message,
        "edits": plan.edits,
        "warnings": plan.warnings,
        "clipboards": plan.clipboard_notes,
    }
    if plan.results:
        known["result"] = plan.results if len(plan.results) > 1 else plan.results[0]
    gone = {planned.path for planned in plan.files if planned.after is None}
    came = {each.path: each.old_path for each in plan.files if each.before is None}
    moved = gone.intersection(came.values())
    known["files"] = [
        {"path": planned.path, "status": "R", "old_path": planned.old_path}
        if came.get(planned.path) in moved
        else {"path": planned.path, "status": _status(planned.before, planned.after)}
        for planned in plan.files
        if planned.path not in moved or planned.after is not None
    ]
    return {name: _plain(value) for name, value in known.items()}


def _status(before: bytes | None, after: bytes | None) -> str:
    return "A" if before is None else "D" if after is None else "M"


# -- on a disk


def _build(tree: Tree, root: Path) -> None:
    root.mkdir()
    for path in sorted(tree.directories):
        root.joinpath(path).mkdir(parents=True, exist_ok=True)
    for path, data in tree.files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(tree.modes.get(path, _FILE_MODE))
    for path, target in tree.links.items():
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def _found(root: Path) -> Tree:
    files, links, modes, directories = {}, {}, {}, set()
    for path in root.rglob("*"):
        name, mode = path.relative_to(root).as_posix(), path.lstat().st_mode
        if stat.S_ISLNK(mode):
            links[name] = os.readlink(path)
        elif stat.S_ISDIR(mode):
            directories.add(name)
        else:
            files[name], modes[name] = path.read_bytes(), stat.S_IMODE(mode)
    return Tree(files, links, modes, frozenset(directories))


class Asking(Protocol):
    """Something that answers requests; raises Refused or Refusal."""

    def __call__(self, method: str, params: Json) -> Json: ...


def _carry_out(scenario: Scenario, root: Path, ask: Asking) -> Outcome:
    """The call and what came of it; ``ask`` has said hello."""
    for name, text in scenario.clipboards.items():
        ask("clipboard_set", {"name": name, "text": text})
    reply = error = None
    try:
        reply = ask(scenario.dialect, scenario.params)
    except Refused as refused:
        error = _data(refused)
    except Refusal as refusal:
        error = {**refusal.data, "message": refusal.message}
    clipboards = {
        each["name"]: ask("clipboard_get", {"name": each["name"]})["text"]
        for each in ask("clipboard_list", {})["clipboards"]
    }
    changed = bool(reply and reply["commit"])
    return Outcome(scenario, _found(root), clipboards, reply, error, changed)


class InProcess:
    """A daemon of this process without its sockets, a workspace for each scenario."""

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="stet-scenarios-", dir="/tmp"))
        for name in ("state", "run"):
            self._base.joinpath(name).mkdir(0o700)
        settings = Settings(durability="relaxed", grace_s=0.01, log_level="error")
        paths = [str(self._base / name) for name in ("run", "state", "c.toml")]
        self._daemon = in_process.InProcess(settings, Directories(*paths))
        self._person = self._daemon.connect(control=True, peer=own_peer("person"))
        self._count = 0

    def close(self) -> None:
        """End the daemon."""
        self._daemon.close()
        shutil.rmtree(self._base)

    def run(self, scenario: Scenario) -> Outcome:
        self._count += 1
        root = self._base / f"w{self._count}"
        return asyncio.run(self._run(scenario.at(str(root)), root))

    async def _run(self, scenario: Scenario, root: Path) -> Outcome:
        _build(scenario.before, root)
        await self._person.call("workspace_allow", {"root": str(root)})
        agent = self._daemon.connect(control=False, peer=own_peer("agent"))
        await agent.call("hello", _hello(root))
        loop = asyncio.get_running_loop()

        def ask(method: str, params: Json) -> Json:
            future = asyncio.run_coroutine_threadsafe(agent.call(method, params), loop)
            return dict(msgspec.to_builtins(future.result(20)))

        outcome = await asyncio.to_thread(_carry_out, scenario, root, ask)
        await self._person.call("workspace_forget", {"root": str(root)})
        return outcome


class OverTheSocket:
    """A real daemon, in one of the two encodings."""

    def __init__(self, daemon: DaemonProcess, encoding: Encoding) -> None:
        self._daemon = daemon
        self._encoding = encoding

    def run(self, scenario: Scenario) -> Outcome:
        root = Path(tempfile.mkdtemp(prefix="w-", dir=self._daemon.base)) / "w"
        scenario = scenario.at(str(root))
        _build(scenario.before, root)
        person, agent = self._client("control.sock"), self._client("agent.sock")

        def ask(method: str, params: Json) -> Json:
            return agent.call(method, **params)

        try:
            person.call("workspace_allow", root=str(root))
            agent.call("hello", **_hello(root))
            outcome = _carry_out(scenario, root, ask)
            person.call("workspace_forget", root=str(root))
            return outcome
        finally:
            person.close()
            agent.close()

    def _client(self, name: str) -> Client:
        return Client(str(self._daemon.runtime / name), self._encoding)


def _hello(root: Path) -> Json:
    return {"protocol": 1, "workspace": str(root), "session": "s", "agent": "scenarios"}


# -- comparing


def check(outcome: Outcome) -> None:
    """Assert that the outcome is what its scenario demands."""
    scenario = outcome.scenario
    if scenario.error is not None:
        assert outcome.error is not None, f"it was not refused: {outcome.reply}"
        assert scenario.error["message"] == outcome.error["message"]
        assert scenario.error["kind"] == outcome.error["kind"]
        assert_given(scenario.error, outcome.error)
        assert scenario.before.all_directories() == outcome.tree.all_directories()
    else:
        assert outcome.error is None, outcome.error and outcome.error["message"]
        reply = {k: v for k, v in scenario.reply.items() if k not in ("changed", *outcome.untold)}
        assert outcome.reply is not None
        assert_given(_files_sorted(reply, outcome.untold), _files_sorted(outcome.reply))
        assert scenario.reply.get("warnings", []) == outcome.reply.get("warnings", [])
    assert dict(scenario.after.files) == dict(outcome.tree.files)
    assert dict(scenario.after.links) == dict(outcome.tree.links)
    assert dict(scenario.clipboards_after) == dict(outcome.clipboards)
    assert scenario.changes == outcome.changed, "whether there is a commit"
    for path, mode in outcome.tree.modes.items():
        if path in scenario.after.modes or path in scenario.before.files:
            before = scenario.before.modes.get(path, _FILE_MODE)
            assert f"{scenario.after.modes.get(path, before):o}" == f"{mode:o}", path


def _files_sorted(reply: Json, without: frozenset[str] = frozenset()) -> Json:
    if "files" not in reply:
        return reply
    told = [{k: v for k, v in file.items() if k not in without} for file in reply["files"]]
    return {**reply, "files": sorted(told, key=lambda file: str(file["path"]))}


def assert_given(expected: Any, actual: Any, where: str = "reply") -> None:
    """Assert that the given members of objects are there; everything else must be equal."""
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{where}: {actual!r}"
        for name, value in expected.items():
            assert_given(value, actual.get(name), f"{where}.{name}")
    elif isinstance(expected, list):
        assert isinstance(actual, list), f"{where}: {actual!r}"
        assert len(expected) == len(actual), f"{where}: {actual}"
        for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
            assert_given(one, other, f"{where}[{number}]")
    else:
        assert expected == actual, where
