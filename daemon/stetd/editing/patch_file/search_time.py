"""The time that the searches of one call may take which are not linear: regex and fuzzy.

Whoever sends them waits for them, and so do others whose calls take long. Seconds are those that
the thread has computed: it may have to wait for a processor.
"""

from __future__ import annotations

import time
from typing import Self

#: Seconds for all such searches of a call together.
SECONDS = 2.0


class Allowance:
    """What is left of a call's time; a search runs ``with allowance:``."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.total = seconds
        self._left = seconds
        self._began = 0.0

    @property
    def left(self) -> float:
        """The seconds that are left, those of the search under way taken off; may be negative."""
        return self._left - (time.thread_time() - self._began if self._began else 0.0)

    def __enter__(self) -> Self:
        self._began = time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._left, self._began = self.left, 0.0
