"""What the scheduler was told of a thread."""

from __future__ import annotations

import ctypes
import platform
import struct

_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275, "riscv64": 275}.get(platform.machine())
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")


def slice_ns(thread: int) -> int | None:
    """How long it may run at a time; None where that can't be known, as before Linux 6.12."""
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    if _SCHED_GETATTR is None or release < (6, 12):
        return None
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.size)
    assert ctypes.CDLL(None).syscall(_SCHED_GETATTR, thread, attributes, _ATTRIBUTES.size, 0) == 0
    runtime: int = _ATTRIBUTES.unpack(attributes.raw)[5]
    return runtime
