"""Reading files and the history; all but small files on the reading threads."""

from __future__ import annotations

from dataclasses import replace

from stet.wire.failures import Kind, Refused
from stetd import blame_reading, history_reading, reading
from stetd.caller import Caller, Method, Params
from stetd.params import Blame, Diff, Log, Read, Show, convert
from stetd.reading import Place

#: A file of no more bytes is read at once.
_SMALL_BYTES = 128 * 1024


async def _read(caller: Caller, params: Params) -> object:
    read = convert(Read, "read", params)
    if read.at is None:
        place = await caller.on_writer(caller.place)
        try:
            return reading.read_file(_at_most(place, _SMALL_BYTES), read)
        except Refused as refusal:
            if refusal.kind != Kind.FILE_TOO_LARGE or place.max_file_bytes <= _SMALL_BYTES:
                raise
    return await caller.reading(lambda place: reading.read_file(place, read))


async def _log(caller: Caller, params: Params) -> object:
    log = convert(Log, "log", params)
    return await caller.reading(lambda place: history_reading.log(place, log))


async def _show(caller: Caller, params: Params) -> object:
    show = convert(Show, "show", params)
    return await caller.reading(lambda place: history_reading.show(place, show.commit))


async def _blame(caller: Caller, params: Params) -> object:
    blame = convert(Blame, "blame", params)
    return await caller.reading(lambda place: blame_reading.blame_file(place, blame))


async def _diff(caller: Caller, params: Params) -> object:
    diff = convert(Diff, "diff", params)
    return await caller.reading(lambda place: reading.diff(place, diff))


def _at_most(place: Place, size: int) -> Place:
    return replace(place, max_file_bytes=min(size, place.max_file_bytes))


METHODS = {
    "read": Method(_read),
    "log": Method(_log),
    "show": Method(_show),
    "diff": Method(_diff),
    "blame": Method(_blame),
}
