"""The parameters of every method as types; other parameters are refused (``invalid_params``).

The edit dialects' own parameters are in :mod:`stetd.editing.tools.schemas`, from which the tool
schemas for models are made too.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.first_use import known_to_msgspec

#: Control characters, and surrogates, which UTF-8 can't encode.
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LONGEST_LABEL = 200
#: Characters of a session's reason, or the person's note, on a request for write access.
_LONGEST_REASON = 2000

Label = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_LABEL)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
#: The length of a grant: a leap year at most.
GrantSeconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
Commits = Annotated[list[str], msgspec.Meta(min_length=1, max_length=10_000)]
#: Not empty: a script's unset variable would mean the whole workspace. "." does mean it.
Path = Annotated[str, msgspec.Meta(min_length=1)]
#: Not empty: an empty list could mean "no file" or "every file".
Paths = Annotated[list[Path], msgspec.Meta(min_length=1, max_length=1_000)]
#: Not empty: no session, agent or request has an empty name.
Filter = Annotated[str, msgspec.Meta(min_length=1)]
IfMatch = str | dict[Path, str | None]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base class: unknown fields are refused, not ignored."""


class NoParams(Params, frozen=True):
    """Methods without parameters."""


class ClientInfo(msgspec.Struct, frozen=True):
    """A client's own name and version."""

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
    """Parameters of every method that writes files, beside its own."""

    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    if_match: IfMatch | None = None
    preview: bool | None = None
    request_id: Label | None = None


class Undo(Params, frozen=True):
    """At most one of ``commits``, ``last``, ``request``; none: the newest edit."""

    commits: Commits | None = None
    last: Positive | None = None
    request: Filter | None = None
    session: Filter | None = None
    agent: Filter | None = None
    paths: Paths | None = None


class Redo(Params, frozen=True):
    """``commits`` are undos or rollbacks; left out: the newest of them that is not redone."""

    commits: Commits | None = None


class Rollback(Params, frozen=True):
    """``include_outside``: roll back edits made outside too (control.sock only)."""

    to: str
    session: Filter | None = None
    agent: Filter | None = None
    paths: Paths | None = None
    include_outside: bool = False


class Restore(Params, frozen=True):
    """``at``: a commit: HEAD, a pin, an id or its beginning; ``~n`` after it."""

    path: Path
    at: str


class Read(Params, frozen=True):
    """Lines count from 1, both ends inclusive."""

    path: Path
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
    """``commit``: as ``at`` in :class:`Restore`."""

    commit: str


class Blame(Params, frozen=True):
    """``at`` defaults to the current content."""

    path: Path
    at: str | None = None


class Diff(Params, frozen=True, rename={"from_": "from"}):
    """``from_`` defaults to HEAD, ``to`` to the workspace."""

    from_: str | None = None
    to: str | None = None
    paths: Annotated[list[Path], msgspec.Meta(max_length=1_000)] | None = None


class Verify(Params, frozen=True):
    """``expect``: the id of a commit that was noted earlier, or its first 12 or more digits."""

    workspace: str | None = None
    expect: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12,40}$")] | None = None


class OneWorkspace(Params, frozen=True):
    """``workspace``: the root of a workspace, if it is not the connection's."""

    workspace: str | None = None


class TakeSnapshot(Params, frozen=True):
    """``skip_large``: leave out files over the size limit instead of refusing the call."""

    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    workspace: str | None = None
    skip_large: bool = False


class Forget(Params, frozen=True):
    """``contents``: forget the path's contents at all other paths too. ``clipboards``: remove
    clipboards that hold part of them.
    """

    path: Path
    contents: bool = False
    clipboards: bool = False
    preview: bool = False
    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    workspace: str | None = None


class Observe(Params, frozen=True):
    """A use of an agent's own tool is about to begin, has ended, or the session's turn has ended.

    ``paths``: left out: the whole workspace. ``late``: files that may change after the reported
    end, or if no end is reported. ``background``: the tool goes on after its reported end; in
    phase "stop": such a tool still runs. ``subagent``: the session's agent that uses the tool.
    ``use``: an id, the same before and after. ``within``: seconds that scanning may take.
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
    """``events``: kinds of events; left out: all; an empty list: end the subscription."""

    events: list[str] | None = None


class Export(Params, frozen=True, rename={"from_": "from"}):
    """The commits after ``from_``, up to ``to``, that pass the filters; all by default.

    ``outside``: edits by others, on which later commits are based, are exported as commits of
    their own; False: as part of those later commits. ``limit`` and ``cursor`` as for ``log``.
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
    """``move``: if the pin exists at another commit, move it instead of refusing the call."""

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
    """``session``: another than the connection's. ``scope`` "workspace": set the workspace's mode.

    ``for_``: seconds after which the earlier mode holds again.
    """

    mode: str
    session: Label | None = None
    scope: str | None = None
    workspace: str | None = None
    for_: GrantSeconds | None = None


class UpgradeAsking(Params, frozen=True):
    """``wait``: seconds to wait for the decision, at most."""

    reason: Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)] | None = None
    wait: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None


class UpgradeListing(Params, frozen=True):
    """``workspace``, ``status``: list only requests of this workspace, in this status."""

    workspace: str | None = None
    status: Literal["pending", "approved", "denied"] | None = None


class SessionEnding(Params, frozen=True):
    """``workspace``: the root of the session's workspace, by default the connection's."""

    session: str
    workspace: str | None = None


class UpgradeDeciding(Params, frozen=True, rename={"for_": "for"}):
    """``request``: an id or a unique prefix; ``for_``: seconds for which an approval holds."""

    request: str
    approve: bool
    note: Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)] | None = None
    for_: GrantSeconds | None = None
    workspace: str | None = None


class Root(Params, frozen=True):
    """A workspace's directory."""

    root: str


class ToolStyle(Params, frozen=True):
    """The format of tool definitions; ``api`` and ``custom`` belong to style "openai"."""

    style: str = "mcp"
    api: str = "chat"
    custom: bool = False


_COMMON_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(Common))

P = TypeVar("P", bound=Params)


def convert(kind: type[P], method: str, params: dict[str, Any], *, common: bool = False) -> P:
    """Convert params to their type. Raises Refused (invalid_params) with the expected fields.
    ``common``: the method takes the common ones, too, which are converted elsewhere.
    """
    try:
        return msgspec.convert(params, known_to_msgspec(kind), strict=True)
    except (msgspec.ValidationError, ValueError) as error:  # ValueError: a lone surrogate
        known = msgspec.structs.fields(kind) + (msgspec.structs.fields(Common) if common else ())
        fields = ", ".join(f.encode_name + ("" if f.required else "?") for f in known)
        which = "Every edit takes" if kind is Common else f"The parameters of {method} are"
        raise invalid(
            f"{method}: {str(error).replace('`$.', '`')}. "
            + (f"{which}: {fields}." if fields else "It takes none."),
        ) from error


def split_common(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The common parameters of a call, and the rest."""
    common = {key: value for key, value in params.items() if key in _COMMON_NAMES}
    return common, {key: value for key, value in params.items() if key not in _COMMON_NAMES}


def check_label(what: str, label: str | None) -> None:
    """Refuse labels that would break a line of the commit message, or are too long."""
    if label is None:
        return
    if len(label) > _LONGEST_LABEL:
        raise invalid(
            f"{what} {label[:40] + '...'!r} has {len(label)} characters; "
            f"{_LONGEST_LABEL} is the most.",
        )
    if _UNUSABLE.search(label) or label != label.strip():
        raise invalid(
            f"{what} {label!r} can't be used: "
            "no control characters, and no white space at its ends.",
        )


def invalid(message: str) -> Refused:
    """A refusal of parameters."""
    return refuse(Kind.INVALID_PARAMS, message)


def not_permitted(message: str) -> Refused:
    """A refusal for lack of rights."""
    return refuse(Kind.NOT_PERMITTED, message)
