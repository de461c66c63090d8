"""Checks what a start of the daemon needs: ``python -m stetd.recovery.inspection``.

``stet doctor`` runs it, because the client imports none of the daemon's modules. It prints the
first thing that is wrong as a finding of the doctor, in JSON; null without a journal. It changes
nothing: a torn tail, which a start would cut off, is only reported. No daemon may have the journal
open: a record that is just being appended looks like a torn tail.
"""

from __future__ import annotations

import os
import sys

import msgspec

from stet.service.socket_path import UnsafeDirectory, quoted
from stetd.config.directories import Directories
from stetd.storage.disk import read_file
from stetd.storage.journal import check_complete, segment_numbers, segment_path
from stetd.storage.journal_format import Checkpoint, FormatError, Record, TooNew, read_segment

_START = "stet status"
#: The result of a check, as the doctor prints it in JSON.
Finding = dict[str, str | bool | None]


def _wrong(check: str, detail: str, mend: str | None) -> Finding:
    return {"check": check, "ok": False, "detail": detail, "mend": mend}


def inspect_all(directories: Directories, *, in_use: bool = False) -> Finding | None:
    """Check the directories and the configuration, and then the journal unless a daemon has it open
    (``in_use``).
    """
    try:
        directories.check()
    except UnsafeDirectory as error:
        return _wrong("directories", str(error), error.mend)
    except OSError:
        pass  # some of it is not there yet
    return None if in_use else inspect(directories.state)


def inspect(state: str) -> Finding | None:
    """Check the journal in a state directory; None if there is none yet."""
    directory, torn = os.path.join(state, "journal"), None
    found: list[Record] = []
    if not os.path.lexists(directory):
        return None
    try:
        numbers = segment_numbers(directory)
        for number in numbers:
            path = segment_path(directory, number)
            aside = _aside(path)
            data = read_file(path)
            try:
                records, end = read_segment(data)
                found += [record for _, record in records if isinstance(record, Checkpoint)]
            except TooNew as error:
                said = f"{path}: {error} - nothing is lost, but this stet is too old for it"
                return _wrong("journal", said, _upgrade_command())
            except FormatError as error:
                return _wrong("journal", f"{path}: {error}", f"mv {aside}")
            rest = len(data[end:].rstrip(b"\0"))
            if rest and torn is None:
                said = f"{path} ends with {rest} bytes that are no record; a start cuts them off"
                torn = _wrong("journal", said, f"cp {aside}")
        check_complete(directory, numbers, found)
    except FormatError as error:
        return _wrong("journal", str(error), f"mv {_aside(directory)}")
    except OSError as error:
        return _wrong("journal", f"{error.filename}: {error.strerror}", _START)
    readable = f"{len(numbers)} segments, all readable"
    fine: Finding = {"check": "journal", "ok": True, "detail": readable}
    return torn or (fine if numbers else None)


def _aside(path: str) -> str:
    return f"{quoted(path)} {quoted(path + '.damaged')}; {_START}"


def _upgrade_command() -> str:
    if "/pipx/venvs/" in sys.prefix:
        return "pipx upgrade stetd"
    if "/uv/tools/" in sys.prefix:
        return "uv tool upgrade stetd"
    return f"{quoted(sys.executable)} -m pip install --upgrade stetd"


if __name__ == "__main__":
    found = inspect_all(Directories.from_environment(), in_use="--in-use" in sys.argv)
    sys.stdout.buffer.write(msgspec.json.encode(found))
