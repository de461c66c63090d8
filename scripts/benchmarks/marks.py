"""A daemon that notes where the time of its calls goes: ``python marks.py OUTPUT [--visible]``.

It is the daemon as it is, with some of its functions wrapped before it starts; the product has
nothing of this. When it ends, OUTPUT gets the seconds of each call by part, as JSON; what one part
spends in another is the other's. ``--visible`` makes a system call at the begin and the end of
each part, so that strace shows what lies between them.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

DECODE, QUEUE, ENCODE, LOG = "decode, rights", "queue, batch", "encode", "log line"
PLAN, SEAL, APPEND, SYNC = "planning", "seal", "journal append", "journal sync"
PUBLISH = "publish"
#: What is wrapped. A name that is gone is told; its time is then in the part around it.
WRAPPED = [
    (DECODE, "stetd.server.connection", "ClientConnection.buffer_updated"),
    (QUEUE, "stetd.engine.writer", "Writer._turn"),
    (PLAN, "stetd.engine.preparing", "Preparer.prepare"),
    (SEAL, "stetd.transaction.sealing", "seal"),
    (APPEND, "stetd.storage.journal", "Journal.append"),
    (SYNC, "stetd.storage.journal", "Journal.sync"),
    (PUBLISH, "stetd.engine.writer", "Writer._publish_all"),
    (ENCODE, "stet.wire.messages", "encode_result"),
    (ENCODE, "stetd.server.connection", "ClientConnection._send"),
    (LOG, "stetd.server.connection", "ClientConnection._log_call"),
]
#: How strace shows the mark that is made with :func:`_mark`.
MARK = re.compile(rb'access[at2]*\([^"]*"/mark([+-])([^"]*)"')


class Marks:
    """The seconds by part, one mapping a call: each begins when something is received."""

    def __init__(self, *, visible: bool) -> None:
        self.calls: list[dict[str, float]] = [{}]
        self.missing: list[str] = []
        self._visible = visible
        self._inner = threading.local()
        for part, module, name in WRAPPED:
            try:
                self._wrap(part, importlib.import_module(module), name)
            except (ImportError, AttributeError):
                self.missing.append(f"{module}.{name} ({part})")

    def _wrap(self, part: str, module: Any, name: str) -> None:
        *above, last = name.split(".")
        owner = functools.reduce(getattr, above, module)
        function = getattr(owner, last)
        wrapped = self._timed(part, function)
        setattr(owner, last, wrapped)
        for other in list(sys.modules.values()):  # who has imported it by name
            if getattr(other, last, None) is function:
                setattr(other, last, wrapped)

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            if part == DECODE:
                self.calls.append({})
            if self._visible:
                _mark("+", part)
            outer = getattr(self._inner, "seconds", 0.0)
            self._inner.seconds = 0.0
            begun = time.perf_counter()
            try:
                return function(*args, **named)
            finally:
                taken = time.perf_counter() - begun
                call = self.calls[-1]
                call[part] = call.get(part, 0.0) + taken - self._inner.seconds
                self._inner.seconds = outer + taken
                if self._visible:
                    _mark("-", part)

        return timed


def _mark(sign: str, part: str) -> None:
    os.access(f"/mark{sign}{part}", os.F_OK)


def main(output: str, *options: str) -> int:
    """Run the daemon until it is told to stop; the exit status."""
    importlib.import_module("stetd.daemon")
    marks = Marks(visible="--visible" in options)
    try:
        status: int = importlib.import_module("stetd.cli").main([])
    finally:
        with open(output, "w", encoding="utf-8") as file:
            json.dump({"calls": marks.calls, "missing": marks.missing}, file)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
