"""scripts/run and scripts/bench do what they say, without the installation that comes first."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stet.service.spawn import is_running

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = CHECKOUT / "scripts"


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_story_ends_without_a_difference() -> None:
    told = run(str(SCRIPTS / "story.py"))

    assert (told.stderr, told.returncode) == ("", 0), told.stdout
    assert re.fullmatch(
        r"As expected: 10 steps, \d\d checks, no difference\.", told.stdout.splitlines()[-1]
    )


def test_a_reader_may_end_before_the_story() -> None:
    command = [sys.executable, str(SCRIPTS / "story.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as telling:
        assert telling.stdout is not None
        assert telling.stderr is not None
        telling.stdout.close()
        assert (telling.stderr.read(), telling.wait()) == ("", 0)


def test_the_story_prints_no_colours_and_no_path_of_this_machine() -> None:
    told = run(str(SCRIPTS / "story.py"), NO_COLOR="1")

    assert "\x1b" not in told.stdout
    assert tempfile.gettempdir() not in told.stdout
    assert " -m 'still used elsewhere'\n" in told.stdout  # as it can be typed


@pytest.fixture
def story_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("story")


@pytest.mark.parametrize(
    ("path", "content", "complaint"),
    [
        ("a.py", b"one\ntwO\n", "a.py, line 2"),
        ("a.py", b"one\ntwo", "a.py, line 3"),
        ("b.py", b"", "b.py is there, and nobody made it"),
        ("a.py", None, "a.py is missing"),
    ],
)
def test_one_byte_that_differs_ends_the_story(
    story_module: ModuleType, tmp_path: Path, path: str, content: bytes | None, complaint: str
) -> None:
    (tmp_path / "a.py").write_bytes(b"one\ntwo\n")
    story = story_module.Story(
        str(tmp_path), None, str(tmp_path), expected=story_module.tree_of(str(tmp_path))
    )
    story.check_files()
    if content is None:
        (tmp_path / path).unlink()
    else:
        (tmp_path / path).write_bytes(content)

    with pytest.raises(story_module.Difference) as raised:
        story.check_files()

    assert complaint == str(raised.value).partition("\n")[0]


@pytest.fixture
def own_directories(tmp_path: Path) -> Iterator[dict[str, str]]:
    runtime = tempfile.mkdtemp(prefix="stet-test-", dir="/tmp")  # a socket's path must be short
    yield {
        "STET_RUNTIME_DIR": runtime,
        "STET_STATE_DIR": str(tmp_path / "state"),
        "STET_CONFIG": str(tmp_path / "config.toml"),
    }
    shutil.rmtree(runtime)


@contextlib.contextmanager
def ended(pid: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
        while is_running(pid):
            time.sleep(0.01)


def test_a_directory_is_allowed_and_the_printed_commands_work(
    own_directories: dict[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "my project's"
    project.mkdir()

    told = run(str(SCRIPTS / "connecting.py"), str(project), **own_directories)

    assert (told.stderr, told.returncode) == ("", 0)
    with ended(int((Path(own_directories["STET_STATE_DIR"]) / "stetd.lock").read_text())):
        shell = subprocess.run(
            ["bash", "-euc", block_after("From the command line", told.stdout)],
            env=os.environ | own_directories,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (shell.stderr, shell.returncode) == ("", 0)
        assert list(project.iterdir()) == []  # made by the patch, taken back by the undo
        if shutil.which("fish"):  # where $PATH is a list
            said = next(line for line in told.stdout.splitlines() if "export PATH" in line)
            command = ["fish", "--no-config", "-c", f"{said}; string join : $PATH"]
            kept = subprocess.run(command, capture_output=True, text=True, check=True)
            assert kept.stdout.rstrip("\n").partition(":")[2] == os.environ["PATH"]
        connect = block_after("In an agent's client", told.stdout).split()
        shown = run("-m", "stet.cli", *connect[1:3], "--hooks", **own_directories)
        assert (connect[3:], shown.returncode) == (["--write", "--hooks"], 0)
        python = run("-c", block_after("From Python", told.stdout), **own_directories)
        assert (python.stderr, python.returncode) == ("", 0)
        assert "+hello" in python.stdout
        assert list(project.iterdir()) == []
        forget = block_after("To take the permission back", told.stdout)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environ = os.environ | own_directories | {"PATH": path}
        subprocess.run(["bash", "-euc", forget], env=environ, check=True)
        again = run("-m", "stet.cli", "log", "-C", str(project), **own_directories)
        assert again.returncode == 1
        assert "not an allowed workspace" in again.stderr


def block_after(heading: str, text: str) -> str:
    """The indented lines after a line that starts with ``heading``."""
    _, _, rest = text.partition(f"\n{heading}")
    block = re.search(r"\n\n((?: {4}.*\n)+)", rest)
    assert block is not None, f"nothing after {heading!r}"
    return re.sub(r"(?m)^ {4}", "", block[1])


def test_a_directory_that_cannot_be_allowed_is_a_message_and_status_1(
    own_directories: dict[str, str],
) -> None:
    told = run(str(SCRIPTS / "connecting.py"), "/", **own_directories)

    with ended(int((Path(own_directories["STET_STATE_DIR"]) / "stetd.lock").read_text())):
        assert (told.returncode, told.stdout) == (1, "")
        assert told.stderr.startswith("scripts/run: ")
        assert "Traceback" not in told.stderr
