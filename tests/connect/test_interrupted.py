"""A connection that ends in the middle: a disk that fails, a client that writes, Ctrl-C."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

import pytest

from connect.person import HOOK_FILES, SERVER_FILES, Person
from stet.agents import carrying_out, config_file
from stet.agents.clients import CLAUDE_CODE
from stet.agents.config_file import ConfigFile

SERVER = SERVER_FILES["claude-code", "user"][0]
HOOKS = HOOK_FILES["claude-code", "user"]
CONNECT = ("connect", "claude-code", "--write", "--hooks")


def before_the_second_file(patch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """The first file is written as always; then this happens."""
    calls: list[str] = []
    replace = config_file.replace

    def meanwhile(file: ConfigFile, data: bytes | None) -> None:
        calls.append(file.path)
        if len(calls) == 2:
            happens()
        replace(file, data)

    patch.setattr(config_file, "replace", meanwhile)


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("data", [b'{"a": 1}', None])
def test_the_first_file_is_put_back_when_the_second_fails(
    person: Person, monkeypatch: pytest.MonkeyPatch, data: bytes | None
) -> None:
    if data is not None:
        person.write(SERVER, data)
    before_the_second_file(monkeypatch, full)
    said = person.refused(*CONNECT)
    assert "settings.json can't be written: No space left" in said
    assert "Nothing was changed" in said


def test_directories_that_were_made_go_again(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_second_file(monkeypatch, full)
    person.refused("connect", "codex", "--write", "--hooks")


def test_what_the_client_has_written_meanwhile_is_not_overwritten(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.write(SERVER, b'{"a": 1}')

    def written_and_full() -> None:
        person.write(SERVER, b'{"a": 2}')
        full()

    before_the_second_file(monkeypatch, written_and_full)
    person.run(*CONNECT, status=1)
    said = person.complaints[-1]
    assert b'{"a": 2}' == person.read(SERVER)
    assert b'{"a": 1}' == person.read(f"{SERVER}.stet-backup-1")
    assert "Nothing was changed" not in said
    assert f"{person.home / SERVER}.stet-backup-1" in said


def test_nothing_is_left_of_what_was_stopped(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    person.write(SERVER, b'{"a": 1}')
    before = person.tree()
    request = carrying_out.Request(CLAUDE_CODE, "user", str(person.project), hooks=True)
    before_the_second_file(monkeypatch, stopped)
    with pytest.raises(KeyboardInterrupt):
        carrying_out.connect(request)
    assert before == person.tree()


def test_a_directory_that_can_not_be_synced_is_no_failure(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is in place by then; some file systems know no fsync of a directory."""
    fsync = os.fsync

    def of_files_only(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(handle)

    person.write(SERVER, b'{"a": 1}')
    before = person.tree()
    monkeypatch.setattr(os, "fsync", of_files_only)
    person.run(*CONNECT)
    assert b"mcpServers" in person.read(SERVER)
    person.run("disconnect", "claude-code")
    assert before == person.tree()
