"""A pool of handles on histories: kept between questions, with the commits in their caches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from stetd.repository.stored_objects import StoredObjects

#: Histories in the pool, and handles of each.
_HISTORIES, _HANDLES = 4, 2


class KeptHandles:
    """The pool. Several threads use it; each handle is used by one at a time."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._kept: OrderedDict[str, list[StoredObjects]] = OrderedDict()

    @contextmanager
    def opened(self, path: str) -> Iterator[StoredObjects]:
        """A context with a handle on this history. Raises BrokenRepository."""
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
                home = [handle]  # dropped meanwhile: close it
            else:
                home.append(handle)
                self._kept.move_to_end(path)
                home = self._kept.popitem(last=False)[1] if len(self._kept) > _HISTORIES else []
        for left in home:
            left.close()

    def drop(self, path: str) -> None:
        """Close all handles on a history, because its commits or packs have changed."""
        with self._changing:
            left = self._kept.pop(path, [])
        for handle in left:
            handle.close()
