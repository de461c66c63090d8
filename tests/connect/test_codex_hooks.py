"""``stet doctor`` asks Codex whether it runs stet's hooks."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

from connect.person import HOOK_FILES, PROGRAM, SERVER_FILES, Person
from stet.cli import doctor_clients
from stet.cli.doctor_clients import findings
from stet.cli.doctor_places import Finding

#: As ``codex app-server`` (0.169.0) answers; what it does is in the file beside it.
CODEX = """#!{python}
import json, os, sys, time
if sys.argv[1:] != ["app-server"]: sys.exit(2)
behaviour = json.load(open(__file__ + ".json"))
if behaviour == "end": sys.exit(1)
if behaviour == "hang":
    os.fork()  # as npm's script does, which has started the program
    time.sleep(60)
asked = [json.loads(sys.stdin.readline()) for _ in range(3)]
assert [each["method"] for each in asked] == ["initialize", "initialized", "hooks/list"], asked
print(json.dumps({{"id": 1, "result": {{}}}}))
print(json.dumps({{"method": "configWarning", "params": {{}}}}))
(cwd,) = asked[2]["params"]["cwds"]
if behaviour == "nonsense":
    print(json.dumps({{"id": 2, "error": {{"code": 1}}}}), flush=True)
else:
    data = [{{"cwd": cwd, "hooks": behaviour}}]
    print(json.dumps({{"id": 2, "result": {{"data": data}}}}), flush=True)
sys.stdin.read()
"""


def install(person: Person, behaviour: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    person.write("bin/codex", CODEX.format(python=sys.executable).encode(), 0o755)
    person.write("bin/codex.json", json.dumps(behaviour).encode())
    monkeypatch.setenv("PATH", str(person.home / "bin"))


def hook(person: Person, path: str, **more: Any) -> dict[str, Any]:
    command = f"{' '.join(PROGRAM)} hook codex"
    found = {"command": command, "enabled": True, "trustStatus": "trusted"}
    return {**found, "sourcePath": str(person.home / path), **more}


def asked(person: Person, scope: str = "user") -> Finding:
    path = str(person.home / HOOK_FILES["codex", scope])
    (found,) = [each for each in findings(str(person.project)) if path in each.detail]
    return found


def test_hooks_that_codex_trusts(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.run("connect", "codex", "--write", "--hooks")
    path = HOOK_FILES["codex", "user"]
    theirs = hook(person, path, command="mine", trustStatus="untrusted")
    elsewhere = hook(person, "other.json", trustStatus="untrusted")
    install(person, [hook(person, path), elsewhere, theirs], monkeypatch)
    found = asked(person)
    assert (True, True) == (found.ok, found.detail.endswith("which Codex trusts"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"trustStatus": "untrusted"}, "untrusted"),
        ({"trustStatus": "modified"}, "modified"),
        ({"enabled": False}, "disabled"),
    ],
)
def test_hooks_that_codex_passes_over(
    person: Person, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], said: str
) -> None:
    person.run("connect", "codex", "--write", "--hooks")
    path = HOOK_FILES["codex", "user"]
    install(person, [hook(person, path), hook(person, path, **more)], monkeypatch)
    found = asked(person)
    expected = f"Codex does not run the hooks in {person.home / path}: {said}"
    assert (False, expected) == (found.ok, found.detail)
    assert "/hooks" in str(found.mend)


def test_hooks_of_a_project_that_codex_does_not_trust(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.run("connect", "codex", "--write", "--hooks", "--scope", "project")
    install(person, [], monkeypatch)
    found = asked(person, "project")
    assert (False, True) == (found.ok, "does not read" in found.detail)
    assert "trust the directory" in str(found.mend)


@pytest.mark.parametrize("behaviour", [None, "end", "nonsense", "hang"])
def test_a_codex_that_does_not_say_is_no_fault(
    person: Person, monkeypatch: pytest.MonkeyPatch, behaviour: str | None
) -> None:
    person.run("connect", "codex", "--write", "--hooks")
    if behaviour:
        install(person, behaviour, monkeypatch)
        monkeypatch.setattr(doctor_clients, "_WITHIN_S", 1.0)
    begun = time.monotonic()
    found = asked(person)
    assert (True, None) == (found.ok, found.mend)
    assert ("did not say" if behaviour else "no codex is on PATH") in found.detail
    assert time.monotonic() - begun < 40  # it hangs for a minute


def test_about_a_server_codex_is_not_asked_whatever_its_options(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.run("connect", "codex", "--write")
    path = person.home / SERVER_FILES["codex", "user"][0]
    path.write_text(path.read_text().replace('"mcp"]', '"mcp", "--session", "hook"]'))
    install(person, [], monkeypatch)
    (found,) = [each for each in findings(str(person.project)) if str(path) in each.detail]
    assert (True, f"{path} starts {PROGRAM[0]}") == (found.ok, found.detail)
