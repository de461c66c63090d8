"""Commits as people write them: ``@``, ``HEAD^``, ``4f3c~2``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import stet

_STEPS = re.compile(r"(?P<base>[^~^]+)(?P<steps>(?:~\d*|\^)+)")
_STEP = re.compile(r"~(\d*)|\^")
#: Steps back that are taken one by one, for what is no name of a commit's.
_MOST_STEPS = 1000


def named(session: stet.Session, word: str) -> str:
    """The commit as the daemon takes it. Raises StetError where there is none so far back."""
    found = _STEPS.fullmatch(word)
    base = found["base"] if found else word
    base = "HEAD" if base == "@" else base
    if found is None:
        return base
    steps = sum(
        1 if each[1] is None else int(each[1] or 1) for each in _STEP.finditer(found["steps"])
    )
    if not re.fullmatch("[0-9a-f]{4,40}", base) or steps > _MOST_STEPS:
        return f"{base}~{steps}" if steps else base  # the daemon counts from HEAD and pins
    commit: str | None = session.show(base).commit
    for _ in range(steps):
        parent = session.show(commit).parent if commit is not None else None
        if parent is None:
            raise stet.UnknownCommit(f"{word}: the history does not go back so far")
        commit = parent
    return commit or base


def all_named(session: stet.Session, words: Sequence[str]) -> list[str]:
    """The same for several."""
    return [named(session, word) for word in words]
