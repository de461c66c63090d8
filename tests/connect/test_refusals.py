"""What ``stet connect`` refuses, with nothing changed; and how it writes."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from pathlib import Path
from typing import Any

import pytest

from connect.person import HOOK_FILES, PROGRAM, SERVER_FILES, Person
from stet.agents import config_file
from stet.agents.entries import own_command, own_handler, own_server

ZED = SERVER_FILES["zed", "user"][0]


@pytest.mark.parametrize(
    ("said", "client", "data"),
    [
        ("line 1, column 8", "gemini", b'{"a": 1 "b": 2}'),
        ("does not parse", "claude-code", b'{"a": 1} // no comments there'),
        ("does not parse", "codex", b"a = [1\n"),
        ("not an object", "cursor", b"[]"),
        ("mcpServers is not an object", "cursor", b'{"mcpServers": []}'),
        ("stands there twice", "gemini", b'{"mcpServers": {}, "mcpServers": {}}'),
        ("not written by stet", "cursor", b'{"mcpServers": {"stet": {"command": "stet"}}}'),
        ("not written by stet", "codex", b"[mcp_servers.stet]\nurl = 'x'\n"),
        ("not written by stet", "zed", b'{"context_servers": {"stet": null}}'),
        ("laid out", "codex", b"mcp_servers = {}\n"),
        ("not UTF-8 (line 2)", "zed", b'{\n"a": "\xff"}'),
        ("hooks.PreToolUse is not an array", "claude-code hooks", b'{"hooks": {"PreToolUse": {}}}'),
        ("hooks is not an object", "gemini", b'{"hooks": []}'),
        ("not an array", "claude-code hooks", b'{"permissions": {"allow": 7}}'),
        ("nested too deep", "codex", b"a = " + b"[" * 2000 + b"]" * 2000),
        ("does not parse", "codex", b"a = " + b"9" * 5000),
    ],
)
def test_a_file_that_can_not_be_written_into(
    person: Person, said: str, client: str, data: bytes
) -> None:
    name, _, hooks = client.partition(" ")
    path = HOOK_FILES[name, "user"] if hooks else SERVER_FILES[name, "user"][0]
    person.write(path, data)
    options = [] if name == "zed" else ["--hooks"]
    message = person.refused("connect", name, "--write", *options)
    assert said.replace("column 8", "column 9") in message
    assert str(person.home / path) in message
    assert "Nothing was changed" in message or "not touched" in message


def test_a_disconnect_refuses_what_does_not_parse(person: Person) -> None:
    person.run("connect", "zed", "--write")
    person.write(ZED, person.read(ZED) + b"}")
    assert "does not parse" in person.refused("disconnect", "zed")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"permissions": {"allow": ["mcp__stet"]} // mine\n}', "changed"),
        (b'{"model": "x"} }', "unread"),
        (b'{"model": "\xff"}', "unread"),
        (b"[]", "unread"),
    ],
)
def test_a_file_that_stet_is_not_in_does_not_stop_a_disconnect(
    person: Person, data: bytes, told: str
) -> None:
    before = person.tree()
    person.run("connect", "claude-code", "--write")
    path = HOOK_FILES["claude-code", "user"]
    person.write(path, data)  # by another program, in the place of what was written
    found = [each["action"] for each in person.json("disconnect", "claude-code")["files"]]
    assert ["removed", told] == found
    assert {**before, path: person.tree()[path]}.keys() <= person.tree().keys()
    assert data == person.read(path) or told == "changed"
    again = person.run("disconnect", "claude-code")
    assert ("not connected" in again, "passed over" in again) == (True, told == "unread")


def test_a_toml_file_that_does_not_parse_is_passed_over_too(person: Person) -> None:
    person.write(SERVER_FILES["codex", "user"][0], b"a = ")
    assert "passed over" in person.run("disconnect", "codex")


def test_a_file_that_may_have_stet_in_it_stops_a_disconnect(person: Person) -> None:
    person.run("connect", "claude-code", "--write", "--hooks")
    hooks = HOOK_FILES["claude-code", "user"]
    person.write(hooks, person.read(hooks) + b"}")
    assert "does not parse" in person.refused("disconnect", "claude-code")
    person.write(hooks, b"// mine\n" + person.read(hooks)[:-1])
    person.run("disconnect", "claude-code")
    assert (b"// mine\n{}", False) == (person.read(hooks).strip(), ".claude.json" in person.tree())


def test_a_read_only_file_a_directory_and_a_dangling_link(person: Person) -> None:
    file = person.write(ZED, b"{}", 0o444)
    assert "chmod u+w" in person.refused("connect", "zed", "--write")
    file.unlink()
    file.mkdir()
    assert "not a file" in person.refused("connect", "zed", "--write")
    file.rmdir()
    file.symlink_to("nowhere")
    assert "is not there" in person.refused("connect", "zed", "--write")
    file.parent.rmdir() if not any(file.parent.iterdir()) else file.unlink()
    file.parent.rmdir()
    file.parent.write_bytes(b"")
    assert "can't be written" in person.refused("connect", "zed", "--write")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file somebody else's")
def test_a_file_of_somebody_else(person: Person) -> None:
    file = person.write(ZED, b"{}")
    os.chown(file, 12345, -1)
    assert "belongs to user id 12345" in person.refused("connect", "zed", "--write")


def test_of_two_files_none_is_written_when_the_second_fails(person: Person) -> None:
    person.write(".claude.json", b'{"a": 1}')
    person.write(".claude", b"a file where a directory should be")
    said = person.refused("connect", "claude-code", "--write", "--hooks")
    assert "Nothing was changed" in said


def test_a_path_that_a_client_would_read_as_something_else(person: Person) -> None:
    (person.project / "$HOME").mkdir()
    for workspace, client in (("$HOME", "gemini"), ("$HOME", "vscode")):
        said = person.refused("connect", client, "--write", "--workspace", workspace)
        assert "plain characters" in said
    person.run("connect", "codex", "--write", "--workspace", "$HOME")
    person.run("connect", "zed", "--write", "--workspace", "missing", status=2)


def test_a_file_that_is_changed_meanwhile_is_left_alone(person: Person) -> None:
    file = person.write(ZED, b"{}")
    read = config_file.read(str(file))
    file.write_bytes(b'{"a": 1}')
    before = person.tree()
    with pytest.raises(config_file.ConnectTrouble, match="meanwhile"):
        config_file.replace(read, b"{}")
    with pytest.raises(config_file.ConnectTrouble, match="meanwhile"):
        config_file.replace(read, None)
    assert before == person.tree()


@pytest.mark.parametrize("limit", [100, 1000])
def test_a_disk_that_is_full_leaves_everything_as_it_was(person: Person, limit: int) -> None:
    """Full while the backup is written, and full while the file is."""
    person.write(ZED, b"{}" + b" " * 900)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        said = person.refused("connect", "zed", "--write")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"can't be written: {os.strerror(errno.EFBIG)}" in said


def test_secrets_stay_secret_and_links_stay_links(person: Person) -> None:
    real = person.write("dotfiles/settings.json", b'{"key": "secret"}', 0o600)
    link = person.home / ZED
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    before = person.tree()
    person.run("connect", "zed", "--write")
    assert link.is_symlink()
    assert b"context_servers" in real.read_bytes()
    backup = Path(f"{real}.stet-backup-1")
    assert (0o600, 0o600) == (
        stat.S_IMODE(real.stat().st_mode),
        stat.S_IMODE(backup.stat().st_mode),
    )
    assert b'{"key": "secret"}' == backup.read_bytes()
    person.run("disconnect", "zed")
    assert before == person.tree()


def test_a_link_to_an_empty_directory_still_leads_to_it(person: Person) -> None:
    directory = person.home / "dotfiles" / "zed"
    directory.mkdir(parents=True)
    link = (person.home / ZED).parent
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(directory)
    before = person.tree()
    person.run("connect", "zed", "--write")
    person.run("disconnect", "zed")
    assert before == person.tree()
    assert directory.is_dir()


def test_a_file_with_two_names_keeps_them(person: Person) -> None:
    other = person.write("dotfiles/settings.json", b"{}")
    (person.home / ZED).parent.mkdir(parents=True)
    (person.home / ZED).hardlink_to(other)
    assert "2 names (hard links)" in person.refused("connect", "zed", "--write")
    other.unlink()
    person.run("connect", "zed", "--write")
    other.hardlink_to(person.home / ZED)
    assert "2 names (hard links)" in person.refused("disconnect", "zed")


def test_where_one_directory_can_not_be_written_no_file_is(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = person.write(HOOK_FILES["claude-code", "user"], b"{}")

    def access(path: str, mode: int) -> bool:  # root may write anywhere
        return not (mode == os.W_OK and path == str(hooks.parent))

    monkeypatch.setattr(os, "access", access)
    said = person.refused("connect", "claude-code", "--write", "--hooks")
    assert "is not writable for you" in said


def test_new_files_of_the_user_are_private_those_of_a_project_are_not(person: Person) -> None:
    old = os.umask(0o022)
    try:
        person.run("connect", "gemini", "--write")
        person.run("connect", "gemini", "--write", "--scope", "project")
    finally:
        os.umask(old)
    found = person.tree()
    assert 0o600 == stat.S_IMODE(found[".gemini/settings.json"][0])
    assert 0o644 == stat.S_IMODE(found["project/.gemini/settings.json"][0])


def test_backups_are_numbered_and_never_overwritten(person: Person) -> None:
    file = person.write(ZED, b'{"a": 1}')
    first = person.write(f"{ZED}.stet-backup-1", b"somebody's")
    person.run("connect", "zed", "--write")
    assert b"somebody's" == first.read_bytes()
    assert b'{"a": 1}' == person.read(f"{ZED}.stet-backup-2")
    file.write_bytes(file.read_bytes().replace(b'"a"', b'"b"'))
    person.run("disconnect", "zed")
    assert b'{"b": 1}' == file.read_bytes()
    # What was changed by hand is kept for good; so is the backup of what was there before.
    assert b'{"a": 1}' == person.read(f"{ZED}.stet-backup-2")
    person.run("connect", "zed", "--write")
    assert b'{"b": 1}' == person.read(f"{ZED}.stet-backup-3")
    person.run("disconnect", "zed")
    assert b'{"b": 1}' == file.read_bytes()
    assert f"{ZED}.stet-backup-3" not in person.tree()


def test_a_file_that_was_made_for_stet_goes_also_when_the_person_has_laid_it_out_anew(
    person: Person,
) -> None:
    before = person.tree()
    person.run("connect", "cursor", "--write", "--hooks")
    for path in (SERVER_FILES["cursor", "user"][0], HOOK_FILES["cursor", "user"]):
        person.write(path, json.dumps(json.loads(person.read(path))).encode())
    person.run("disconnect", "cursor")
    assert before == person.tree()


def test_directories_with_something_else_in_them_stay(person: Person) -> None:
    person.run("connect", "cursor", "--write")
    person.write(".cursor/mine", b"")
    person.run("disconnect", "cursor")
    assert [".cursor", ".cursor/mine", "project"] == list(person.tree())


OWN = [
    ["/opt/venv/bin/stet", "mcp"],
    ["/usr/bin/python3", "-P", "-m", "stet.cli", "mcp", "--workspace", "/w"],
    ["env", "STET_RUNTIME_DIR=/x", "/opt/venv/bin/stet", "mcp"],
]
FOREIGN: list[Any] = [
    ["stet", "mcp"], ["/opt/stet", "hook"], ["/opt/stet"], [], ["/opt/other", "mcp"],
    ["env", "A=1"], ["/usr/bin/python3", "-m", "other", "mcp"],
]  # fmt: skip


@pytest.mark.parametrize("argv", OWN)
def test_commands_that_were_written_here_are_known(argv: list[str]) -> None:
    assert own_command(argv, "mcp") is not None
    assert own_server({"command": argv[0], "args": argv[1:]}) is not None
    assert own_handler({"command": " ".join(argv).replace("mcp", "hook")}) is not None


@pytest.mark.parametrize("argv", FOREIGN)
def test_others_are_not(argv: list[str]) -> None:
    assert own_command(argv, "mcp") is None


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"command": 1}, {"command": "/x/stet", "args": "mcp"}, {"url": "/x/stet mcp"},
     {"command": "/x/stet", "args": [1]}, {"command": "/x/stet 'hook"}],
)  # fmt: skip
def test_any_value_is_looked_at(value: Any) -> None:
    assert own_server(value) is None
    assert own_handler(value) is None


def test_this_installation_is_one_that_is_known_again() -> None:
    assert own_command([*PROGRAM, "mcp"], "mcp") is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give directories away")
@pytest.mark.parametrize("existing", [False, True])
def test_root_writes_nothing_into_the_home_of_another_user(person: Person, existing: bool) -> None:
    """As with sudo, which may leave HOME as it is."""
    if existing:
        person.write(ZED, b"{}")
    for path in (person.home, *person.home.rglob("*")):
        os.chown(path, 4242, 4242)
    for command in (["connect", "zed", "--write"], ["service", "install"]):
        said = person.refused(*command)
        assert "belongs to user id 4242, and root makes nothing there" in said
        assert "Run stet as that user" in said
