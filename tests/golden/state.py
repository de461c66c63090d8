"""A state directory as an earlier version left it: made once, kept, opened by every later one.

    PYTHONPATH=tests python -m golden.state tests/golden/v2.tar.xz

makes one with the version that is installed. Do that for a release whose ``LEVEL``
(``stetd.storage.journal_format``) is another one; never make one of these files again: they are
what people have on their disks.

An archive holds ``state``, ``w`` and ``old`` (two workspaces) as a SIGKILL in the middle of a
call left them, and ``expected.json``: what the daemon must say of it. The history has outside
edits, moves, links, private and binary files, an undo and a redo, a pin, a snapshot, a forgotten
path (``rewritten``) and, in ``old``, a cut (``shallow``); sessions have clipboards, a
restricted mode, a secret; some replies are in the request store, some in the journal only.

Workspaces have absolute paths, so all of it lies under BASE, one user of it at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from e2e.running_daemon import Client, ConnectionEnded, DaemonProcess
from in_process import InProcess
from own_peer import own_peer
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.historian.maintenance import gc as choosing
from stetd.storage.progress import Progress
from stetd.upkeep.retention import retain

BASE = Path("/tmp/stet-golden-state")
BOOT = "golden-boot"
SECRET = "opened with a secret"
LINK = "link"
_DAY_S = 86_400


@contextlib.contextmanager
def alone() -> Iterator[Path]:
    """BASE, empty, and nobody else's; removed afterwards."""
    with BASE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(BASE, ignore_errors=True)
        BASE.mkdir(mode=0o700)
        try:
            yield BASE
        finally:
            shutil.rmtree(BASE)


@contextlib.contextmanager
def daemon_in(base: Path, **settings: object) -> Iterator[DaemonProcess]:
    """A daemon, not started yet, with its state in ``base``."""
    daemon = DaemonProcess({"gc_idle_s": 0, **settings})
    daemon.state = base / "state"
    daemon.environment |= {"STET_STATE_DIR": str(daemon.state)}
    try:
        yield daemon
    finally:
        daemon.close()


def unpack(archive: Path, base: Path) -> Any:
    """Put a state back; what is expected of it."""
    with tarfile.open(archive) as file:
        if hasattr(tarfile, "fully_trusted_filter"):
            file.extraction_filter = staticmethod(tarfile.fully_trusted_filter)
        file.extractall(base)
    return json.loads((base / "expected.json").read_bytes())


def greeted(daemon: DaemonProcess, root: Path, session: str, **more: Any) -> Client:
    """An agent of this session."""
    client = daemon.agent()
    hello = {"protocol": 1, "workspace": str(root), "session": session, "agent": "builder"}
    client.call("hello", **hello, **more)
    return client


def person(daemon: DaemonProcess, root: Path) -> Client:
    """The person, in this workspace."""
    client = daemon.control()
    client.call("hello", protocol=1, workspace=str(root))
    return client


def files_of(root: Path) -> dict[str, Any]:
    """Path to permission bits and content (hexadecimal), or the target of a link."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = [LINK, os.readlink(path)]
        elif path.is_file():
            found[name] = [f"{path.stat().st_mode & 0o777:o}", path.read_bytes().hex()]
    return found


def told(daemon: DaemonProcess, root: Path) -> dict[str, Any]:
    """Everything that can be asked of a workspace."""
    asked = person(daemon, root)
    log: list[Any] = asked.call("log", limit=1000)["commits"]
    return {
        "files": files_of(root),
        "log": log,
        "diffs": {
            each["commit"]: asked.call("show", commit=each["commit"])["diff"] for each in log
        },
        "pins": asked.call("pin_list")["pins"],
        "blame": asked.call("blame", path="a.py")["lines"],
        "verified": asked.call("verify")["problems"],
    }


def session_told(client: Client) -> dict[str, Any]:
    """Everything that can be asked of a session."""
    clipboards = client.call("clipboard_list")["clipboards"]
    return {
        "mode": client.call("mode_get"),
        "clipboards": {
            each["name"]: client.call("clipboard_get", name=each["name"])["text"]
            for each in clipboards
        },
    }


# -- making one

MOVE = """*** Begin Patch
*** Update File: a.py
*** Move to: pkg/a.py
@@
-def two():
+def too():
*** End Patch
"""
TWO_FILES = """*** Begin Patch
*** Add File: c.txt
+c
*** Update File: a.py
@@
-# by hand
+# by hand!
*** End Patch
"""


def overwrite(path: str, text: str, **more: Any) -> dict[str, Any]:
    """The params of a patch that writes a file."""
    return {"path": path, "patches": [{"operation": "overwrite", "newText": text}], **more}


def replace(path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
    """The params of a patch that replaces a text."""
    patch = {"operation": "replace", "oldText": old, "newText": new}
    return {"path": path, "patches": [{**patch, **more.pop("patch", {})}], **more}


def make(archive: Path) -> None:
    """Make an archive with the version that runs this."""
    with alone() as base:
        (base / "w").mkdir()
        (base / "old").mkdir()
        cut(base)
        with daemon_in(base, grace_s=0.05, checkpoint_idle_s=0.1) as daemon:
            daemon.start(STET_BOOT_ID=BOOT)
            forgotten = first_life(daemon, base / "w")
            assert daemon.stop() == 0
        with daemon_in(base, grace_s=0.05, checkpoint_idle_s=3600) as daemon:
            # At the second exchange: the files of the third call are being written.
            daemon.start(STET_BOOT_ID=BOOT, STET_FAILPOINT="publish.swapped:2")
            requests = second_life(daemon, base / "w")
        shutil.copytree(base, base.with_suffix(".kept"), symlinks=True)
        expected = {"requests": requests, "forgotten": forgotten}
        with daemon_in(base) as daemon:
            daemon.start(STET_BOOT_ID=BOOT)
            expected |= {name: told(daemon, base / name) for name in ("w", "old")}
            expected["sessions"] = {
                name: session_told(greeted(daemon, base / "w", name, **more))
                for name, more in SESSIONS.items()
            }
            assert expected["w"]["verified"] == expected["old"]["verified"] == []
            assert daemon.stop() == 0
        pack(archive, base.with_suffix(".kept"), expected)


#: Every session in ``w``, and what hello needs besides its name.
SESSIONS: dict[str, dict[str, Any]] = {
    "conv-1": {},
    "conv-2": {"secret": SECRET},
    "conv-3": {},
}


def first_life(daemon: DaemonProcess, root: Path) -> dict[str, str]:
    """All that ends in a checkpoint; the commits that were rewritten, old id to subject."""
    daemon.control().call("workspace_allow", root=str(root))
    (root / "a.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    (root / ".env").write_text("KEY=secret\n")
    (root / "data.bin").write_bytes(bytes(range(256)))
    (root / "to-a").symlink_to("a.py")
    first, person_there = greeted(daemon, root, "conv-1"), person(daemon, root)
    cutting = {"toClipboard": "cut"}
    first.call("patch", **replace("a.py", "def one():\n    return 1\n", "", patch=cutting))
    first.call("patch", **overwrite(".env", "KEY=other\n", message="turned"))
    person_there.call("pin_set", name="good", commit="HEAD")
    first.call("apply_patch", input=MOVE, request_id="move")
    first.call("undo", last=1)
    person_there.call("redo")
    first.call("undo", last=1)
    second = greeted(daemon, root, "conv-2", secret=SECRET)
    (root / "private").mkdir()
    (root / "private" / "key").write_text("old\n")
    (root / "private" / "key").chmod(0o600)
    second.call("patch", **replace("private/key", "old", "new", request_id="stored"))
    second.call("clipboard_set", name="ünïcode", text="Grüße\n\ttab")
    (root / "a.py").write_text("# by hand\n" + (root / "a.py").read_text())
    person_there.call("snapshot", message="all of it")
    third = greeted(daemon, root, "conv-3")
    third.call("mode_set", mode="restricted")
    before = {
        each["commit"]: each["message"] for each in person_there.call("log", limit=100)["commits"]
    }
    person_there.call("forget", path=".env")
    after = {each["commit"] for each in person_there.call("log", limit=100)["commits"]}
    person_there.call("gc")
    return {commit: message for commit, message in before.items() if commit not in after}


def second_life(daemon: DaemonProcess, root: Path) -> dict[str, Any]:
    """Calls of which only the journal knows; by session: what was asked and how it was answered."""
    calls = {
        "conv-1": ("patch", replace("a.py", "return 2", "return 22", request_id="journalled")),
        "conv-2": ("patch", overwrite("new/b.txt", "b\r\nß\r\n", request_id="new")),
    }
    answered: dict[str, Any] = {}
    for session, (method, params) in calls.items():
        client = greeted(daemon, root, session, **SESSIONS[session])
        answered[session] = [method, params, client.call(method, **params)]
    client = greeted(daemon, root, "conv-1")
    client.call("clipboard_set", name="late", text="in the journal")
    killed = ("apply_patch", {"input": TWO_FILES, "request_id": "killed"})
    try:
        client.call(killed[0], **killed[1])
    except ConnectionEnded:
        daemon.wait()
    else:
        raise AssertionError("the daemon was not killed in the middle of the call")
    stored = ["patch", replace("private/key", "old", "new", request_id="stored"), None]
    return {
        "journalled": ["conv-1", *answered["conv-1"]],
        "new": ["conv-2", *answered["conv-2"]],
        "killed": ["conv-1", *killed, None],
        "stored": ["conv-2", *stored],
    }


def cut(base: Path) -> None:
    """The workspace ``old``, whose beginning retention has dropped."""
    names = (str(base / name) for name in ("run", "state", "c.toml"))
    (base / "run").mkdir(mode=0o700)
    (base / "state").mkdir(mode=0o700)
    os.environ["STET_BOOT_ID"] = BOOT
    daemon = InProcess(
        Settings(gc_idle_s=0, log_level="error", retention_days=1), Directories(*names)
    )
    asyncio.run(_grow(daemon, base / "old"))
    choosing._SELDOM_S = 0  # however few they are
    [workspace] = daemon.writer.state.open.values()
    vars(choosing)["time"] = SimpleNamespace(time=lambda: time.time() + _DAY_S - 1.5)
    daemon.wait_for(retain(daemon.writer, workspace, Progress()))
    daemon.close()
    assert list((base / "state" / "workspaces").glob("old-*/shallow"))
    shutil.rmtree(base / "run")


async def _grow(daemon: InProcess, root: Path) -> None:
    there = daemon.connect(control=True, peer=own_peer("builder"))
    await there.call("workspace_allow", {"root": str(root)})
    agent = daemon.connect(control=False, peer=own_peer("builder"))
    hello = {"protocol": 1, "workspace": str(root), "session": "s", "agent": "builder"}
    await agent.call("hello", hello)
    for number in range(6):
        await agent.call("patch", overwrite("a.py", f"old {number}\n"))
        await asyncio.sleep(0.7)


def pack(archive: Path, base: Path, expected: dict[str, Any]) -> None:
    """Write the archive. Indexes are derived and made anew; locks and sockets are nobody's."""
    (base / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True))

    def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        derived = info.name.startswith("state/index") or info.name == "state/stetd.lock"
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if derived else info

    with tarfile.open(archive, "w:xz") as file:
        for name in ("expected.json", "state", "w", "old"):
            file.add(base / name, name, filter=kept)
    shutil.rmtree(base)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
