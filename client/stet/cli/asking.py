"""Sessions and calls of the commands: who asks, on which socket, and with what printed.

Edits are made as an agent, on ``agent.sock``, with ``--session`` or $STET_SESSION and ``--agent``
or $STET_AGENT (both "cli" if nothing is said) and $STET_SECRET. Everything else is the person's
and goes to ``control.sock``. The workspace is the one around the directory where ``stet`` runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import msgspec

import stet
from stet.calls import Call
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.session.methods import TIMEOUT
from stet.terminal.spans import Line

T = TypeVar("T")

_STEPS = re.compile(r"(?P<base>[^~^]+)(?P<steps>(?:~\d*|\^)+)")
_STEP = re.compile(r"~(\d*)|\^")
#: Seconds of silence after which the person is told of it.
_SILENT_S = 5.0


def agent(arguments: Arguments) -> stet.Session:
    """A session on agent.sock, for commands that do what agents do."""
    return _opened(
        arguments.directory,
        session=arguments.session or os.environ.get("STET_SESSION") or "cli",
        agent=arguments.agent or os.environ.get("STET_AGENT") or "cli",
        secret=os.environ.get("STET_SECRET") or None,
    )


def person(
    arguments: Arguments,
    *,
    workspace: bool = True,
    session: str | None = None,
    timeout: float | None = TIMEOUT,
    start: bool = True,
) -> stet.Session:
    """A session on control.sock; without ``workspace`` for what is no workspace's."""
    directory = arguments.directory if workspace else None
    return _opened(
        directory, session=session, agent="person", control=True, timeout=timeout, start=start
    )


def _opened(workspace: str | None, **options: Any) -> stet.Session:
    """What stet.connect() gives. A daemon that hangs takes the connection and says nothing."""
    with told_of_silence(_SILENT_S, "Ctrl-C ends that, and stet doctor says what to do."):
        return stet.connect(workspace, **options)


@contextlib.contextmanager
def told_of_silence(seconds: float, advice: str) -> Iterator[None]:
    """Tell the person, with ``advice``, that the daemon is waited for after so many seconds."""
    said = f"stet: no answer from the daemon for {seconds:.0f} s. It is waited for; {advice}"
    told = threading.Timer(seconds, print, [said], {"file": sys.stderr, "flush": True})
    told.daemon = True
    told.start()
    try:
        yield
    finally:
        told.cancel()


def ask(session: stet.Session, call: Call[T], output: Output, **more: Any) -> T | None:
    """Carry out a call. With --json its result is printed as it came, with ``more`` fields, and
    None returned.
    """
    if not output.as_json:
        return session.perform(call)
    # As plain values, so that what a newer daemon adds to a result is printed too.
    untyped = cast("Call[Any]", msgspec.structs.replace(call, result=object))
    result = session.perform(untyped)
    output.value({**result, **more} if more else result)
    return None


def show(
    session: stet.Session,
    call: Call[T],
    output: Output,
    lines: Callable[[T], Iterable[Line]],
    *,
    long: bool = False,
) -> None:
    """Carry out one call in a session for it alone, and print its result as JSON or lines."""
    with session:
        result = ask(session, call, output)
    if result is not None:
        output.lines(lines(result), long=long)


def can_ask() -> bool:
    """Whether there is a person who sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def agreed(question: str, otherwise: str = "Nothing was changed.") -> bool:
    """Whether the person at the terminal says yes. Raises UsageError if there is none."""
    if not can_ask():
        raise UsageError("nothing was done: there is no terminal to ask on. Add --yes")
    print(f"{question} [y/N] ", end="", flush=True)
    yes = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not yes and otherwise:
        print(otherwise)
    return yes


def commit_named(session: stet.Session, word: str) -> str:
    """A commit as people write it (``@``, ``HEAD^``, ``4f3c^~2``), as the daemon takes it.

    Raises StetError for a name that is no pin, UsageError for a path of the history.
    """
    found = _STEPS.fullmatch(word)
    base, steps = found.groups() if found else (word, "")
    base = "HEAD" if base == "@" else base
    if not re.fullmatch("HEAD|[0-9a-f]{4,40}", base):
        _check_pin(session, base)
    count = sum(1 if each[1] is None else int(each[1] or 1) for each in _STEP.finditer(steps))
    return f"{base}~{count}" if count else base


def _check_pin(session: stet.Session, name: str) -> None:
    try:
        session.show(name)
    except stet.UnknownCommit as error:
        try:
            edits = session.log(name, limit=1).commits
        except stet.StetError:  # no path, either
            edits = []
        if not edits:
            raise
        import shlex

        path = shlex.quote(name)
        raise UsageError(
            f"{name} is a path and no commit. To undo its newest edit: stet undo --last 1 --path "
            f"{path}; to make a file what it was: stet restore {path} --at COMMIT; what differs: "
            f"stet diff -- {path}; its edits: stet log {path}"
        ) from error
