"""``stet gc``, ``snapshot``, ``forget``, ``verify``: long-running work on a history."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from functools import partial

from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.errors import InvalidParams, IoError, StetError
from stet.terminal.spans import Line, Span, plural, size, visible
from stet.wire.results import ForgetResult, VerifyResult, WorkInfo, WorkspaceInfo

_POLL_S = 0.3
_QUESTION = "Forget it? It can't be brought back."


def gc(arguments: Arguments, output: Output) -> None:
    """Pack the history of the workspace."""
    with asking.person(arguments, timeout=None) as session, _progress(arguments, session.workspace):
        result = asking.ask(session, calls.gc(), output)
    if result is not None:
        sizes = [size(number) for number in (result.bytes_before, result.bytes_after)]
        line = [Span("The history takes "), Span(sizes[1], "bold"), Span(f", {sizes[0]} before")]
        if result.dropped:
            line.append(Span(f"; {result.dropped:,} objects that nothing needed are gone"))
        output.lines([(*line, Span("."))])


def snapshot(arguments: Arguments, output: Output) -> None:
    """Commit the whole workspace."""
    call = calls.snapshot(message=arguments.message, skip_large=arguments.skip_large)
    with asking.person(arguments, timeout=None) as session, _progress(arguments, session.workspace):
        result = asking.ask(session, call, output)
    if result is None:
        return
    total = f"{plural(result.files, 'file')}, {size(result.bytes)}"
    if result.commit is None:
        output.lines([(Span(f"Nothing has changed ({total})."),)])
    else:
        counts = f"{result.added:,} added, {result.modified:,} modified, {result.removed:,} removed"
        output.lines([(Span(result.commit[:12], "yellow"), Span(f"  {total}: {counts}"))])
    for skipped in result.skipped:
        text = f"left out: {visible(skipped.path)}: {visible(skipped.why)}"
        output.lines([(Span(text, "dim"),)])
    if result.skipped_count > len(result.skipped):
        more = result.skipped_count - len(result.skipped)
        output.lines([(Span(f"and {more:,} more left out", "dim"),)])


def forget(arguments: Arguments, output: Output) -> None:
    """Show what would be forgotten, ask, and forget it."""
    if output.as_json and not (arguments.yes or arguments.preview):
        raise UsageError("with --json nobody is asked: add --yes, or --preview to see what it is")
    more = arguments.given("contents", "clipboards", "message")
    call = partial(calls.forget, arguments.path, **more)
    with asking.person(arguments, timeout=None) as session:
        if not output.as_json and not arguments.yes:
            output.lines(_forget_lines(session.perform(call(preview=True))))
            if arguments.preview or not asking.confirm(_QUESTION, ""):
                return
        with _progress(arguments, session.workspace):
            result = asking.ask(session, call(preview=arguments.preview), output)
    if result is not None:
        output.lines(_forget_lines(result))


def _forget_lines(result: ForgetResult) -> Iterator[Line]:
    would = "" if result.commit else "would be "
    paths = ", ".join(visible(path) for path in result.paths[:5])
    more = f" and {len(result.paths) - 5:,} more" if len(result.paths) > 5 else ""
    yield (
        Span(
            f"{paths}{more}: {plural(result.contents, 'version')} in "
            f"{plural(result.commits, 'commit')} {would}"
        ),
        Span("forgotten", "bold"),
        Span(f"; {plural(result.rewritten, 'commit')} {would}rewritten"),
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
            named = ", ".join(visible(each) for each in where[:10])
            yield (Span(f"  {what} {named}", "yellow"),)
    if result.contents_left:
        # The path has no content any more once it is forgotten, so --contents would find none.
        how = "forget these, too" if result.commit else "--contents"
        left = f"  {result.contents_left:,} of its versions stay, at other paths: {how}"
        yield (Span(left, "yellow"),)


@contextlib.contextmanager
def _progress(arguments: Arguments, root: str | None) -> Iterator[None]:
    """Show the daemon's progress on a terminal while the body waits for a call.

    Not with ``--json``: the JSON would follow the progress on the same line.
    """
    if arguments.json or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_poll_progress, args=(arguments, root, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _poll_progress(arguments: Arguments, root: str | None, done: threading.Event) -> None:
    # On a second connection, since the first one waits for its answer.
    with contextlib.suppress(StetError), asking.person(arguments, workspace=False) as session:
        while not done.wait(_POLL_S):
            work = session.status().work or []
            own = next((each for each in work if each.workspace == root), None)
            if own is not None:
                sys.stderr.write(f"\r\x1b[K{progress(own)}")
                sys.stderr.flush()


def progress(work: WorkInfo) -> str:
    """The progress of a piece of work, in one short line."""
    if not work.phase:
        return f"{work.what}: waits for other work"
    count = f" {work.done:,}" if work.done else ""
    if work.total:
        count = f" {min(work.done, work.total):,} of {work.total:,}"
    return f"{work.what}: {work.phase}{count}"


# -- verify

#: Advice by kinds of problems; {shadow} is the path of the shadow repository.
_ADVICE = {
    "damaged_object missing_object damaged_pack damaged_index missing_pack wrong_object": """\
Your files are not affected; reading, diffing and undoing what is damaged is.
Stop stetd, put the files named above back from a backup of
  {shadow}
start it, and verify again. Whatever is lost for good stays named here.""",
    "reference": "stetd puts its references right when it starts: stop it and run stet status.",
    "journal": """\
Do not stop stetd before its state directory is copied: what the journal has
lost may still be in its memory, and it goes to Git within a second.""",
    "malformed reverts count expect replaced": """\
Somebody, or something, other than stetd has written to the history. Keep a
copy of it, and compare it with a backup before you rely on it.""",
}


def verify(arguments: Arguments, output: Output) -> int:
    """Verify the history of the workspace; exit status 1 if it has problems."""
    if not re.fullmatch("[0-9a-f]{12,40}", arguments.expect or "0" * 40):
        raise InvalidParams("--expect is the id of a commit, or at least 12 digits of it")
    # No timeout: verifying a long history takes minutes.
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
    output.tell(result, _verify_lines(result, shadow), long=True)
    return 0 if result.ok else 1


def _find_deferred(arguments: Arguments) -> WorkspaceInfo | None:
    """The workspace of the directory, if it is deferred: hello and all calls in it fail."""
    here = os.path.realpath(arguments.directory)
    with asking.person(arguments, workspace=False) as session:
        known = session.perform(calls.workspace_list()).workspaces
    around = [each for each in known if os.path.join(here, "").startswith(each.root + os.sep)]
    innermost = max(around, key=lambda each: len(each.root), default=None)
    return innermost if innermost is not None and innermost.trouble else None


def _verify_lines(result: VerifyResult, shadow: str) -> Iterator[Line]:
    counts = f"{plural(result.commits, 'commit')} and {plural(result.objects, 'object')}"
    if result.ok:
        yield (Span("The history is whole", "bold green"), Span(f": {counts}."))
        if result.head is not None:
            yield (
                Span("Its newest commit is "),
                Span(result.head, "yellow"),
                Span(". Note it elsewhere; stet verify --expect ID then tells "),
                Span("whether it is still there."),
            )
    else:
        problems = plural(len(result.problems), "problem")
        yield (Span(problems, "bold red"), Span(f" among {counts}:"))
        for problem in result.problems:
            yield (Span("  " + visible(problem.message)),)
    for warning in result.warnings:
        yield (Span(f"  warning: {visible(warning)}", "yellow"),)
    if result.changed_outside:
        were = "was" if result.changed_outside == 1 else "were"
        changed = f"{plural(result.changed_outside, 'file')} {were} changed outside since."
        yield (Span(changed, "dim"),)
    if not result.ok:
        kinds = {problem.kind for problem in result.problems}
        yield ()
        for concerned, advice in _ADVICE.items():
            if not kinds.isdisjoint(concerned.split()):
                for line in advice.format(shadow=visible(shadow)).split("\n"):
                    yield (Span(line),)
