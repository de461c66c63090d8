"""What a case of bad input is, and short ways to write the calls of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from e2e.bad_input.world import World
from stet.wire.failures import Kind

Params = dict[str, Any] | Callable[[World], dict[str, Any]]
Says = list[str] | Callable[[World], list[str]]
#: Name of the case, parameters, decisive parts of the message.
Row = tuple[str, Params, Says]


@dataclass(frozen=True)
class Case:
    """A request and what its refusal says. In ``params`` and ``says`` a callable asks the world."""

    kind: Kind
    name: str
    method: str
    params: Params
    says: Says
    speaker: str = "agent"
    #: For each failure what it must have, in order; None: they are all of ``kind``.
    failures: list[dict[str, Any]] | None = None

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}".replace(" ", "_")


def cases(kind: Kind, method: str, *rows: Row, speaker: str = "agent") -> Iterator[Case]:
    """Cases of one kind and method."""
    for name, params, says in rows:
        yield Case(kind, f"{method} {name}", method, params, says, speaker)


def patch(*patches: dict[str, Any], path: str = "a.py", **more: Any) -> dict[str, Any]:
    """Params of a patch call."""
    return {"path": path, "patches": list(patches), **more}


def replace(old: str, new: str = "NEW", **more: Any) -> dict[str, Any]:
    """A replacement."""
    return {"operation": "replace", "oldText": old, "newText": new, **more}


def append(text: str = "x\n", **more: Any) -> dict[str, Any]:
    """An addition."""
    return {"operation": "append_eof", "newText": text, **more}
