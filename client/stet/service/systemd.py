"""Calls ``systemctl --user``."""

from __future__ import annotations

import os
import shutil
import subprocess

from stet.errors import StetError

#: Seconds that systemctl may take: the service may have to stop and start again.
_JOB_S = 150


class NoUserManager(StetError):
    """No ``systemd --user`` manager can be reached; clients start the daemon."""

    KIND = "no_service_manager"


class UnitTrouble(StetError):
    """systemctl failed; the message has its output."""


def why_not() -> str | None:
    """Why no user manager can be reached; None if one can."""
    if shutil.which("systemctl") is None:
        return "there is no systemctl on this machine"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        return "XDG_RUNTIME_DIR is not set, so no user manager can be found"
    if not os.path.exists(os.path.join(runtime, "systemd", "private")):
        return f"no systemd user manager runs ({runtime}/systemd/private is missing)"
    return None


def systemctl(*arguments: str) -> str:
    """The output of ``systemctl --user``. Raises UnitTrouble with its error output."""
    command = ["systemctl", "--user", "--no-pager", "--no-ask-password", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_JOB_S, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnitTrouble(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        raise UnitTrouble(f"systemctl --user {' '.join(arguments)}: {said}")
    return done.stdout


def properties(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit, as systemd prints them; "" for those that it does not print."""
    printed = systemctl("show", "--property", ",".join(names), unit)
    found = dict(line.partition("=")[::2] for line in printed.splitlines() if "=" in line)
    return {name: found.get(name, "") for name in names}
