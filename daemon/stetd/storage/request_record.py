"""An answered call as it is remembered, for its retries."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from stetd.storage.journal_format import Change, FormatError, too_new

#: Version of the file that keeps them, as SQLite's ``user_version``.
VERSION = 1
#: Where SQLite's file format has that: four bytes, big end first.
_USER_VERSION = 60


class RequestRecord(msgspec.Struct, frozen=True):
    """What is remembered of an answered call. ``seq`` is its journal record's number."""

    workspace: str
    session: str
    request: str
    digest: bytes
    reply: bytes
    time: int
    seq: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Request ids are scoped to workspace and session."""
        return self.workspace, self.session, self.request


def answered(record: Change) -> RequestRecord:
    """What is remembered of a call, from its journal record."""
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
    """Raise FormatError if the file that keeps the records is a newer stetd's."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(_USER_VERSION)
        if int.from_bytes(file.read(4), "big") > VERSION:
            raise FormatError(f"{path}: {too_new('')}")
