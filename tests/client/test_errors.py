"""Every kind has its class, and a reply's error becomes the right one."""

from __future__ import annotations

import pytest

import stet
from stet import errors
from stet.wire.failures import ConflictingFile, Kind, code_of


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_class_named_after_it(kind: Kind) -> None:
    name = "".join(word.capitalize() for word in kind.split("_"))
    error = errors.from_reply(code_of(kind), "what was wrong", {"kind": kind.value})
    assert type(error) is getattr(stet, name)
    assert (error.kind, error.message, error.code) == (kind, "what was wrong", code_of(kind))
    assert str(error) == "what was wrong"


def test_all_error_classes_are_exported() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    own = {name for name in classes if issubclass(getattr(errors, name), stet.StetError)}
    assert own == set(errors.__all__)


@pytest.mark.parametrize("data", [None, {}, {"kind": "invented_later"}, {"kind": 7}])
def test_a_kind_of_a_newer_daemon_is_a_plain_error(data: dict[str, object] | None) -> None:
    assert type(errors.from_reply(-32000, "m", data)) is stet.StetError


def test_a_newer_kind_is_kept() -> None:
    error = errors.from_reply(-32000, "m", {"kind": "invented_later", "more": 1})
    assert (error.kind, error.data) == ("invented_later", {"kind": "invented_later", "more": 1})


def test_files_in_conflict_are_typed_and_never_raise() -> None:
    told = [{"path": "f", "hunks": ["a reason"]}, {"path": "g", "hunks": [], "commits": ["c"]}]
    error = errors.from_reply(-32000, "m", {"kind": "conflict", "conflicts": told})
    assert isinstance(error, stet.Conflict)
    assert error.files == [ConflictingFile("f", ["a reason"]), ConflictingFile("g", [], ["c"])]
    newer = errors.from_reply(-32000, "m", {"kind": "conflict", "conflicts": [{"file": "f"}]})
    assert isinstance(newer, stet.Conflict)
    assert newer.files == []


def test_failures_are_typed_and_never_raise() -> None:
    nearest = {"line": 3, "end_line": 4, "text": "x", "first_difference": "tab"}
    failure = {"kind": "old_text_not_found", "message": "m", "index": 0, "nearest": nearest}
    failure["call"] = 1
    error = errors.from_reply(-32000, "m", {"kind": "old_text_not_found", "failures": [failure]})
    (typed,) = error.failures
    assert typed.nearest is not None
    assert (typed.call, typed.index) == (1, 0)
    assert (typed.nearest.line, typed.nearest.first_difference) == (3, "tab")
    assert errors.from_reply(-32000, "m", {"kind": "stale", "failures": "odd"}).failures == []


def test_transport_errors_are_apart_from_refusals() -> None:
    for kind in (stet.DaemonUnreachable, stet.ConnectionLost, stet.TimedOut, stet.GarbledReply):
        assert issubclass(kind, stet.TransportError)
        assert kind.KIND not in {known.value for known in Kind}
    error = stet.ConnectionLost("m", request_id="r")
    assert error.data == {"kind": "connection_lost", "request_id": "r"}
    assert stet.ConnectionLost("m").data == {"kind": "connection_lost"}
