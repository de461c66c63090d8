"""What ``observe`` answers: what an agent's own tool was seen to do to the files."""

from __future__ import annotations

import msgspec


class ObservedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that was changed. ``status`` A, M, D, or R with ``old_path``; blob ids or null."""

    path: str
    status: str
    before: str | None
    after: str | None
    old_path: str | None = None


class ObserveResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of ``observe``.

    ``outside``: the newest commit of what had been there and the history did not know. ``commit``
    and ``files``: what the tool has changed, after it has run. ``complete``: of the whole
    workspace all could be looked at; true where paths were named. ``untold``: nobody told before
    the tool ran, so nothing is attributed to it.
    """

    commit: str | None = None
    outside: str | None = None
    files: list[ObservedFile] = []
    complete: bool = True
    untold: bool = False
    warnings: list[str] = []
    replayed: bool = False
    request: str | None = None
