"""``stet connect``: each client's file as that client reads it; out of it again, to the byte."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from typing import Any

import pytest

from connect.person import HOOK_FILES, PROGRAM, SERVER_FILES, Person
from stet.agents.clients import CLIENTS
from stet.agents.jsonc import value_of
from stet.cli.usage import CLIENTS as NAMES

EVERYWHERE = sorted(SERVER_FILES)
#: Clients that read plain JSON: what they are given must be that.
PLAIN = ("claude-code",)

MINE = {"command": "npx", "args": ["-y", "mine"]}


def options(client: str, scope: str, *, hooks: bool = False) -> list[str]:
    return [client, "--scope", scope, *(["--hooks"] if hooks and CLIENTS[client].has_hooks else [])]


def as_read(client: str, data: bytes) -> Any:
    """A file by the rules of the client that reads it."""
    text = data.decode("utf-8")
    if client == "codex" and not text.lstrip().startswith("{"):
        return tomllib.loads(text.removeprefix("\ufeff"))
    return json.loads(text) if client in PLAIN else value_of(text)


def existing(client: str, key: str, style: str) -> bytes:
    """A file that a person keeps: with another server, and things stet knows nothing of."""
    if client == "codex":
        text = (
            "# mine\nmodel = 'x'\n\n[mcp_servers.mine]\ncommand = 'npx' # no\nargs = ['-y', 'mine']"
            "\n\n[tui]\nnote = '''\n[mcp_servers.stet]\n'''\n# end\n"
        )
    else:
        text = json.dumps(
            {"theme": "dark", key: {"mine": MINE}, "list": [1, {"a": None}]}, indent=2
        )
        text += "\n"
        if client not in PLAIN:
            text = text.replace('"dark",', '"dark", // a comment, with "quotes" and {')
            text = f"/* mine */ {text}// end\n"
    if style == "tabs":
        text = text.replace("  ", "\t")
    elif style == "crlf":
        text = text.replace("\n", "\r\n")
    elif style == "no end":
        text = text.rstrip("\n")
    elif style == "mark":
        text = "\ufeff" + text
    return text.encode()


def test_the_command_line_knows_all_clients() -> None:
    assert set(NAMES) == set(CLIENTS)
    assert {(client, scope) for client in NAMES for scope in ("user", "project")} == set(EVERYWHERE)


@pytest.mark.parametrize(("client", "scope"), EVERYWHERE)
def test_a_client_without_configuration_gets_one_and_loses_it_again(
    person: Person, client: str, scope: str
) -> None:
    before = person.tree()
    person.run("connect", *options(client, scope, hooks=True), "--write")
    path, key = SERVER_FILES[client, scope]
    server = as_read(client, person.read(path))[key]["stet"]
    command = server["command"]
    argv = command if isinstance(command, list) else [command, *server["args"]]
    assert [*PROGRAM, "mcp"] == argv[: len(PROGRAM) + 1]
    if CLIENTS[client].hooks:
        assert HOOK_FILES[client, scope] in person.tree()

    written = person.tree()
    assert "wrote" not in person.run("connect", *options(client, scope, hooks=True), "--write")
    assert written == person.tree()

    person.run("disconnect", client, "--scope", scope)
    assert before == person.tree()


#: Every layout for the user's own file of each client; plain JSON has no byte order mark.
LAYOUTS = [
    (client, scope, style)
    for client, scope in EVERYWHERE
    for style in (
        ("spaces",) if scope == "project" else ("spaces", "tabs", "crlf", "no end", "mark")
    )
    if not (client in PLAIN and style == "mark")
]


@pytest.mark.parametrize(("client", "scope", "style"), LAYOUTS)
def test_what_a_person_keeps_there_stays(
    person: Person, client: str, scope: str, style: str
) -> None:
    path, key = SERVER_FILES[client, scope]
    data = existing(client, key, style)
    person.write(path, data, 0o640)
    before = person.tree()

    person.run("connect", *options(client, scope, hooks=True), "--write")
    found = as_read(client, person.read(path))
    expected = as_read(client, data)
    assert {**expected[key], "stet": found[key]["stet"]} == found[key]
    assert expected == {**{name: found[name] for name in expected}, key: expected[key]}
    assert (before[path][0], data) == person.tree()[f"{path}.stet-backup-1"]
    assert before[path][0] == person.tree()[path][0]
    assert (b"\r\n" in data) == (b"\r\n" in person.read(path))

    written = person.tree()
    person.run("connect", *options(client, scope, hooks=True), "--write")
    assert written == person.tree()

    person.run("disconnect", client, "--scope", scope)
    assert before == person.tree()


@pytest.mark.parametrize(("client", "scope"), EVERYWHERE)
@pytest.mark.parametrize("data", [b"", b"\n"])
def test_a_file_with_nothing_in_it_is_that_again(
    person: Person, client: str, scope: str, data: bytes
) -> None:
    for path in (SERVER_FILES[client, scope][0], HOOK_FILES.get((client, scope))):
        if path is not None:
            person.write(path, data)
    before = person.tree()
    person.run("connect", *options(client, scope), "--write")
    person.run("connect", *options(client, scope, hooks=True), "--write")
    assert before != person.tree()

    person.run("disconnect", client, "--scope", scope)
    assert before == person.tree()


def test_a_file_of_comments_only_is_that_again(person: Person) -> None:
    path, _ = SERVER_FILES["vscode", "user"]
    for data in (b"// mine", b"\xef\xbb\xbf/* mine */\r\n\r\n"):
        person.write(path, data)
        before = person.tree()
        person.run("connect", "vscode", "--write")
        person.run("disconnect", "vscode")
        assert before == person.tree()


@pytest.mark.parametrize("client", NAMES)
def test_what_a_person_has_changed_since_stays_and_stet_goes(person: Person, client: str) -> None:
    path, key = SERVER_FILES[client, "user"]
    person.write(path, existing(client, key, "spaces"))
    person.run("connect", *options(client, "user", hooks=True), "--write")
    mine = person.read(path).replace(b"dark", b"light").replace(b"'x'", b"'y'")
    person.write(path, mine)
    person.run("disconnect", client)
    expected = existing(client, key, "spaces").replace(b"dark", b"light").replace(b"'x'", b"'y'")
    assert expected == person.read(path)


GOLDEN = {
    "claude-code": (
        b'{\n  "numStartups": 3,\n  "mcpServers": {}\n}\n',
        b'{\n  "numStartups": 3,\n  "mcpServers": {\n    "stet": {\n      "type": "stdio",\n'
        b'      "command": "@",\n      "args": [\n        "mcp"\n      ]\n    }\n  }\n}\n',
    ),
    "codex": (
        b'model = "x" # fast',
        b'model = "x" # fast\n[mcp_servers.stet]\ncommand = "@"\nargs = ["mcp"]\n',
    ),
    "gemini": (
        b'{\r\n\t"theme": "x", // why\r\n}\r\n',
        b'{\r\n\t"theme": "x", // why\r\n\t"mcpServers": {\r\n\t\t"stet": {\r\n'
        b'\t\t\t"command": "@",\r\n\t\t\t"args": [\r\n\t\t\t\t"mcp"\r\n\t\t\t]\r\n\t\t}\r\n\t},'
        b"\r\n}\r\n",
    ),
    "cursor": (
        b'{"mcpServers": {"a": {"url": "x"}}}',
        b'{"mcpServers": {"a": {"url": "x"}, "stet": {"command": "@", "args": ["mcp", '
        b'"--workspace", "${workspaceFolder}"]}}}',
    ),
    "vscode": (
        b"// my servers\n{\n    // none yet\n}\n",
        b'// my servers\n{\n    // none yet\n\n  "servers": {\n    "stet": {\n'
        b'      "type": "stdio",\n      "command": "@",\n      "args": [\n        "mcp",\n'
        b'        "--workspace",\n        "${workspaceFolder}"\n      ]\n    }\n  }\n}\n',
    ),
    "zed": (
        b'// Zed settings\n{\n  "theme": "One", /* dark */\n  // "context_servers": {}\n}\n',
        b'// Zed settings\n{\n  "theme": "One", /* dark */\n  "context_servers": {\n'
        b'    "stet": {\n      "source": "custom",\n      "command": "@",\n      "args": [\n'
        b'        "mcp"\n      ]\n    }\n  },\n  // "context_servers": {}\n}\n',
    ),
    "opencode": (
        b'{"model": "x", "mcp": {}}',
        b'{"model": "x", "mcp": {"stet": {"type": "local", "enabled": true, '
        b'"command": ["@", "mcp"]}}}',
    ),
    "qwen-code": (
        b'{\n  "permissions": {\n    "allow": ["mcp__other", "mcp__stet__diff"]\n  }\n}',
        b'{\n  "permissions": {\n    "allow": ["mcp__other", "mcp__stet__diff", "mcp__stet__read", '
        b'"mcp__stet__log", "mcp__stet__show"]\n  },\n  "mcpServers": {\n    "stet": {\n'
        b'      "command": "@",\n      "args": [\n        "mcp"\n      ]\n    }\n  }\n}',
    ),
}


@pytest.mark.parametrize("client", NAMES)
def test_the_bytes_that_are_written(person: Person, client: str) -> None:
    assert len(PROGRAM) == 1, "the tests run in an installation with a stet"
    before, after = GOLDEN[client]
    path, _ = SERVER_FILES[client, "user"]
    person.write(path, before)
    person.run("connect", client, "--write")
    assert after.replace(b"@", PROGRAM[0].encode()) == person.read(path)


@pytest.mark.parametrize("client", ["claude-code", "gemini", "qwen-code"])
def test_who_allows_edits_is_not_told_that_the_client_asks(person: Person, client: str) -> None:
    hints = person.json("connect", client, "--allow-edits")["hints"]
    (said,) = [hint for hint in hints if "asks before stet edits" in hint]
    assert "asks before stet edits, unless you allow it (--allow-edits)" in said


@pytest.mark.parametrize(("client", "scope"), EVERYWHERE)
def test_what_is_printed_is_what_would_be_written(person: Person, client: str, scope: str) -> None:
    before = person.tree()
    told = person.json("connect", *options(client, scope, hooks=True))
    assert before == person.tree()
    person.run("connect", *options(client, scope, hooks=True), "--write")
    for file in told["files"]:
        assert file["text"].encode() == person.read(file["path"])
    assert any("stet init" in hint for hint in told["hints"])
    assert all(told["hints"])
    assert (client == "codex") == any("until you trust them" in hint for hint in told["hints"])
    printed = person.run("connect", *options(client, scope))
    assert SERVER_FILES[client, scope][0] in printed
    assert "--write" in printed


@pytest.mark.parametrize("named", ["workspace", "directory"])
@pytest.mark.parametrize("scope", ["user", "project"])
def test_the_commands_that_are_printed_write_it_and_undo_it(
    person: Person, monkeypatch: pytest.MonkeyPatch, scope: str, named: str
) -> None:
    """Also for a project elsewhere."""
    (person.home / "a b").mkdir()
    (person.home / "at").mkdir()
    monkeypatch.chdir(person.home / "at")
    before = person.tree()
    where = ["--workspace" if named == "workspace" else "-C", "../a b"]
    more = ["--scope", scope, "--hooks", "--tools", "patch"]
    printed = person.run_as_printed("connect", "claude-code", *more, *where)
    write = printed.splitlines()[-1].removeprefix("To write it there: ")
    assert before == person.tree()
    undo = person.run_as_printed(*shlex.split(write)[1:]).splitlines()[-1]
    written = person.tree()
    assert (scope == "project") == ("a b/.mcp.json" in written)
    person.run_as_printed(*shlex.split(undo.removeprefix("To undo this: "))[1:])
    assert before == person.tree()
    person.run_as_printed("connect", "claude-code", "--write", *more, *where)
    assert written == person.tree()


def test_workspace_and_tools_and_other_sockets_are_passed_on(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STET_RUNTIME_DIR", "/other/run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    person.run("connect", "codex", "--write", "--hooks", "--workspace", ".", "--tools", "patch")
    server = tomllib.loads(person.read(".codex/config.toml").decode())["mcp_servers"]["stet"]
    expected = ["mcp", "--workspace", str(person.project), "--tools", "patch"]
    assert expected == server["args"][-5:]
    assert {"STET_RUNTIME_DIR": "/other/run"} == server["env"]
    assert ["XDG_RUNTIME_DIR"] == server["env_vars"]
    hooks = json.loads(person.read(".codex/hooks.json"))["hooks"]
    command = shlex.split(hooks["PreToolUse"][0]["hooks"][0]["command"])
    assert ["env", "STET_RUNTIME_DIR=/other/run", *PROGRAM, "hook", "codex"] == command
    person.run("disconnect", "codex")
    assert ["project"] == list(person.tree())


#: What a client says first.
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}  # fmt: skip


@pytest.mark.parametrize("client", ["codex", "vscode"])
def test_the_named_command_is_a_server(person: Person, client: str) -> None:
    path, key = SERVER_FILES[client, "user"]
    person.run("connect", client, "--write", "--tools", "patch")
    server = as_read(client, person.read(path))[key]["stet"]
    # As VS Code does it.
    given = [each.replace("${workspaceFolder}", str(person.project)) for each in server["args"]]
    told = subprocess.run(
        [server["command"], *given],
        input=json.dumps(INITIALIZE) + "\n", cwd=person.project,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "stet" == json.loads(told.stdout)["result"]["serverInfo"]["name"]


def test_the_named_hook_is_one_that_starts_and_never_stops_the_agent(person: Person) -> None:
    person.run("connect", "claude-code", "--write", "--hooks")
    hooks = json.loads(person.read(HOOK_FILES["claude-code", "user"]))["hooks"]
    (command,) = {group["hooks"][0]["command"] for (group,) in hooks.values()}
    told = subprocess.run(
        command, shell=True, input="{}", capture_output=True, text=True, timeout=60, check=False
    )
    assert (0, "") == (told.returncode, told.stdout)


def test_connecting_otherwise_replaces_the_entry_and_keeps_what_was_added_to_it(
    person: Person,
) -> None:
    path, _ = SERVER_FILES["gemini", "user"]
    data = b'{\n  "a": 1\n}\n'
    person.write(path, data)
    before = person.tree()
    person.run("connect", "gemini", "--write")
    person.run("connect", "gemini", "--write", "--tools", "patch")
    person.run("connect", "gemini", "--write", "--hooks")
    assert ["mcp"] == value_of(person.read(path).decode())["mcpServers"]["stet"]["args"][-1:]
    assert f"{path}.stet-backup-2" not in person.tree()
    person.run("disconnect", "gemini")
    assert before == person.tree()

    person.run("connect", "gemini", "--write")
    trusted = person.read(path).replace(b'"args"', b'"trust": true,\n      "args"')
    person.write(path, trusted)
    person.run("connect", "gemini", "--write", "--tools", "patch")
    server = value_of(person.read(path).decode())["mcpServers"]["stet"]
    assert ([*PROGRAM[1:], "mcp", "--tools", "patch"], True) == (server["args"], server["trust"])
    person.run("disconnect", "gemini")
    assert data == person.read(path)


def test_a_person_s_own_hooks_stay_also_in_our_group(person: Person) -> None:
    own = {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine --stet hook"}]}
    path = HOOK_FILES["claude-code", "user"]
    data = json.dumps({"hooks": {"PreToolUse": [own], "Stop": []}}, indent=2).encode()
    person.write(path, data)
    person.run("connect", "claude-code", "--write", "--hooks")
    found = json.loads(person.read(path))
    assert own == found["hooks"]["PreToolUse"][0]
    found["hooks"]["PreToolUse"][1]["hooks"].append(own["hooks"][0])
    person.write(path, json.dumps(found).encode())
    person.run("disconnect", "claude-code")
    left = json.loads(person.read(path))["hooks"]
    ours = {"matcher": found["hooks"]["PreToolUse"][1]["matcher"], "hooks": own["hooks"]}
    assert {"PreToolUse": [own, ours], "Stop": []} == left


@pytest.mark.parametrize(
    ("client", "timeout", "form", "matcher", "events", "others"),
    [
        (
            *("claude-code", 15, "typed, in a group"),
            "Edit|Write|MultiEdit|NotebookEdit|Bash|PowerShell|Monitor",
            *(["PreToolUse", "PostToolUse", "PostToolUseFailure"], ["SessionStart", "Stop"]),
        ),
        (
            *("codex", 15, "typed, in a group", "Bash|apply_patch"),
            *(["PreToolUse", "PostToolUse"], ["Stop"]),
        ),
        (
            *("gemini", 15000, "typed, in a group", "write_file|replace|run_shell_command"),
            *(["BeforeTool", "AfterTool"], ["SessionStart"]),
        ),
        (
            *("cursor", 15, "alone", "Write|Edit|StrReplace|EditNotebook|Delete|Shell"),
            *(["preToolUse", "postToolUse", "postToolUseFailure"], []),
        ),
        ("vscode", 15, "typed", None, ["PreToolUse", "PostToolUse"], []),
        (
            *("qwen-code", 15000, "typed, in a group"),
            "edit|write_file|notebook_edit|run_shell_command|monitor",
            ["PreToolUse", "PostToolUse", "PostToolUseFailure"],
            ["SessionStart", "UserPromptSubmit", "Stop"],
        ),
    ],
)
def test_hooks_have_the_form_that_the_client_documents(
    person: Person, client: str, timeout: int, form: str, matcher: str | None,
    events: list[str], others: list[str],
) -> None:  # fmt: skip
    person.run("connect", client, "--write", "--hooks")
    hooks = as_read(client, person.read(HOOK_FILES[client, "user"]))["hooks"]
    handler: dict[str, Any] = {"command": shlex.join([*PROGRAM, "hook", client])}
    handler |= {"timeout": timeout, **({"type": "command"} if "typed" in form else {})}
    every = {"hooks": [handler]} if "group" in form else handler
    about_tools = {"matcher": matcher, **every} if matcher else every
    assert {each: [about_tools] for each in events} | {each: [every] for each in others} == hooks


@pytest.mark.parametrize("client", ["claude-code", "qwen-code"])
def test_nothing_is_left_if_hooks_and_permissions_came_one_after_the_other(
    person: Person, client: str
) -> None:
    before = person.tree()
    for options in [(), ("--hooks",), ("--hooks", "--allow-edits")]:
        person.run("connect", client, "--write", *options)
    person.run("disconnect", client)
    assert before == person.tree()


def test_disconnecting_what_is_not_connected_changes_nothing(person: Person) -> None:
    person.write(".cursor/mcp.json", b'{"mcpServers": {}}')
    person.write(".cursor/hooks.json", b'{"hooks": {"preToolUse": [{"command": "mine"}]}}')
    before = person.tree()
    assert "not connected" in person.run("disconnect", "cursor")
    assert {"client": "zed", "files": []} == person.json("disconnect", "zed")
    assert before == person.tree()


def test_zed_has_no_hooks(person: Person) -> None:
    person.run("connect", "zed", "--hooks", status=2)


def test_tools_are_those_that_edit(person: Person) -> None:
    person.run("connect", "zed", "--tools", "patch,sed", status=2)
    assert "sed names no tool that edits" in person.complaints[-1]


@pytest.mark.parametrize(
    ("client", "variable", "path"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("qwen-code", "QWEN_HOME", "settings.json"),
    ],
)
def test_a_client_that_a_variable_moves_is_found(
    person: Person, monkeypatch: pytest.MonkeyPatch, client: str, variable: str, path: str
) -> None:
    monkeypatch.setenv(variable, str(person.home / "moved"))
    (person.home / "moved").mkdir()
    before = person.tree()
    person.run("connect", *options(client, "user", hooks=True), "--write")
    assert f"moved/{path}" in person.tree()
    assert all(each.startswith(("moved/", "project")) for each in person.tree().keys() - before)
    person.run("disconnect", client)
    assert before == person.tree()


@pytest.mark.timeout(20)  # it looked for the root without end
def test_a_home_that_is_relative_is_below_the_current_directory(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(person.home)
    monkeypatch.setenv("HOME", "moved")
    person.run("connect", *options("claude-code", "user"), "--write")
    assert "moved/.claude.json" in person.tree()


@pytest.mark.parametrize("data", [b"{}", b'{\n  "hooks": {\n    "stop": []\n  }\n}\n'])
def test_a_version_that_hooks_need_goes_with_them(person: Person, data: bytes) -> None:
    path = HOOK_FILES["cursor", "user"]
    person.write(path, data)
    before = person.tree()
    person.run("connect", "cursor", "--write", "--hooks")
    assert value_of(person.read(path).decode())["version"] == 1
    person.run("disconnect", "cursor")
    assert before == person.tree()


def test_a_version_that_hooks_need_stays_with_a_person_s_own(person: Person) -> None:
    path = HOOK_FILES["cursor", "user"]
    person.write(path, b"{}")
    person.run("connect", "cursor", "--write", "--hooks")
    found = value_of(person.read(path).decode())
    found["hooks"]["stop"] = [{"command": "mine"}]
    person.write(path, json.dumps(found).encode())
    person.run("disconnect", "cursor")
    assert {"version": 1, "hooks": {"stop": [{"command": "mine"}]}} == json.loads(person.read(path))
