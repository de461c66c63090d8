"""What ``stet mcp`` was told on its command line and in the environment."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True):
    """``workspace``: an absolute directory. ``session``: that of calls that name none; None: the
    conversation that the client holds, or ``own_session``, which is this process's alone.

    ``agent``: instead of the name that the client gives itself. ``dialects``: the edit tools
    that are offered. ``secret``: of the session (CONTRACT.md 2). ``structured``: results have
    structured content beside the text.
    """

    workspace: str
    session: str | None
    own_session: str
    agent: str | None
    dialects: tuple[str, ...]
    secret: str | None
    structured: bool = False
