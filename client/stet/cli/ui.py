"""``stet ui``: the history to look at, and to take back from."""

from __future__ import annotations

import argparse

from stet.cli.output import Output
from stet.cli.usage import UsageError


def ui(arguments: argparse.Namespace, output: Output) -> None:
    """Show the history until the person leaves."""
    if output.as_json:
        raise UsageError("stet ui is for people; stet log --json and stet watch --json are not")
    try:
        from stet.ui.app import HistoryApp
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("textual"):
            raise
        raise UsageError(
            "stet ui needs the Python package textual, which is not installed here. Install it "
            "with: pip install 'stetd[ui]'"
        ) from error
    HistoryApp(arguments.directory, light=output.light).run()
