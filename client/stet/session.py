"""The blocking session: one typed method per request, over a connection that is kept alive.

    with stet.connect(workspace=".", session="conv-1", agent="my-agent") as s:
        r = s.patch("src/a.py", [stet.replace("old", "new")])

The methods come from :mod:`stet.calls`. What is added here is waiting: a lost connection
is opened again, and unanswered calls are sent again with the request ids they had
(:mod:`stet.retrying`). :mod:`stet.aio` is the same for asyncio.
"""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from stet import calls
from stet.calls import Call
from stet.connection import Connection
from stet.conversation import Introduction, outcome
from stet.errors import ConnectionLost, ShuttingDown, StetError, TransportError
from stet.retrying import Retrying
from stet.spawn import Endpoint, reach
from stet.version import __version__
from stet.wire.framing import Encoding
from stet.wire.results import CommitInfo, HelloResult

if TYPE_CHECKING:
    from stet.event_stream import EventStream

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds that a call may take in all, with every retry.
TIMEOUT = 120.0


def connect(
    workspace: str | os.PathLike[str] | None = ".",
    session: str | None = None,
    agent: str | None = None,
    *,
    control: bool = False,
    secret: str | None = None,
    encoding: str = Encoding.MSGPACK,
    timeout: float | None = TIMEOUT,
    start: bool = True,
    endpoint: Endpoint | None = None,
) -> Session:
    """A session with the daemon, connected; a context manager that closes it.

    ``workspace``: an allowed directory or one inside it; None only with ``control``, which
    takes the person's socket and its rights. ``session``: the label under which clipboards
    and mode are kept, made up by the daemon if None. ``secret``: given when the session is
    new, it must be given ever after. ``timeout``: seconds for a call with all its retries,
    None for no limit. ``start``: whether to start a daemon when none answers.
    ``endpoint``: another daemon than the environment's.

    Raises DaemonUnreachable, and what the daemon refuses in ``hello``
    (WorkspaceNotAllowed, NotPermitted, UnsupportedProtocol).
    """
    opened = Session(
        endpoint or Endpoint.from_environment(control=control),
        introduction(workspace, session, agent, secret),
        encoding=Encoding(encoding),
        timeout=timeout,
        start=start,
    )
    opened.open()
    return opened


def introduction(
    workspace: str | os.PathLike[str] | None,
    session: str | None,
    agent: str | None,
    secret: str | None,
) -> Introduction:
    """What a session says in ``hello``; a relative workspace is made absolute."""
    directory = None if workspace is None else os.path.abspath(os.fspath(workspace))
    return Introduction(directory, session, agent, secret, __version__)


def _sends(build: Callable[P, Call[T]]) -> Callable[Concatenate[Session, P], T]:
    """A method of the session out of a function of stet.calls."""

    def method(self: Session, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.perform(build(*args, **kwargs))

    describe_method(method, build)
    return method


def describe_method(method: Callable[..., Any], build: Callable[..., Call[Any]]) -> None:
    """Give a made method the name, documentation and signature that help() shows."""
    method.__name__ = method.__qualname__ = build.__name__
    method.__doc__ = build.__doc__
    own = inspect.signature(build)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    # Annotations are text here: "Call[EditResult]" gives EditResult.
    result = str(own.return_annotation).removeprefix("Call[").removesuffix("]")
    method.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[this, *own.parameters.values()], return_annotation=result
    )


class Session:
    """A session over a connection that is reopened when it is lost.

    May be used by several threads; their calls go one after the other. ``hello`` is the
    daemon's answer to the latest ``hello``: workspace, session name and mode.
    """

    hello: HelloResult

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
    tools = _sends(calls.tools)
    workspace_allow = _sends(calls.workspace_allow)
    workspace_forget = _sends(calls.workspace_forget)
    workspace_list = _sends(calls.workspace_list)
    request = _sends(calls.request)

    def __init__(
        self,
        endpoint: Endpoint,
        introduced_as: Introduction,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        timeout: float | None = TIMEOUT,
        start: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self._introduction = introduced_as
        self._encoding = encoding
        self._timeout = timeout
        self._start = start
        self._connection: Connection | None = None
        self._closed = False
        self._lock = threading.RLock()

    @property
    def session(self) -> str | None:
        """The session's name; None on a control connection without one."""
        return self.hello.session

    @property
    def workspace(self) -> str | None:
        """The root of the workspace, absolute; None on a control connection without one."""
        return self.hello.workspace.root if self.hello.workspace else None

    def open(self) -> None:
        """Connect and say hello, unless that is done already. Raises as connect()."""
        with self._lock:
            retrying = Retrying(deadline=self._deadline(), patient=False)
            while True:
                try:
                    self._connected(self._deadline())
                except StetError as error:
                    pause = retrying.pause_after(error, time.monotonic())
                    if pause is None:
                        raise
                    time.sleep(pause)
                else:
                    return

    def close(self) -> None:
        """Close the connection; later calls raise ConnectionLost. May be called twice."""
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def history(self, path: str | None = None, **filters: Any) -> Iterator[CommitInfo]:
        """All commits that log() with these filters finds, page after page, newest first."""
        while True:
            page = self.log(path, **filters)
            yield from page.commits
            if page.cursor is None:
                return
            filters["cursor"] = page.cursor

    def events(self, *names: str) -> EventStream:
        """What happens from now on, as an iterator of stet.wire.events; all kinds by default.

        ``names``: ``commit``, ``mode``, ``upgrade_request``. Commits come in the order of the
        history, those too that were made while the daemon was away. The stream has a
        connection of its own; close it, or use it as a context manager.
        """
        from stet.event_stream import EventStream  # few programs need it

        self.open()
        return EventStream(
            self._endpoint,
            self._introduction,
            names,
            encoding=self._encoding,
            timeout=self._timeout,
        )

    def perform(self, call: Call[T]) -> T:
        """Carry out one call. Raises StetError."""
        (result,) = self.perform_all([call])
        if isinstance(result, StetError):
            raise result
        return result

    def perform_all(self, batch: Sequence[Call[T]]) -> list[T | StetError]:
        """Pipeline calls: send all at once, give each one's result or refusal, in order.

        Writing calls are carried out in this order; one that is refused does not keep the
        later ones from being carried out.
        """
        outcomes: list[T | StetError | None] = [None] * len(batch)
        with self._lock:
            deadline = self._deadline(sum(call.wait for call in batch))
            retrying = Retrying(deadline=deadline, patient=not self._start)
            while unanswered := [i for i, known in enumerate(outcomes) if known is None]:
                try:
                    self._attempt(batch, unanswered, outcomes, deadline)
                except StetError as error:
                    self._drop()
                    pause = retrying.pause_after(error, time.monotonic())
                    settle(batch, outcomes, error, given_up=pause is None)
                    time.sleep(pause or 0)
                except BaseException:
                    # Interrupted in the middle: replies to come would be taken for the
                    # answers to later calls.
                    self._drop()
                    raise
        return [known for known in outcomes if known is not None]

    def _attempt(
        self,
        batch: Sequence[Call[T]],
        unanswered: Sequence[int],
        outcomes: list[T | StetError | None],
        deadline: float | None,
    ) -> None:
        """Ask for what is unanswered, once, and fill it in.

        Raises what keeps the rest from being answered: transport errors, a refused hello,
        and ShuttingDown, which says that the call was not carried out.
        """
        connection = self._connected(deadline)
        requests = [(batch[i].method, batch[i].params) for i in unanswered]
        stopping: ShuttingDown | None = None
        for position, answer in connection.exchange(requests, deadline):
            if isinstance(answer.error, ShuttingDown):
                stopping = answer.error
            elif position < 0:
                assert answer.error is not None, "BUG: an answer to nothing"
                raise answer.error
            else:
                index = unanswered[position]
                outcomes[index] = outcome(batch[index], answer, connection.encoding)
        if stopping is not None:
            raise stopping

    def _connected(self, deadline: float | None) -> Connection:
        if self._closed:
            raise ConnectionLost("this session is closed; open another one with stet.connect()")
        if self._connection is not None and self._connection.ended:
            self._drop()
        if self._connection is None:
            connection = Connection(reach(self._endpoint, start=self._start), self._encoding)
            try:
                self._greet(connection, deadline)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _greet(self, connection: Connection, deadline: float | None) -> None:
        hello = Call("hello", self._introduction.params(), HelloResult)
        for _, answer in connection.exchange([(hello.method, hello.params)], deadline):
            result = outcome(hello, answer, connection.encoding)
            if isinstance(result, StetError):
                raise result
            self.hello = result
            # A name that the daemon made up is the session's from now on.
            self._introduction = self._introduction.of_session(result.session)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _deadline(self, wait: float = 0.0) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout + wait


def settle(
    batch: Sequence[Call[T]],
    outcomes: list[T | StetError | None],
    error: StetError,
    *,
    given_up: bool,
) -> None:
    """Make the error the outcome of the unanswered calls that are not to be sent again."""
    for index, call in enumerate(batch):
        lost = isinstance(error, ConnectionLost) and not call.repeatable
        if outcomes[index] is None and (given_up or lost):
            outcomes[index] = with_request_id(error, call.request_id)


def with_request_id(error: StetError, request_id: str | None) -> StetError:
    """The same error, naming the call that has no answer if it is about transport."""
    if isinstance(error, TransportError) and request_id is not None:
        named = type(error)(error.message, request_id=request_id)
        named.__cause__ = error
        return named
    return error
