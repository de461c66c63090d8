"""Memory of large messages goes back to the system, as far as the allocator can be asked."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

#: What was freed before makes the allocator keep blocks of that size; it prints how many of three
#: further ones come from the system nevertheless.
AFTER_A_LARGE_BLOCK = """
import ctypes, socket, sys
from stetd.processes.children import attach_to_engine, configure_allocator

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]

libc = ctypes.CDLL(None)
libc.mallinfo.restype = Info
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "told":
    configure_allocator(256 * 1024)
if sys.argv[1] == "a child":
    attach_to_engine(str(socket.socketpair()[0].detach())).close()
libc.free(libc.malloc(20 << 20))
before = libc.mallinfo().hblks
for _ in range(3):
    libc.malloc(8 << 20)
print(libc.mallinfo().hblks - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo"), reason="not the GNU allocator")
@pytest.mark.parametrize(("told", "given"), [("told", "3"), ("a child", "3"), ("not told", "0")])
def test_large_blocks_are_the_systems_also_after_one_was_freed(told: str, given: str) -> None:
    command = [sys.executable, "-c", AFTER_A_LARGE_BLOCK, told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (given, "")
