"""Reading files and the history. Small files are read here, all else by the historian."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stet.wire.failures import Kind, Refused
from stet.wire.results import BlameResult, DiffResult, LogResult, ReadResult, ShowResult
from stetd.methods.caller import Caller, Method, Params
from stetd.planning.file_reading import read_now
from stetd.transaction.parameters import Blame, Diff, Log, Read, Show, convert

#: A file of no more bytes is read at once.
_SMALL_BYTES = 128 * 1024


async def _read(caller: Caller, params: Params) -> object:
    read = convert(Read, "read", params)
    if read.at is None:
        place = await caller.on_writer(caller.place)
        try:
            small = min(_SMALL_BYTES, place.max_file_bytes)
            return read_now(replace(place, max_file_bytes=small), read)
        except Refused as refusal:
            if refusal.kind != Kind.FILE_TOO_LARGE or place.max_file_bytes <= _SMALL_BYTES:
                raise
    return await caller.ask("read", read, ReadResult)


def _asking(name: str, params: Any, result: Any) -> Method:
    async def run(caller: Caller, given: Params) -> object:
        return await caller.ask(name, convert(params, name, given), result)

    return Method(run)


METHODS = {
    "read": Method(_read),
    "log": _asking("log", Log, LogResult),
    "show": _asking("show", Show, ShowResult),
    "diff": _asking("diff", Diff, DiffResult),
    "blame": _asking("blame", Blame, BlameResult),
}
