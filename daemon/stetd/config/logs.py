"""How the daemon's log looks, and where it goes.

A line a call at info: who, what, how long, with which result; warnings and errors in words.
Nothing of what files contain is ever in it, and of paths only those that the daemon works with or
that are in trouble.

- Under systemd ($JOURNAL_STREAM) each record goes to journald in its native protocol. The fields
  of a call are STET_METHOD, STET_SESSION and so on: ``journalctl --user STET_SESSION=conv-1``.
  If journald does not take it, it is a line on standard error with its priority (``<3>``).
- Otherwise a line on standard error: time (UTC), severity, part of the daemon, then the message,
  with the fields of a call as ``key=value``.

What others named (agents, sessions, commands) is quoted, and every control character is spelled
out, so that nobody can write lines that are not the daemon's.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from functools import lru_cache
from typing import TextIO

import msgspec

from stet.wire.results import LoggedError

JOURNAL_SOCKET = "/run/systemd/journal/socket"

#: A datagram of more than the socket's buffer would be refused.
_LONGEST_VALUE = 16 * 1024
_PLAIN = re.compile(r"[a-zA-Z0-9_./:@+?-]+")
_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}


class Fields(msgspec.Struct, frozen=True):
    """What a record says besides its words: ``log.info("call %s", Fields({..}))``."""

    values: Mapping[str, str | int | float | None]

    def __str__(self) -> str:
        """``key=value`` with spaces between; values are quoted where they need it."""
        known = {key: value for key, value in self.values.items() if value is not None}
        return " ".join(f"{key}={_quoted(str(value))}" for key, value in known.items())


def one_line(text: str) -> str:
    """The text with every character spelled out that is not printed as itself."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@lru_cache(maxsize=1024)
def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{one_line(escaped)}"'


class LineFormatter(logging.Formatter):
    """A record as one line, a stack as indented lines after it; the head has time and level."""

    def __init__(self, *, with_head: bool) -> None:
        super().__init__()
        self._with_head = with_head

    def format(self, record: logging.LogRecord) -> str:
        """The line, or lines."""
        lines = [one_line(record.getMessage())]
        if self._with_head:
            when = f"{_second(int(record.created))}.{int(record.msecs):03}Z"
            lines[0] = f"{when} {record.levelname} {record.name}: {lines[0]}"
        if record.exc_info and record.exc_info[1] is not None:
            lines += _stack(record.exc_info[1])
        return "\n".join(lines)


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _stack(error: BaseException) -> list[str]:
    """Where an exception came from. Not its message, which may quote what was being edited."""
    lines = [
        f"  | {one_line(frame.filename)}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    words = f": {one_line(error.strerror or '')}" if isinstance(error, OSError) else ""
    lines.append(f"  | {type(error).__name__}{words}")
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines if earlier is None else [*_stack(earlier), *lines]


class JournalHandler(logging.Handler):
    """Sends records to journald; to ``otherwise`` what it does not take."""

    def __init__(self, address: str, otherwise: TextIO) -> None:
        super().__init__()
        self._address = address
        self._otherwise = otherwise
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.setFormatter(LineFormatter(with_head=False))

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. Never raises: the daemon goes on without its log."""
        text = self.format(record)
        priority = priority_of(record.levelno)
        fields: dict[str, str] = {
            "MESSAGE": text,
            "PRIORITY": str(priority),
            "SYSLOG_IDENTIFIER": "stetd",
            "SYSLOG_PID": str(os.getpid()),
            "LOGGER": record.name,
        }
        for each in record.args or ():
            if isinstance(each, Fields):
                values = each.values.items()
                fields |= {f"STET_{k.upper()}": str(v) for k, v in values if v is not None}
        try:
            self._socket.sendto(b"".join(map(_field, fields.items())), self._address)
        except OSError:
            lines = "\n".join(f"<{priority}>{line}" for line in text.split("\n"))
            print(lines, file=self._otherwise, flush=True)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()


def _field(item: tuple[str, str]) -> bytes:
    """A field of journald, in the form that may have newlines in the value."""
    key, value = item
    data = value.encode(errors="replace")[:_LONGEST_VALUE]
    return b"%s\n%s%s\n" % (key.encode(), len(data).to_bytes(8, "little"), data)


def priority_of(level: int) -> int:
    """The priority of syslog(3) for a severity."""
    return next((number for known, number in _PRIORITIES.items() if known <= level), 7)


class LastError(logging.Handler):
    """Remembers the newest error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.newest: LoggedError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the record."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        self.newest = LoggedError(when, one_line(record.getMessage()))


def goes_to_journal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream is the one that systemd has connected to the journal."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def set_up(level: str) -> LastError:
    """Let everything that is logged go where it belongs; what remembers the newest error."""
    handler: logging.Handler
    if goes_to_journal(sys.stderr):
        handler = JournalHandler(JOURNAL_SOCKET, sys.stderr)
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LineFormatter(with_head=True))
    last = LastError()
    # No line says who logged it: looking that up is a third of what a line takes.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging)["_srcfile"] = None
    logging.basicConfig(level=level.upper(), handlers=[handler, last])
    return last
