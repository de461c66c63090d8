"""What only one of the clients does: its plan mode, its sandbox, its background commands."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from real_clients.clients import CLAUDE_CODE, CODEX, GEMINI, OPENCODE, RealClient, installed
from real_clients.scripted_model import ScriptedModel, Use
from real_clients.world import TEXT, World, world_of


@contextmanager
def connected(client: RealClient, *more: str) -> Iterator[World]:
    """A machine with this client, and stet connected to it."""
    if installed(client) is None:
        pytest.skip(f"{client.package} is not installed: scripts/test --clients installs it")
    with world_of(client) as world:
        world.connect(*more)
        yield world


def reads_only(client: RealClient) -> RealClient:
    """The client as it is connected without --allow-edits."""
    return replace(client, connect=("--hooks",))


class TestClaudeCode:
    def test_reading_is_not_asked_about_and_editing_is(self) -> None:
        with connected(reads_only(CLAUDE_CODE)) as world:
            said = world.converse(
                CLAUDE_CODE.use("read", path="a.txt"), CLAUDE_CODE.replace("a.txt", "one", "ONE")
            )
            assert TEXT in said.shown[0], said
            assert "permission" in said.shown[1], said
            assert TEXT == world.read("a.txt")

    def test_plan_mode_binds_stet_even_where_editing_is_allowed(self) -> None:
        with connected(CLAUDE_CODE) as world:
            patch = CLAUDE_CODE.replace("a.txt", "one", "ONE")
            said = world.converse(patch, more=("--permission-mode", "plan"))
            assert "plan mode" in said.shown[0], said
            assert TEXT == world.read("a.txt")

    def test_a_long_text_is_shown_and_says_how_to_read_on(self) -> None:
        with connected(CLAUDE_CODE) as world:
            (world.workspace / "long.txt").write_text("".join(f"{n:09}\n" for n in range(12_000)))
            [shown] = world.converse(CLAUDE_CODE.use("read", path="long.txt")).shown
            assert "000009000\n" in shown, shown[:2000]
            assert "call read with start=" in shown

    def test_a_command_that_goes_to_another_workspace(self) -> None:
        with connected(CLAUDE_CODE) as world:
            other = world.daemon.base / "other"
            other.mkdir()
            world.stet("init", str(other))
            world.converse(
                CLAUDE_CODE.shell(f"echo 1 > here.txt; cd {other} && echo 2 > there.txt"),
                more=("--add-dir", str(other)),
            )
            [here] = world.edits()
            assert ["here.txt"] == [file["path"] for file in here["files"]]
            log = json.loads(world.stet("log", "--json", "-C", str(other)))["commits"]
            [there] = [commit for commit in log if commit["kind"] != "outside"]
            assert ["there.txt"] == [file["path"] for file in there["files"]]
            assert here["session"] == there["session"]

    def test_what_a_background_command_writes_later(self) -> None:
        with connected(CLAUDE_CODE) as world:
            late = Use(
                "Bash",
                {
                    "command": "sleep 1; echo late > late.txt",
                    "description": "later",
                    "run_in_background": True,
                },
            )
            world.converse(late, CLAUDE_CODE.shell("sleep 2"))
            [edit] = world.edits()
            assert ["late.txt"] == [file["path"] for file in edit["files"]]
            assert "claude-code" == edit["agent"]

    def test_what_a_monitored_command_writes_later(self) -> None:
        with connected(CLAUDE_CODE) as world:
            given = {"description": "watch", "timeout_ms": 60_000}
            monitor = Use("Monitor", {"command": "sleep 1; echo late > late.txt", **given})
            search = Use("ToolSearch", {"query": "select:Monitor"})
            world.converse(
                search,
                monitor,
                CLAUDE_CODE.shell("timeout 60 sh -c 'until cat late.txt; do :; done'"),
            )
            [edit] = world.edits()
            assert "observed Monitor: late.txt\n\nwatch" == edit["message"]

    def test_a_subagent_is_named(self) -> None:
        with connected(CLAUDE_CODE) as world:
            own = CLAUDE_CODE.write(world.workspace / "b.txt", "bee\n")
            world.model.tasks = {"Write the file b.": [own]}
            task = {"prompt": "Write the file b.", "subagent_type": "general-purpose"}
            world.converse(Use("Agent", {"description": "b", "run_in_background": False, **task}))
            [edit] = world.edits()
            assert edit["subagent"].startswith("general-purpose")
            assert "general-purpose" in world.stet("log")

    @pytest.mark.parametrize(
        ("query", "tool"),
        [
            ("apply patch", "apply_patch"),
            ("edit history log", "log"),
            ("search and replace in a file", "patch_file"),
        ],
    )
    def test_a_tool_that_is_not_offered_at_once_is_found(self, query: str, tool: str) -> None:
        with connected(CLAUDE_CODE) as world:
            search = Use("ToolSearch", {"query": query, "max_results": 5})
            world.converse(search, CLAUDE_CODE.use("read", path="a.txt"))
            assert world.model.find(CLAUDE_CODE.tool.format(tool)) is not None


class TestCodex:
    def test_a_read_only_sandbox_binds_stet(self) -> None:
        client = replace(CODEX, arguments=("exec", "--skip-git-repo-check", "-s", "read-only"))
        with connected(client) as world:
            said = world.converse(
                client.use("read", path="a.txt"), client.replace("a.txt", "one", "ONE")
            )
            assert TEXT in said.shown[0], said
            assert "read-only" in said.shown[1], said
            assert TEXT == world.read("a.txt")

    def test_a_patch_that_the_shell_applies(self) -> None:
        with connected(CODEX) as world:
            patch = "*** Begin Patch\n*** Add File: b.txt\n+bee\n*** End Patch"
            world.converse(CODEX.shell(f"apply_patch <<'EOF'\n{patch}\nEOF"), CODEX.shell("true"))
            [edit] = world.edits()
            assert ("codex", "b.txt") == (edit["agent"], edit["files"][0]["path"])

    def test_a_model_that_calls_tools_by_code(self) -> None:
        """Codex lets its newest models call all tools in JavaScript."""

        def configure(home: Path, model: ScriptedModel) -> None:
            CODEX.configure(home, model)
            config = home / ".codex" / "config.toml"
            config.write_text(config.read_text().replace("gpt-5.5", "gpt-6-sol"))

        patch = "*** Begin Patch\n*** Add File: b.txt\n+bee\n*** End Patch\n"
        stets = CODEX.replace("a.txt", "one", "ONE")
        calls = [
            f"tools.apply_patch({json.dumps(patch)})",
            'tools.exec_command({cmd: "echo shell > c.txt"})',
            f"tools.{stets.tool}({json.dumps(stets.given)})",
        ]
        with connected(replace(CODEX, configure=configure, search=None)) as world:
            said = world.converse(*(Use("exec", f"await {call}") for call in calls))
            edits = [(each["method"], each["files"][0]["path"]) for each in world.edits()]
            changed = [("patch", "a.txt"), ("observed", "c.txt"), ("observed", "b.txt")]
            assert changed == edits, said
            assert 1 == len({each["session"] for each in world.edits()})

    def test_a_command_that_goes_on_beside_the_model_is_recorded_at_its_end(self) -> None:
        with connected(CODEX) as world:
            command = {"cmd": "sleep 1; echo late > late.txt", "yield_time_ms": 250}
            wait: dict[str, object] = {"chars": "", "yield_time_ms": 30_000}

            def tell_session(_: int) -> None:
                for told in re.findall(r"session ID (\d+)", "".join(world.model.results)):
                    wait["session_id"] = int(told)

            world.model.before_step = tell_session
            world.converse(Use("exec_command", command), Use("write_stdin", wait))
            [edit] = world.edits()
            assert ["late.txt"] == [file["path"] for file in edit["files"]]

    def test_doctor_says_that_untrusted_hooks_do_not_run(self) -> None:
        client = replace(CODEX, trusting_hooks=())
        with connected(client) as world:
            world.converse(client.write(world.workspace / "b.txt", "bee\n"))
            assert [] == world.edits(), "Codex skips hooks that are not trusted"
            program = installed(client)
            assert program is not None
            directory = os.path.dirname(program[0])
            world.home.environment["PATH"] = f"{directory}:{world.home.environment['PATH']}"
            said = world.stet("doctor", status=1)
            assert "/hooks" in said, said

    @pytest.mark.parametrize(
        ("query", "tool"),
        [("undo edit", "undo"), ("apply patch", "apply_patch"), ("edit file", "patch")],
    )
    def test_a_search_finds_the_tool(self, query: str, tool: str) -> None:
        with connected(CODEX) as world:
            world.client = replace(CODEX, search=Use("tool_search", {"query": query, "limit": 4}))
            world.converse(CODEX.use("read", path="a.txt"))
            assert world.model.find(CODEX.tool.format(tool)) is not None


class TestGemini:
    def test_plan_mode_binds_stet_even_where_editing_is_allowed(self) -> None:
        client = replace(GEMINI, arguments=("--approval-mode=plan", *GEMINI.arguments[1:]))
        with connected(client) as world:
            said = world.converse(
                client.use("read", path="a.txt"), client.replace("a.txt", "one", "ONE")
            )
            assert TEXT in said.shown[0], said
            assert TEXT == world.read("a.txt"), said

    def test_reading_is_not_asked_about_and_editing_only_if_said(self) -> None:
        client = replace(GEMINI, arguments=("--approval-mode=default", *GEMINI.arguments[1:]))
        steps = (client.use("read", path="a.txt"), client.replace("a.txt", "one", "ONE"))
        with connected(reads_only(client)) as world:
            said = world.converse(*steps)
            assert TEXT in said.shown[0], said
            assert TEXT == world.read("a.txt"), said
        with connected(client) as world:
            said = world.converse(*steps)
            assert "ONE\ntwo\nthree\n" == world.read("a.txt"), said


class TestOpencode:
    __test__ = os.environ.get("STET_TEST_CLIENTS") == "all"  # CI does not install it

    def test_a_subagent_belongs_to_the_conversation_that_started_it(self) -> None:
        with connected(OPENCODE) as world:
            own = OPENCODE.write(world.workspace / "b.txt", "bee\n")
            theirs = OPENCODE.replace("a.txt", "one", "ONE")
            world.model.tasks = {"Write the file b.": [own, theirs]}
            task = {"prompt": "Write the file b.", "subagent_type": "general"}
            world.converse(
                Use("task", {"description": "b", **task}), OPENCODE.shell("echo > c.txt")
            )
            edits = world.edits()
            assert 3 == len(edits)
            assert 1 == len({edit["session"] for edit in edits})
            assert edits[2]["subagent"].startswith("ses_")
            world.stet("oops", "--yes")
            assert (TEXT, None, None) == tuple(map(world.read, ("a.txt", "b.txt", "c.txt")))
