"""A process in a bubblewrap sandbox with ``agent.sock`` alone: no attempt of it succeeds.

The sandbox is the one of ``scripts/sandboxed``. That the attempts are good ones is seen by the same
script outside of it, where those that need no more than the user's own rights get through.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess, Site, running
from sandbox import attempts

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "sandboxed"
#: What a path that is not in the sandbox, or not to be written, answers.
NOT_THERE = {"ENOENT", "EACCES", "ESRCH", "ENOTDIR"}
REACHED = {"DONE", "OPENED", "LISTED", "READ", "WRITTEN", "RENAMED", "SIGNALLED"}


def _why_not() -> str | None:
    """Why bubblewrap can't be used here; None if it can."""
    if shutil.which("bwrap") is None:
        return "needs bubblewrap"
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"bubblewrap can't be used: {tried.stderr.strip()}"


WHY_NOT = _why_not()
needs_bubblewrap = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running() as daemon:
        yield daemon


class Prey:
    """Two workspaces, a session of somebody else with a commit, and one with a secret."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.site = daemon.site("w", session="theirs")
        self.other: Site = daemon.site("other")
        elsewhere = daemon.base / "elsewhere"
        elsewhere.mkdir()
        for site in (self.site, self.other):
            site.write("a.txt", "one\n")
        self.other.write("deep/b.txt", "one\n")
        (self.site.root / ".git" / "hooks").mkdir(parents=True)
        (self.site.root / "link").symlink_to(self.other.root)
        commit = self.site.replace("a.txt", "one", "two", request_id="theirs-1")["commit"]
        self.site.another("guarded", secret="s3cret")
        self.targets = {
            "workspace": str(self.site.root),
            "other": str(self.other.root),
            "elsewhere": str(elsewhere),
            "runtime": str(daemon.runtime),
            "state": str(daemon.state),
            "config": str(daemon.base / "c.toml"),
            "daemon": daemon.process.pid,
            "guarded": "guarded",
            "commit": commit,
            "request": "theirs-1",
        }

    def sandboxed(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the sandbox, as an agent in this workspace."""
        readable = {sys.base_prefix, str(Path(attempts.__file__).parent)}
        binds = [word for path in sorted(readable) for word in ("--ro-bind", path)]
        return subprocess.run(
            [str(SCRIPT), *binds, str(self.site.root), *command],
            env=self.daemon.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def attempted(self, part: str) -> dict[str, str]:
        """What each attempt in the sandbox came to."""
        targets = json.dumps({**self.targets, "socket": "/run/stet/agent.sock"})
        done = self.sandboxed(_python(), "-I", attempts.__file__, part, targets)
        assert done.returncode == 0, done.stderr
        return _answers(done.stdout)


def _python() -> str:
    return os.path.realpath(sys.executable)


def _answers(output: str) -> dict[str, str]:
    lines = [json.loads(line) for line in output.splitlines()]
    answers = {line["tried"]: line["answer"] for line in lines}
    assert len(answers) == len(lines), "two attempts of one name"
    return answers


@needs_bubblewrap
def test_a_sandboxed_process_edits_through_the_daemon(daemon: DaemonProcess) -> None:
    prey = Prey(daemon)
    program = (  # as an agent would, which was told no more than its environment
        "import json, socket, os\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.connect(os.environ['STET_RUNTIME_DIR'] + '/agent.sock')\n"
        "f = s.makefile('rwb')\n"
        "def call(**r):\n"
        "    f.write(json.dumps(r).encode() + b'\\n'); f.flush()\n"
        "    return json.loads(f.readline())\n"
        "hello = {'protocol': 1, 'workspace': os.getcwd(), 'session': 'c'}\n"
        "call(id=1, method='hello', params=hello)\n"
        "edit = [{'operation': 'replace', 'oldText': 'two', 'newText': 'three'}]\n"
        "done = call(id=2, method='patch', params={'path': 'a.txt', 'patches': edit})\n"
        "print(done['result']['commit'])\n"
    )
    done = prey.sandboxed(_python(), "-I", "-c", program)
    assert done.returncode == 0, done.stderr
    assert prey.site.bytes_of("a.txt") == b"three\n"
    [newest] = prey.site.log(limit=1)
    assert newest["commit"] == done.stdout.strip()
    assert newest["session"] == "c"
    assert newest["peer"]["command"].startswith("python")


@needs_bubblewrap
def test_a_sandboxed_process_lifts_no_restriction(daemon: DaemonProcess) -> None:
    prey = Prey(daemon)
    prey.site.person.call("mode_set", mode="restricted", scope="workspace")
    before = prey.site.picture().files
    answers = prey.attempted("restricted")
    assert answers["edit"] == answers["a new name"] == answers["edit after all that"]
    assert answers["edit"] == "tool_disabled"
    assert len(answers) == 9
    assert REACHED.isdisjoint(answers.values()), answers
    assert prey.site.person.call("mode_get")["workspace_mode"] == "restricted"
    assert prey.site.picture().files == before


@needs_bubblewrap
def test_a_sandboxed_process_gets_at_nothing_else(daemon: DaemonProcess) -> None:
    prey = Prey(daemon)
    before = prey.site.picture(), prey.other.picture()
    answers = prey.attempted("unrestricted")
    assert len(answers) > 45
    reached = {tried: answer for tried, answer in answers.items() if answer in REACHED}
    assert reached == {}
    for tried, answer in answers.items():
        if tried.startswith("hello"):
            assert answer == "workspace_not_allowed", tried
    for tried in ("undo by id", "undo by request", "restore", "resume a session", "gc"):
        assert answers[tried] == "not_permitted", tried
    assert answers["control.sock"] in NOT_THERE
    assert answers["write a file"] == "EROFS"
    after = prey.site.picture(), prey.other.picture()
    assert [p.files for p in after] == [p.files for p in before]
    assert [p.head for p in after] == [p.head for p in before]
    assert prey.site.person.call("verify")["problems"] == []


def test_outside_of_a_sandbox_the_same_attempts_get_through(daemon: DaemonProcess) -> None:
    """They are no boundary against a process of the same user (docs/security.md)."""
    prey = Prey(daemon)
    targets = json.dumps({**prey.targets, "socket": str(daemon.runtime / "agent.sock")})
    command = [_python(), "-I", attempts.__file__, "unrestricted", targets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = _answers(done.stdout)
    assert answers["control.sock"] == "OPENED"
    assert answers["the state"] == "LISTED"
    assert answers["write a file"] == "WRITTEN"
    assert answers["signal the daemon"] == "SIGNALLED"
    assert answers["hello: the other workspace"] == "DONE"
    assert answers["undo by id"] == "not_permitted"
