"""``stet config``: what is told of the options, with and without a daemon."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.live import Installation, installation


@pytest.fixture
def own() -> Iterator[Installation]:
    with installation() as made:
        yield made


def configure(own: Installation, text: str) -> str:
    path = os.path.join(own.base, "config.toml")
    Path(path).write_text(text)
    return path


def option(told: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in told["options"] if each["name"] == name)
    return found


def test_path_is_told(own: Installation) -> None:
    path = os.path.join(own.base, "config.toml")
    assert own.json("config", "path") == {"path": path, "exists": False}
    configure(own, "")
    assert own.json("config", "path") == {"path": path, "exists": True}
    assert own.stet("config", "path").stdout == path + "\n"


def test_show_tells_where_each_value_comes_from(own: Installation) -> None:
    path = configure(own, "\ngrace_s = 3\nmax_frame = 4096\n")
    told = own.json("config", "show", STET_MAX_FRAME="8192")
    assert (told["path"], told["exists"]) == (path, True)
    grace = option(told, "grace_s")
    assert grace.pop("description").startswith("Seconds for which a replaced file is watched")
    assert grace == {
        "name": "grace_s",
        "value": 3.0,
        "default": 2.0,
        "source": "file",
        "line": 2,
        "variable": "STET_GRACE_S",
        "unit": "seconds",
        "restart": False,
    }
    frame = option(told, "max_frame")
    assert [frame[key] for key in ("value", "source", "line", "unit")] == [
        8192, "environment", None, "bytes",
    ]  # fmt: skip
    durability = option(told, "durability")
    assert [durability[key] for key in ("value", "source", "unit", "restart")] == [
        "full", "default", "", True,
    ]  # fmt: skip
    lines = own.stet("config", "show", STET_MAX_FRAME="8192").stdout.splitlines()
    assert lines[0] == f"# {path}"
    assert "grace_s = 3 seconds  (line 2; default 2)" in lines
    assert "max_frame = 8192 bytes  (STET_MAX_FRAME; default 16777216)" in lines
    assert 'durability = "full"  (default)' in lines
    assert own.pid() is None


def test_check_names_every_fault_with_line_and_key(own: Installation) -> None:
    path = configure(own, 'durabilty = "full"\ngrace_s = -1\n')
    run = own.stet("config", "check", "--json")
    assert run.returncode == 1
    unknown = f"{path}, line 1: there is no option durabilty. Did you mean durability?"
    negative = f"{path}, line 2: grace_s: Input should be greater than or equal to 0 (not -1)"
    assert sorted(run.stderr.splitlines()) == [f"stet: {unknown}", f"stet: {negative}"]
    told = json.loads(run.stdout)
    assert (told["path"], told["ok"]) == (path, False)
    assert sorted(told["faults"], key=lambda each: each["line"]) == [
        {"where": path, "line": 1, "key": "durabilty", "message": unknown},
        {"where": path, "line": 2, "key": "grace_s", "message": negative},
    ]
    shown = own.stet("config", "show")
    assert (shown.returncode, sorted(shown.stderr.splitlines())) == (
        1, [f"stet: {unknown}", f"stet: {negative}"],
    )  # fmt: skip


def test_check_of_another_file(own: Installation) -> None:
    Path(own.workspace, "mine.toml").write_text("grace_s 2\n")
    run = own.stet("config", "check", "mine.toml")
    assert run.returncode == 1
    assert "mine.toml, line 1: not TOML: " in run.stderr
    Path(own.workspace, "mine.toml").write_text("grace_s = 2\n")
    fine = own.stet("config", "check", "mine.toml")
    assert (fine.returncode, fine.stdout) == (0, f"{own.workspace}/mine.toml: ok\n")
    missing = own.stet("config", "check", "missing.toml")
    assert (missing.returncode, missing.stderr) == (
        1, f"stet: {own.workspace}/missing.toml: there is no such configuration file\n",
    )  # fmt: skip


def test_check_says_when_there_is_no_file_of_ones_own(own: Installation) -> None:
    misspelt = f"{own.workspace}/confg.toml"
    run = own.stet("config", "check", STET_CONFIG=misspelt)
    assert (run.returncode, run.stdout) == (0, f"{misspelt}: not there: every default holds\n")


def test_reload_says_what_has_changed_or_why_nothing_has(own: Installation) -> None:
    run = own.stet("config", "reload")
    assert run.returncode == 3
    assert own.pid() is None
    own.stet("status")
    path = configure(own, 'gc_idle_s = 5\ndurability = "relaxed"\n')
    assert own.stet("config", "reload").stdout.splitlines() == [
        f"read again: {path}",
        "  gc_idle_s: 60 -> 5",
        "  durability needs a restart",
    ]
    configure(own, "gc_idle_s = -5\n")
    run = own.stet("config", "reload")
    fault = f"{path}, line 1: gc_idle_s: Input should be greater than or equal to 0 (not -5)"
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"stet: nothing was taken over:\n{fault}\n"
    assert f"CONFIGURATION not taken over: {fault}" in own.stet("status").stdout
