"""``stet export`` and ``report``: edits as an mbox for ``git am``, a diff, JSON lines, HTML."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator

import msgspec

from stet.cli import asking
from stet.cli.history import RANGE, filters, report_no_commits
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.report.gathering import export_pages, gather
from stet.terminal.spans import plural


def export(arguments: Arguments, output: Output) -> None:
    """Print edits, or write them to a file, one page of the reply after the other."""
    if output.as_json and arguments.output not in (None, "-"):
        raise UsageError("--json is for standard output; leave out -o, or --json")
    paths: list[str] = arguments.what
    first = last = None
    is_path = paths and os.path.exists(os.path.join(arguments.directory, paths[0]))
    if paths and not is_path and (ends := RANGE.fullmatch(paths[0])):
        (first, last), paths = ends.groups(), paths[1:]
    wanted = filters(arguments, "format", "method", "outside") | {"paths": paths or None}
    with asking.person(arguments, timeout=None) as session:
        wanted["from_"] = asking.commit_named(session, first) if first else None
        wanted["to"] = asking.commit_named(session, last) if last else None
        pages = export_pages(session, wanted)
        if output.as_json:
            every, names = list(pages), ("commits", "context", "skipped")
            sums = {name: sum(getattr(page, name) for page in every) for name in names}
            content = "".join(page.content for page in every)
            output.value(msgspec.structs.replace(every[-1], content=content, **sums))
            return
        commits = context = 0
        with _writer(arguments, output) as write:
            for page in pages:
                write(page.content)
                commits, context = commits + page.commits, context + page.context
    if arguments.output not in (None, "-"):
        more = f", {context} of them made by others in between" if context else ""
        print(f"{arguments.output}: {plural(commits, 'commit')}{more}", file=sys.stderr)
    elif not commits:
        report_no_commits(arguments, paths)


def report(arguments: Arguments, output: Output) -> None:
    """Write an HTML page with edits, for a pull request or an auditor."""
    from stet.report import page

    if output.as_json:
        raise UsageError("a report is a page; stet export --format jsonl is for programs")
    with asking.person(arguments, timeout=None) as session:
        made = gather(session, filters(arguments, "paths"))
    with _writer(arguments, output) as write:
        for part in page.html(made):
            write(part)
    if arguments.output != "-":
        path = os.path.join(arguments.directory, arguments.output)
        output.content(f"{path}: {plural(len(made.commits), 'commit')}\n")
    if not made.commits:
        report_no_commits(arguments, arguments.paths)


@contextlib.contextmanager
def _writer(arguments: Arguments, output: Output) -> Iterator[Callable[[str], object]]:
    """A function that writes to -o FILE, or to standard output. Raises UsageError.

    The file appears at its path only when it is complete. A link is followed. What is no regular
    file (/dev/stdout, a pipe) is written to, not replaced.
    """
    if arguments.output in (None, "-"):
        yield output.content
        return
    path = os.path.join(arguments.directory, arguments.output)
    in_place = os.path.exists(path) and not os.path.isfile(path)
    target = os.path.realpath(path)
    unfinished = path if in_place else f"{target}.{os.getpid()}.part"
    try:
        with open(unfinished, "w", encoding="utf-8", errors="replace", newline="") as file:
            if os.path.exists(path) and not in_place:
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
            yield file.write
        if not in_place:
            os.replace(unfinished, target)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    finally:
        if not in_place and os.path.exists(unfinished):
            os.unlink(unfinished)
