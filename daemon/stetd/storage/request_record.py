"""The record of an answered call, which answers its retries."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from stetd.storage.journal_format import Change, FormatError, too_new

#: Version of the file that stores them, SQLite's ``user_version``.
VERSION = 1
#: Offset of that in SQLite's file format: four bytes, big-endian.
_USER_VERSION = 60


class RequestRecord(msgspec.Struct, frozen=True):
    """An answered call. ``seq`` is the number of its journal record."""

    workspace: str
    session: str
    request: str
    digest: bytes
    reply: bytes
    time: int
    seq: int

    @property
    def key(self) -> tuple[str, str, str]:
        """The call's key: request ids are scoped to workspace and session."""
        return self.workspace, self.session, self.request


def answered(record: Change) -> RequestRecord:
    """The request record of a call, from its journal record."""
    return RequestRecord(
        record.workspace,
        record.session or "",
        record.request or "",
        record.digest,
        record.reply,
        record.time,
        record.number,
    )


def check_version(path: str) -> None:
    """Raise FormatError if a newer stetd has written the file that stores the records."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(_USER_VERSION)
        if int.from_bytes(file.read(4), "big") > VERSION:
            raise FormatError(f"{path}: {too_new('')}")
