r"""Sessions, and requests for write access, as lines for people.

    conv-1  my-agent  3 min ago  12 commits  restricted

    4f3c2a1b9d0e  3 min ago  my-agent/conv-1
      /home/me/project
      the tests in tests/unit need the new signature

A decided request shows the decision, its time and the note. The reason is an agent's text: control
characters are spelled out, and it is wrapped and indented, so that it can't imitate other output.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from stet.terminal.spans import (
    Line,
    Span,
    aligned,
    columns,
    name_style,
    named,
    plural,
    shortened,
    until,
    visible,
    when,
)
from stet.wire.results import EndedSession, SessionInfo, UpgradeInfo

_INDENT = "  "
#: Lines of a reason that are shown.
_MOST_LINES = 12
_STYLES = {"approved": "bold green", "denied": "bold red"}


def requests(
    found: Sequence[UpgradeInfo], now: datetime.datetime | None, width: int | None
) -> Iterator[Line]:
    """Some lines per request; ``width``: the terminal's columns, None without a terminal."""
    for request in found:
        time, where = when(request.time, now), visible(request.workspace)
        name = named(request.agent, request.session)
        if width is not None:
            name = shortened(name, max(8, width - len(request.request) - columns(time) - 4))
            where = shortened(where, max(8, width - len(_INDENT)))
        yield (
            Span(visible(request.request), "yellow"),
            Span(f"  {time}  ", "dim"),
            Span(name, name_style(request.agent, request.session)),
        )
        yield (Span(_INDENT + where, "dim"),)
        for line in reason_lines(request.reason, width):
            yield (Span(_INDENT + line),)
        if request.status != "pending":
            decided = f" {when(request.decided, now)}" if request.decided else ""
            end = f",{until(request.until, now)}" if request.until else ""
            note = f": {visible(request.note)}" if request.note else ""
            status = Span(visible(request.status), _STYLES.get(request.status, ""))
            yield (Span(_INDENT), status, Span(f"{decided}{end}{note}"))


def reason_lines(reason: str, width: int | None) -> list[str]:
    """The reason, with control characters spelled out, wrapped to the terminal."""
    from textwrap import wrap  # few commands need it

    room = max(20, (width or 10_000) - len(_INDENT))
    lines = [visible(line) for line in reason.split("\n")]
    wrapped = [part for line in lines for part in (wrap(line, room) or [""])]
    while wrapped and not wrapped[-1]:
        wrapped.pop()
    if len(wrapped) > _MOST_LINES:
        wrapped[_MOST_LINES - 1 :] = ["…"]
    return wrapped


def decided(request: UpgradeInfo, now: datetime.datetime | None) -> Iterator[Line]:
    """The lines for a request that was decided just now."""
    said = "stays restricted"
    if request.status == "approved":
        said = f"may write{until(request.until, now)}"
    yield (
        Span(named(request.agent, request.session), "bold"),
        Span(f" {said}  ("),
        Span(visible(request.workspace), "dim"),
        Span(")"),
    )


def sessions(
    found: Sequence[SessionInfo], now: datetime.datetime | None, *, where: bool
) -> Iterator[Line]:
    """One line per session; ``where``: with its workspace."""
    indent = "  " if where else ""
    for root in sorted({session.workspace for session in found}):
        own = [session for session in found if session.workspace == root]
        own.sort(key=lambda session: session.last_seen, reverse=True)
        if where:
            yield (Span(visible(root), "bold"),)
        rows = [
            (
                Span(f"{indent}{visible(each.session)}", name_style(each.agent, each.session)),
                Span(f"  {visible(each.agent or '')}"),
                Span(f"  {when(each.last_seen, now)}", "dim"),
                Span(f"  {plural(each.commits, 'commit')}"),
                _unusual_mode(each),
            )
            for each in own
        ]
        for session, row in zip(own, aligned(rows), strict=True):
            yield (*row, Span(until(session.until, now), "dim"))


def _unusual_mode(session: SessionInfo) -> Span:
    """The mode, if it is restricted or will end. A line with a UUID fits into 80 columns so."""
    if session.mode == "restricted":
        return Span("  restricted", "bold yellow")
    return Span(f"  {session.mode}" if session.until else "")


def ended(result: EndedSession) -> Iterator[Line]:
    """What ended with a session, and the mode of a new session of its name."""
    gone = [plural(result.clipboards, "clipboard")] if result.clipboards else []
    gone += [f"request {visible(result.request)}"] if result.request else []
    lost = f" {' and '.join(gone)} went with it;" if gone else ""
    yield (Span(visible(result.session), "bold"), Span(f" is ended;{lost} what it did stays."))
    yield (Span(f"A new session of this name is {visible(result.next_mode)}.", "dim"),)
