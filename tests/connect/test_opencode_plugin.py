"""The plugin that ``stet connect opencode --hooks`` writes, run by Node.js as opencode runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from connect.person import Person

PLUGIN = ".config/opencode/plugin/stet.js"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js")

#: The calls of opencode's tools, as opencode tells a plugin of them.
RUN = """
import {{ Stet }} from "{plugin}"
const hooks = await Stet({{ directory: "/w" }})
const info = {{ id: "child", parentID: "s" }}
await hooks.event({{ event: {{ type: "session.created", properties: {{ info }} }} }})
for (const [when, tool, sessionID] of {calls}) {{
  const args = {{ filePath: "/w/" + tool }}
  const input = {{ tool, sessionID, callID: "c" }}
  if (when === "before") await hooks["tool.execute.before"](input, {{ args }})
  else await hooks["tool.execute.after"]({{ ...input, args }}, {{}})
}}
"""

#: The same of calls that the model makes in one turn: opencode makes them at once.
TOGETHER = """
import {{ existsSync }} from "node:fs"
import {{ Stet }} from "{plugin}"
const hooks = await Stet({{ directory: "/w" }})
const make = async ([when, tool, sessionID]) => {{
  await hooks["tool.execute.before"]({{ tool, sessionID, callID: "c" }}, {{ args: {{}} }})
  if (!existsSync("{log}")) console.log(`${{tool}} goes on, and stet was not told`)
}}
await Promise.all({calls}.map(make))
"""


def told(
    person: Person, calls: list[tuple[str, str, str]], program: list[str], script: str = RUN
) -> list[Any]:
    """What the plugin tells the program of these calls; the plugin must never throw."""
    person.run("connect", "opencode", "--write", "--hooks")
    text = person.read(PLUGIN).decode()
    [hook] = [line for line in text.splitlines() if line.startswith("const HOOK = ")]
    text = text.replace(hook, f"const HOOK = {json.dumps(program)}")
    plugin = person.write("plugin.mjs", text.encode())
    log = person.home / "log"
    text = script.format(plugin=plugin, calls=json.dumps(calls), log=log)
    run = person.write("run.mjs", text.encode())
    # A program that is waited for takes a quarter of a minute for each call.
    done = subprocess.run(
        [NODE or "", str(run)], capture_output=True, text=True, check=False, timeout=40
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def logging(person: Person) -> list[str]:
    # Written when all has been read, so later than what the plugin does without waiting.
    return ["sh", "-c", f"text=$(cat); echo \"$text\" >> '{person.home}/log'; echo noise"]


def test_tools_that_write_are_told_of_before_and_after(person: Person) -> None:
    calls = [("before", "write", "s"), ("after", "write", "s"), ("before", "read", "s")]
    before, after = told(person, [*calls, ("after", "read", "s")], logging(person))
    expected = {
        "hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/w", "tool_name": "write",
        "tool_input": {"filePath": "/w/write"}, "tool_use_id": "c",
    }  # fmt: skip
    assert expected == before
    assert {**expected, "hook_event_name": "PostToolUse"} == after


def test_stet_learns_whose_call_it_is_when_that_changes(person: Person) -> None:
    calls = [("stet_patch", "a"), ("stet_read", "a"), ("stet_read", "b"), ("stet_read", "a")]
    # What another conversation's own tool tells counts, too.
    calls += [("bash", "b"), ("stet_patch", "b"), ("stet_patch", "a")]
    found = told(person, [("before", *call) for call in calls], logging(person))
    expected = [("SessionStart", each) for each in "aba"]
    expected += [("PreToolUse", "b"), ("SessionStart", "a")]
    assert expected == [(each["hook_event_name"], each["session_id"]) for each in found]


@pytest.mark.parametrize("first", ["stet_read", "write"])
def test_calls_that_are_made_at_once_wait_until_stet_knows_whose_they_are(
    person: Person, first: str
) -> None:
    calls = [("before", tool, "s") for tool in (first, "stet_patch", "stet_undo")]
    [only] = told(person, calls, logging(person), TOGETHER)
    assert "s" == only["session_id"]


def test_a_subagent_belongs_to_the_conversation_that_started_it(person: Person) -> None:
    calls = [("before", "write", "child"), ("before", "stet_patch", "child")]
    [own] = told(person, calls, logging(person))
    assert ("s", "child") == (own["session_id"], own["agent_id"])


@pytest.mark.parametrize("program", [["/gone/stet", "hook"], ["false"], ["sh", "-c", "exec <&-"]])
def test_a_program_that_fails_does_not_stop_opencode(person: Person, program: list[str]) -> None:
    calls = [("before", "write", "s"), ("after", "write", "s"), ("before", "stet_read", "t")]
    assert [] == told(person, calls, program)
