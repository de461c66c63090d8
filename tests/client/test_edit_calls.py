"""What the editing methods send, in all dialects, blocking and awaited; and what they give."""

from __future__ import annotations

import asyncio
import inspect
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
]  # fmt: skip


@pytest.mark.parametrize(("call", "params"), SENT)
def test_what_is_given_is_sent_and_nothing_else(
    call: Call[EditResult], params: dict[str, Any]
) -> None:
    with scripted(in_turn(empty_edit("c" * 40))) as daemon:
        with stet.connect("/ws", endpoint=daemon.endpoint, start=False) as session:
            assert session.perform(call).commit == "c" * 40
        [request] = daemon.requests
        assert (request.method, request.params) == (call.method, params)
    assert call.repeatable


@pytest.mark.parametrize("name", ["patch", "patch_file", "patch_block", "apply_patch"])
def test_both_sessions_have_the_method_with_the_parameters_of_the_call(name: str) -> None:
    wanted = list(inspect.signature(getattr(calls, name)).parameters)
    for session in (stet.Session, stet.aio.AsyncSession):
        method = getattr(session, name)
        assert list(inspect.signature(method).parameters) == ["self", *wanted]
        assert method.__doc__ == getattr(calls, name).__doc__


def test_a_call_without_a_request_id_gets_one_of_its_own() -> None:
    made = [calls.apply_patch(PATCH), calls.apply_patch(PATCH), calls.patch_block(BLOCK)]
    assert len({call.request_id for call in made}) == 3


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


def test_awaited_calls_send_the_same() -> None:
    async def story() -> None:
        async with stet.aio.connect("/ws", endpoint=daemon.endpoint, start=False) as session:
            await session.patch_file("a", [stet.change("a", "b")], request_id="1")
            await session.patch_block(BLOCK, request_id="2")
            await session.apply_patch(PATCH, request_id="3")

    with scripted(lambda request: empty_edit()) as daemon:
        asyncio.run(asyncio.wait_for(story(), 30))
    assert [(request.method, request.params["request_id"]) for request in daemon.requests] == [
        ("patch_file", "1"),
        ("patch_block", "2"),
        ("apply_patch", "3"),
    ]


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
