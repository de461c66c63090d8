"""Running a command under a ``systemd --user`` manager of its own, as an ordinary user.

``private_manager.sh`` has the namespaces; here is whether they can be had, and what of this
machine the user has to be able to read: the checkout, this environment, its interpreter.
"""

from __future__ import annotations

import compileall
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

#: The exit status by which a command says that something can't be had here.
SKIPPED = 77

TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = TESTS.parent
_MANAGER = "/lib/systemd/systemd"
_HIERARCHIES = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")


class Skipped(Exception):
    """A command said that what it needs can't be had here; the message is its last line."""


def why_not() -> str | None:
    """Why no manager can be run here; None if one can."""
    if os.geteuid() != 0:
        return "a private systemd --user takes root"
    for program in ("unshare", "setpriv", "systemctl", _MANAGER):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    group = cgroup2()
    if group is None:
        return "there is no cgroup v2 hierarchy"
    if not _is_writable(group):
        return f"{group} can't be written"
    made = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--cgroup", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return made.stderr.strip() or None


def cgroup2() -> str | None:
    """Where the cgroup v2 hierarchy is mounted."""
    for hierarchy in _HIERARCHIES:
        if os.path.exists(os.path.join(hierarchy, "cgroup.procs")):
            return hierarchy
    return None


def _is_writable(group: str) -> bool:
    probe = os.path.join(group, f"stet-probe.{os.getpid()}")
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return True


def run(*command: str, seconds: float, readable: tuple[Path, ...] = ()) -> str:
    """What a command of the private user prints. AssertionError, with all it said, if it fails."""
    group = cgroup2()
    assert group is not None, "BUG: why_not() was not asked"
    here = {CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), *readable}
    script = str(Path(__file__).with_name("private_manager.sh"))
    done = subprocess.run(
        ["bash", script, *sorted(map(str, here)), "--", *command],
        env={"PATH": os.environ["PATH"], "STET_CGROUP2": group},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == SKIPPED:
        raise Skipped(done.stdout.strip().rpartition("\n")[2])
    assert done.returncode == 0, done.stdout
    return done.stdout


def python(*arguments: str, seconds: float, **environ: str) -> str:
    """What this interpreter prints there, with the tests' packages to be imported."""
    _compile()
    variables = {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1", **environ}
    given = [f"{name}={value}" for name, value in variables.items()]
    return run("env", *given, sys.executable, *arguments, seconds=seconds)


@functools.cache
def _compile() -> None:
    """Once, here: the private user may not write into the checkout, and starts many processes."""
    for part in ("client", "daemon", "tests/service"):
        compileall.compile_dir(CHECKOUT / part, quiet=2)
