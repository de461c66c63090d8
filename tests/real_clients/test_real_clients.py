"""What the agents' own clients do with stet: each check once with each client.

The client is the one from npm, its model a script (:mod:`real_clients.scripted_model`); all else
is real: its configuration, its MCP connection, its hooks, its own tools.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from e2e.running_daemon import Client, files_below
from real_clients.clients import RealClient
from real_clients.scripted_model import Use
from real_clients.world import TEXT, World, world_of

DISABLED = (
    "Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request write access."
)


def four_edits(world: World) -> list[Use]:
    """stet's patch, the client's own edit, its shell, stet's patch."""
    client = world.client
    return [
        client.replace("a.txt", "one", "ONE"),
        client.write(world.workspace / "b.txt", "bee\n"),
        client.shell("echo shell > c.txt"),
        client.replace("a.txt", "three", "THREE"),
    ]


@pytest.fixture(scope="module")
def after(client: RealClient) -> Iterator[World]:
    """A world after a conversation of four edits; for checks that only look."""
    with world_of(client) as world:
        world.connect()
        said = world.converse(*four_edits(world))
        assert (0, "ONE\ntwo\nTHREE\n") == (said.status, world.read("a.txt")), said
        yield world


def test_tools_are_listed(after: World) -> None:
    client = after.client
    for tool in ("patch", "read", "undo"):
        offered = after.model.find(client.tool.format(tool))
        assert offered is not None, tool
        assert offered.description


def test_one_conversation_is_one_session_of_one_agent(after: World) -> None:
    edits = after.edits()
    assert ["c.txt", "b.txt"] == [e["files"][0]["path"] for e in edits[1:3]], edits
    assert 4 == len(edits)
    assert {after.client.name} == {edit["agent"] for edit in edits}
    assert 1 == len({edit["session"] for edit in edits})
    assert ["edit", "observed", "observed", "edit"] == [edit["kind"] for edit in edits]


def test_what_the_model_is_shown_is_the_text(world: World) -> None:
    said = world.converse(world.client.use("read", path="a.txt"))
    assert TEXT in said.shown[0]
    assert "structuredContent" not in said.shown[0]
    assert "\\n" not in said.shown[0]


def test_undo_of_the_second_edit_alone(world: World) -> None:
    world.converse(*four_edits(world))
    second = world.edits()[2]
    assert "b.txt" == second["files"][0]["path"]
    world.stet("undo", second["commit"])
    assert ("ONE\ntwo\nTHREE\n", None, "shell\n") == tuple(
        map(world.read, ("a.txt", "b.txt", "c.txt"))
    )


def test_oops_takes_back_what_was_done_in_one_turn(world: World) -> None:
    world.converse(tuple(four_edits(world)))
    assert "ONE\ntwo\nTHREE\n" == world.read("a.txt")
    world.stet("oops", "--yes")
    assert (TEXT, None, None) == tuple(map(world.read, ("a.txt", "b.txt", "c.txt")))


def test_the_agent_undoes_what_its_own_tools_did(world: World) -> None:
    client = world.client
    own = client.write(world.workspace / "b.txt", "bee\n")
    said = world.converse(own, client.use("undo"))
    assert world.read("b.txt") is None, said


def test_a_directory_that_is_not_allowed(client: RealClient) -> None:
    with world_of(client) as world:
        world.stet("connect", client.name, "--write", *client.connect)
        own = client.write(world.workspace / "b.txt", "bee\n")
        said = world.converse(client.replace("a.txt", "one", "ONE"), own)
        assert "stet init" in said.shown[0], said
        assert (TEXT, "bee\n") == (world.read("a.txt"), world.read("b.txt"))
        assert "stet hook" not in said.output + said.errors, said


def test_restricted_mode(world: World) -> None:
    world.stet("mode", "restricted")
    said = world.converse(world.client.replace("a.txt", "one", "ONE"))
    assert DISABLED in said.shown[0], said
    assert TEXT == world.read("a.txt")


def test_a_daemon_that_is_killed(world: World) -> None:
    client = world.client
    before = 2 if client.search else 1

    def kill(step: int) -> None:
        if step == before:
            world.daemon.kill()  # whoever needs it next starts it

    world.model.before_step = kill
    try:
        said = world.converse(
            client.replace("a.txt", "one", "ONE"), client.replace("a.txt", "three", "THREE")
        )
        assert "ONE\ntwo\nTHREE\n" == world.read("a.txt"), said
        assert 1 == len({edit["session"] for edit in world.edits()})
    finally:
        with contextlib.closing(Client(str(world.daemon.runtime / "control.sock"))) as person:
            person.call("shutdown")


def test_disconnect(client: RealClient) -> None:
    with world_of(client) as world:
        before = contents(world)
        world.connect()
        assert before != contents(world)
        world.stet("disconnect", client.name)
        assert before == contents(world)


def contents(world: World) -> dict[str, tuple[int, bytes]]:
    """The files of the client's home: mode and bytes."""
    found = files_below(world.home.path).items()
    return {path: (mode, data) for path, (mode, _, data) in found}
