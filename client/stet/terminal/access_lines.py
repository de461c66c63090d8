r"""Sessions, and requests for write access, as lines for people.

    conv-1  my-agent  3 min ago  12 edits  unrestricted

    4f3c2a1b9d0e  3 min ago  my-agent/conv-1
      /home/me/project
      the tests in tests/unit need the new signature

A decided request shows the decision, its time and the note. The reason is an agent's text: control
characters are spelled out, and it is wrapped and indented, so that it can't imitate other output.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import groupby

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
_STYLES = {"pending": "bold yellow", "approved": "bold green", "denied": "bold red"}


def requests(
    found: Sequence[UpgradeInfo], now: datetime.datetime | None, width: int | None
) -> Iterator[Line]:
    """Some lines per request; ``width``: the terminal's columns, None without a terminal."""
    for request in found:
        yield _head(request, now, width)
        where = visible(request.workspace)
        if width is not None:
            where = shortened(where, max(8, width - len(_INDENT)))
        yield (Span(_INDENT + where, "dim"),)
        for line in reason_lines(request.reason, width):
            yield (Span(_INDENT + line),)
        if request.status != "pending":
            yield (Span(_INDENT), *_decision(request, now))


def _head(request: UpgradeInfo, now: datetime.datetime | None, width: int | None) -> Line:
    time = when(request.time, now)
    name = named(request.agent, request.session)
    if width is not None:
        name = shortened(name, max(8, width - len(request.request) - columns(time) - 4))
    return (
        Span(visible(request.request), "yellow"),
        Span(f"  {time}  ", "dim"),
        Span(name, name_style(request.agent, request.session)),
    )


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


def _decision(request: UpgradeInfo, now: datetime.datetime | None) -> Line:
    time = f" {when(request.decided, now)}" if request.decided else ""
    end = f",{until(request.until, now)}" if request.until else ""
    note = f": {visible(request.note)}" if request.note else ""
    style = _STYLES.get(request.status, "")
    return (Span(visible(request.status), style), Span(f"{time}{end}{note}"))


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
    for root, own in groupby(
        sorted(found, key=lambda each: each.workspace), key=lambda each: each.workspace
    ):
        newest = sorted(own, key=lambda each: each.last_seen, reverse=True)
        if where:
            yield (Span(visible(root), "bold"),)
        yield from _rows(newest, now, "  " if where else "")


def _rows(
    found: Sequence[SessionInfo], now: datetime.datetime | None, indent: str
) -> Iterator[Line]:
    rows = [
        (
            Span(f"{indent}{visible(session.session)}", name_style(session.agent, session.session)),
            Span(f"  {visible(session.agent or '')}"),
            Span(f"  {when(session.last_seen, now)}", "dim"),
            Span(f"  {plural(session.commits, 'edit')}"),
            Span(f"  {session.mode}", "bold yellow" if session.mode == "restricted" else ""),
        )
        for session in found
    ]
    for session, row in zip(found, aligned(rows), strict=True):
        yield (*row, Span(until(session.until, now), "dim"))


def ended(result: EndedSession) -> Iterator[Line]:
    """What ended with a session, and the mode of a new session of its name."""
    gone = [plural(result.clipboards, "clipboard")] if result.clipboards else []
    gone += [f"request {visible(result.request)}"] if result.request else []
    lost = f" {' and '.join(gone)} went with it;" if gone else ""
    yield (Span(visible(result.session), "bold"), Span(f" is ended;{lost} what it did stays."))
    yield (Span(f"A new session of this name is {visible(result.next_mode)}.", "dim"),)
