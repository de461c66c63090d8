"""Commands for the daemon and for write access: ``stet init``, ``status``, ``stop``,
``workspaces``, ``tools``, ``mode``, ``sessions``, ``requests``, ``approve``, ``deny``; and ``pin``.

Requests are those of all workspaces, so one can be decided by its id from any directory.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import msgspec

from stet import calls
from stet.cli import asking
from stet.cli.arguments import similar
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.errors import InvalidParams
from stet.service.spawn import is_running
from stet.terminal import access_lines, render
from stet.terminal.spans import Line, Span, aligned, short, typed, visible, when
from stet.wire.results import PinInfo, SessionList, UpgradeList, WorkspaceInfo


def init(arguments: Arguments, output: Output) -> None:
    """Allow edits below a directory."""
    root = _directory(arguments, arguments.root)
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a directory")

    def allowed(workspace: WorkspaceInfo) -> list[Line]:
        lines: list[Line] = [
            (Span("Agents may edit below "), Span(visible(workspace.root), "bold"))
        ]
        lines += list(render.workspaces([workspace]))[1:]
        outer = [each.root for each in known if workspace.root.startswith(f"{each.root}/")]
        if outer:
            said = (
                f"  inside {visible(max(outer, key=len))}, but with a history of its own from now "
                f"on; to end that: stet workspaces --forget {typed(workspace.root)}"
            )
            lines.append((Span(said, "yellow"),))
        return lines

    session = asking.person(arguments, workspace=False)
    known = session.perform(calls.workspace_list()).workspaces
    asking.show(session, calls.workspace_allow(root), output, allowed)


def _directory(arguments: Arguments, name: str) -> str:
    if not name:  # a variable of a script that is not set
        raise UsageError("the name of the directory is empty; . is the one that you are in")
    return os.path.abspath(os.path.join(arguments.directory, name))


def status(arguments: Arguments, output: Output) -> None:
    """Print the daemon's health and counts; start a daemon if none answers."""
    session = asking.person(arguments, workspace=False)
    asking.show(session, calls.status(), output, render.status)


def stop(arguments: Arguments, output: Output) -> None:
    """Stop the daemon; it finishes the calls in progress first. A backup may follow at once."""
    said: Line = (Span("stetd stops. The next command starts it again."),)
    session = asking.person(arguments, workspace=False, start=False)
    pid = session.status().pid
    asking.show(session, calls.shutdown(), output, lambda _: [said])
    with asking.notice_if_silent(5, "Ctrl-C ends that.", "the daemon finishes calls in work"):
        while pid is not None and is_running(pid):
            time.sleep(0.02)


def workspaces(arguments: Arguments, output: Output) -> None:
    """Print the allowed workspaces and the paths of their histories; or disallow one."""
    session = asking.person(arguments, workspace=False)
    if arguments.forget is None:
        call = calls.workspace_list()
        asking.show(session, call, output, lambda found: render.workspaces(found.workspaces))
        return

    def forgotten(workspace: WorkspaceInfo) -> list[Line]:
        said = Span(" is no workspace any more; its history is kept: ")
        return [
            (Span(visible(workspace.root), "bold"), said, Span(visible(workspace.shadow), "dim"))
        ]

    root = _directory(arguments, arguments.forget)
    asking.show(session, calls.workspace_forget(root), output, forgotten)


def tools(arguments: Arguments, output: Output) -> None:
    """Print the tool definitions for a model, as JSON."""
    call = calls.tools(arguments.style, api=arguments.api, custom=arguments.custom)
    with asking.person(arguments, workspace=False) as session:
        result = asking.ask(session, call, output)
    if result is not None:
        encoded = msgspec.json.format(msgspec.json.encode(result.tools), indent=2)
        sys.stdout.buffer.write(encoded + b"\n")


def mode(arguments: Arguments, output: Output) -> None:
    """Print or set the mode of the workspace, or of one session."""
    if arguments.for_ is not None and arguments.mode != "unrestricted":
        raise UsageError("--for is how long a grant lasts: stet mode unrestricted --for 30m")
    call = calls.mode_get()
    if arguments.mode is not None:
        call = calls.mode_set(
            arguments.mode,
            session=arguments.session,
            scope=None if arguments.session else "workspace",
            for_=arguments.for_,
        )
    if arguments.session is not None:
        _check_session(arguments)
    session = asking.person(arguments, session=arguments.session)
    asking.show(session, call, output, lambda found: render.mode(found, output.now))


def _check_session(arguments: Arguments) -> None:
    """Check that the session exists: its name may be mistyped. If not, reading its mode raises
    InvalidParams; setting it only warns, since a person may do so before the agent connects.
    """
    with asking.person(arguments) as session:
        existing = session.session_list(workspace=session.workspace).sessions
    if arguments.session in (known := [each.session for each in existing]):
        return
    near = similar(arguments.session, known, " (near: {})")
    said = f"there is no session {arguments.session!r} here yet{near}"
    if arguments.mode is None:
        raise InvalidParams(f"{said}; stet sessions lists those that are there")
    print(visible(f"stet: {said}; one of that name begins with this mode"), file=sys.stderr)


def sessions(arguments: Arguments, output: Output) -> None:
    """Print the sessions of the workspace, with --all those of all workspaces; or end one."""
    if arguments.all and arguments.end is not None:
        raise UsageError("--end is about a session of this workspace; leave out --all")
    session = asking.person(arguments, workspace=not arguments.all)
    if arguments.end is not None:
        asking.show(session, calls.session_end(arguments.end), output, access_lines.ended)
        return

    def lines(found: SessionList) -> Iterator[Line]:
        yield from access_lines.sessions(found.sessions, output.now, where=arguments.all)
        if not found.sessions:
            yield (Span("No session.", "dim"),)

    asking.show(session, calls.session_list(workspace=session.workspace), output, lines)


def requests(arguments: Arguments, output: Output) -> None:
    """Print the pending requests; with --all the decided ones, too."""

    def lines(found: UpgradeList) -> Iterator[Line]:
        yield from access_lines.requests(found.requests, output.now, output.width)
        if not found.requests:
            nothing = "No request." if arguments.all else "No request waits for you."
            yield (Span(nothing, "dim"),)

    call = calls.upgrade_list(status=None if arguments.all else "pending")
    asking.show(asking.person(arguments, workspace=False), call, output, lines)


def decide(arguments: Arguments, output: Output) -> None:
    """Give a session write access (stet approve), or refuse its request (stet deny)."""
    approved = arguments.prog == "stet approve"
    for_ = arguments.for_ if approved else None
    call = calls.upgrade_decide(arguments.request, approved, note=arguments.note, for_=for_)
    session = asking.person(arguments, workspace=False)
    asking.show(session, call, output, lambda found: access_lines.decided(found, output.now))


def pin(arguments: Arguments, output: Output) -> None:
    """Set a pin, delete one, or list all."""
    if (arguments.name is not None) + (arguments.delete is not None) + arguments.list > 1:
        raise UsageError("pin takes a name, --delete NAME or --list; only one of them")
    session = asking.person(arguments)
    if arguments.name is not None:
        commit = asking.commit_named(session, arguments.commit or "HEAD")
        call = calls.pin_set(arguments.name, commit, move=arguments.move)
        asking.show(session, call, output, lambda made: _pins([made], output))
    elif arguments.delete is not None:
        asking.show(session, calls.pin_delete(arguments.delete), output, _deleted)
    else:
        asking.show(session, calls.pin_list(), output, lambda all_: _pins(all_.pins, output))


def _deleted(pin: PinInfo) -> list[Line]:
    named = f"; it named {pin.commit}" if pin.commit else ""
    return [(Span(f"Pin {visible(pin.name)} is deleted{named}"),)]


def _pins(pins: list[PinInfo], output: Output) -> Iterator[Line]:
    rows: list[Line] = []
    for pin in pins:
        if pin.commit is None or pin.time is None:
            rows.append((Span(visible(pin.name)), Span("  damaged: stet verify", "red")))
            continue
        id_, time = Span(f"  {short(pin.commit)}", "yellow"), when(pin.time, output.now)
        subject = Span(f"  {visible((pin.message or '').split(chr(10))[0])}")
        rows.append((Span(visible(pin.name), "cyan"), id_, Span(f"  {time}", "dim"), subject))
    return aligned(rows)
