"""``stet watch``: edits as they happen, until Ctrl-C; and ``stet ui``.

    my-agent/conv-1
    14:03:22  4f3c2a1b  src/a.py  + return "hello, " + name  +3 -1
                        why it was done
    ...and the beginning of the diff
    14:03:40  session conv-1 is now restricted
    14:05:12  my-agent/conv-1 asks for write access: the tests need it
              stet approve 4f3c2a1b9d0e, or stet deny 4f3c2a1b9d0e

Times are local; without a terminal, or with ``--dates iso``, they are in RFC 3339. ``--json``
prints one event per line, as the daemon sends it. The watch survives restarts of the daemon and
misses no commit: those that the terminal can't take in time are read from the log.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

import msgspec

import stet
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.session.event_stream import EventStream
from stet.terminal.log_lines import NARROW, Burst, edit_lines, entry, is_first_seen
from stet.terminal.spans import Line, Span, name_style, named, short, until, visible, who
from stet.wire.events import AnyEvent, CommitEvent, LostEvent, ModeEvent, UpgradeRequestEvent
from stet.wire.results import CommitInfo

#: Seconds between checks that the daemon is still connected.
_POLL_S = 1.0
_INDENT = " " * 10


def watch(arguments: Arguments, output: Output) -> None:
    """Print events as they happen, until the person presses Ctrl-C."""
    if arguments.lines < 0:
        raise UsageError("--lines is how many lines of a diff are shown at most; 0 is none")
    try:
        with asking.person(arguments) as session, session.events() as events:
            if not output.as_json and output.terminal:
                root = visible(session.workspace or "")
                _tell(output, [(Span(f"watching {root}; Ctrl-C ends it", "dim"),)])
            _follow(arguments, output, events)
    except KeyboardInterrupt:
        if output.terminal:
            print()


def _follow(arguments: Arguments, output: Output, events: EventStream) -> None:
    # A second session for diffs. It must not restart a daemon that somebody has stopped.
    with stet.connect(arguments.directory, control=True, start=False, timeout=10) as session:
        connected = True
        last: CommitInfo | None = None
        while True:
            event = events.wait(_POLL_S)
            if events.connected != connected and not output.as_json:
                connected = events.connected
                said = "the daemon is back" if connected else "the daemon is gone; waiting for it"
                _tell(output, [(Span(f"{_clock(output)}  {said}", "dim"),)])
            if event is not None and _is_wanted(event, arguments):
                if output.as_json:
                    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
                    sys.stdout.flush()
                elif isinstance(event, CommitEvent):
                    diff = _diff_of(event.commit, session)
                    _tell(output, _commit_lines(event.commit, output, diff, arguments.lines, last))
                    last = event.commit
                else:
                    _tell(output, _event_lines(event, output))


def _is_wanted(event: AnyEvent, arguments: Arguments) -> bool:
    if isinstance(event, LostEvent):
        return True
    about = event.commit if isinstance(event, CommitEvent) else event
    return arguments.session in (None, about.session) and (
        arguments.agent in (None, getattr(about, "agent", None))
    )


def _diff_of(commit: CommitInfo, session: stet.Session) -> str:
    """The diff of a commit; empty if the daemon is away, or if the commit first records a file."""
    with suppress(stet.StetError):
        if not is_first_seen(commit):
            return session.show(commit.commit).diff
    return ""


def _commit_lines(
    commit: CommitInfo, output: Output, diff: str, lines: int, last: CommitInfo | None
) -> Iterator[Line]:
    """A commit as ``log`` shows it, with its time, and the first lines of its diff.

    ``last``: the commit before it. A burst has one heading.
    """
    time, width = _clock(output, commit.time), output.width
    if width is not None and width >= NARROW:
        burst = Burst([commit])
        if last is None or not burst.takes(last):
            yield (burst.name(),)
        for line in edit_lines(commit, diff, width - len(time)):
            yield (Span(time, "dim"), *line)
            time = " " * len(time)
    else:
        head = (
            Span(f"{time}  ", "dim"),
            Span(f"{short(commit.commit)}  ", "yellow"),
            Span(who(commit), name_style(commit.agent, commit.session)),
            Span("  "),
        )
        if width is None:
            yield from entry(commit, head, _INDENT, 20_000)
        else:
            yield from entry(commit, head, "  ", max(width, 22), below=True)
    shown = list(islice(output.diff(diff, titles=len(commit.files) > 1), lines + 1))
    yield from shown[:lines]
    if len(shown) > lines > 0:
        yield (Span(f"{_INDENT}... stet show {short(commit.commit)} has all of it", "dim"),)
    if shown[:lines]:
        yield ()


def _event_lines(event: AnyEvent, output: Output) -> Iterator[Line]:
    """An event that is no commit, in one line; for a request also the commands that decide it."""
    clock = Span(f"{_clock(output)}  ", "dim")
    if isinstance(event, ModeEvent):
        of = "the workspace" if event.session is None else f"session {event.session}"
        style = "bold red" if event.mode == "restricted" else "bold green"
        end = Span(until(event.until, output.now))
        yield (clock, Span(visible(f"{of} is now ")), Span(event.mode, style), end)
    elif isinstance(event, UpgradeRequestEvent):
        name = Span(named(event.agent, event.session), name_style(event.agent, event.session))
        if event.status == "pending":
            why = f": {visible(event.reason)}" if event.reason else ""
            yield (clock, name, Span(f" asks for write access{why}", "bold yellow"))
            request = visible(event.request)
            yield (Span(f"{_INDENT}stet approve {request}, or stet deny {request}", "dim"),)
        else:
            note = f": {visible(event.note)}" if event.note else ""
            yield (clock, Span("request of "), name, Span(f" {visible(event.status)}{note}"))
    else:
        assert isinstance(event, LostEvent), "BUG: an event of no known kind"
        count = "some" if event.count is None else f"{event.count:,}"
        yield (clock, Span(f"{count} events were left out; stet log has the commits", "yellow"))


def _clock(output: Output, time: str | None = None) -> str:
    """A time of the daemon, or now, as local time of day; in RFC 3339 if times are absolute."""
    now = datetime.datetime.now(datetime.UTC)
    if output.now is None:
        return visible(time) if time else now.strftime("%Y-%m-%dT%H:%M:%SZ")
    moment = now if time is None else datetime.datetime.fromisoformat(time)
    return moment.astimezone().strftime("%H:%M:%S")


def _tell(output: Output, lines: Iterable[Line]) -> None:
    output.lines(lines)
    sys.stdout.flush()


# -- full screen


def ui(arguments: Arguments, output: Output) -> int:
    """Show the history until the person leaves; 1 if that fails."""
    if output.as_json:
        raise UsageError("stet ui is for people; stet log --json and stet watch --json are not")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # what textual reads and writes
        raise UsageError("ui needs a terminal; stet log does not")
    try:
        from stet.ui.app import HistoryApp
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("textual"):
            raise
        raise UsageError(
            "stet ui needs the Python package textual. In the checkout of stet, as it was "
            "installed: pip install '.[ui]', uv tool install '.[ui]', pipx install --force '.[ui]'"
        ) from error
    asking.person(arguments).close()  # so that a refusal is printed like any command's
    app = HistoryApp(arguments.directory, light=output.colours.light)
    app.run()
    return app.return_code or 0
