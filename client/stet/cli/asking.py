"""Opens the commands' sessions, performs their calls, and prints the results.

Edits are made as an agent on ``agent.sock``, with ``--session`` or $STET_SESSION, ``--agent`` or
$STET_AGENT (the default of both is "cli") and $STET_SECRET. All other calls are the person's, on
``control.sock``. The workspace is the one that contains the directory where ``stet`` runs.
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
from stet.terminal.spans import Line, typed

T = TypeVar("T")

#: Seconds without an answer after which the person is told.
_SILENT_S = 5.0


def agent(arguments: Arguments) -> stet.Session:
    """Open a session on agent.sock, for commands that act as an agent."""
    return _connect(
        arguments,
        arguments.directory,
        session=arguments.session or os.environ.get("STET_SESSION") or "cli",
        agent=arguments.agent or os.environ.get("STET_AGENT") or "cli",
        secret=os.environ.get("STET_SECRET") or None,
    )


def person(arguments: Arguments, *, workspace: bool = True, **options: Any) -> stet.Session:
    """Open a session on control.sock; ``workspace`` is False for calls that concern none."""
    directory = arguments.directory if workspace else None
    return _connect(arguments, directory, agent="person", control=True, **options)


def _connect(arguments: Arguments, workspace: str | None, **options: Any) -> stet.Session:
    """Call stet.connect(). A daemon that hangs accepts the connection, but does not answer."""
    with notice_if_silent(_SILENT_S, "Ctrl-C ends that, and stet doctor says what to do."):
        session = stet.connect(workspace, **options)
    arguments.root = session.workspace  # which the paths of errors are relative to
    return session


@contextlib.contextmanager
def notice_if_silent(
    seconds: float, advice: str, what: str = "no answer from the daemon for {:.0f} s"
) -> Iterator[None]:
    """Print a notice, with ``advice``, if the body takes longer than ``seconds``."""
    said = f"stet: {what.format(seconds)}. It is waited for; {advice}\n"
    # Not print(), which writes the newline separately: the process may exit in between.
    timer = threading.Timer(seconds, sys.stderr.write, [said])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def ask(session: stet.Session, call: Call[T], output: Output, **more: Any) -> T | None:
    """Perform a call and return its result. With --json, print the result unchanged, with the
    fields of ``more`` added, and return None.
    """
    if not output.as_json:
        return session.perform(call)
    # Untyped, so that fields that a newer daemon adds to a result are printed too.
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
    """Perform one call, print its result as JSON or lines, and close the session."""
    with session:
        result = ask(session, call, output)
    if result is not None:
        output.lines(lines(result), long=long)


def can_ask() -> bool:
    """Whether a person can see a question and answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, otherwise: str = "Nothing was changed.") -> bool:
    """Ask a yes-or-no question on the terminal. Raises UsageError if there is no terminal."""
    if not can_ask():
        raise UsageError("nothing was done: there is no terminal to ask on. Add --yes")
    print(f"{question} [y/N] ", end="", flush=True)
    yes = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not yes and otherwise:
        print(otherwise)
    return yes


def commit_named(session: stet.Session, word: str) -> str:
    """Convert a commit as people write it (``@``, ``HEAD^``, ``4f3c^~2``) to the daemon's syntax.

    Raises UsageError for the path of a recorded file, unless a pin has the same name.
    """
    found = re.fullmatch(r"([^~^]+)((?:~\d*|\^)+)", word)
    base, steps = found.groups() if found else (word, "")
    base = "HEAD" if base == "@" else base
    if not re.fullmatch("HEAD|[0-9a-f]{4,40}", base):
        _refuse_path(session, base)
    count = sum(int(each or 1) for each in re.findall(r"~(\d*)|\^", steps))
    return f"{base}~{count}" if count else base


def _refuse_path(session: stet.Session, name: str) -> None:
    try:
        edits = session.log(name, limit=1).commits
    except stet.StetError:  # it can be no path
        return
    if edits and all(pin.name != name for pin in session.pin_list().pins):
        path = typed(f"./{name}" if name.startswith("-") else name)
        raise UsageError(
            f"{name} is a path and no commit. To undo its newest edit: stet undo --last 1 --path "
            f"{path}; to make a file what it was: stet restore {path} --at COMMIT; what differs: "
            f"stet diff -- {path}; its edits: stet log {path}"
        )
