"""``stet`` started under the name ``apply_patch``: in the place of Codex's command.

Models that were trained with Codex run ``apply_patch`` in a shell. A link of that name to
``stet``, in a directory of PATH, gives them this one, with the edits recorded:

    ln -s "$(command -v stet)" ~/.local/bin/apply_patch

    apply_patch 'PATCH'          the one argument is the patch, whatever it looks like
    echo 'PATCH' | apply_patch   without an argument it is read from standard input

As there: what was changed goes to standard output, an error to standard error without our
name before it; exit status 0 done, 1 refused, 2 wrong usage (no patch, two arguments). Not as
there: 3 when there is no daemon, and the paths that are printed are absolute.

There are no options. Session and agent come from $STET_SESSION and $STET_AGENT.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from stet.cli import editing
from stet.cli.output import Output
from stet.cli.usage import UsageError

#: Codex takes the second for a slip that models make.
NAMES = frozenset({"apply_patch", "applypatch"})

_USAGE = "Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments as those of ``stet apply-patch``, with ``run`` in them."""
    return argparse.Namespace(
        run=_run,
        given=list(argv),
        json=False,
        no_pager=True,
        directory=".",
        session=None,
        agent=None,
        message=None,
        preview=False,
        overwrite=False,
        ambiguous=None,
    )


def _run(arguments: argparse.Namespace, output: Output) -> None:
    editing.send_patch(_patch(arguments.given), arguments, output)


def _patch(given: Sequence[str]) -> str:
    if len(given) > 1:
        raise UsageError("Error: apply_patch accepts exactly one argument.")
    try:
        # What is no UTF-8 in an argument comes as halves of surrogate pairs.
        patch = (given[0].encode() if given else sys.stdin.buffer.read()).decode()
    except UnicodeError as error:
        raise UsageError("Error: the patch is not UTF-8.") from error
    if not given and not patch:
        raise UsageError(_USAGE)
    return patch
