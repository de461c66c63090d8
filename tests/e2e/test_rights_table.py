"""Every method, on both sockets, in both modes: the answers are those of docs/rights.md.

The table is made from what the methods declare (rights_table.py). Here is a good call for
each of them, so a method that is added without one fails; each call is sent as agent and as
person, with no restriction, with a restricted session and in a restricted workspace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.rights_table import (
    PERSONS_OWN,
    TOOL_DISABLED,
    answer,
    answer_before_hello,
    answer_to_persons_own,
    page,
)
from e2e.running_daemon import Client, DaemonProcess, Refusal, Site
from stet.wire.failures import Kind
from stetd.methods import METHODS

#: What binds the agent's session, which the person says hello with too.
RESTRICTIONS = [None, "session", "workspace"]
ONE = [{"operation": "replace", "oldText": "one", "newText": "two"}]
BLOCK = "===SKIPPY_PATCH_START:{}===\n===FIND===\none\n===REPLACE===\ntwo\n===SKIPPY_PATCH_END===\n"


@dataclass
class World:
    """A workspace where every method has something to do, on a daemon that may be ended."""

    site: Site
    #: Commits, requests and directories, by the method that needs them.
    made: dict[str, str]

    def client(self, *, control: bool) -> Client:
        daemon = self.site.daemon
        client = daemon.control() if control else daemon.agent()
        return self.site.greeted(client, session=self.site.session)


Params = Callable[[World], dict[str, Any]]

#: A good call for each method, in the order in which they are made.
CALLS: dict[str, Params] = {
    "hello": lambda w: {"protocol": 1, "workspace": str(w.site.root), "session": "conv-1"},
    "patch": lambda w: {"path": "patch", "patches": ONE},
    "patch_file": lambda w: {
        "path": "patch_file",
        "changes": [{"search": "one", "replace": "two"}],
    },
    "patch_block": lambda w: {"text": BLOCK.format("patch_block")},
    "apply_patch": lambda w: {"input": "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch"},
    "transaction": lambda w: {
        "calls": [{"method": "patch", "params": {"path": "transaction", "patches": ONE}}]
    },
    "undo": lambda w: {"commits": [w.made["undo"]]},
    "redo": lambda w: {"commits": [w.made["redo"]]},
    "rollback": lambda w: {"to": w.made["rollback"], "paths": ["rollback"]},
    "restore": lambda w: {"path": "restore", "at": w.made["restore"]},
    "observe": lambda w: {"phase": "before", "paths": ["patch"]},
    "read": lambda w: {"path": "patch"},
    "log": lambda w: {},
    "show": lambda w: {"commit": "HEAD"},
    "diff": lambda w: {},
    "blame": lambda w: {"path": "restore"},
    "export": lambda w: {},
    "clipboard_set": lambda w: {"name": "new", "text": "t"},
    "clipboard_get": lambda w: {"name": "kept"},
    "clipboard_list": lambda w: {},
    "clipboard_delete": lambda w: {"name": "kept"},
    "mode_get": lambda w: {},
    "request_mode_upgrade": lambda w: {"reason": "why not"},
    "session_list": lambda w: {},
    "session_end": lambda w: {"session": "over"},
    "upgrade_list": lambda w: {},
    "upgrade_decide": lambda w: {"request": w.made["upgrade_decide"], "approve": False},
    "pin_list": lambda w: {},
    "pin_set": lambda w: {"name": "new"},
    "pin_delete": lambda w: {"name": "pinned"},
    "tools": lambda w: {},
    "status": lambda w: {},
    "reload": lambda w: {},
    "subscribe": lambda w: {"events": []},
    "verify": lambda w: {},
    "gc": lambda w: {},
    "snapshot": lambda w: {},
    "workspace_list": lambda w: {},
    "workspace_allow": lambda w: {"root": w.made["workspace_allow"]},
    "workspace_forget": lambda w: {"root": w.made["workspace_forget"]},
    "forget": lambda w: {"path": "forget"},
    # Restricts whoever calls it; and the last ends the daemon.
    "mode_set": lambda w: {"mode": "restricted"},
    "shutdown": lambda w: {},
}

#: For each row of the second table, calls of the agent's that are the person's to make.
PERSONS_CALLS: list[Params] = [
    lambda w: {"mode": "restricted", "scope": "workspace"},
    lambda w: {"session": "theirs", "preview": True},
    lambda w: {"commits": [w.made["theirs"]], "preview": True},
    lambda w: {"to": w.made["rollback"], "session": "theirs", "preview": True},
    lambda w: {"to": w.made["rollback"], "include_outside": True, "preview": True},
    lambda w: {"path": "theirs", "at": w.made["before theirs"], "preview": True},
]


@pytest.fixture
def world(own_daemon: DaemonProcess, request: pytest.FixtureRequest) -> World:
    """A world that is restricted as the test asks."""
    world = World(own_daemon.site("w"), {})
    _fill(world)
    restriction = request.param
    if restriction is not None:
        more = {"scope": "workspace"} if restriction == "workspace" else {"session": "conv-1"}
        world.site.person.call("mode_set", mode="restricted", **more)
    return world


def _fill(world: World) -> None:
    """Something to do for every method: a call of one has no effect on the call of another."""
    site, made = world.site, world.made
    for name in ("patch", "patch_file", "patch_block", "transaction", "forget"):
        site.write(name, "one\n")
    site.overwrite("forget", "two\n")
    made["undo"] = site.overwrite("undo", "1\n")["commit"]
    site.overwrite("redo", "1\n")
    made["redo"] = site.agent.call("undo")["commit"]
    for name in ("rollback", "restore"):
        made[name] = site.overwrite(name, "1\n")["commit"]
        site.overwrite(name, "2\n")
    made["before theirs"] = site.overwrite("theirs", "1\n")["commit"]
    site.another("over")
    them = site.another("theirs")
    overwritten = [{"operation": "overwrite", "newText": "2\n"}]
    made["theirs"] = them.call("patch", path="theirs", patches=overwritten)["commit"]
    site.write("outside", "1\n")
    site.overwrite("outside", "2\n")
    site.agent.call("clipboard_set", name="kept", text="t")
    site.person.call("pin_set", name="pinned")
    them.call("mode_set", mode="restricted")
    made["upgrade_decide"] = them.call("request_mode_upgrade")["request"]
    for method in ("workspace_allow", "workspace_forget"):
        root = site.daemon.base / method
        root.mkdir()
        made[method] = str(root)
    site.daemon.control().call("workspace_allow", root=made["workspace_forget"])


def answered(client: Client, method: str, params: dict[str, Any]) -> Kind | None:
    """The kind of the refusal, None if there is none; that of Restricted mode is word for word."""
    try:
        client.call(method, **params)
    except Refusal as refused:
        refusal = refused
    else:
        return None
    kinds = {each["kind"] for each in refusal.failures}
    assert {refusal.kind} == kinds
    if refusal.kind == Kind.TOOL_DISABLED:
        assert (method, TOOL_DISABLED) == (method, refusal.message)
    return Kind(refusal.kind)


def test_there_is_a_good_call_for_every_method() -> None:
    assert METHODS.keys() == CALLS.keys(), "add a call of the new method to CALLS"
    assert len(PERSONS_OWN) == len(PERSONS_CALLS)


@pytest.mark.parametrize("control", [False, True], ids=["agent", "person"])
@pytest.mark.parametrize("world", RESTRICTIONS, indirect=True, ids=str)
def test_the_answers_are_those_of_the_table(
    world: World, control: bool, request: pytest.FixtureRequest
) -> None:
    restricted = request.node.callspec.params["world"] is not None
    client = world.client(control=control)
    for own, params in zip(PERSONS_OWN, PERSONS_CALLS, strict=True):
        if not control:  # the person's own would change the mode, and are in other tests
            check = answer_to_persons_own(own, control=control, restricted=restricted)
            _check(world, client, own.method, params(world), check)
    for method, params in CALLS.items():
        expected = answer(method, control=control, restricted=restricted)
        _check(world, client, method, params(world), expected)
    if control:
        assert world.site.daemon.wait() == 0


def _check(
    world: World, client: Client, method: str, params: dict[str, Any], expected: Kind | None
) -> None:
    if expected is None:
        assert (method, None) == (method, answered(client, method, params))
        return
    before = world.site.picture()
    assert (method, expected) == (method, answered(client, method, params))
    assert before == world.site.picture()
    if expected == Kind.TOOL_DISABLED:
        assert expected == answered(client, method, {**params, "preview": True})
        assert before == world.site.picture()


@pytest.mark.parametrize("world", [None], indirect=True, ids=["unrestricted"])
def test_the_person_may_ask_what_the_agent_may_not(world: World) -> None:
    client = world.client(control=True)
    for own, params in zip(PERSONS_OWN, PERSONS_CALLS, strict=True):
        assert (own.what, None) == (own.what, answered(client, own.method, params(world)))


@pytest.mark.parametrize("control", [False, True], ids=["agent", "person"])
@pytest.mark.parametrize("world", [None], indirect=True, ids=["world"])
def test_before_hello_the_answers_are_those_of_the_table(world: World, control: bool) -> None:
    daemon = world.site.daemon
    for method, params in CALLS.items():
        client = daemon.control() if control else daemon.agent()
        expected = answer_before_hello(method, control=control)
        _check(world, client, method, params(world), expected)
    if control:
        assert daemon.wait() == 0


def test_the_page_in_the_documentation_is_this_table() -> None:
    written = Path(__file__).parents[2].joinpath("docs", "rights.md").read_text(encoding="utf-8")
    assert page() == written, "python -m e2e.rights_table, in tests, prints what it should be"
