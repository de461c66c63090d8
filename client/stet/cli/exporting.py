"""``stet export``: edits as an mbox for ``git am``, as one diff, as JSON lines."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

import stet
from stet import calls
from stet.cli import asking
from stet.cli.history import moment
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.wire.results import ExportResult

_RANGE = re.compile(r"([^/]*?)\.\.([^/]*)")


def export(arguments: argparse.Namespace, output: Output) -> None:
    """Print edits, or write them to a file, page after page."""
    first, last, paths = _range(arguments.what)
    wanted: dict[str, Any] = {
        "format": arguments.format,
        "from_": first,
        "to": last,
        "session": arguments.session,
        "agent": arguments.agent,
        "method": arguments.method,
        "since": moment(arguments.since),
        "until": moment(arguments.until),
        "paths": paths or None,
        "outside": arguments.outside,
    }
    with asking.person(arguments, timeout=None) as session:
        pages = _pages(session, wanted)
        if output.as_json:
            output.value(_joined(list(pages)))
        elif arguments.output is not None:
            _told(_written(pages, os.path.join(arguments.directory, arguments.output)), arguments)
        else:
            for page in pages:
                output.content(page.content)


def _range(words: list[str]) -> tuple[str | None, str | None, list[str]]:
    """``A..B``, either left out, and the paths after it."""
    found = _RANGE.fullmatch(words[0]) if words and not os.path.exists(words[0]) else None
    if found is None:
        return None, None, words
    return found[1] or None, found[2] or None, words[1:]


def _pages(session: stet.Session, wanted: dict[str, Any]) -> Iterator[ExportResult]:
    cursor: str | None = None
    while True:
        page = session.perform(calls.export(**wanted, cursor=cursor))
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def _joined(pages: list[ExportResult]) -> ExportResult:
    return msgspec.structs.replace(
        pages[0],
        content="".join(page.content for page in pages),
        commits=sum(page.commits for page in pages),
        context=sum(page.context for page in pages),
        skipped=sum(page.skipped for page in pages),
        cursor=None,
    )


def _written(pages: Iterator[ExportResult], path: str) -> ExportResult:
    """Write the pages to a file, which is there whole or not at all."""
    counts: list[ExportResult] = []
    unfinished = path + ".part"
    try:
        with open(unfinished, "w", encoding="utf-8", newline="") as file:
            for page in pages:
                file.write(page.content)
                counts.append(msgspec.structs.replace(page, content=""))
        os.replace(unfinished, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
    return _joined(counts)


def _told(result: ExportResult, arguments: argparse.Namespace) -> None:
    noun = "commit" if result.commits == 1 else "commits"
    more = f", {result.context} of them made by others in between" if result.context else ""
    print(f"{arguments.output}: {result.commits} {noun}{more}", file=sys.stderr)
