"""A lock for the first time that msgspec decodes into a class: one thread at a time.

msgspec stores its information about a class before it is complete, because a class may refer to
itself. If another thread decodes into the same class at that moment, it follows pointers that are
not set yet, and the process dies of SIGSEGV (seen with msgspec 0.22.0 in a program with four
clients). Decoders that are created while a module is imported do not need the lock.
"""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_known: set[object] = set()


def known_to_msgspec(kind: T) -> T:
    """Return ``kind`` once msgspec knows it: ``decode(data, type=known_to_msgspec(kind))``."""
    if kind not in _known:
        with _lock:
            msgspec.msgpack.Decoder(kind)
            _known.add(kind)
    return kind
