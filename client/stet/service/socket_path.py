"""The paths of the daemon's sockets, state and configuration (docs/sockets.md).

    runtime   $STET_RUNTIME_DIR, else $XDG_RUNTIME_DIR/stet, else /tmp/stet-<uid>
              holds agent.sock and control.sock; mode 0700, owned by the user
    state     $STET_STATE_DIR, else $XDG_STATE_HOME/stet, else ~/.local/state/stet
    config    $STET_CONFIG, else $XDG_CONFIG_HOME/stet/config.toml, else
              ~/.config/stet/config.toml

An empty variable counts as unset, and a relative XDG_* variable is ignored, as the XDG base
directory specification requires. A relative STET_* path is relative to the current directory.
Client and daemon both use this module, so that they agree. It opens no socket.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping

AGENT_SOCKET = "agent.sock"
CONTROL_SOCKET = "control.sock"

#: ``sun_path`` of a Unix socket address holds 108 bytes, the last one a NUL.
LONGEST_SOCKET_PATH = 107


class UnsafeDirectory(Exception):
    """A directory that another user could change, or that can't hold a socket. The message says
    what to do; ``mend`` is the command that repairs it, if one command does.
    """

    def __init__(self, message: str, mend: str | None = None) -> None:
        super().__init__(message)
        self.mend = mend


def runtime_directory(environ: Mapping[str, str] = os.environ) -> str:
    """The directory of the sockets, absolute; it need not exist."""
    own = environ.get("STET_RUNTIME_DIR")
    if own:
        return os.path.abspath(own)
    base = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base):
        return os.path.join(base, "stet")
    # Another user could create this path first, so check_private() checks owner and mode before
    # anything in it is trusted.
    return f"/tmp/stet-{os.getuid()}"  # noqa: S108


def state_directory(environ: Mapping[str, str] = os.environ) -> str:
    """The directory of the journal, the shadow repositories and the log, absolute."""
    own = environ.get("STET_STATE_DIR")
    if own:
        return os.path.abspath(own)
    return os.path.join(xdg_directory(environ, "XDG_STATE_HOME", ".local/state"), "stet")


def config_path(environ: Mapping[str, str] = os.environ) -> str:
    """The configuration file, absolute; it need not exist."""
    own = environ.get("STET_CONFIG")
    if own:
        return os.path.abspath(own)
    return os.path.join(config_home(environ), "stet", "config.toml")


def config_home(environ: Mapping[str, str]) -> str:
    """The directory of a user's configuration files, absolute."""
    return xdg_directory(environ, "XDG_CONFIG_HOME", ".config")


def xdg_directory(environ: Mapping[str, str], variable: str, default: str) -> str:
    """The directory that the variable names, else ``default`` in the home directory; absolute."""
    base = environ.get(variable, "")
    home = environ.get("HOME") or os.path.expanduser("~")
    return base if os.path.isabs(base) else os.path.join("/", home, default)


def socket_path(directory: str, *, control: bool) -> str:
    """The path of the control or agent socket in a runtime directory."""
    return os.path.join(directory, CONTROL_SOCKET if control else AGENT_SOCKET)


def quoted(path: str) -> str:
    """A path in a printed shell command; always in quotes, so that its end is visible."""
    return "'" + path.replace("'", "'\"'\"'") + "'"


def check_private(directory: str) -> None:
    """Check that a directory is private to the user.

    Raises UnsafeDirectory unless it is a real directory (no symlink), owned by the effective user,
    of mode 0700, and short enough for socket paths in it; FileNotFoundError if it does not exist.
    """
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a directory"
        mend = f"rm {quoted(directory)}"
        raise UnsafeDirectory(f"{directory} is {what}. Remove it: {mend}", mend)
    if found.st_uid != os.geteuid():
        raise UnsafeDirectory(
            f"{directory} belongs to user id {found.st_uid}, not to you ({os.geteuid()}). "
            "Set STET_RUNTIME_DIR to a directory of your own."
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        mend = f"chmod 700 {quoted(directory)}"
        raise UnsafeDirectory(
            f"{directory} has mode {stat.S_IMODE(found.st_mode):04o} where 0700 is needed: "
            f"others could reach the sockets in it. Run: {mend}",
            mend,
        )
    longest = len(os.fsencode(os.path.join(directory, CONTROL_SOCKET)))
    if longest > LONGEST_SOCKET_PATH:
        raise UnsafeDirectory(
            f"the socket path {directory}/{CONTROL_SOCKET} is {longest} bytes long and may be "
            f"{LONGEST_SOCKET_PATH} at most. Set STET_RUNTIME_DIR to a shorter directory."
        )


def check_owner(path: str, info: os.stat_result, directory: str) -> None:
    """Raise UnsafeDirectory unless ``path``, in a state directory or itself one, is the user's."""
    if info.st_uid == os.geteuid():
        return
    as_root = "sudo " if os.geteuid() else ""
    mend = f"{as_root}chown -R {os.geteuid()} {quoted(directory)}"
    raise UnsafeDirectory(
        f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). If it is yours, "
        f"run: {mend}. If not, set STET_STATE_DIR to a directory of your own.",
        mend,
    )


def make_above(directory: str) -> None:
    """Create the missing parents of a directory; whatever the umask, only the user may write.

    Raises UnsafeDirectory if root would create something in another user's directory.
    """
    if not os.path.lexists(directory):
        refuse_root_elsewhere(directory)
    parent = os.path.dirname(directory)
    if not os.path.isdir(parent):
        make_above(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, 0o755)


def refuse_root_elsewhere(directory: str) -> None:
    """Raise UnsafeDirectory for root in a user's directory: with sudo, HOME may be that user's."""
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    owner = os.stat(directory).st_uid
    if os.geteuid() == 0 and owner != 0:
        raise UnsafeDirectory(
            f"{directory} belongs to user id {owner}, and root makes nothing there, which that "
            "user could not use. Run stet as that user, or with root's own HOME: sudo -H."
        )


def make_private(directory: str) -> None:
    """Create a directory if it is missing, then check_private()."""
    make_missing(directory)
    check_private(directory)


def make_missing(directory: str) -> None:
    """Create a directory if it is missing, never wider than mode 0700."""
    make_above(directory)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)  # the umask may have removed the user's own permissions
