"""The README is complete and true where a program can tell."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import pytest

from real_clients.clients import CLIENTS
from stet.service.spawn import is_running
from stet.wire.failures import Kind
from stetd.editing.matching.rungs import Rung

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")


def page(name: str) -> str:
    return (CHECKOUT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def rows(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def test_it_begins_with_the_two_commands() -> None:
    _, _, commands = README.partition("# stet\n\n")

    assert commands.splitlines()[0].split("#")[0].split() == ["scripts/run"]
    assert commands.splitlines()[1].split("#")[0].split() == ["scripts/run", "DIR"]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_the_page_has_every_kind_of_error_and_no_other() -> None:
    kinds = re.findall(
        r"`(\w+_\w+|conflict|stale|internal|contended|overloaded)`", rows(page("errors"))
    )

    assert sorted(set(kinds) - {"request_id"}) == sorted(kind.value for kind in Kind)


def test_the_page_has_the_rungs_in_their_order() -> None:
    section = page("dialects").partition("### Matching")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `([\w+]+)` \|", section, re.MULTILINE) == [rung.value for rung in Rung]


def test_the_page_of_clients_has_the_versions_that_are_tried() -> None:
    tried = [client.version for client in CLIENTS.values()]

    assert [version for version in tried if version not in page("clients")] == []


PAGES = [CHECKOUT / "README.md", CHECKOUT / "ARCHITECTURE.md", *CHECKOUT.glob("docs/**/*.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_links_lead_to_files(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = {target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)}
    local = {target for target in targets if target and "://" not in target}

    assert {target for target in local if not (path.parent / target).exists()} == set()


@pytest.mark.parametrize("name", re.findall(r"\b([A-Z]+\.md)\b", README))
def test_documents_that_it_names_are_there(name: str) -> None:
    assert (CHECKOUT / name).is_file()


#: Where a page's file names begin.
ROOTS = ("", "daemon/stetd", "client/stet", "tests", "daemon", "client")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_files_that_are_named_are_there(path: Path) -> None:
    names = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)", path.read_text(encoding="utf-8")))

    assert {n for n in names if not any((CHECKOUT / r / n).is_file() for r in ROOTS)} == set()


def test_its_commands_print_what_it_says(tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    init, agent, history, restricted = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    (lines,) = re.findall(r"```console\n(.*?)```", page("sockets"), re.DOTALL)
    (client,) = re.findall(r"```python\n(.*?)```", page("sockets"), re.DOTALL)
    (tolerant,) = re.findall(r"```console\n(.*?)```", page("dialects"), re.DOTALL)
    (refused,) = re.findall(r"```console\n(.*?)```", page("errors"), re.DOTALL)
    with Reader(tmp_path) as reader:
        reader.save("hello.py", programs[0])
        reader.follow(init)
        reader.save("agent.py", programs[1])
        reader.follow(agent)
        reader.save("hello.py", "# greets\n" + (reader.project / "hello.py").read_text())
        reader.follow(history)
        reader.follow(refused)
        reader.follow(tolerant)
        reader.save("hello.py", programs[0])
        reader.save("lines.py", client)
        reader.follow(lines)
        reader.follow(restricted)


class Reader:
    """Somebody who does what the README says, in a home directory of their own.

    Ids and times are others than in the README, but the same id there is the same one here.
    """

    HOME = "/home/me"
    CHANGING = re.compile(r"\b(?:[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{12}|[0-9a-f]{8})\b")
    TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.project = self.home / "hello"
        self.project.mkdir(parents=True)
        self._runtime = tempfile.mkdtemp(prefix="stet-test-", dir="/tmp")
        self._ids: dict[str, str] = {}
        self._environ = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": self._runtime,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lock = self.home / ".local/state/stet/stetd.lock"
        if lock.exists():
            pid = int(lock.read_text())
            os.kill(pid, signal.SIGTERM)
            while is_running(pid):
                time.sleep(0.01)
        shutil.rmtree(self._runtime)

    def save(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)

    def follow(self, block: str) -> None:
        """Run the commands of a block, and compare what they print."""
        for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block, re.MULTILINE):
            if command.startswith("cat ") and command.endswith(".json"):
                self.save(command.removeprefix("cat "), expected)
            done = subprocess.run(
                ["bash", "-c", self._translated(command)],
                cwd=self.project,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            said = done.stdout.replace(str(self.home), self.HOME)
            self._learn(expected, said)
            self._compare(self._translated(expected), said)

    def _learn(self, expected: str, said: str) -> None:
        pairs = zip(self.CHANGING.findall(expected), self.CHANGING.findall(said), strict=False)
        for theirs, ours in pairs:
            # The short form of an id that was printed whole, and the other way round.
            self._ids.setdefault(theirs, ours)
            self._ids.setdefault(theirs[:8], ours[:8])

    def _translated(self, text: str) -> str:
        return self.CHANGING.sub(lambda found: self._ids.get(found[0], found[0]), text)

    def _compare(self, expected: str, said: str) -> None:
        # A block in the README ends where its last line does.
        assert self.TIME.sub("TIME", said).strip("\n") == self.TIME.sub("TIME", expected).strip(
            "\n"
        )
