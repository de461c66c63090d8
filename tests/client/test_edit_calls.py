"""What the methods send that edit or take back, in all dialects; and what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import stet
from client.scripted_daemon import Refusal, empty_edit, in_turn, scripted
from stet import calls
from stet.calls import Call
from stet.wire.failures import Kind
from stet.wire.results import BlockResult, EditResult

PATCH = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"
BLOCK = "===SKIPPY_PATCH_START:a.py===\n===FIND===\na\n===REPLACE===\nb\n===SKIPPY_PATCH_END===\n"

SENT: list[tuple[Call[EditResult], dict[str, Any]]] = [
    (
        calls.patch_file("a.py", [stet.change("a", "b")], request_id="r"),
        {"path": "a.py", "changes": [{"search": "a", "replace": "b"}], "request_id": "r"},
    ),
    (
        calls.patch_file(
            "a.py",
            stet.change("a(.)", r"\1", regex=True, occurrence=2, near_line=7, fuzzy=0.9),
            dry_run=True,
            context=3,
            backup=True,
            message="why",
            if_match="0" * 40,
            preview=True,
            request_id="r",
        ),
        {
            "path": "a.py",
            "changes": {
                "search": "a(.)",
                "replace": r"\1",
                "regex": True,
                "occurrence": 2,
                "near_line": 7,
                "fuzzy": 0.9,
            },
            "dry_run": True,
            "context": 3,
            "backup": True,
            "message": "why",
            "if_match": "0" * 40,
            "preview": True,
            "request_id": "r",
        },
    ),
    (calls.patch_file("a", [stet.change("a")], context=0, request_id="r"),
     {"path": "a", "changes": [{"search": "a", "replace": ""}], "context": 0, "request_id": "r"}),
    (calls.patch_block(BLOCK, request_id="r"), {"text": BLOCK, "request_id": "r"}),
    (
        calls.patch_block(BLOCK, "a.py", if_match={"a.py": None}, request_id="r"),
        {"text": BLOCK, "filepath": "a.py", "if_match": {"a.py": None}, "request_id": "r"},
    ),
    (calls.apply_patch(PATCH, request_id="r"), {"input": PATCH, "request_id": "r"}),
    (
        calls.apply_patch(PATCH, overwrite=True, ambiguous="first", preview=True, request_id="r"),
        {
            "input": PATCH,
            "overwrite": True,
            "ambiguous": "first",
            "preview": True,
            "request_id": "r",
        },
    ),
    (calls.redo(request_id="r"), {"request_id": "r"}),
    (
        calls.redo(["abcd"], message="again", preview=True, request_id="r"),
        {"commits": ["abcd"], "message": "again", "preview": True, "request_id": "r"},
    ),
    (calls.rollback("HEAD~3", request_id="r"), {"to": "HEAD~3", "request_id": "r"}),
    (
        calls.rollback("abcd", session="s", agent="a", paths=["src"], include_outside=True,
                       request_id="r"),
        {"to": "abcd", "session": "s", "agent": "a", "paths": ["src"], "include_outside": True,
         "request_id": "r"},
    ),
    (
        calls.restore("a.py", "abcd", if_match=None, request_id="r"),
        {"path": "a.py", "at": "abcd", "request_id": "r"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "params"), SENT)
def test_what_is_given_is_sent_and_nothing_else(
    call: Call[EditResult], params: dict[str, Any]
) -> None:
    assert call.result is EditResult
    with scripted(in_turn(empty_edit("c" * 40))) as daemon:
        with stet.connect("/ws", endpoint=daemon.endpoint, start=False) as session:
            assert session.perform(call).commit == "c" * 40
        [request] = daemon.requests
        assert (request.method, request.params) == (call.method, params)
    assert call.repeatable


def test_every_call_has_an_id_of_its_own() -> None:
    made = [calls.redo(), calls.redo(), calls.rollback("HEAD"), calls.restore("a", "HEAD")]
    made += [calls.apply_patch(PATCH), calls.apply_patch(PATCH), calls.patch_block(BLOCK)]
    assert len({call.request_id for call in made} - {None}) == 7


def test_a_transaction_takes_calls_of_all_dialects() -> None:
    call = calls.transaction(
        [
            calls.patch("a", [stet.replace("a", "b")]),
            calls.patch_file("a", [stet.change("b", "c")], context=1),
            calls.patch_block(BLOCK, "a.py", if_match={"a.py": "0" * 40}),
            calls.apply_patch(PATCH),
        ],
        message="why",
        request_id="r",
    )
    assert call.params == {
        "calls": [
            {
                "method": "patch",
                "params": {
                    "path": "a",
                    "patches": [{"operation": "replace", "oldText": "a", "newText": "b"}],
                },
            },
            {
                "method": "patch_file",
                "params": {
                    "path": "a",
                    "changes": [{"search": "b", "replace": "c"}],
                    "context": 1,
                },
            },
            {
                "method": "patch_block",
                "params": {"text": BLOCK, "filepath": "a.py", "if_match": {"a.py": "0" * 40}},
            },
            {"method": "apply_patch", "params": {"input": PATCH}},
        ],
        "message": "why",
        "request_id": "r",
    }


ONE = {"filepath": "a.py", "result": "Applied 1 changes", "error": None, "exitCode": 0}
TWO = {**ONE, "filepath": "b.py"}


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
@pytest.mark.parametrize("said", [ONE, [ONE, TWO]], ids=["one file", "two files"])
def test_the_structure_of_patch_block_is_typed(encoding: str, said: Any) -> None:
    answer = {**empty_edit("c" * 40), "result": said}
    with scripted(in_turn(answer, empty_edit())) as daemon:
        session = stet.connect("/ws", endpoint=daemon.endpoint, start=False, encoding=encoding)
        with session:
            result = session.patch_block(BLOCK).result
            assert session.patch_block(BLOCK).result is msgspec.UNSET
    results = result if isinstance(result, list) else [result]
    assert all(isinstance(each, BlockResult) for each in results)
    assert said == msgspec.to_builtins(result)


def test_a_refusal_of_patch_block_carries_the_structure() -> None:
    structure = {"filepath": "a.py", "result": "", "error": "not found", "exitCode": 1}
    refusal = Refusal(Kind.OLD_TEXT_NOT_FOUND, data={"result": structure})
    with scripted(in_turn(refusal)) as daemon:
        session = stet.connect("/ws", endpoint=daemon.endpoint, start=False)
        with session, pytest.raises(stet.OldTextNotFound) as caught:
            session.patch_block(BLOCK)
    assert caught.value.data["result"] == structure


@pytest.mark.parametrize(
    ("given", "params"),
    [
        ({}, {"style": "mcp"}),
        ({"style": "openai", "custom": True}, {"style": "openai", "custom": True}),
        ({"style": "openai", "api": "responses"}, {"style": "openai", "api": "responses"}),
    ],
)
def test_tools_are_asked_for_as_wanted(given: Any, params: dict[str, Any]) -> None:
    assert calls.tools(**given).params == params


@pytest.mark.parametrize(
    "made",
    [
        lambda: calls.patch("a", [], mesage="why"),  # type: ignore[call-arg]
        lambda: calls.patch("a", [], session="conv-1"),  # type: ignore[call-arg]
        lambda: calls.undo(sesion="conv-1"),  # type: ignore[call-arg]
        lambda: calls.log(kid="edit"),  # type: ignore[call-arg]
        lambda: calls.export(kid="edit"),  # type: ignore[call-arg]
    ],
)
def test_a_parameter_that_there_is_not_is_no_call(made: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"'(mesage|session|sesion|kid)'"):
        made()
