"""One request as a value, which can be sent any number of times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

#: An object id for the one path of a call, or path to object id, None: must not exist.
IfMatch = str | Mapping[str, str | None]


class Call(msgspec.Struct, Generic[T], frozen=True):
    """One request, ready to be sent any number of times.

    ``repeatable``: a second arrival does no harm, because the method only reads, sets
    something to a value, or carries a ``request_id``. What is not repeatable is not sent
    again when the connection is lost. ``wait``: seconds that the daemon may take on purpose,
    on top of the session's ``timeout``.
    """

    method: str
    params: dict[str, Any]
    result: type[T]
    repeatable: bool = True
    wait: float = 0.0

    @property
    def request_id(self) -> str | None:
        """The request id of a call that changes something, which survives retries."""
        found = self.params.get("request_id")
        return found if isinstance(found, str) else None


def given(**params: Any) -> dict[str, Any]:
    """Those parameters that are not None: what is left out is not sent."""
    return {name: value for name, value in params.items() if value is not None}
