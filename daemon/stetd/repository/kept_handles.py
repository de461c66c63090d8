"""Handles on histories that are kept between two questions, with the commits that they remember."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from stetd.repository.stored_objects import StoredObjects

#: Histories of which some are kept, and handles of each.
_HISTORIES, _HANDLES = 4, 2


class KeptHandles:
    """Used by several threads; each handle by one at a time."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._kept: OrderedDict[str, list[StoredObjects]] = OrderedDict()

    @contextmanager
    def opened(self, path: str) -> Iterator[StoredObjects]:
        """A handle on this history. Raises BrokenRepository."""
        with self._changing:
            home = self._kept.setdefault(path, [])
            kept = home.pop() if home else None
        handle = kept or StoredObjects(path)
        try:
            yield handle
        except BaseException:
            handle.close()
            raise
        with self._changing:
            if self._kept.get(path) is not home or len(home) == _HANDLES:
                home = [handle]  # of no more use
            else:
                home.append(handle)
                self._kept.move_to_end(path)
                home = self._kept.popitem(last=False)[1] if len(self._kept) > _HISTORIES else []
        for left in home:
            left.close()

    def drop(self, path: str) -> None:
        """Keep no handle that was opened before: commits or packs are others now."""
        with self._changing:
            left = self._kept.pop(path, [])
        for handle in left:
            handle.close()
