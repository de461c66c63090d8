"""The unit files: what systemd makes of them, and of the words that are put into them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stet.service import unit_files
from stet.service.spawn import Endpoint, own_program
from stet.service.unit_files import (
    HARDENED,
    MARKER,
    NAMES,
    SERVICE,
    SOCKET,
    UnusablePath,
)

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
#: An installation: its program, its directories, its configuration.
Installed = tuple[tuple[str, ...], Endpoint, str]


def installed_as(program: tuple[str, ...], runtime: str, state: str, config: str) -> Installed:
    return program, Endpoint(runtime, state, control=False), config


PLAIN = installed_as((sys.executable,), "/run/user/1/stet", "/h/state", "/h/config.toml")


def setting(unit: str, key: str) -> list[str]:
    """The values of a key, as they are written."""
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def analyzed(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--user", *arguments],
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )


def written(directory: Path, installed: Installed, *, hardened: bool = False) -> list[str]:
    """The paths of the two units; a drop-in is found by systemd."""
    for name, text in unit_files.rendered(*installed, hardened=hardened).items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    return [str(directory / name) for name in NAMES]


@needs_analyze
@pytest.mark.parametrize("hardened", [False, True])
def test_systemd_understands_every_line(tmp_path: Path, hardened: bool) -> None:
    """Unknown keys exit 0 and are told on standard error only, so that must be empty."""
    paths = written(tmp_path, PLAIN, hardened=hardened)
    done = analyzed(tmp_path, "verify", *paths)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


#: What systemd-analyze counts and a user manager can't enforce, or not without a user namespace,
#: in which the daemon could not see what its clients see; or what hides workspaces. By prefix.
NOT_FOR_USERS = (
    "CapabilityBoundingSet_", "DeviceAllow", "IPAddressDeny", "Private", "ProcSubset", "ProtectC",
    "ProtectHo", "ProtectKernel", "ProtectProc", "ProtectSystem", "RootDirectory", "UserOr",
)  # fmt: skip


@needs_analyze
@pytest.mark.parametrize(("threshold", "everything"), [(40, False), (62, True)])
def test_unit_is_hardened(tmp_path: Path, threshold: int, everything: bool) -> None:
    """At most 4.0 of 10 by what can be enforced; by systemd's own weights 6.2, as before."""
    unit = next(path for path in written(tmp_path, PLAIN) if path.endswith(SERVICE))
    told = analyzed(tmp_path, "security", "--offline=true", "--json=short", unit).stdout
    fields = [each["json_field"] for each in json.loads(told)]
    assert all(any(each.startswith(prefix) for each in fields) for prefix in NOT_FOR_USERS)
    ignored = {each: {"weight": 0} for each in fields if each.startswith(NOT_FOR_USERS)}
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({} if everything else ignored))
    options = ("--offline=true", f"--threshold={threshold}", f"--security-policy={policy}")
    done = analyzed(tmp_path, "security", *options, unit)
    assert 0 == done.returncode, done.stdout + done.stderr


@needs_analyze
@pytest.mark.parametrize(
    "name",
    ["a b", "100%h", "$HOME", "${x} $$ %%", "semi;colon # and = é"],
    ids=range(5),  # a socket's path must be short, and pytest's directories have the case's name
)
def test_odd_paths(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    program = directory / "stetd"
    program.symlink_to(sys.executable)
    odd = str(directory)
    paths = written(tmp_path, installed_as((str(program), "-P", odd), odd, odd, odd))
    done = analyzed(tmp_path, "verify", *paths)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    text = (tmp_path / SERVICE).read_text()
    assert odd == unit_files.variable(text, "STET_STATE_DIR")


@pytest.mark.parametrize("name", ['a"b', "a'b", "a\\b", "a\nb", "a "])
def test_paths_that_systemd_would_take_otherwise_are_refused(name: str) -> None:
    path = f"/h/{name}"
    for installed in (
        installed_as(("/p",), path, "/s", "/c"),
        installed_as(("/p",), "/r", path, "/c"),
        installed_as(("/p",), "/r", "/s", path),
        installed_as((path,), "/r", "/s", "/c"),
    ):
        with pytest.raises(UnusablePath, match="Move it"):
            unit_files.rendered(*installed)


@needs_analyze
@pytest.mark.parametrize(("hardened", "status"), [(True, 0), (False, 1)])
def test_hardened_service_is_judged_well_by_the_whole_list(
    tmp_path: Path, hardened: bool, status: int
) -> None:
    """By systemd's own weights, nothing left out; without the drop-in it is not (above)."""
    unit = next(path for path in written(tmp_path, PLAIN, hardened=hardened) if SERVICE in path)
    done = analyzed(tmp_path, "security", "--offline=true", "--threshold=40", unit)
    assert status == done.returncode, done.stdout + done.stderr


def test_hardened_service_has_a_drop_in_and_the_same_units() -> None:
    plain, hardened = (unit_files.rendered(*PLAIN, hardened=each) for each in (False, True))
    assert [*NAMES, HARDENED] == list(hardened)
    assert plain == {name: hardened[name] for name in NAMES}
    assert ["yes"] == setting(hardened[HARDENED], "PrivateUsers")


@needs_analyze
@pytest.mark.parametrize("name", [SERVICE, HARDENED])
def test_line_that_systemd_does_not_know_would_be_noticed(tmp_path: Path, name: str) -> None:
    paths = written(tmp_path, PLAIN, hardened=True)
    with open(tmp_path / name, "a") as unit:
        unit.write("[Service]\nProtectEverything=yes\n")
    assert "ProtectEverything" in analyzed(tmp_path, "verify", *paths).stderr


def test_units_say_where_everything_is() -> None:
    units = unit_files.rendered(*installed_as(("/opt/v/stetd",), "/r u n", "/s", "/c.toml"))
    assert list(NAMES) == list(units)
    assert all(text.startswith(MARKER + "\n") for text in units.values())
    assert ["/r u n/agent.sock", "/r u n/control.sock"] == setting(units[SOCKET], "ListenStream")
    assert ['":/opt/v/stetd"'] == setting(units[SERVICE], "ExecStart")
    assert [
        '"STET_RUNTIME_DIR=/r u n"',
        '"STET_STATE_DIR=/s"',
        '"STET_CONFIG=/c.toml"',
        "PYTHONFAULTHANDLER=1",
    ] == setting(units[SERVICE], "Environment")


def test_program_is_the_one_of_this_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = Path(sys.executable).with_name("stetd")
    assert (str(beside),) == own_program("stetd")
    bare = str(tmp_path / "python")
    monkeypatch.setattr(sys, "executable", bare)
    assert (bare, "-P", "-m", "stetd.cli") == own_program("stetd")


def test_directory_of_units_is_where_systemd_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert "/x/systemd/user" == unit_files.units_directory()
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert "/h/.config/systemd/user" == unit_files.units_directory()


def test_wheel_has_the_units() -> None:
    """What hatchling is told; tests of the built wheel look into it."""
    checkout = Path(__file__).resolve().parents[2]
    project = tomllib.loads((checkout / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert "stet/units" == included["systemd"]
    for name in (*NAMES, os.path.basename(HARDENED)):
        assert (checkout / "systemd" / name).read_text() == unit_files.template(name)
