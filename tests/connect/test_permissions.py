"""Which of stet's tools a client does not ask about, and the files that are stet's alone."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from connect.person import Person
from stet.agents.clients import OWN_MARK, READING

CLAUDE = ".claude/settings.json"
POLICY = ".gemini/policies/stet.toml"
PLUGIN = ".config/opencode/plugin/stet.js"
READS = [f"mcp__stet__{tool}" for tool in READING]


def allowed(person: Person) -> list[str]:
    words: list[str] = json.loads(person.read(CLAUDE))["permissions"]["allow"]
    return words


def test_claude_code_does_not_ask_before_stet_reads_and_edits_if_said(person: Person) -> None:
    person.run("connect", "claude-code", "--write")
    assert READS == allowed(person)
    person.run("connect", "claude-code", "--write", "--allow-edits")
    assert [*READS, "mcp__stet"] == allowed(person)
    before = person.tree()
    person.run("connect", "claude-code", "--write")
    assert before == person.tree(), "what a person has allowed is not taken away by the way"
    person.run("disconnect", "claude-code")
    assert {"project"} == set(person.tree())


def test_what_a_person_allows_stays(person: Person) -> None:
    mine = b'{\n  "permissions": {\n    "allow": ["Bash(ls)"], // mine\n    "deny": []\n  }\n}\n'
    mine = mine.replace(b" // mine", b"")
    person.write(CLAUDE, mine)
    person.run("connect", "claude-code", "--write", "--hooks", "--allow-edits")
    assert ["Bash(ls)", "mcp__stet"] == allowed(person)
    person.run("connect", "claude-code", "--write")
    assert ["Bash(ls)", "mcp__stet"] == allowed(person)
    person.run("disconnect", "claude-code")
    assert mine == person.read(CLAUDE)
    person.write(CLAUDE, b'{"permissions": {"allow": ["mcp__stet", "mcp__stetson", 1]}}')
    person.run("connect", "claude-code", "--write")
    person.run("disconnect", "claude-code")
    assert ["mcp__stetson", 1] == allowed(person)


def rules(person: Person) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(person.read(POLICY).decode())["rule"]
    return found


def test_gemini_is_told_in_a_policy_of_its_own(person: Person) -> None:
    person.run("connect", "gemini", "--write")
    [reading] = rules(person)
    assert ([f"mcp_stet_{tool}" for tool in READING], "allow") == (
        reading["toolName"],
        reading["decision"],
    )
    person.run("connect", "gemini", "--write", "--allow-edits")
    again, editing = rules(person)
    assert reading == again
    # In plan mode Gemini CLI does not edit, and stet is not to do it for it.
    assert ("mcp_stet_*", ["default", "autoEdit", "yolo"]) == (
        editing["toolName"],
        editing["modes"],
    )
    before = person.tree()
    person.run("connect", "gemini", "--write")
    assert before == person.tree(), "what a person has allowed is not taken away by the way"
    person.run("disconnect", "gemini")
    assert {"project"} == set(person.tree())
    person.run("connect", "gemini", "--write", "--scope", "project")
    assert POLICY not in person.tree(), "policies of projects are not read"


@pytest.mark.parametrize(
    ("client", "path"), [("gemini", POLICY), ("opencode", PLUGIN)], ids=["policy", "plugin"]
)
def test_a_file_of_that_name_that_stet_has_not_written(
    person: Person, client: str, path: str
) -> None:
    person.write(path, b"# mine\n")
    before = person.tree()
    said = person.refused(
        "connect", client, "--write", *(["--hooks"] if client != "gemini" else [])
    )
    assert "has not written" in said
    assert before == person.tree()
    person.run("disconnect", client)
    assert b"# mine\n" == person.read(path)


def test_opencodes_plugin(person: Person) -> None:
    person.run("connect", "opencode", "--write")
    assert PLUGIN not in person.tree(), "without --hooks"
    person.run("connect", "opencode", "--write", "--hooks")
    text = person.read(PLUGIN).decode()
    assert OWN_MARK in text.splitlines()[0]
    command = person.json("connect", "opencode")["files"][0]
    program = json.loads(command["text"])["mcp"]["stet"]["command"][:-1]
    [hook] = [line for line in text.splitlines() if line.startswith("const HOOK = ")]
    assert [*program, "hook", "opencode"] == json.loads(hook.partition(" = ")[2])[
        -len(program) - 2 :
    ]
    person.run("disconnect", "opencode")
    assert {"project"} == set(person.tree())


def test_it_is_said_what_holds_for_edits_and_what_a_project_is_asked_for(person: Person) -> None:
    said = person.run("connect", "codex", "--write", "--hooks", "--scope", "project")
    assert "sandbox is read-only" in said
    assert "trusted" in said
    assert "/hooks" in said
    assert "in plan mode" in person.run("connect", "claude-code")


@pytest.mark.parametrize(
    "words", [["mcp__stet__patch", "mcp__stet__undo"], READS[:1]], ids=["others", "one of its own"]
)
def test_a_word_that_a_person_has_allowed_stays(person: Person, words: list[str]) -> None:
    person.write(CLAUDE, json.dumps({"permissions": {"allow": words}}).encode())
    before = person.tree()
    assert "stet was not connected" in person.run("disconnect", "claude-code")
    assert before == person.tree()
    person.run("connect", "claude-code", "--write")
    assert list(dict.fromkeys([*words, *READS])) == allowed(person)
    person.run("disconnect", "claude-code")
    assert before == person.tree()
