"""Refusals that several rooms need: one constructor each."""

from __future__ import annotations

import errno
import os

from stet.wire.failures import Failure, Kind, Refused, refuse
from stetd.parameters import invalid

#: Texts of the errors that mean a full disk. The historian reports texts, and libgit2 quotes these.
_FULL_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL = [os.strerror(code) for code in _FULL_CODES]


def history_unwritable(trouble: str | None) -> Refused:
    """The historian can't write the history, and the journal has grown too large meanwhile."""
    full = any(text in (trouble or "") for text in _FULL)
    return refuse(
        Kind.STORAGE_FULL if full else Kind.IO_ERROR,
        f"the history can't be written at present ({trouble or 'it takes too long'}). "
        "Nothing was changed. "
        + ("Free some space and send the call again." if full else "Try again later."),
    )


def io_failure(error: OSError) -> Refused:
    """An I/O error before anything was changed."""
    full = error.errno in _FULL_CODES
    kind = Kind.STORAGE_FULL if full else Kind.IO_ERROR
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    what = error.strerror or repr(error)
    advice = " Free some space and send the call again." if full else ""
    return Refused(Failure(kind.value, f"{where}{what}. Nothing was changed.{advice}"))


def damaged_history(what: str) -> Refused:
    """The history can't be read; ``what``: the id of an object that can't, or what is wrong."""
    said = what if " " in what else f"object {what} is missing or can't be read"
    return refuse(
        Kind.IO_ERROR,
        f"the history is damaged: {said}. Nothing was changed. "
        "A person must look at it: stet verify names what is damaged and says what to do.",
    )


def outcome_unknown() -> Refused:
    """Whether the call was carried out is unknown until the daemon starts again."""
    return refuse(
        Kind.OUTCOME_UNKNOWN,
        "stetd could not finish the call, and it is not known whether the call will stand; that is "
        "settled when stetd starts again. Ask again then with the same request_id.",
    )


def contended(path: str, attempts: int) -> Refused:
    """Somebody else saved the file during every attempt; ``path`` "": not one file alone."""
    what = f"{path}: the file" if path else "what the call reads"
    return refuse(
        Kind.CONTENDED,
        f"{what} kept changing while the call was tried ({attempts} times); nothing of the call "
        "was applied. Read the file again and retry when it has settled.",
        path=path or None,
    )


def other_call(request: str) -> Refused:
    """The request id was used for another call."""
    return invalid(
        f"request_id {request!r} was used for another call before; "
        "make a new id for every new call.",
    )


def read_only(reason: str) -> Refused:
    """The daemon carries out no writing call any more."""
    return refuse(
        Kind.READ_ONLY,
        f"the daemon is read-only: {reason}. Reading works; "
        "a person must look into it and restart stetd.",
    )


def no_longer_allowed() -> Refused:
    """The workspace was forgotten after the connection's hello."""
    return refuse(
        Kind.WORKSPACE_NOT_ALLOWED,
        "this workspace is no longer allowed. The person can allow it again: stet init DIR",
    )


def shutting_down() -> Refused:
    """The call came too late to be started."""
    return refuse(
        Kind.SHUTTING_DOWN,
        "The daemon is stopping; this call was not started and changed nothing. Connect again in a "
        "moment and send it again.",
    )
