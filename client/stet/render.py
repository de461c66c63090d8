r"""Results as lines for people: what ``stet`` prints, as values.

A line is a tuple of spans, a span is text with a style. Styles are rich's ("bold red");
whoever prints decides whether they are used, so nothing here needs rich or a terminal.

    log    4f3c2a1b  3 minutes ago  my-agent/conv-1  patch src/a.py: 2 edits
                     M src/a.py  +3 -1

Times are relative when a ``now`` is given, as for a terminal, and RFC 3339 as the daemon
sent them otherwise, so that output in a file says the same tomorrow.

What comes from files and agents may hold terminal escapes. :func:`visible` spells them
out; names, paths and messages go through it here, and file content where it is printed
on a terminal (a pipe gets it as it is).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stet.wire.results import (
    ClipboardInfo,
    CommitInfo,
    EditResult,
    FileChange,
    ModeResult,
    ShowResult,
    StatusResult,
    WorkspaceInfo,
)


class Span(NamedTuple):
    """A piece of a line, without line ends."""

    text: str
    style: str = ""


Line = tuple[Span, ...]

#: Digits of an object id that are shown.
SHORT = 8

# C0 and C1 controls and DEL; the marks that reorder text (bidirectional overrides), which
# make a line read otherwise than it is; line separators; and lone surrogates. A tab stays.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

_STATUS_STYLE = {"A": "green", "M": "yellow", "D": "red", "R": "cyan"}


def visible(text: str) -> str:
    """The text with control characters spelled out (``\\x1b``), tabs left as they are."""
    return _UNSAFE.sub(lambda found: _spelled(found[0]), text)


def _spelled(character: str) -> str:
    if character == "\r":
        return "\\r"
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def short(commit: str) -> str:
    """The beginning of an object id, as people read and type it."""
    return commit[:SHORT]


def ago(time: str, now: datetime.datetime) -> str:
    """How long before ``now`` an RFC 3339 time was: ``3 minutes ago``; else the time itself."""
    try:
        then = datetime.datetime.fromisoformat(time)
        seconds = (now - then).total_seconds()
    except (ValueError, TypeError):
        return visible(time)
    if seconds < 1:
        return "just now"
    for unit, length in (("week", 604800), ("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return _plural(int(seconds // length), unit) + " ago"
    return _plural(int(seconds), "second") + " ago"


def _plural(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def who(commit: CommitInfo) -> str:
    """``agent/session`` of a commit, or what it is instead of an agent's."""
    names = [visible(name) for name in (commit.agent, commit.session) if name]
    return "/".join(names) or commit.kind


def log(commits: Sequence[CommitInfo], now: datetime.datetime | None) -> Iterator[Line]:
    """A page of history, a few lines for each commit, the columns aligned."""
    times = [_time(commit, now) for commit in commits]
    names = [who(commit) for commit in commits]
    time_width = max(map(len, times), default=0)
    name_width = min(max(map(len, names), default=0), 32)
    for commit, time, name in zip(commits, times, names, strict=True):
        subject, why = _subject_and_why(commit.message)
        style = "dim" if commit.reverted_by or commit.kind == "outside" else ""
        head = [
            Span(short(commit.commit), "yellow"),
            Span(f"  {time:<{time_width}}", "dim"),
            Span(f"  {name:<{name_width}}", "cyan"),
            Span(f"  {subject}", style),
        ]
        if commit.reverted_by:
            head.append(Span(f"  (undone by {short(commit.reverted_by)})", "magenta"))
        yield tuple(head)
        indent = " " * (SHORT + 2)
        if why:
            yield (Span(indent + why[0], "italic"),)
        for change in commit.files:
            yield (Span(indent), *_file(change))


def _time(commit: CommitInfo, now: datetime.datetime | None) -> str:
    return visible(commit.time) if now is None else ago(commit.time, now)


def _subject_and_why(message: str) -> tuple[str, list[str]]:
    subject, *body = message.strip("\n").split("\n")
    why = [visible(line) for line in body]
    while why and not why[0].strip():
        del why[0]
    return visible(subject), why


def _file(change: FileChange) -> Line:
    path = visible(change.path)
    if change.old_path is not None:
        path = f"{visible(change.old_path)} -> {path}"
    return (
        Span(change.status, _STATUS_STYLE.get(change.status, "")),
        Span(f" {path}  "),
        Span(f"+{change.added}", "green"),
        Span(" "),
        Span(f"-{change.removed}", "red"),
    )


def files(changes: Iterable[FileChange]) -> Iterator[Line]:
    """One line a file: status, path, lines added and removed."""
    return (_file(change) for change in changes)


def show(commit: ShowResult, now: datetime.datetime | None) -> Iterator[Line]:
    """One commit: who, when and why, its files, and the diff."""
    subject, why = _subject_and_why(commit.message)
    yield (Span(f"commit {commit.commit}", "yellow"),)
    for label, value in _facts(commit, now):
        yield (Span(f"{label + ':':<11}", "dim"), Span(value))
    yield ()
    for line in [subject, *([""] if why else []), *why]:
        yield (Span("    " + line),) if line else ()
    yield ()
    yield from files(commit.files)
    if commit.diff:
        yield ()
        yield from diff(commit.diff)


def _facts(commit: ShowResult, now: datetime.datetime | None) -> Iterator[tuple[str, str]]:
    yield "By", who(commit)
    yield "Time", visible(commit.time) + (f" ({ago(commit.time, now)})" if now else "")
    yield "Kind", commit.kind + (f" ({visible(commit.method)})" if commit.method else "")
    if commit.request:
        yield "Request", visible(commit.request)
    if commit.peer:
        yield "Process", f"{visible(commit.peer.command)} ({commit.peer.pid})"
    if commit.reverts:
        yield "Undoes", ", ".join(map(short, commit.reverts))
    if commit.reverted_by:
        yield "Undone by", short(commit.reverted_by)


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def diff(text: str) -> Iterator[Line]:
    r"""A unified diff, line for line; only ``\n`` ends a line.

    The counts of a hunk's header tell where it ends: a removed line that begins with
    ``-- `` is no file header.
    """
    old = new = 0
    for line in text.removesuffix("\n").split("\n") if text else ():
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            yield (Span(line, {"+": "green", "-": "red"}.get(line[:1], "")),)
        elif header := _HUNK.match(line):
            old, new = (int(count or 1) for count in header.groups())
            yield (Span(line, "cyan"),)
        else:
            yield (Span(line, "dim" if line.startswith("\\") else "bold"),)


def edited(result: EditResult, *, preview: bool) -> Iterator[Line]:
    """What a call did: the message for the model, the commit and its files, warnings."""
    yield from _message(result)
    for change in result.files:
        commit = Span(short(result.commit) + "  ", "yellow") if result.commit else Span("")
        yield (commit, *_file(change))
    if result.outside:
        yield (
            Span(f"{short(result.outside)}  ", "yellow"),
            Span("recorded first: what stood there and stet had not written", "dim"),
        )
    for warning in result.warnings:
        yield (Span(f"warning: {visible(warning)}", "yellow"),)
    if result.replayed:
        yield (Span("answered from the record: this request was carried out before", "dim"),)
    if preview:
        yield from _previewed(result)


def answered(result: EditResult, *, preview: bool) -> Iterator[Line]:
    """What a call did, as its dialect says it to a model, and nothing else."""
    yield from _message(result)
    if preview:
        yield from _previewed(result)


def _message(result: EditResult) -> Iterator[Line]:
    for line in result.message.strip("\n").split("\n") if result.message else ():
        yield (Span(visible(line)),)


def _previewed(result: EditResult) -> Iterator[Line]:
    yield from diff(result.diff)
    yield (Span("Preview: nothing was changed.", "bold"),)


def clipboards(found: Sequence[ClipboardInfo]) -> Iterator[Line]:
    """One line a clipboard: name and size."""
    width = max((len(visible(clip.name)) for clip in found), default=0)
    for clip in found:
        size = f"  {_plural(clip.lines, 'line')}, {_plural(clip.bytes, 'byte')}"
        yield (Span(f"{visible(clip.name):<{width}}", "cyan"), Span(size))


def mode(result: ModeResult) -> Iterator[Line]:
    """The mode that counts, and the two that it is the stricter of."""
    yield (Span(result.mode, _mode_style(result.mode)),)
    if result.session_mode:
        yield (Span(f"  session:   {result.session_mode}", "dim"),)
    if result.workspace_mode:
        yield (Span(f"  workspace: {result.workspace_mode}", "dim"),)


def _mode_style(name: str) -> str:
    return "bold red" if name == "restricted" else "bold green"


def workspaces(found: Sequence[WorkspaceInfo]) -> Iterator[Line]:
    """Two lines a workspace: root with mode and size, and where its history is."""
    for workspace in found:
        head = f"  at {short(workspace.head)}" if workspace.head else ""
        yield (
            Span(visible(workspace.root), "bold"),
            Span(f"  {workspace.mode}", _mode_style(workspace.mode)),
            Span(f"  {_plural(workspace.commits, 'commit')}{head}"),
        )
        yield (Span(f"  git --git-dir {visible(workspace.shadow)} log -p history", "dim"),)


def status(result: StatusResult) -> Iterator[Line]:
    """The daemon's health, one fact a line."""
    yield (Span(f"stetd {visible(result.version)}", "bold"), Span(f"  protocol {result.protocol}"))
    facts: list[tuple[str, str | None]] = [
        ("process", None if result.pid is None else str(result.pid)),
        ("running", None if result.uptime_s is None else _duration(result.uptime_s)),
        ("durability", result.durability),
        ("workspaces", _count(result.workspaces)),
        ("sessions", _count(result.sessions)),
        ("commits", _count(result.commits)),
        ("journal", _size(result.journal_bytes)),
        ("history", _size(result.shadow_bytes)),
        *((f"replacing in {path}", how) for path, how in (result.replacement or {}).items()),
    ]
    for label, value in facts:
        if value is not None:
            yield (Span(f"  {visible(label) + ': ':<12}", "dim"), Span(visible(value)))
    if isinstance(result.read_only, str):
        yield (Span(f"  READ-ONLY: {visible(result.read_only)}", "bold red"),)


def _count(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


def _duration(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return _plural(int(seconds // length), unit)
    return _plural(int(seconds), "second")


def _size(number: int | None) -> str | None:
    if number is None:
        return None
    size = float(number)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
