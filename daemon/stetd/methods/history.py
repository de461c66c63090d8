"""Reading files and exporting the history. The other questions go straight to the historian."""

from __future__ import annotations

from msgspec.structs import replace

from stet.wire.failures import Kind, Refused
from stet.wire.results import ExportResult, ReadResult
from stetd.methods.caller import Caller
from stetd.planning.file_reading import read_now
from stetd.transaction.parameters import Export, Read, invalid

#: A file of no more bytes is read at once, by the engine.
_SMALL_BYTES = 128 * 1024


async def read(caller: Caller, wanted: Read) -> object:
    """Read a file. The historian reads large ones, and those of a commit."""
    if wanted.at is None:
        place = await caller.on_writer(caller.place)
        try:
            small = min(_SMALL_BYTES, place.max_file_bytes)
            return read_now(replace(place, max_file_bytes=small), wanted)
        except Refused as refusal:
            if refusal.kind != Kind.FILE_TOO_LARGE or place.max_file_bytes <= _SMALL_BYTES:
                raise
    return await caller.ask("read", wanted, ReadResult)


async def export(caller: Caller, wanted: Export) -> ExportResult:
    """Export commits; who may read the history may export it."""
    if wanted.format == "diff" and (wanted.cursor or wanted.limit):
        raise invalid("export: one diff has no pages; leave out cursor and limit.")
    return await caller.ask("export", wanted, ExportResult)
