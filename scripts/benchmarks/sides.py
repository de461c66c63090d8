"""What is measured in turns: this tree, and another revision of it with its own environment.

Long histories are made by each side's own code, and kept below ``made/`` for the next run: a
hundred thousand commits take minutes to make and index.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.editor import Editor
from benchmarks.lines import JsonLines, allow, request
from benchmarks.processes import settle
from private_daemon import PrivateDaemon

_MAKE = """
import sys
from benchmarks.made_history import make_history
make_history(sys.argv[1], sys.argv[2], commits=int(sys.argv[3]), files=int(sys.argv[4]))
"""
#: What a made history depends on: the formats of the state.
_FORMATS = (
    "daemon/stetd/storage/*.py",
    "daemon/stetd/historian/*.py",
    "scripts/benchmarks/made_history.py",
)
_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class Side:
    """A checkout with its environment, and what was measured of it, by name."""

    name: str
    tree: str
    samples: dict[str, list[float]] = field(default_factory=dict)

    def program(self, name: str) -> str:
        """A program of its environment."""
        return os.path.join(self.tree, ".venv", "bin", name)

    def note(self, name: str, *values: float) -> None:
        """Add to what was measured."""
        self.samples.setdefault(name, []).extend(values)


def revision(checkout: str, name: str, below: str) -> Side:
    """The files of a revision below a directory, with an environment; made once."""
    git = ["git", "-C", checkout]
    asked = [*git, "rev-parse", "--short=12", "--verify", f"{name}^{{commit}}"]
    commit = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    tree = os.path.join(below, "revisions", commit)
    side = Side(name, tree)
    if os.path.exists(side.program("stetd")):
        return side
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(tree)
    archive = subprocess.run([*git, "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", f"{tree}/.venv"], check=True)
    installing = [side.program("python"), "-m", "pip", "install", "-e", tree]
    said = subprocess.run(installing, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(f"{name} could not be installed:\n{said.stderr}")
    return side


@dataclass(frozen=True, slots=True)
class Extent:
    """A history of so many commits over so many files; ``versions`` of two of ``lines`` lines."""

    commits: int
    files: int
    versions: int = 0
    lines: int = 0


#: The files that have many versions: of one line; of as many lines, each so many lines away.
LARGE, SCATTERED = "large.txt", "scattered.txt"
_APART = 7919


def make(sides: Sequence[Side], extents: Sequence[Extent], below: str) -> None:
    """Make those of the histories that are not there yet; those of all sides at once."""
    for extent in extents:
        making = []
        for side in sides:
            template = _template(side, extent, below)
            if not os.path.exists(f"{template}/made"):
                for old in glob.glob(f"{template.rpartition('-')[0]}-*"):
                    shutil.rmtree(old)
                os.makedirs(f"{template}/state", mode=0o700)
                os.mkdir(f"{template}/workspace")
                making.append((side, template, _maker(side, extent, template)))
        for side, template, process in making:
            if process.wait() != 0:
                raise RuntimeError(f"no history could be made with {side.tree}")
            if extent.versions:
                _edit_often(side, extent, template)
            with open(f"{template}/made", "x", encoding="ascii"):
                pass


def _template(side: Side, extent: Extent, below: str) -> str:
    found = hashlib.sha256(repr(extent).encode())
    for pattern in _FORMATS:
        for path in sorted(glob.glob(os.path.join(side.tree, pattern))):
            with open(path, "rb") as file:
                found.update(file.read())
    of = f"{os.path.basename(side.tree)}-{extent.commits}-{extent.files}"
    return os.path.join(below, "made", f"{of}-{found.hexdigest()[:12]}")


def _maker(side: Side, extent: Extent, template: str) -> subprocess.Popen[bytes]:
    where = [f"{template}/state", f"{template}/workspace"]
    return subprocess.Popen(
        [side.program("python"), "-c", _MAKE, *where, str(extent.commits), str(extent.files)],
        env=os.environ | {"PYTHONPATH": os.path.join(side.tree, "scripts")},
    )


def _edit_often(side: Side, extent: Extent, template: str) -> None:
    """Have two files edited so often: by calls, as each revision understands them."""
    runtime = f"/tmp/stet-bench-{os.getpid()}"
    with PrivateDaemon(template, runtime, command=[side.program("stetd")]) as daemon:
        daemon.start()
        path, workspace = daemon.endpoint().path, f"{template}/workspace"
        with JsonLines(path, workspace, "bench") as client:
            for name, apart in ((LARGE, 0), (SCATTERED, _APART)):
                _edit(client, os.path.join(workspace, name), extent, apart)
        settle(daemon.pid)
    shutil.rmtree(runtime)


def _edit(client: JsonLines, path: str, extent: Extent, apart: int) -> None:
    lines = [f"line {number} of a large file\n" for number in range(extent.lines)]
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines)
    for version in range(extent.versions):
        if version >= _IN_FLIGHT:
            client.receive()
        at = version * apart % len(lines)
        old, lines[at] = lines[at], f"version {version} of line {at}\n"
        patch = {"operation": "replace", "oldText": old, "newText": lines[at]}
        client.send(request("patch", {"path": path, "patches": [patch]}))
    for _ in range(min(_IN_FLIGHT, extent.versions)):
        client.receive()


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon of a side, and a workspace that it serves."""

    side: Side
    daemon: PrivateDaemon
    workspace: str

    def editor(self, name: str, lines: int) -> Editor:
        """A client that edits a new file of its own."""
        return Editor(self.daemon.endpoint().path, self.workspace, name, lines)

    def person(self) -> JsonLines:
        """The person's connection to the workspace."""
        return JsonLines(self.daemon.endpoint(control=True).path, self.workspace, "person")


class Place:
    """Where daemons have their directories: below ``directory``, their sockets in ``runtime``."""

    def __init__(self, directory: str, runtime: str, made: str) -> None:
        self.made = made
        self._directory = directory
        self._runtime = runtime
        self._count = 0

    def socket(self) -> str:
        """A path for a socket of something else."""
        self._count += 1
        return os.path.join(self._runtime, f"{self._count}.sock")

    def daemon(self, side: Side, options: Mapping[str, str] | None = None) -> PrivateDaemon:
        """One that was not started yet."""
        self._count += 1
        own = os.path.join(self._directory, str(self._count))
        os.mkdir(own)
        runtime = os.path.join(self._runtime, str(self._count))
        return PrivateDaemon(own, runtime, options, [side.program("stetd")])

    def new(
        self, stack: ExitStack, side: Side, options: Mapping[str, str] | None = None, files: int = 0
    ) -> Running:
        """A daemon without a history, and a workspace of so many files."""
        daemon = stack.enter_context(self.daemon(side, options))
        daemon.start()
        workspace = os.path.join(os.path.dirname(daemon.state), "workspace")
        os.mkdir(workspace)
        for number in range(files):
            with open(os.path.join(workspace, f"{number}.txt"), "w", encoding="ascii") as file:
                file.write("a line\n" * 30)
        allow(daemon, workspace)
        return Running(side, daemon, workspace)

    def with_history(self, stack: ExitStack, side: Side, extent: Extent) -> Running:
        """A daemon on a copy of a history that was made."""
        template = _template(side, extent, self.made)
        daemon = stack.enter_context(self.daemon(side))
        shutil.copytree(f"{template}/state", daemon.state)
        daemon.start()
        settle(daemon.pid)
        return Running(side, daemon, f"{template}/workspace")


def in_turns(running: Sequence[Running], rounds: int) -> Iterator[Running]:
    """Each so often, one after the other."""
    for _ in range(rounds):
        yield from running
