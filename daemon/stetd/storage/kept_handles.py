"""Handles on histories that are kept between two questions, with the commits that they remember."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from stetd.storage.stored_objects import StoredObjects

#: Histories of which some are kept, handles of each, and commits that one remembers (1 KB each).
_HISTORIES, _HANDLES, _COMMITS = 4, 2, 2_000


class KeptHandles:
    """Used by several threads; each handle by one at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[StoredObjects]] = OrderedDict()

    @contextmanager
    def opened(self, path: str) -> Iterator[StoredObjects]:
        """A handle on this history. Raises BrokenRepository."""
        home = self._kept.setdefault(path, [])
        try:
            handle = home.pop()
        except IndexError:
            handle = StoredObjects(path, _COMMITS)
        try:
            yield handle
        except BaseException:
            handle.close()
            raise
        if self._kept.get(path) is home and len(home) < _HANDLES:
            home.append(handle)
            self._kept.move_to_end(path)
            while len(self._kept) > _HISTORIES:
                self.drop(next(iter(self._kept)))
        else:
            handle.close()

    def drop(self, path: str) -> None:
        """Keep no handle that was opened before: commits or packs are others now."""
        for handle in self._kept.pop(path, ()):
            handle.close()
