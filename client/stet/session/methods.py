"""The common base of both sessions: one method per request, and the options of opening. No I/O.

A method passes a call of :mod:`stet.calls` to ``perform``. That returns the result in
:class:`stet.Session`, and a coroutine of the result in :class:`stet.aio.AsyncSession`. So one list
of methods serves both, and type checkers see the right types.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from stet import calls
from stet.calls import Call
from stet.service.spawn import Endpoint
from stet.session.patches import given
from stet.version import __version__
from stet.wire.framing import Encoding
from stet.wire.results import HelloResult

if TYPE_CHECKING:
    from stet.aio import AsyncSession
    from stet.session.blocking import Session

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)

#: Seconds that a call may take, with all its retries.
TIMEOUT = 120.0


class Opening(msgspec.Struct, frozen=True):
    """The options with which a session is opened, and opened again after a lost connection.

    ``workspace`` may be None on the control socket only. ``session`` None: the daemon chooses a
    name, which later connections of the same session must give. ``start``: whether to start a
    daemon if none answers.
    """

    endpoint: Endpoint
    workspace: str | None
    session: str | None
    agent: str | None
    secret: str | None
    encoding: Encoding
    start: bool

    def hello(self) -> Call[HelloResult]:
        """The first call on every connection of the session."""
        client = {"name": "stet-python", "version": __version__}
        named = given(
            workspace=self.workspace, session=self.session, agent=self.agent, secret=self.secret
        )
        return Call("hello", {"protocol": 1, "client": client, **named}, HelloResult)


class Request(Generic[P, T_co]):
    """The type of a method of SessionMethods for type checkers; at run time it is a function."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
        @overload
        def __get__(self, instance: Session, owner: type[Session]) -> Callable[P, T_co]: ...
        @overload
        def __get__(
            self, instance: AsyncSession, owner: type[AsyncSession]
        ) -> Callable[P, Coroutine[Any, Any, T_co]]: ...
        def __get__(self, instance: object, owner: type) -> object: ...


def _sends(build: Callable[P, Call[T_co]]) -> Request[P, T_co]:
    """Make a session's method from a function of stet.calls."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.perform(build(*args, **kwargs))

    method.__name__ = method.__qualname__ = build.__name__
    method.__doc__ = build.__doc__
    # stet's own programs need no signature for help(), and inspect takes long to load.
    if "stet.quick_start" not in sys.modules:
        _sign(method, build)
    return cast("Request[P, T_co]", method)


def _sign(method: Any, build: Any) -> None:
    """Set the signature of both, with the keywords of a TypedDict as single parameters."""
    import inspect

    own = inspect.signature(build)
    parameters = list(own.parameters.values())
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        kind = parameters.pop().annotation.removeprefix("Unpack[").removesuffix("]")
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if each.__forward_arg__ == "bool" else None,
                annotation=each.__forward_arg__,
            )
            for name, each in getattr(calls, kind).__annotations__.items()
        ]
    build.__signature__ = own.replace(parameters=parameters)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    # Annotations are strings here: "Call[results.ReadResult]" becomes ReadResult.
    result = re.sub(r"Call\[(?:results\.)?(\w+)\]", r"\1", str(own.return_annotation))
    method.__signature__ = own.replace(parameters=[this, *parameters], return_annotation=result)


class SessionMethods:
    """The methods and attributes that both sessions have.

    ``hello`` is the daemon's answer to the latest ``hello``: workspace, session name and mode.
    ``timeout``: seconds for a call with all its retries; None: no limit. It may be changed.
    """

    hello: HelloResult
    timeout: float | None

    patch = _sends(calls.patch)
    patch_file = _sends(calls.patch_file)
    patch_block = _sends(calls.patch_block)
    apply_patch = _sends(calls.apply_patch)
    transaction = _sends(calls.transaction)
    read = _sends(calls.read)
    undo = _sends(calls.undo)
    redo = _sends(calls.redo)
    rollback = _sends(calls.rollback)
    restore = _sends(calls.restore)
    observe = _sends(calls.observe)
    log = _sends(calls.log)
    show = _sends(calls.show)
    diff = _sends(calls.diff)
    blame = _sends(calls.blame)
    export = _sends(calls.export)
    verify = _sends(calls.verify)
    pin_set = _sends(calls.pin_set)
    pin_delete = _sends(calls.pin_delete)
    pin_list = _sends(calls.pin_list)
    gc = _sends(calls.gc)
    snapshot = _sends(calls.snapshot)
    forget = _sends(calls.forget)
    session_list = _sends(calls.session_list)
    session_end = _sends(calls.session_end)
    clipboard_list = _sends(calls.clipboard_list)
    clipboard_get = _sends(calls.clipboard_get)
    clipboard_set = _sends(calls.clipboard_set)
    clipboard_delete = _sends(calls.clipboard_delete)
    mode_get = _sends(calls.mode_get)
    mode_set = _sends(calls.mode_set)
    request_mode_upgrade = _sends(calls.request_mode_upgrade)
    upgrade_list = _sends(calls.upgrade_list)
    upgrade_decide = _sends(calls.upgrade_decide)
    status = _sends(calls.status)
    reload = _sends(calls.reload)
    shutdown = _sends(calls.shutdown)
    tools = _sends(calls.tools)
    workspace_allow = _sends(calls.workspace_allow)
    workspace_forget = _sends(calls.workspace_forget)
    workspace_list = _sends(calls.workspace_list)
    request = _sends(calls.request)

    def __init__(self, opening: Opening, timeout: float | None) -> None:
        self._opening = opening
        self.timeout = timeout
        self._closed = False

    def _greeted(self, hello: HelloResult) -> None:
        """Keep the daemon's answer, and a session name that it chose for later connections."""
        self.hello = hello
        self._opening = msgspec.structs.replace(self._opening, session=hello.session)

    def _deadline(self, wait: float = 0.0) -> float | None:
        return None if self.timeout is None else time.monotonic() + self.timeout + wait

    @property
    def session(self) -> str | None:
        """The session's name; None on a control connection without one."""
        return self.hello.session

    @property
    def workspace(self) -> str | None:
        """The root of the workspace, absolute; None on a control connection without one."""
        return self.hello.workspace.root if self.hello.workspace else None
