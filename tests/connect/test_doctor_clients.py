"""``stet doctor`` and clients that start a stet which is gone."""

from __future__ import annotations

import shlex

import pytest

from connect.person import HOOK_FILES, PROGRAM, SERVER_FILES, Person
from stet.cli.doctor_clients import findings


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("client", ["claude-code", "codex", "vscode"])
def test_an_entry_whose_program_is_gone_is_mended_by_what_is_printed(
    person: Person, client: str, scope: str
) -> None:
    project = str(person.project)
    options = ["--scope", scope, "--write", "--hooks", "--tools", "patch,apply_patch"]
    person.run("connect", client, *options)
    files = [SERVER_FILES[client, scope][0], HOOK_FILES[client, scope]]
    written = person.tree()
    assert [(client, True)] * 2 == [(each.check, each.ok) for each in findings(project)]

    for path in files:
        stale = person.read(path).replace(PROGRAM[0].encode(), b"/gone/venv/bin/stet")
        person.write(path, stale, written[path][0] & 0o777)
    found = list(findings(project))
    assert [(client, False)] * 2 == [(each.check, each.ok) for each in found]
    assert [True] * 2 == [
        "/gone/venv/bin/stet, which is not there" in each.detail for each in found
    ]
    for each in found:
        assert each.mend is not None
        person.run(*shlex.split(each.mend)[1:])
    assert written == person.tree()


def test_nothing_is_said_of_clients_without_stet_and_of_files_that_do_not_parse(
    person: Person,
) -> None:
    person.write(SERVER_FILES["cursor", "user"][0], b"{")
    person.write(SERVER_FILES["codex", "user"][0], b"a = ")
    person.write(SERVER_FILES["zed", "user"][0], b'{"context_servers": {"stet": {"command": "x"}}}')
    person.write(HOOK_FILES["gemini", "user"], b'{"hooks": {"BeforeTool": [{"command": 1}, 2]}}')
    assert [] == list(findings(str(person.project)))


def test_a_workspace_that_was_named_is_named_again(person: Person) -> None:
    (person.home / "a b").mkdir()
    person.run("connect", "zed", "--write", "--workspace", "../a b")
    path = SERVER_FILES["zed", "user"][0]
    written = person.read(path)
    person.write(path, written.replace(PROGRAM[0].encode(), b"/gone/stet"), 0o600)
    (found,) = findings(str(person.project))
    assert found.mend is not None
    person.run(*shlex.split(found.mend)[1:])
    assert written == person.read(path)


@pytest.mark.parametrize("places", [False, True])
def test_the_program_in_opencode_s_plugin(
    person: Person, monkeypatch: pytest.MonkeyPatch, places: bool
) -> None:
    if places:
        monkeypatch.setenv("STET_RUNTIME_DIR", "/other/run")
    plugin = ".config/opencode/plugin/stet.js"
    person.run("connect", "opencode", "--write", "--hooks")
    written = person.read(plugin)
    found = list(findings(str(person.project)))
    assert [True, True] == [each.ok for each in found]
    assert f"{person.home / plugin} starts {PROGRAM[0]}" == found[1].detail

    person.write(plugin, written.replace(PROGRAM[0].encode(), b"/gone/stet"))
    found = list(findings(str(person.project)))
    assert [True, False] == [each.ok for each in found]
    assert found[1].mend is not None
    person.run(*shlex.split(found[1].mend)[1:])
    assert written == person.read(plugin)

    for damaged in (b"[[", b"[1], [", b"{"):
        broken = written.replace(b"const HOOK = [", b"const HOOK = " + damaged)
        person.write(plugin, broken)
        assert len(list(findings(str(person.project)))) == 1
