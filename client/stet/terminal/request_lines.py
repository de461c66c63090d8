r"""Requests for write access as lines for people.

    4f3c2a1b9d0e  3 min ago  my-agent/conv-1
      /home/me/project
      the tests in tests/unit need the new signature

Decided ones tell what was decided, when, and the note. The reason is an agent's text: spelled
out, wrapped and indented, so that it can't look like anything else.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from stet.terminal.spans import Line, Span, columns, name_style, shortened, visible, when
from stet.wire.results import UpgradeInfo

_INDENT = "  "
#: Lines of a reason that are shown.
_MOST_LINES = 12
_STYLES = {"pending": "bold yellow", "approved": "bold green", "denied": "bold red"}


def requests(
    found: Sequence[UpgradeInfo], now: datetime.datetime | None, width: int | None
) -> Iterator[Line]:
    """A few lines a request; ``width``: of the terminal, None where there is none."""
    for request in found:
        yield _head(request, now, width)
        yield (Span(_INDENT + _fitting(visible(request.workspace), width), "dim"),)
        for line in reason_lines(request.reason, width):
            yield (Span(_INDENT + line),)
        if request.status != "pending":
            yield (Span(_INDENT), *_decision(request, now))


def _head(request: UpgradeInfo, now: datetime.datetime | None, width: int | None) -> Line:
    time = when(request.time, now)
    name = who(request)
    if width is not None:
        name = shortened(name, max(8, width - len(request.request) - columns(time) - 4))
    return (
        Span(visible(request.request), "yellow"),
        Span(f"  {time}  ", "dim"),
        Span(name, name_style(request.agent, request.session)),
    )


def who(request: UpgradeInfo) -> str:
    """``agent/session``, as the log has it."""
    return "/".join(visible(name) for name in (request.agent, request.session) if name)


def reason_lines(reason: str, width: int | None) -> list[str]:
    """The reason, spelled out and wrapped to the terminal."""
    from textwrap import wrap  # few commands need it

    room = max(20, (width or 10_000) - len(_INDENT))
    lines = [visible(line) for line in reason.split("\n")]
    wrapped = [part for line in lines for part in (wrap(line, room) or [""])]
    while wrapped and not wrapped[-1]:
        wrapped.pop()
    if len(wrapped) > _MOST_LINES:
        wrapped[_MOST_LINES - 1 :] = ["…"]
    return wrapped


def _fitting(text: str, width: int | None) -> str:
    return text if width is None else shortened(text, max(8, width - len(_INDENT)))


def _decision(request: UpgradeInfo, now: datetime.datetime | None) -> Line:
    time = f" {when(request.decided, now)}" if request.decided else ""
    until = f", until {clock(request.until, now)}" if request.until else ""
    note = f": {visible(request.note)}" if request.note else ""
    style = _STYLES.get(request.status, "")
    return (Span(visible(request.status), style), Span(f"{time}{until}{note}"))


def decided(request: UpgradeInfo, now: datetime.datetime | None) -> Iterator[Line]:
    """What was decided about one request, right after it."""
    if request.status == "approved":
        until = f" until {clock(request.until, now)}" if request.until else ""
        yield (Span(who(request), "bold"), Span(f" may write{until}  ("), *_where(request))
    else:
        yield (Span(who(request), "bold"), Span(" stays restricted  ("), *_where(request))


def _where(request: UpgradeInfo) -> Line:
    return (Span(visible(request.workspace), "dim"), Span(")"))


def clock(time: str, now: datetime.datetime | None) -> str:
    """When something will end: ``14:30 (in 28 min)`` of the clock here, or as it was sent."""
    if now is None:
        return visible(time)
    try:
        moment = datetime.datetime.fromisoformat(time)
        left = (moment - now).total_seconds()
    except (ValueError, TypeError):
        return visible(time)
    local, today = moment.astimezone(), now.astimezone()
    shown = local.strftime("%H:%M" if local.date() == today.date() else "%Y-%m-%d %H:%M")
    return f"{shown} (in {_length(left)})"


def _length(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{round(seconds / length)} {unit}"
    return f"{max(0, round(seconds))} s"
