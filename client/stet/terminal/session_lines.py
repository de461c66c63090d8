"""Sessions as lines for people: one each, those seen last first.

    conv-1  my-agent  3 min ago  12 edits  unrestricted

With ``where`` they stand below the root of their workspace.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import groupby

from stet.terminal.request_lines import clock
from stet.terminal.spans import Line, Span, columns, name_style, padded, plural, visible, when
from stet.wire.results import EndedSession, SessionInfo

_MODES = {"restricted": "bold yellow"}


def sessions(
    found: Sequence[SessionInfo], now: datetime.datetime | None, *, where: bool
) -> Iterator[Line]:
    """A line a session; ``where``: with the workspaces that they are of."""
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
    cells = [
        (
            visible(s.session),
            visible(s.agent or ""),
            when(s.last_seen, now),
            plural(s.commits, "edit"),
        )
        for s in found
    ]
    widths = [max(columns(row[at]) for row in cells) for at in range(len(cells[0]))]
    for session, row in zip(found, cells, strict=True):
        name, agent, seen, edits = (padded(*cell) for cell in zip(row, widths, strict=True))
        yield (
            Span(f"{indent}{name}", name_style(session.agent, session.session)),
            Span(f"  {agent}"),
            Span(f"  {seen}", "dim"),
            Span(f"  {edits}"),
            Span(f"  {visible(session.mode)}", _MODES.get(session.mode, "")),
            *([Span(f" until {clock(session.until, now)}", "dim")] if session.until else []),
        )


def ended(result: EndedSession) -> Iterator[Line]:
    """What went with a session, and what comes if its agent goes on."""
    gone = [plural(result.clipboards, "clipboard")] if result.clipboards else []
    gone += [f"request {visible(result.request)}"] if result.request else []
    lost = f" {' and '.join(gone)} went with it;" if gone else ""
    yield (
        Span(visible(result.session), "bold"),
        Span(f" is ended;{lost} what it did stays."),
    )
    yield (Span(f"A new session of this name is {visible(result.next_mode)}.", "dim"),)
