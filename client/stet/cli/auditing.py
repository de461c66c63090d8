"""``stet verify`` and ``pin``: whether the history is whole, and names for its commits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.errors import IoError
from stet.terminal.render import Line, Span, ago, short, visible
from stet.wire.results import PinInfo, VerifyResult, WorkspaceInfo

_NOT_WHOLE = 1


def verify(arguments: argparse.Namespace, output: Output) -> int:
    """Verify the history of the workspace; 1 if something is wrong with it."""
    # A long history takes minutes.
    try:
        with asking.person(arguments, timeout=None) as session:
            result = session.perform(calls.verify(expect=arguments.expect))
            shadow = session.hello.workspace.shadow if session.hello.workspace else ""
    except IoError:
        deferred = _find_deferred(arguments)
        if deferred is None:
            raise
        with asking.person(arguments, workspace=False, timeout=None) as session:
            call = calls.verify(expect=arguments.expect, workspace=deferred.root)
            result, shadow = session.perform(call), deferred.shadow
    if output.as_json:
        output.value(result)
    else:
        output.lines(_verified(result, shadow), long=True)
    return 0 if result.ok else _NOT_WHOLE


def _find_deferred(arguments: argparse.Namespace) -> WorkspaceInfo | None:
    """The workspace of the directory, if it is one in which no call works, and hello neither."""
    here = os.path.realpath(arguments.directory)
    with asking.person(arguments, workspace=False) as session:
        known = session.perform(calls.workspace_list()).workspaces
    around = [each for each in known if os.path.join(here, "").startswith(each.root + os.sep)]
    innermost = max(around, key=lambda each: len(each.root), default=None)
    return innermost if innermost is not None and innermost.trouble else None


def _verified(result: VerifyResult, shadow: str) -> Iterator[Line]:
    counts = f"{result.commits:,} commits and {result.objects:,} objects"
    if result.ok:
        yield (Span("The history is whole", "bold green"), Span(f": {counts}."))
        if result.head is not None:
            yield (
                Span("Its newest commit is "),
                Span(result.head, "yellow"),
                Span("; noted elsewhere, stet verify --expect can tell a cut-off history."),
            )
    else:
        number = len(result.problems)
        noun = "problem" if number == 1 else "problems"
        yield (Span(f"{number} {noun}", "bold red"), Span(f" among {counts}:"))
        for problem in result.problems:
            yield (Span("  " + visible(problem.message)),)
    for warning in result.warnings:
        yield (Span(f"  warning: {visible(warning)}", "yellow"),)
    if result.changed_outside:
        noun = "file was" if result.changed_outside == 1 else "files were"
        yield (Span(f"{result.changed_outside:,} {noun} changed outside since.", "dim"),)
    if not result.ok:
        yield from _advice(result, shadow)


def _advice(result: VerifyResult, shadow: str) -> Iterator[Line]:
    """What to do, by what kinds of problems there are."""
    kinds = {problem.kind for problem in result.problems}
    yield ()
    if kinds & {"damaged_object", "missing_object", "damaged_pack", "damaged_index"} or (
        kinds & {"missing_pack", "wrong_object"}
    ):
        yield _text("Your files are not affected; reading, diffing and undoing what is damaged is.")
        yield _text("Stop stetd, put the files named above back from a backup of")
        yield _text(f"  {visible(shadow)}")
        yield _text("start it, and verify again. Whatever is lost for good stays named here.")
    if kinds & {"reference"}:
        yield _text("stetd puts its references right when it starts: stop it and run stet status.")
    if kinds & {"journal"}:
        yield _text("Do not stop stetd before its state directory is copied: what the journal has")
        yield _text("lost may still be in its memory, and it goes to Git within a second.")
    if kinds & {"malformed", "reverts", "count", "expect", "replaced"}:
        yield _text("Somebody, or something, other than stetd has written to the history. Keep a")
        yield _text("copy of it, and compare it with a backup before you rely on it.")


def _text(text: str) -> Line:
    return (Span(text),)


def pin(arguments: argparse.Namespace, output: Output) -> None:
    """Name a commit, forget a name, or list them."""
    wanted = [arguments.name is not None, arguments.delete is not None, arguments.list]
    if sum(wanted) > 1:
        raise UsageError("pin takes a name, --delete NAME or --list; only one of them")
    with asking.person(arguments) as session:
        if arguments.name is not None:
            call = calls.pin_set(arguments.name, arguments.commit or "HEAD", move=arguments.move)
            done = asking.ask(session, call, output)
            pins = [] if done is None else [done]
        elif arguments.delete is not None:
            gone = asking.ask(session, calls.pin_delete(arguments.delete), output)
            if gone is not None:
                output.lines([_deleted(gone)])
            return
        else:
            found = asking.ask(session, calls.pin_list(), output)
            pins = found.pins if found else []
    if not output.as_json:
        output.lines(_pins(pins, output))


def _deleted(pin: PinInfo) -> Line:
    named = f"; it named {pin.commit}" if pin.commit else ""
    return (Span(f"Pin {visible(pin.name)} is deleted{named}"),)


def _pins(pins: list[PinInfo], output: Output) -> Iterator[Line]:
    width = max((len(visible(pin.name)) for pin in pins), default=0)
    for pin in pins:
        if pin.commit is None or pin.time is None:
            yield (Span(f"{visible(pin.name):<{width}}"), Span("  damaged: stet verify", "red"))
            continue
        time = visible(pin.time) if output.now is None else ago(pin.time, output.now)
        yield (
            Span(f"{visible(pin.name):<{width}}", "cyan"),
            Span(f"  {short(pin.commit)}", "yellow"),
            Span(f"  {time}", "dim"),
            Span(f"  {visible((pin.message or '').split(chr(10))[0])}"),
        )
