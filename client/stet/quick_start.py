"""Loads msgspec in half the time, for programs of ours that end soon or should begin soon.

msgspec takes two names from typing_extensions, if that is installed, and else from typing, which
has them as well since Python 3.11. Loading it takes as long as all the rest of msgspec. Not for
programs that use this package as a library: what they load is theirs to say.
"""

from __future__ import annotations

import sys

if "msgspec" not in sys.modules and "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
