"""``stet report``: edits as one page for a pull request or an auditor."""

from __future__ import annotations

import argparse
import os
from typing import Any

import stet
from stet.cli import asking
from stet.cli.history import moment
from stet.cli.output import Output
from stet.cli.usage import UsageError
from stet.report import gathering, page


def report(arguments: argparse.Namespace, output: Output) -> None:
    """Write the page, which is there whole or not at all."""
    if output.as_json:
        raise UsageError("a report is a page; stet export --format jsonl is for programs")
    wanted: dict[str, Any] = {
        "session": arguments.session,
        "agent": arguments.agent,
        "since": moment(arguments.since),
        "until": moment(arguments.until),
        "paths": arguments.paths or None,
    }
    with asking.person(arguments, timeout=None) as session:
        made = gathering.gather(session, wanted)
    path = os.path.join(arguments.directory, arguments.output)
    unfinished = path + ".part"
    try:
        with open(unfinished, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(page.html(made))
        os.replace(unfinished, path)
    except OSError as error:
        raise stet.StetError(f"{path}: {error.strerror}") from error
    output.content(f"{path}: {len(made.commits):,} commits\n")
