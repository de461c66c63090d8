"""Decoding into a class for the first time: one thread at a time.

msgspec keeps what it gathers about a class before that is complete, because a class may refer to
itself. A thread that decodes into the same class meanwhile follows pointers that are not there
yet, and the process ends with SIGSEGV (seen with msgspec 0.22.0, in a program with four clients).
What is decoded into by name while a module is imported needs nothing of this.
"""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_known: set[object] = set()


def known(kind: T) -> T:
    """``kind``, when msgspec knows all of it: ``msgspec.json.decode(data, type=known(kind))``."""
    if kind not in _known:
        with _lock:
            msgspec.msgpack.Decoder(kind)
            _known.add(kind)
    return kind
