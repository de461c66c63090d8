"""What a person has added to an entry of stet's stays; and what it was is kept in a backup."""

from __future__ import annotations

import json
import tomllib

import pytest

from connect.person import HOOK_FILES, PROGRAM, SERVER_FILES, Person
from stet.agents.jsonc import value_of
from stet.cli.doctor_clients import findings

CODEX = SERVER_FILES["codex", "user"][0]
CLAUDE_HOOKS = HOOK_FILES["claude-code", "user"]


def change(person: Person, path: str, old: str, new: str) -> bytes:
    """A person edits a file; what it is then."""
    before = person.read(path)
    after = before.replace(old.encode(), new.encode())
    assert before != after
    person.write(path, after, 0o600)
    return after


def test_options_and_variables_of_a_server_stay(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    person.run("connect", "codex", "--write")
    change(person, CODEX, '"mcp"', '"mcp", "--agent", "me"')
    mine = change(person, CODEX, '["XDG_RUNTIME_DIR"]', '["MY_TOKEN", "XDG_RUNTIME_DIR"]')
    person.run("connect", "codex", "--write", "--hooks")
    assert mine == person.read(CODEX)

    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    person.run("connect", "codex", "--write", "--tools", "patch")
    server = tomllib.loads(person.read(CODEX).decode())["mcp_servers"]["stet"]
    assert [*PROGRAM[1:], "mcp", "--tools", "patch", "--agent", "me"] == server["args"]
    assert ["MY_TOKEN", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] == server["env_vars"]
    assert mine == person.read(f"{CODEX}.stet-backup-1")


def test_a_server_that_a_person_starts_with_variables_keeps_them(person: Person) -> None:
    path, key = SERVER_FILES["zed", "user"]
    old = {"source": "custom", "command": "env", "args": ["MY=1", "STET_CONFIG=/x", "/old/stet"]}
    old["args"] = [*old["args"], "mcp", "--tools=patch", "--session", "s"]
    person.write(path, json.dumps({key: {"stet": old}}).encode())
    person.run("connect", "zed", "--write")
    server = value_of(person.read(path).decode())[key]["stet"]
    expected = ["env", "MY=1", *PROGRAM, "mcp", "--session", "s"]
    assert expected == [server["command"], *server["args"]]


def test_times_options_and_the_place_of_a_hook_stay(person: Person) -> None:
    person.run("connect", "claude-code", "--write", "--hooks")
    change(person, CLAUDE_HOOKS, '"timeout": 15', '"timeout": 60')
    change(person, CLAUDE_HOOKS, "hook claude-code", "hook claude-code --before 1 2>>/tmp/log")
    change(person, CLAUDE_HOOKS, "Edit|Write|MultiEdit|", "Edit|")
    found = json.loads(person.read(CLAUDE_HOOKS))
    found["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": "mine"}]})
    mine = json.dumps(found, indent=4).encode()
    person.write(CLAUDE_HOOKS, mine)
    person.run("connect", "claude-code", "--write", "--hooks")
    assert mine == person.read(CLAUDE_HOOKS)

    stale = change(person, CLAUDE_HOOKS, PROGRAM[0], "/gone/stet")
    person.run("connect", "claude-code", "--write", "--hooks")
    assert mine == person.read(CLAUDE_HOOKS)
    assert stale == person.read(f"{CLAUDE_HOOKS}.stet-backup-1")


def test_variables_of_a_hook_stay_and_quotes_with_them(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STET_CONFIG", "/a b")
    path = HOOK_FILES["cursor", "user"]
    theirs = 'env STET_CONFIG=/old  MY=\'a "b\' \'/old dir/stet\' hook cursor "x" | tee "$HOME/l"'
    person.write(path, json.dumps({"hooks": {"preToolUse": [{"command": theirs}]}}).encode())
    person.run("connect", "cursor", "--write", "--hooks")
    (handler,) = value_of(person.read(path).decode())["hooks"]["preToolUse"]
    program = " ".join(PROGRAM)
    expected = f'env \'STET_CONFIG=/a b\' MY=\'a "b\' {program} hook cursor "x" | tee "$HOME/l"'
    assert {"command": expected} == handler


@pytest.mark.parametrize("client", ["vscode", "gemini", "zed"])
def test_comments_in_an_entry_stay(person: Person, client: str) -> None:
    path, _ = SERVER_FILES[client, "user"]
    person.run("connect", client, "--write")
    change(person, path, '"command"', '// why\n      "command"')
    mine = change(person, path, '"mcp"', '"mcp" /* so */').decode()
    person.run("connect", client, "--write", "--tools", "patch")
    told = person.read(path).decode()
    assert ("// why" in told, "/* so */" in told) == (True, True)
    assert ["--tools", "patch"] == next(iter(value_of(told).values()))["stet"]["args"][-2:]
    assert mine.encode() == person.read(f"{path}.stet-backup-1")
    person.run("connect", client, "--write")
    assert mine == person.read(path).decode()


def test_comments_in_a_table_stay(person: Person) -> None:
    person.run("connect", "codex", "--write")
    change(person, CODEX, "command", "# why\ncommand")
    mine = change(person, CODEX, '"mcp"]\n', '"mcp"] # so\n')
    person.run("connect", "codex", "--write", "--tools", "patch")
    expected = mine.replace(b'"mcp"]', b'"mcp", "--tools", "patch"]')
    assert expected == person.read(CODEX)
    assert mine == person.read(f"{CODEX}.stet-backup-1")
    person.run("connect", "codex", "--write")
    assert mine == person.read(CODEX)


def test_a_hook_that_a_person_put_beside_ours_outlives_it(person: Person) -> None:
    data = b'{\n  "model": "x"\n}\n'
    person.write(CLAUDE_HOOKS, data)
    person.run("connect", "claude-code", "--write", "--hooks")
    found = json.loads(person.read(CLAUDE_HOOKS))
    own = {"type": "command", "command": "mine"}
    found["hooks"]["PreToolUse"][0]["hooks"].append(own)
    # Laid out as it was written, so that only this one handler tells it from what stet wrote.
    person.write(CLAUDE_HOOKS, (json.dumps(found, indent=2) + "\n").encode())
    person.run("disconnect", "claude-code")
    left = json.loads(person.read(CLAUDE_HOOKS))
    assert [own] == left["hooks"]["PreToolUse"][0]["hooks"]
    assert data == person.read(f"{CLAUDE_HOOKS}.stet-backup-1")


def test_the_doctor_s_command_keeps_the_options_of_a_server(person: Person) -> None:
    path, _ = SERVER_FILES["gemini", "user"]
    (person.home / "w").mkdir()
    person.run("connect", "gemini", "--write", "--workspace", "../w")
    mine = change(person, path, '"mcp"', '"mcp",\n        "--agent=me"')
    change(person, path, PROGRAM[0], "/gone/stet")
    (found,) = findings(str(person.project))
    assert found.mend is not None
    person.run(*found.mend.split()[1:])
    assert mine == person.read(path)
