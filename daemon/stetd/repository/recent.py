"""A cache of recently used values."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A cache up to a total weight, but with at least ``least`` values."""

    def __init__(self, most: int, least: int = 1) -> None:
        self._most, self._least = most, least
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: K) -> V | None:
        """A cached value; None if there is none."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: K, value: V, weight: int = 1) -> None:
        """Add a value, and drop the least recently used ones."""
        if key not in self._kept:
            self._kept[key] = value, weight
            self._weight += weight
        while self._weight > self._most and len(self._kept) > self._least:
            self._weight -= self._kept.popitem(last=False)[1][1]
