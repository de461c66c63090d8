"""``stet gc``, ``snapshot``, ``forget``: long work on a history, with its progress shown."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Iterator

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.errors import StetError
from stet.terminal import render
from stet.terminal.render import Span
from stet.wire.results import ForgetResult, WorkInfo

_LOOK_S = 0.3


def gc(arguments: argparse.Namespace, output: Output) -> None:
    """Pack the history of the workspace."""
    with asking.person(arguments, timeout=None) as session, _progress(arguments, session.workspace):
        result = asking.ask(session, calls.gc(), output)
    if result is not None:
        sizes = [render.size(number) for number in (result.bytes_before, result.bytes_after)]
        line = [Span("The history takes "), Span(sizes[1], "bold"), Span(f", {sizes[0]} before")]
        if result.dropped:
            line.append(Span(f"; {result.dropped:,} objects that nothing needed are gone"))
        output.lines([(*line, Span("."))])


def snapshot(arguments: argparse.Namespace, output: Output) -> None:
    """Commit the whole workspace."""
    call = calls.snapshot(message=arguments.message, skip_large=arguments.skip_large)
    with asking.person(arguments, timeout=None) as session, _progress(arguments, session.workspace):
        result = asking.ask(session, call, output)
    if result is None:
        return
    total = f"{result.files:,} files, {render.size(result.bytes)}"
    if result.commit is None:
        output.lines([(Span(f"Nothing has changed ({total})."),)])
    else:
        counts = f"{result.added:,} added, {result.modified:,} modified, {result.removed:,} removed"
        output.lines([(Span(result.commit[:12], "yellow"), Span(f"  {total}: {counts}"))])
    for skipped in result.skipped:
        text = f"left out: {render.visible(skipped.path)}: {render.visible(skipped.why)}"
        output.lines([(Span(text, "dim"),)])
    if result.skipped_count > len(result.skipped):
        more = result.skipped_count - len(result.skipped)
        output.lines([(Span(f"and {more:,} more left out", "dim"),)])


def forget(arguments: argparse.Namespace, output: Output) -> None:
    """Show what would be forgotten, ask, and forget it."""
    if output.as_json and not (arguments.yes or arguments.preview):
        raise UsageError("with --json nobody is asked: add --yes, or --preview to see what it is")
    if not (arguments.yes or arguments.preview) and not sys.stdin.isatty():
        raise UsageError("nobody is there to be asked: add --yes, or --preview to see what it is")

    def call(*, preview: bool) -> calls.Call[ForgetResult]:
        return calls.forget(
            arguments.path,
            contents=arguments.contents,
            clipboards=arguments.clipboards,
            preview=preview,
            message=arguments.message,
        )

    with asking.person(arguments, timeout=None) as session:
        if not output.as_json and not arguments.yes:
            output.lines(_forgotten(session.perform(call(preview=True))))
            if arguments.preview or not _agreed():
                return
        with _progress(arguments, session.workspace):
            result = asking.ask(session, call(preview=arguments.preview), output)
    if result is not None:
        output.lines(_forgotten(result))


def _agreed() -> bool:
    sys.stdout.write("Forget it? It can't be brought back. [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _forgotten(result: ForgetResult) -> Iterator[render.Line]:
    would = "" if result.commit else "would be "
    paths = ", ".join(render.visible(path) for path in result.paths[:5])
    more = f" and {len(result.paths) - 5:,} more" if len(result.paths) > 5 else ""
    yield (
        Span(
            f"{paths}{more}: {render.plural(result.contents, 'version')} in "
            f"{render.plural(result.commits, 'commit')} {would}"
        ),
        Span("forgotten", "bold"),
        Span(f"; {render.plural(result.rewritten, 'commit')} {would}rewritten"),
    )
    for what, where in (
        ("the same content is also at", result.also_at),
        ("still in the workspace, and recorded again when it is edited:", result.in_workspace),
        (
            "clipboards " + ("removed:" if result.clipboards_removed else "that hold some of it:"),
            [f"{each.clipboard} of {each.session}" for each in result.clipboards],
        ),
    ):
        if where:
            named = ", ".join(render.visible(each) for each in where[:10])
            yield (Span(f"  {what} {named}", "yellow"),)
    if result.contents_left:
        left = f"  {result.contents_left:,} of its versions stay, at other paths: --contents"
        yield (Span(left, "yellow"),)


@contextlib.contextmanager
def _progress(arguments: argparse.Namespace, root: str | None) -> Iterator[None]:
    """Show on a terminal how far the daemon has come with what is done inside."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(arguments, root, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _watch(arguments: argparse.Namespace, root: str | None, done: threading.Event) -> None:
    # On a connection of its own: the other one waits for its answer.
    with contextlib.suppress(StetError), asking.person(arguments, workspace=False) as session:
        while not done.wait(_LOOK_S):
            work = session.status().work or []
            own = next((each for each in work if each.workspace == root), None)
            if own is not None:
                sys.stderr.write(f"\r\x1b[K{progress(own)}")
                sys.stderr.flush()


def progress(work: WorkInfo) -> str:
    """How far a piece of work has come, in one short line."""
    if not work.phase:
        return f"{work.what}: waits for other work"
    count = f" {work.done:,}" if work.done else ""
    if work.total:
        count = f" {min(work.done, work.total):,} of {work.total:,}"
    return f"{work.what}: {work.phase}{count}"
