"""Joins a client's hooks and its MCP server: one conversation is one session.

A client tells the conversation to its hooks, but not to its MCP server (Gemini CLI), or only when
the server starts (Claude Code, which may begin another conversation in the same process). Hooks and
server are children of the client's process. So each hook writes a file for that process

    RUNTIME/clients/PID-START       {"session": "...", "agent": "..."}

and the server reads it before each call. START is the process's start time in clock ticks, because
pids are reused. A shell between client and child is skipped. Files of processes that have ended are
removed when one is added. Imports nothing that ``stet hook`` does not need.
"""

from __future__ import annotations

import contextlib
import json
import os

from stet.service.socket_path import UnsafeDirectory, check_private, make_private, runtime_directory

_DIRECTORY = "clients"
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish"))
_LONGEST = 4096


def join(session: str, agent: str) -> None:
    """Write, in a hook, which conversation the client's process holds now.

    Raises nothing: without the file the conversation is two sessions, and nothing is lost.
    """
    with contextlib.suppress(OSError, UnsafeDirectory):
        runtime = runtime_directory()
        path = os.path.join(runtime, _DIRECTORY, _client_process())
        data = json.dumps({"session": session, "agent": agent}).encode()
        if _read(path) == data:
            return
        make_private(runtime)
        directory = os.path.dirname(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        _remove_ended(directory)
        # Hooks may run at the same time; a reader must find one file or the other.
        fresh = f"{path}.{os.getpid()}"
        with open(fresh, "wb") as file:
            file.write(data)
        os.rename(fresh, path)


def joined() -> tuple[str, str] | None:
    """The session and agent that a hook of the same client has written; None if none has."""
    try:
        runtime = runtime_directory()
        check_private(runtime)
        found = json.loads(_read(os.path.join(runtime, _DIRECTORY, _client_process())) or b"{}")
        session, agent = found["session"], found["agent"]
    except (OSError, UnsafeDirectory, ValueError, KeyError, TypeError):
        return None
    return (session, agent) if isinstance(session, str) and isinstance(agent, str) else None


def _client_process() -> str:
    """The name of the client process's file. Raises OSError."""
    pid = os.getppid()
    command, parent, start = _stat(pid)
    return f"{parent}-{_stat(parent)[2]}" if command in _SHELLS else f"{pid}-{start}"


def _stat(pid: int) -> tuple[str, int, str]:
    """The command's name, the parent's pid and the start time of a process. Raises OSError."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        head, _, tail = file.read().rpartition(")")
    fields = tail.split()
    return head.partition("(")[2], int(fields[1]), fields[19]


def _read(path: str) -> bytes | None:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read(_LONGEST)
    return None


def _remove_ended(directory: str) -> None:
    for name in os.listdir(directory):
        pid, _, start = name.partition("-")
        ended = True
        with contextlib.suppress(OSError, ValueError):
            ended = _stat(int(pid))[2] != start.partition(".")[0]
        if ended:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
