"""How the memory of large messages goes back to the system: what malloc(3) is told at the start."""

from __future__ import annotations

import ctypes
from contextlib import suppress

#: From malloc.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
#: Bytes from which on a block is large, and heaps that threads share.
_LARGE, _HEAPS = 256 * 1024, 2


def give_back_large_blocks() -> None:
    """Have large blocks given back once they are free, and few heaps (mallopt(3)).

    Otherwise the GNU allocator, once a large block was freed, takes further ones of that size from
    its heaps, where any small one that lies behind keeps them: a daemon that was sent large
    messages kept 100 MB more. Other allocators have no such function, or ignore it.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_ARENA_MAX, _HEAPS)
