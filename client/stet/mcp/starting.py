"""The life of ``stet mcp``: the client's first requests at once, then the SDK's server.

    read, answer   what opening.Opening knows: the process is some tens of milliseconds old
    load           the SDK, in a thread, once the tools were listed
    hand over      at the first request that only the SDK answers; of those before it, it is told
                   of the handshake, and its answer to that is dropped

A client that only looks which tools there are never waits for the SDK, and one that lists
the tools and then thinks does not either.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from importlib import util
from typing import NoReturn

from stet.mcp import catalogue, json_rpc
from stet.mcp.opening import Asked, Opening
from stet.mcp.options import Options
from stet.mcp.stdio import LONGEST_LINE, LineReader, LineWriter, NoLine, claim

_TOO_LONG = json_rpc.too_long(LONGEST_LINE)


class SdkMissing(Exception):
    """The package ``mcp`` is not installed."""


def run(options: Options) -> NoReturn:
    """Serve on standard input and output until the client is gone; ends the process.

    Raises SdkMissing, before anything is read.
    """
    if util.find_spec("mcp") is None:
        raise SdkMissing
    reader, writer = claim()
    asked = _open(reader, writer, options)
    if asked is not None:
        _serve(reader, writer, asked, options)
    _end(0)


def _open(reader: LineReader, writer: LineWriter, options: Options) -> Asked | None:
    """Answer what can be answered; what the server is to be told, None if the client is gone."""
    opening = Opening(catalogue.definitions(options.dialects, structured=options.structured))
    loading = False
    while (line := reader.next_line()) is not NoLine.END:
        answer = _TOO_LONG if isinstance(line, NoLine) else opening.take(line)
        if isinstance(answer, Asked):
            return answer
        if answer is not None and not writer.write(answer):
            return None
        if opening.listed and not loading:
            loading = True
            threading.Thread(target=_load, name="loading", daemon=True).start()
    return None


def _load() -> None:
    """Load what _serve needs, so that it finds it loaded; what goes wrong shows there."""
    with contextlib.suppress(Exception):
        from stet.mcp import serving  # noqa: F401


def _serve(reader: LineReader, writer: LineWriter, asked: Asked, options: Options) -> None:
    import asyncio

    from stet.mcp.serving import serve

    async def serve_and_end() -> None:
        await serve(reader, writer, asked, options)
        # Not by returning: asyncio.run() would wait for threads that wait for the client, or
        # for a daemon to start.
        _end(0)

    asyncio.run(serve_and_end())


def _end(status: int) -> NoReturn:
    """End the process without waiting for its threads, one of which may be loading the SDK."""
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(status)
