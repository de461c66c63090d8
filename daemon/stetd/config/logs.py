"""Format and destination of the daemon's log.

At level info there is one line for each call: caller, method, duration, result. Warnings and errors
are sentences. File contents are never logged; paths only if they are the daemon's or in trouble.

- Under systemd ($JOURNAL_STREAM) each record goes to journald in its native protocol. The fields
  of a call are STET_METHOD, STET_SESSION and so on: ``journalctl --user STET_SESSION=conv-1``.
  A record that journald does not accept goes to standard error with its priority (``<3>``).
- Otherwise each record is a line on standard error: time (UTC), severity, logger, message, with
  the fields of a call as ``key=value``.

Names that others choose (agents, sessions, commands) are quoted and control characters escaped, so
that nobody can forge a line of the log.
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
from contextlib import suppress
from functools import lru_cache
from typing import TextIO

import msgspec

from stet.wire.results import LoggedError

JOURNAL_SOCKET = "/run/systemd/journal/socket"

#: A datagram larger than the socket's buffer would be refused.
_MAX_VALUE_BYTES = 16 * 1024
_UNQUOTED = re.compile(r"[a-zA-Z0-9_./:@+?-]+")
#: Logging levels to priorities of syslog(3).
_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}


class Fields(msgspec.Struct, frozen=True):
    """Structured fields of a record: ``log.info("call %s", Fields({..}))``."""

    values: Mapping[str, str | int | float | None]

    def __str__(self) -> str:
        """``key=value`` separated by spaces; values are quoted if necessary."""
        known = {key: value for key, value in self.values.items() if value is not None}
        return " ".join(f"{key}={_quoted(str(value))}" for key, value in known.items())


def one_line(text: str) -> str:
    """The text with all unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@lru_cache(maxsize=1024)
def _quoted(value: str) -> str:
    if _UNQUOTED.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{one_line(escaped)}"'


class LineFormatter(logging.Formatter):
    """A record as one line, and a traceback as indented lines; ``with_time``: and level, logger."""

    def __init__(self, *, with_time: bool) -> None:
        super().__init__()
        self._with_time = with_time

    def format(self, record: logging.LogRecord) -> str:
        """The line or lines of a record."""
        lines = [one_line(record.getMessage())]
        if self._with_time:
            when = f"{_format_second(int(record.created))}.{int(record.msecs):03}Z"
            lines[0] = f"{when} {record.levelname} {record.name}: {lines[0]}"
        if record.exc_info and record.exc_info[1] is not None:
            lines += _traceback_lines(record.exc_info[1])
        return "\n".join(lines)


@lru_cache(maxsize=2)
def _format_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _traceback_lines(error: BaseException) -> list[str]:
    """The traceback and type of an exception. Not its message, which may quote file contents."""
    lines = [
        f"  | {one_line(frame.filename)}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    words = f": {one_line(error.strerror or '')}" if isinstance(error, OSError) else ""
    lines.append(f"  | {type(error).__name__}{words}")
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines if earlier is None else [*_traceback_lines(earlier), *lines]


class JournalHandler(logging.Handler):
    """Sends records to journald, or to ``fallback`` if journald does not accept them."""

    def __init__(self, address: str, fallback: TextIO) -> None:
        super().__init__()
        self._address = address
        self._fallback = fallback
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.setFormatter(LineFormatter(with_time=False))

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. Never raises: without a log the daemon still works."""
        text = self.format(record)
        priority = next((p for level, p in _PRIORITIES.items() if level <= record.levelno), 7)
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
            with suppress(OSError):  # journald reads standard error, too, and may have ended
                print(lines, file=self._fallback, flush=True)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()


def _field(item: tuple[str, str]) -> bytes:
    """A field in journald's binary form, which allows newlines in the value."""
    key, value = item
    data = value.encode(errors="replace")[:_MAX_VALUE_BYTES]
    return b"%s\n%s%s\n" % (key.encode(), len(data).to_bytes(8, "little"), data)


class LastError(logging.Handler):
    """Remembers the newest error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.newest: LoggedError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the record."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        self.newest = LoggedError(when, one_line(record.getMessage()))


def is_journal(stream: TextIO) -> bool:
    """Whether systemd has connected this stream to the journal."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def set_up(level: str) -> LastError:
    """Set up logging at a level. Returns the handler that remembers the newest error."""
    handler: logging.Handler
    if is_journal(sys.stderr):
        handler = JournalHandler(JOURNAL_SOCKET, sys.stderr)
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LineFormatter(with_time=True))
    last = LastError()
    # No line has its thread, process or source line: finding them takes a third of the time.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging)["_srcfile"] = None
    logging.basicConfig(level=level.upper(), handlers=[handler, last])
    return last
