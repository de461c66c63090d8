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

from stet.wire.results import LoggedError

JOURNAL_SOCKET = "/run/systemd/journal/socket"

#: A datagram larger than the socket's buffer would be refused.
_MAX_VALUE_BYTES = 16 * 1024
_UNQUOTED = re.compile(r"[a-zA-Z0-9_./:@+?-]+")
#: Logging levels to priorities of syslog(3).
_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}

_calls = logging.getLogger("stetd.calls")


class Fields:
    """Fields of a call that are not None. ``text``: ``key=value``, quoted if necessary."""

    def __init__(self, fields: Mapping[str, str | int | float | None]) -> None:
        self.values = {key: str(value) for key, value in fields.items() if value is not None}
        self.text = " ".join([f"{key}={_quoted(value)}" for key, value in self.values.items()])


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


class Log(logging.Handler):
    """Writes each record as a line with its time, level and logger, on a stream that flushes each
    line. It never raises: without a log the daemon still works.
    """

    #: The newest error.
    newest: LoggedError | None = None

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record: its message as one line, and its traceback as indented lines."""
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001 - the arguments do not fit: a defect
            message = f"{record.msg} ({type(error).__name__})"
        lines = [one_line(message)]
        if record.levelno >= logging.ERROR:
            self.newest = LoggedError(f"{_format_second(int(record.created))}Z", lines[0])
        if record.exc_info and record.exc_info[1] is not None:
            lines += _traceback_lines(record.exc_info[1])
        self.write(record.levelno, record.name, "\n".join(lines))

    def call(self, caller: Fields, answer: Fields) -> None:
        """Write the line of a call. A record of ``logging`` would take longer than a short call."""
        if _calls.isEnabledFor(logging.INFO):
            text = f"call {caller.text} {answer.text}"
            self.write(logging.INFO, _calls.name, text, caller, answer)

    def write(self, level: int, logger: str, text: str, *fields: Fields) -> None:  # noqa: ARG002
        """Write a line, or several with a traceback. ``fields``: of a call."""
        now = time.time()
        when = f"{_format_second(int(now))}.{int(now % 1 * 1000):03}Z"
        with suppress(OSError, ValueError):
            self._stream.write(f"{when} {logging.getLevelName(level)} {logger}: {text}\n")


class JournalLog(Log):
    """Sends records to journald, or to ``fallback`` if journald does not accept them."""

    def __init__(self, address: str, fallback: TextIO) -> None:
        super().__init__(fallback)
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def write(self, level: int, logger: str, text: str, *fields: Fields) -> None:
        """Send a datagram with all fields."""
        priority = next((p for known, p in _PRIORITIES.items() if known <= level), 7)
        pairs = {
            "MESSAGE": text,
            "PRIORITY": str(priority),
            "SYSLOG_IDENTIFIER": "stetd",
            "SYSLOG_PID": str(os.getpid()),
            "LOGGER": logger,
            **{f"STET_{k.upper()}": v for each in fields for k, v in each.values.items()},
        }
        try:
            self._socket.sendto(b"".join(map(_field, pairs.items())), self._address)
        except OSError:
            lines = "\n".join(f"<{priority}>{line}" for line in text.split("\n"))
            with suppress(OSError):  # journald reads standard error, too, and may have ended
                print(lines, file=self._stream, flush=True)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()


def _field(item: tuple[str, str]) -> bytes:
    """A field in journald's binary form, which allows newlines in the value."""
    key, value = item
    data = value.encode(errors="replace")[:_MAX_VALUE_BYTES]
    return b"%s\n%s%s\n" % (key.encode(), len(data).to_bytes(8, "little"), data)


def is_journal(stream: TextIO) -> bool:
    """Whether systemd has connected this stream to the journal."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def set_up(level: str) -> Log:
    """Set up logging at a level."""
    journald = is_journal(sys.stderr)
    log = JournalLog(JOURNAL_SOCKET, sys.stderr) if journald else Log(sys.stderr)
    # No line has its thread, process or source line: finding them takes a third of the time.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging)["_srcfile"] = None
    logging.basicConfig(level=level.upper(), handlers=[log])
    return log
