"""Every method of the daemon is a method of both clients, with every parameter."""

from __future__ import annotations

import asyncio
import inspect
import typing

import msgspec
import pytest

import stet
from stet import calls
from stet.calls import Call
from stet.session.methods import SessionMethods
from stetd import parameters as params
from stetd.editing.tools.inputs import (
    ApplyPatchInput,
    PatchBlockInput,
    PatchFileInput,
    PatchInput,
    ToolInput,
    fields_of,
)
from stetd.editing.tools.validation import in_snake_case
from stetd.methods import METHODS

#: Methods that are not sent as they are, and what does it.
OTHERWISE = {
    "hello": "connect() says it, and says it again after a lost connection",
    "subscribe": "events() does it, on a connection of its own",
}
COMMON = {field.encode_name for field in msgspec.structs.fields(params.Common)}


def names_of(kind: type[params.Params]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def fields(model: type[ToolInput]) -> set[str]:
    return {in_snake_case(name) for name in fields_of(model)}


#: What each method takes, as the daemon has it.
TAKES: dict[str, set[str]] = {
    "patch": fields(PatchInput) | COMMON,
    "patch_file": fields(PatchFileInput) | COMMON,
    "patch_block": fields(PatchBlockInput) | COMMON,
    "apply_patch": fields(ApplyPatchInput) | COMMON,
    "transaction": {"calls"} | COMMON,
    "undo": names_of(params.Undo) | COMMON,
    "redo": names_of(params.Redo) | COMMON,
    "rollback": names_of(params.Rollback) | COMMON,
    "restore": names_of(params.Restore) | COMMON,
    # It has nothing to preview, and no file that it would match.
    "observe": names_of(params.Observe) | COMMON - {"preview", "if_match"},
    "read": names_of(params.Read),
    "log": names_of(params.Log),
    "show": names_of(params.Show),
    "diff": names_of(params.Diff),
    "blame": names_of(params.Blame),
    "export": names_of(params.Export),
    "session_list": names_of(params.OneWorkspace),
    "session_end": names_of(params.SessionEnding),
    "clipboard_list": set(),
    "clipboard_get": names_of(params.ClipboardKey),
    "clipboard_set": names_of(params.ClipboardSetting),
    "clipboard_delete": names_of(params.ClipboardKey),
    "mode_get": set(),
    "mode_set": names_of(params.ModeSetting),
    "request_mode_upgrade": names_of(params.UpgradeAsking),
    "upgrade_list": names_of(params.UpgradeListing),
    "upgrade_decide": names_of(params.UpgradeDeciding),
    "pin_set": names_of(params.PinSetting),
    "pin_delete": names_of(params.PinName),
    "pin_list": set(),
    "tools": names_of(params.ToolStyle),
    "status": set(),
    "reload": set(),
    "shutdown": set(),
    "workspace_allow": names_of(params.Root),
    "workspace_forget": names_of(params.Root),
    "workspace_list": set(),
    "verify": names_of(params.Verify),
    "gc": names_of(params.OneWorkspace),
    "snapshot": names_of(params.TakeSnapshot),
    "forget": names_of(params.Forget),
}


def methods_of(session: type[SessionMethods]) -> set[str]:
    return {name for name in METHODS if callable(getattr(session, name, None))}


@pytest.mark.parametrize("session", [stet.Session, stet.aio.AsyncSession])
def test_every_method_of_the_daemon_is_one_of_the_session(session: type[SessionMethods]) -> None:
    assert methods_of(session) == METHODS.keys() - OTHERWISE.keys()


def test_every_call_is_of_a_method_that_the_daemon_has() -> None:
    """And of the right one: each function sends the method that it is named after."""
    sent = {name for name, made in vars(SessionMethods).items() if getattr(made, "__doc__", None)}
    sent &= {name for name, function in vars(calls).items() if inspect.isfunction(function)}
    assert sent - {"request"} == METHODS.keys() - OTHERWISE.keys()
    for name in sent - {"request"}:
        assert name == built(name).method


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OTHERWISE.keys()))
def test_it_takes_every_parameter_that_the_daemon_takes(name: str) -> None:
    accepted = {each.removesuffix("_") for each in inspect.signature(method(name)).parameters}
    assert TAKES[name] == accepted - {"self"}


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OTHERWISE.keys()))
def test_its_result_is_a_typed_value_and_help_shows_it(name: str) -> None:
    result = built(name).result
    assert isinstance(result, type)
    assert issubclass(result, msgspec.Struct)
    assert result.__name__ == inspect.signature(method(name)).return_annotation
    assert typing.get_type_hints(result)  # which the annotations' names are good for


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OTHERWISE.keys()))
def test_help_says_what_it_does(name: str) -> None:
    assert method(name).__name__ == name
    text = inspect.getdoc(method(name)) or ""
    assert len(text) > 20
    assert text.split("\n")[0].endswith((".", ","))


def test_patch_is_explained_with_its_units_and_errors() -> None:
    text = inspect.getdoc(stet.Session.patch) or ""
    for said in ("Raises", "OldTextNotFound", "OldTextNotUnique", "ToolDisabled", "if_match"):
        assert said in text


def test_the_asyncio_method_gives_a_coroutine() -> None:
    session = stet.aio.connect("/nowhere", start=False)
    waiting = session.status()
    assert asyncio.iscoroutine(waiting)
    waiting.close()


def method(name: str) -> typing.Any:
    found = getattr(stet.Session, name)
    assert found is getattr(stet.aio.AsyncSession, name)
    return found


def built(name: str) -> Call[typing.Any]:
    """The call that a function makes of any values at all."""
    function = getattr(calls, name)
    needed = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.default is inspect.Parameter.empty
    ]
    made: Call[typing.Any] = function(*([] if name == "transaction" else "x" for _ in needed))
    return made
