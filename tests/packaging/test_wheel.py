"""The built wheel, installed where nothing else is: in an empty virtual environment, by pipx,
by uv; and as a service from there.

Takes downloads and minutes, so only in CI and with STET_TEST_ALL.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from service import private_manager
from stet.service.spawn import is_running
from stet.version import __version__

CHECKOUT = Path(__file__).parents[2]
LOADED = "import sys; before = set(sys.modules); import stet; print(*(set(sys.modules) - before))"

pytestmark = [
    pytest.mark.skipif(
        not (os.environ.get("STET_TEST_ALL") or os.environ.get("CI")),
        reason="installs from the package registry: only in CI and with STET_TEST_ALL=1",
    ),
    pytest.mark.timeout(600),
]


def run(*command: str | Path, **environ: str) -> str:
    """Standard output of a program that must succeed, in an environment without ours."""
    ours = ("STET_", "XDG_", "PYTHON", "VIRTUAL_ENV", "PIPX_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [str(part) for part in command],
        env=kept | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=environ.get("PWD", "/"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", directory, CHECKOUT)
    [built] = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs, and nothing else."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=True)
    run(directory / "bin" / "pip", "install", "-q", wheel)
    return directory


class Home:
    """A user with an own home directory, in which the given ``stet`` is run."""

    def __init__(self, base: Path, stet: Path) -> None:
        self.stet = stet
        self.project = base / "project"
        self.project.mkdir()
        self._runtime = tempfile.mkdtemp(prefix="stet-wheel-", dir="/tmp")
        self.environ = {
            "HOME": str(base),
            "XDG_RUNTIME_DIR": self._runtime,
            "PWD": str(self.project),
        }

    def __call__(self, *arguments: str) -> str:
        return run(self.stet, *arguments, **self.environ)

    def end(self) -> None:
        lock = Path(self.environ["HOME"], ".local/state/stet/stetd.lock")
        if lock.exists():
            pid = int(lock.read_text())
            os.kill(pid, signal.SIGTERM)
            while is_running(pid):
                time.sleep(0.01)
        shutil.rmtree(self._runtime)


def follow_the_story(home: Home) -> None:
    """Allow, edit, look, undo; then ask for health and options."""
    file = home.project / "a.py"
    file.write_text("one\n")
    patches = home.project / "edit.json"
    patches.write_text('[{"operation": "replace", "oldText": "one", "newText": "two"}]')
    assert home("init").startswith(f"Agents may edit below {home.project}\n")
    home("patch", "--path", "a.py", "edit.json")
    assert file.read_text() == "two\n"
    log = json.loads(home("log", "--json"))["commits"]
    assert [each["kind"] for each in log] == ["edit", "outside"]
    home("undo")
    assert file.read_text() == "one\n"
    assert json.loads(home("verify", "--json"))["problems"] == []
    assert json.loads(home("config", "show", "--json"))["options"][0]["name"] == "durability"
    assert json.loads(home("status", "--json"))["workspaces"] == 1


@pytest.fixture
def home_of_empty(empty: Path, tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path, empty / "bin" / "stet")
    yield home
    home.end()


def test_in_an_empty_environment_an_edit_is_made_and_undone(home_of_empty: Home) -> None:
    follow_the_story(home_of_empty)


def test_what_is_not_code_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"stetd/data/o200k_base.tiktoken.xz", "stet/py.typed", "stetd/py.typed"} <= names
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"stet", "stetd", f"stetd-{__version__}.data"}
    assert f"stetd-{__version__}.data/data/share/man/man1/stet-undo.1" in names


def test_vocabulary_of_the_wheel_is_the_one_that_belongs_there(empty: Path) -> None:
    count = "from stetd.editing.tokens import count_tokens; print(count_tokens(['hello world']))"
    assert run(empty / "bin" / "python", "-c", count) == "(2, True)\n"


def test_the_client_loads_none_of_the_daemon_libraries(empty: Path) -> None:
    loaded = run(empty / "bin" / "python", "-c", LOADED).split()
    packages = {name.split(".")[0] for name in loaded}
    daemons = {"stetd", "pydantic", "pygit2", "tiktoken", "regex", "rapidfuzz", "asyncio", "rich"}
    assert packages & daemons == set()


ABOUT_PYTHON = """
import ensurepip, sys, venv
print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 11) else "")
"""


def other_pythons() -> dict[str, Path]:
    """The interpreters of other versions on PATH, and beside ours, by version.

    A version manager keeps its versions side by side; its names on PATH may be stand-ins.
    """
    found = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    beside = Path(sys.base_prefix).parent.glob("*/bin/python3")
    versions: dict[str, Path] = {}
    for python in [*filter(None, found), *map(str, beside)]:
        asked = subprocess.run(
            [python, "-c", ABOUT_PYTHON], capture_output=True, text=True, check=False
        )
        versions[asked.stdout.strip()] = Path(python)
    return {version: versions[version] for version in sorted(versions) if version not in OURS}


OURS = ("", f"{sys.version_info[0]}.{sys.version_info[1]}")
OTHERS = other_pythons() if os.environ.get("STET_TEST_ALL") or os.environ.get("CI") else {}


@pytest.mark.parametrize("python", OTHERS.values(), ids=OTHERS.keys())
def test_with_another_python_an_edit_is_made_and_undone(
    python: Path, wheel: Path, tmp_path: Path
) -> None:
    run(python, "-m", "venv", tmp_path / "environment")
    run(tmp_path / "environment" / "bin" / "pip", "install", "-q", wheel)
    home = Home(tmp_path, tmp_path / "environment" / "bin" / "stet")
    try:
        follow_the_story(home)
    finally:
        home.end()


def with_pipx(base: Path, tools: Path, wheel: Path) -> None:
    places = {
        "HOME": str(base),
        "PIPX_HOME": str(base / "pipx"),
        "PIPX_BIN_DIR": str(base / "bin"),
        "PIPX_MAN_DIR": str(base / "man"),
    }
    run(tools / "pip", "install", "-q", "pipx")
    run(tools / "pipx", "install", wheel, **places)


def with_uv(base: Path, tools: Path, wheel: Path) -> None:
    # uv does not know pip's index, so what it needs is there already.
    run(tools / "pip", "download", "-q", "-d", base / "wheels", wheel)
    places = {
        "HOME": str(base),
        "UV_TOOL_DIR": str(base / "uv"),
        "UV_TOOL_BIN_DIR": str(base / "bin"),
        "UV_CACHE_DIR": str(base / "cache"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_LINK_MODE": "copy",
        "UV_FIND_LINKS": str(base / "wheels"),
    }
    run(tools / "pip", "install", "-q", "uv")
    run(tools / "uv", "tool", "install", "--no-config", "--no-index", wheel, **places)


class Installed(NamedTuple):
    """The directory with the commands, and all that they need."""

    bin: Path
    base: Path


@pytest.fixture(scope="module", params=[with_pipx, with_uv])
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    base = tmp_path_factory.mktemp("installed")
    base.chmod(0o755)  # the service's user reads it
    venv.create(base / "tools", with_pip=True)
    request.param(base, base / "tools" / "bin", wheel)
    return Installed(base / "bin", base)


_TOOLS = pytest.mark.skipif(
    not os.environ.get("STET_TEST_ALL"), reason="STET_TEST_ALL=1 installs pipx and uv"
)
_NO_MANAGER = private_manager.why_not() if os.environ.get("STET_TEST_ALL") else None


@_TOOLS
def test_installed_as_a_tool_an_edit_is_made_and_undone(
    installed: Installed, tmp_path: Path
) -> None:
    assert sorted(os.listdir(installed.bin)) == ["stet", "stetd"]
    home = Home(tmp_path, installed.bin / "stet")
    try:
        follow_the_story(home)
    finally:
        home.end()


SERVICE = r"""
mkdir "$HOME/project" && cd "$HOME/project"
"$1" service install
"$1" init
printf %s '[{"operation": "overwrite", "newText": "one\n"}]' >edit.json
"$1" patch --path a.txt edit.json
cat a.txt "$HOME/.config/systemd/user/stetd.service"
"$1" service status
"$1" service uninstall
"""


@_TOOLS
@pytest.mark.skipif(_NO_MANAGER is not None, reason=f"STET_TEST_ALL: {_NO_MANAGER}")
def test_installed_as_a_tool_it_is_a_service(installed: Installed) -> None:
    said = private_manager.run(
        "bash", "-ec", SERVICE, "-", str(installed.bin / "stet"),
        seconds=120, readable=(installed.base,),
    )  # fmt: skip

    assert "\none\n" in said
    [start] = [line for line in said.splitlines() if line.startswith("ExecStart=")]
    assert str(installed.base) in start
    assert "stetd.service: active" in said


def test_service_finds_its_units_in_it(empty: Path) -> None:
    for name in ("stetd.service", "stetd.socket"):
        printing = (
            f"from stet.service import unit_files; print(unit_files.template({name!r}), end='')"
        )
        shipped = (CHECKOUT / "systemd" / name).read_text()
        assert shipped == run(empty / "bin" / "python", "-c", printing)
