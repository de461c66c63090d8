"""Results as lines for people (:mod:`stet.terminal.spans`).

Times are relative if ``now`` is given, as for a terminal; otherwise RFC 3339 as the daemon sent
them, so that output in a file does not depend on when it is read. Control characters in names,
paths and messages are spelled out here; those in file contents only on a terminal.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from stet.terminal.log_lines import file_line, subject_and_why
from stet.terminal.spans import (
    Line,
    Span,
    ago,
    aligned,
    length,
    name_style,
    plural,
    short,
    size,
    typed,
    until,
    visible,
    who,
)
from stet.wire.results import (
    ClipboardInfo,
    EditResult,
    ModeResult,
    ShowResult,
    StatusResult,
    WorkspaceInfo,
)

#: Shows a diff; :meth:`stet.cli.output.Output.diff` does so for the present terminal.
ShowDiff = Callable[[str], Iterable[Line]]


def show(commit: ShowResult, now: datetime.datetime | None, show_diff: ShowDiff) -> Iterator[Line]:
    """One commit: its metadata, its files, and the diff."""
    time = visible(commit.time) + (f" ({ago(commit.time, now)})" if now else "")
    by = "" if commit.method in (None, commit.kind) else f" ({visible(commit.method)})"
    peer = f"{visible(commit.peer.command)} ({commit.peer.pid})" if commit.peer else ""
    yield (Span(f"commit {commit.commit}", "yellow"),)
    for label, value, style in (
        ("By", who(commit), name_style(commit.agent, commit.session)),
        ("Subagent", visible(commit.subagent or ""), ""),
        ("Time", time, ""),
        ("Kind", commit.kind + by, ""),
        ("Request", visible(commit.request or ""), ""),
        ("Process", peer, ""),
        ("Undoes", ", ".join(map(short, commit.reverts)), "magenta"),
        ("Undone by", short(commit.reverted_by or ""), "magenta"),
    ):
        if value:
            yield (Span(f"{label + ':':<11}", "dim"), Span(value, style))
    subject, why = subject_and_why(commit.message)
    yield ()
    yield (Span("    "), Span(subject, "strike" if commit.reverted_by else "bold"))
    for line in ["", *why] if why else []:
        yield (Span("    " + line),) if line else ()
    yield ()
    yield from map(file_line, commit.files)
    if commit.diff:
        yield ()
        yield from show_diff(commit.diff)


def edited(result: EditResult, *, preview: bool, show_diff: ShowDiff) -> Iterator[Line]:
    """A call's result: the message for the model, the commit and its files, warnings."""
    for line in result.message.strip("\n").split("\n") if result.message else ():
        yield (Span(visible(line)),)
    for change in result.files:
        commit = Span(short(result.commit) + "  ", "yellow") if result.commit else Span("")
        yield (commit, *file_line(change))
    if result.commit and not result.files:
        yield (Span(f"{short(result.commit)}  ", "yellow"), Span("changes no file", "dim"))
    if result.outside:
        yield (
            Span(f"{short(result.outside)}  ", "yellow"),
            Span("recorded first: changes made outside stet", "dim"),
        )
    for warning in result.further_warnings():
        yield (Span(f"warning: {visible(warning)}", "yellow"),)
    if result.replayed:
        yield (Span("answered from the record: this request was carried out before", "dim"),)
    if preview:
        yield from show_diff(result.diff)
        yield (Span("Preview: nothing was changed.", "bold"),)


def answered(result: EditResult, *, preview: bool, show_diff: ShowDiff) -> Iterator[Line]:
    """A call's message for a model, and nothing else."""
    said = EditResult(commit=None, message=result.message, diff=result.diff)
    return edited(said, preview=preview, show_diff=show_diff)


def clipboards(found: Sequence[ClipboardInfo]) -> Iterator[Line]:
    """One line per clipboard: name and size."""
    return aligned([
        (
            Span(visible(clip.name), "cyan"),
            Span(f"  {plural(clip.lines, 'line')}, {plural(clip.bytes, 'byte')}"),
        )
        for clip in found
    ])  # fmt: skip


def mode(result: ModeResult, now: datetime.datetime | None = None) -> Iterator[Line]:
    """The mode in force, those of session and workspace, and the end of a grant."""
    yield (Span(result.mode, _mode_style(result.mode)), Span(until(result.until, now)))
    for whose, its, end in (
        ("session:  ", result.session_mode, result.session_until),
        ("workspace:", result.workspace_mode, result.workspace_until),
    ):
        if its:
            yield (Span(f"  {whose} {its}{until(end, now)}", "dim"),)


def _mode_style(name: str) -> str:
    return "bold red" if name == "restricted" else "bold green"


def workspaces(found: Sequence[WorkspaceInfo]) -> Iterator[Line]:
    """Two lines per workspace: root with mode and size, and the path of its history."""
    for workspace in found:
        head = f"  at {short(workspace.head)}" if workspace.head else ""
        yield (
            Span(visible(workspace.root), "bold"),
            Span(f"  {workspace.mode}", _mode_style(workspace.mode)),
            Span(f"  {plural(workspace.commits, 'commit')}{head}"),
        )
        yield (Span(f"  git --git-dir {typed(workspace.shadow)} log -p history", "dim"),)
        if not os.path.isdir(workspace.root) or os.path.realpath(workspace.root) != workspace.root:
            yield (Span("  its directory is not there any more", "bold red"),)
        elif workspace.trouble:
            yield (Span(f"  DEFERRED: {visible(workspace.trouble)}", "bold red"),)


def status(result: StatusResult) -> Iterator[Line]:
    """The daemon's health, one fact per line."""
    yield (Span(f"stetd {visible(result.version)}", "bold"), Span(f"  protocol {result.protocol}"))
    facts: list[tuple[str, Any, Callable[[Any], str]]] = [
        ("process", result.pid, str),
        ("running for", result.uptime_s, length),
        ("durability", result.durability, visible),
        ("workspaces", result.workspaces, "{:,}".format),
        ("sessions", result.sessions, "{:,}".format),
        ("commits", result.commits, "{:,}".format),
        ("journal", result.journal_bytes, size),
        ("history", result.shadow_bytes, size),
    ]
    for label, value, shown in facts:
        if value is not None:
            yield (Span(f"  {label + ': ':<13}", "dim"), Span(shown(value)))
    for path, how in (result.replacement or {}).items():
        if how != "exchange":  # which keeps a save at the same instant; a rename can lose it
            where = Span(f"  replacing in {visible(path)}: ", "dim")
            yield (where, Span(visible(how), "bold yellow"))
    if result.config_error:
        text = "; ".join(result.config_error.split("\n"))
        yield (Span(f"  CONFIGURATION not taken over: {visible(text)}", "bold yellow"),)
    if result.last_error:
        last = f"{result.last_error.time}  {result.last_error.message}"
        yield (Span(f"  last error: {visible(last)}", "yellow"),)
    for why in (result.unavailable or {}).values():
        yield (Span(f"  DEFERRED: {visible(why)}", "bold red"),)
    if result.trouble:
        yield (Span(f"  TROUBLE: {visible(result.trouble)}", "bold yellow"),)
    if isinstance(result.read_only, str):
        yield (Span(f"  READ-ONLY: {visible(result.read_only)}", "bold red"),)
