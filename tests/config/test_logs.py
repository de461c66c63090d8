"""What a log record looks like on standard error, and as journald is sent it."""

from __future__ import annotations

import io
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stetd.config import logs
from stetd.config.logs import Fields, JournalLog, Log


def record(message: str, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("stetd.x", level, __file__, 1, message, args, None)
    made.created = 1_700_000_000.25
    return made


def told_by(tell: Callable[[Log], None]) -> str:
    """What comes to standard error, without the time."""
    out = io.StringIO()
    tell(Log(out))
    return out.getvalue().removesuffix("\n").partition(" ")[2]


def line(message: str, *args: object) -> str:
    return told_by(lambda log: log.emit(record(message, *args)))


def call(**fields: str | float | None) -> str:
    return told_by(lambda log: log.call(Fields({"pid": 1}), Fields(fields)))


@pytest.fixture(autouse=True)
def _informs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def parsed(datagram: bytes) -> dict[str, bytes]:
    """The fields of a datagram in journald's protocol."""
    fields = {}
    while datagram:
        head, _, rest = datagram.partition(b"\n")
        key, equals, value = head.partition(b"=")
        if not equals:
            length = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + length], rest[8 + length + 1 :]
        fields[key.decode()] = value
        datagram = rest
    return fields


class Journald:
    def __init__(self, directory: Path) -> None:
        self.address = str(directory / "journal")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.settimeout(10)

    def fields(self) -> dict[str, bytes]:
        return parsed(self.socket.recv(1 << 20))


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[Journald]:
    made = Journald(tmp_path)
    yield made
    made.socket.close()


def test_line_says_when_how_bad_and_from_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.25)
    out = io.StringIO()
    Log(out).emit(record("it is %d", 5))
    assert out.getvalue() == "2023-11-14T22:13:20.250Z INFO stetd.x: it is 5\n"


def test_a_record_whose_arguments_do_not_fit_is_written_without_them() -> None:
    assert line("%d files", "x") == "INFO stetd.x: %d files (TypeError)"


def test_fields_of_a_call_are_quoted_where_they_need_it() -> None:
    told = call(agent='a "b"\\', session="conv-1", ms=0.5, commit=None, of="")
    expected = r'call pid=1 agent="a \"b\"\\" session=conv-1 ms=0.5 of=""'
    assert told == f"INFO stetd.calls: {expected}"


def test_calls_have_no_line_above_level_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert call(method="patch") == ""


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        (r'a="x\n2023 INFO stetd: stopped"', "x\n2023 INFO stetd: stopped"),
        (r'a="\x1b[2J\r"', "\x1b[2J\r"),
        (r'a="\u2028\x85"', "\u2028\x85"),
        ('a="Bärbel übt"', "Bärbel übt"),
        (r'a="x result=ok"', "x result=ok"),
    ],
)
def test_nobody_can_write_a_line_of_his_own(expected: str, name: str) -> None:
    assert call(a=name) == f"INFO stetd.calls: call pid=1 {expected}"
    assert len(line("late write to %s", name).splitlines()) == 1


def test_stack_of_a_defect_does_not_quote_what_was_edited() -> None:
    try:
        try:
            raise KeyError("the secret\nof the file")
        except KeyError as inner:
            raise PermissionError(13, "Permission denied", "/x") from inner
    except PermissionError as error:
        made = record("planning patch failed")
        made.exc_info = (type(error), error, error.__traceback__)
    told = told_by(lambda log: log.emit(made)).split("\n")
    assert told[0] == "INFO stetd.x: planning patch failed"
    here = f"  | {__file__}:{{}} in test_stack_of_a_defect_does_not_quote_what_was_edited"
    numbers = [int(each.split(":")[1].split()[0]) for each in told if each.startswith("  | /")]
    assert told[1:] == [
        here.format(numbers[0]),
        "  | KeyError",
        here.format(numbers[1]),
        "  | PermissionError: Permission denied",
    ]


def test_journald_is_sent_fields(journald: Journald) -> None:
    handler = JournalLog(journald.address, io.StringIO())
    caller = Fields({"session": "conv\n1"})
    handler.call(caller, Fields({"method": "patch", "ms": 1.5, "commit": None}))
    handler.close()
    assert journald.fields() == {
        "MESSAGE": rb'call session="conv\n1" method=patch ms=1.5',
        "PRIORITY": b"6",
        "SYSLOG_IDENTIFIER": b"stetd",
        "SYSLOG_PID": str(os.getpid()).encode(),
        "LOGGER": b"stetd.calls",
        "STET_SESSION": b"conv\n1",
        "STET_METHOD": b"patch",
        "STET_MS": b"1.5",
    }


@pytest.mark.parametrize(
    ("expected", "level"),
    [(7, 10), (6, 20), (6, 25), (4, 30), (3, 40), (2, 50), (2, 60), (7, 5)],
)
def test_severities_have_their_priority(journald: Journald, expected: int, level: int) -> None:
    handler = JournalLog(journald.address, io.StringIO())
    handler.emit(record("text", level=level))
    handler.close()
    assert journald.fields()["PRIORITY"] == b"%d" % expected


def test_what_journald_does_not_take_is_on_standard_error(tmp_path: Path) -> None:
    out = io.StringIO()
    handler = JournalLog(str(tmp_path / "nobody"), out)
    handler.emit(record("going read-only: %s", "disk\nfull", level=logging.ERROR))
    handler.close()
    assert out.getvalue() == "<3>going read-only: disk\\nfull\n"


def test_very_long_message_still_fits_a_datagram(journald: Journald) -> None:
    handler = JournalLog(journald.address, io.StringIO())
    handler.emit(record("x" * 5_000_000))
    handler.close()
    assert journald.fields()["MESSAGE"] == b"x" * 16384


def test_a_record_that_nobody_accepts_is_dropped(tmp_path: Path) -> None:
    """As when journald stops: it reads standard error, too."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        handler = JournalLog(str(tmp_path / "nobody"), broken)
        handler.emit(record("x" * 100_000))
        handler.close()
        with suppress(BrokenPipeError):
            broken.close()


def test_journal_is_used_only_for_the_stream_that_is_connected_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    with (tmp_path / "a").open("w") as stream:
        found = os.fstat(stream.fileno())
        own = f"{found.st_dev}:{found.st_ino}"
        assert not logs.is_journal(stream)
        monkeypatch.setenv("JOURNAL_STREAM", own + "1")
        assert not logs.is_journal(stream)
        monkeypatch.setenv("JOURNAL_STREAM", own)
        assert logs.is_journal(stream)
    assert not logs.is_journal(io.StringIO())


def test_newest_error_is_remembered_and_nothing_milder() -> None:
    last = Log(io.StringIO())
    logger = logging.Logger("x")
    logger.addHandler(last)
    logger.warning("mild")
    assert last.newest is None
    logger.error("first")
    last.emit(record("a\nb", level=logging.ERROR))
    logger.warning("mild")
    newest = vars(last)["newest"]
    assert newest is not None
    assert (newest.time, newest.message) == ("2023-11-14T22:13:20Z", "a\\nb")
