"""The parameters of every method as types; what does not fit them is ``invalid_params``.

The edit dialects' own parameters are not here: their models are in
:mod:`stetd.editing.tools.schemas`, from which the schemas for models are made too.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.first_use import known

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_LABEL = 200
#: Of what a session and the person say about a request for write access.
_LONGEST_REASON = 2000

Label = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_LABEL)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
#: How long a grant may last; a leap year at most.
GrantSeconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
Commits = Annotated[list[str], msgspec.Meta(min_length=1, max_length=10_000)]
#: An empty one, a variable of a script that is not set, would be the whole workspace; "." is that.
Path = Annotated[str, msgspec.Meta(min_length=1)]
#: An empty list could be taken for "no file" or "every file".
Paths = Annotated[list[Path], msgspec.Meta(min_length=1, max_length=1_000)]
IfMatch = str | dict[str, str | None]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all: a field that is not known is refused, not ignored."""


class NoParams(Params, frozen=True):
    """Methods without parameters."""


class ClientInfo(msgspec.Struct, frozen=True):
    """What a client says of itself."""

    name: str
    version: str = ""


class Hello(Params, frozen=True):
    """``workspace`` may be left out on control.sock."""

    protocol: int
    workspace: str | None = None
    session: Label | None = None
    agent: Label | None = None
    secret: Annotated[str, msgspec.Meta(max_length=1024)] | None = None
    client: ClientInfo | None = None


class Common(Params, frozen=True):
    """What every method that writes files takes beside its own parameters."""

    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    if_match: IfMatch | None = None
    preview: bool | None = None
    request_id: Label | None = None


class Undo(Params, frozen=True):
    """One of ``commits``, ``last``, ``request``."""

    commits: Commits | None = None
    last: Positive | None = None
    request: str | None = None
    session: str | None = None
    agent: str | None = None
    paths: Paths | None = None


class Redo(Params, frozen=True):
    """``commits`` are undos or rollbacks; left out: the newest one that is not redone."""

    commits: Commits | None = None


class Rollback(Params, frozen=True):
    """``include_outside``: edits made outside too, on control.sock."""

    to: str
    session: str | None = None
    agent: str | None = None
    paths: Paths | None = None
    include_outside: bool = False


class Restore(Params, frozen=True):
    """``at``: a commit parameter."""

    path: str
    at: str


class Read(Params, frozen=True):
    """Lines count from 1, both ends inclusive."""

    path: str
    at: str | None = None
    start: Positive | None = None
    end: Positive | None = None


class Log(Params, frozen=True):
    """Times are RFC 3339 (without an offset: in UTC) or seconds since the epoch."""

    path: Path | None = None
    session: str | None = None
    agent: str | None = None
    method: str | None = None
    kind: str | None = None
    since: str | float | None = None
    until: str | float | None = None
    text: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    cursor: str | None = None


class Show(Params, frozen=True):
    """A commit parameter."""

    commit: str


class Blame(Params, frozen=True):
    """``at`` defaults to the current content."""

    path: str
    at: str | None = None


class Diff(Params, frozen=True, rename={"from_": "from"}):
    """``from_`` defaults to HEAD, ``to`` to the workspace."""

    from_: str | None = None
    to: str | None = None
    paths: Annotated[list[Path], msgspec.Meta(max_length=1_000)] | None = None


class Verify(Params, frozen=True):
    """``expect``: a commit's id, or at least 12 digits of it, noted at another time."""

    workspace: str | None = None
    expect: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12,40}$")] | None = None


class OneWorkspace(Params, frozen=True):
    """``workspace``: the root of another than the connection's."""

    workspace: str | None = None


class TakeSnapshot(Params, frozen=True):
    """``skip_large``: leave out files over the limit instead of refusing."""

    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    workspace: str | None = None
    skip_large: bool = False


class Forget(Params, frozen=True):
    """``contents``: what was at the path, at any other as well; ``clipboards``: remove those
    that hold some of it.
    """

    path: str
    contents: bool = False
    clipboards: bool = False
    preview: bool = False
    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    workspace: str | None = None


class Observe(Params, frozen=True):
    """``paths`` left out: the whole workspace. ``use``: names one use of a tool, the same before
    and after it. ``within``: seconds that looking may take.

    ``late``: files that the tool may change without its end being reported, or after it.
    ``background``, before: it goes on after its reported end; at a stop: such a tool still runs.
    ``subagent``: which of the session's agents uses it.
    """

    phase: Literal["before", "after", "stop"]
    paths: Paths | None = None
    late: Paths | None = None
    background: bool | None = None
    subagent: Label | None = None
    tool: Label | None = None
    use: Label | None = None
    within: Annotated[float, msgspec.Meta(ge=0, le=60)] | None = None


class Subscribe(Params, frozen=True):
    """``events`` left out: all of them; an empty list: no more."""

    events: list[str] | None = None


class Export(Params, frozen=True, rename={"from_": "from"}):
    """The commits after ``from_``, up to ``to``, that pass the filters; all by default.

    ``outside``: what others did in between and later commits are made on is put in as commits
    of its own; otherwise it becomes part of those. ``limit`` and ``cursor`` as for ``log``.
    """

    format: Literal["mbox", "diff", "jsonl"] = "mbox"
    from_: str | None = None
    to: str | None = None
    session: str | None = None
    agent: str | None = None
    method: str | None = None
    kind: str | None = None
    since: str | float | None = None
    until: str | float | None = None
    paths: Paths | None = None
    outside: bool = True
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    cursor: str | None = None


class PinSetting(Params, frozen=True):
    """``move``: a pin that names another commit already is moved, not refused."""

    name: str
    commit: str = "HEAD"
    move: bool = False


class PinName(Params, frozen=True):
    """A pin's name."""

    name: str


class ClipboardKey(Params, frozen=True):
    """A clipboard's name."""

    name: Label


class ClipboardSetting(Params, frozen=True):
    """A clipboard's name and new text."""

    name: Label
    text: str


class ModeSetting(Params, frozen=True, rename={"for_": "for"}):
    """``session`` names another than the connection's; ``scope`` = "workspace" its ceiling.

    ``for_``: seconds after which the mode before returns.
    """

    mode: str
    session: Label | None = None
    scope: str | None = None
    workspace: str | None = None
    for_: GrantSeconds | None = None


class UpgradeAsking(Params, frozen=True):
    """``wait``: so many seconds for the decision, at most."""

    reason: Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)] | None = None
    wait: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None


class UpgradeListing(Params, frozen=True):
    """``workspace``: of this one only; ``status``: only such."""

    workspace: str | None = None
    status: Literal["pending", "approved", "denied"] | None = None


class SessionEnding(Params, frozen=True):
    """``workspace``: the root of its workspace, by default the connection's own."""

    session: str
    workspace: str | None = None


class UpgradeDeciding(Params, frozen=True, rename={"for_": "for"}):
    """``request``: an id or a unique beginning; ``for_``: seconds that an approval holds."""

    request: str
    approve: bool
    note: Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)] | None = None
    for_: GrantSeconds | None = None
    workspace: str | None = None


class Root(Params, frozen=True):
    """A workspace's directory."""

    root: str


class ToolStyle(Params, frozen=True):
    """Whose shape of tool definitions; ``api`` and ``custom`` go with style "openai"."""

    style: str = "mcp"
    api: str = "chat"
    custom: bool = False


_COMMON_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(Common))

P = TypeVar("P", bound=Params)


def convert(kind: type[P], method: str, params: dict[str, Any]) -> P:
    """Params as their type. Raises Refused (invalid_params), naming the expected fields."""
    try:
        converted = msgspec.convert(params, known(kind), strict=True)
    except (msgspec.ValidationError, ValueError) as error:
        fields = ", ".join(
            f.encode_name + ("" if f.required else "?") for f in msgspec.structs.fields(kind)
        )
        which = "Every edit takes" if kind is Common else f"The parameters of {method} are"
        raise invalid(
            f"{method}: {str(error).replace('`$.', '`')}. "
            + (f"{which}: {fields}." if fields else "It takes none."),
        ) from error
    return converted


def split_common(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The common parameters of a call, and the rest."""
    common = {key: value for key, value in params.items() if key in _COMMON_NAMES}
    return common, {key: value for key, value in params.items() if key not in _COMMON_NAMES}


def check_label(what: str, label: str | None) -> None:
    """Refuse labels that would break a line of the commit: control characters, surrogates."""
    if label is None:
        return
    if len(label) > _LONGEST_LABEL:
        raise invalid(
            f"{what} {label[:40] + '...'!r} has {len(label)} characters; "
            f"{_LONGEST_LABEL} is the most.",
        )
    if _CONTROL_CHARACTERS.search(label) or not _is_unicode(label) or label != label.strip():
        raise invalid(
            f"{what} {label!r} can't be used: "
            "no control characters, and no white space at its ends.",
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def invalid(message: str) -> Refused:
    """A refusal of parameters."""
    return refuse(Kind.INVALID_PARAMS, message)


def not_permitted(message: str) -> Refused:
    """A refusal for lack of rights."""
    return refuse(Kind.NOT_PERMITTED, message)
