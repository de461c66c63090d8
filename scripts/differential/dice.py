"""Random choices, each by a generator of its own.

A case is drawn from its seed. *Traits* are what makes it more than plain context and plain
files (a missing final newline, say). A case drawn again without one of its traits is the same
in all else: that is how the cause of a difference is found.
"""

from __future__ import annotations

import random
from collections.abc import Set as AbstractSet


class Dice:
    """The choices of one case; ``traits``: those that it has, drawn so far."""

    def __init__(self, seed: str, without: AbstractSet[str] = frozenset()) -> None:
        self.traits: set[str] = set()
        self._seed = seed
        self._without = without
        #: Some cases have few traits, so that differences have one cause, some have many.
        self._density = self.on("density").choice([0.1, 0.4, 0.4, 1.0])

    def on(self, topic: str) -> random.Random:
        """The generator for a topic."""
        return random.Random(f"{self._seed}:{topic}")

    def chance(self, topic: str, probability: float) -> bool:
        """Whether something happens that is no trait."""
        return self.on(topic).random() < probability

    def trait(self, name: str, topic: str, probability: float = 1.0) -> bool:
        """Whether the case has a trait (here)."""
        likely = probability * self._density
        if not self.chance(f"{topic}:{name}", likely) or name in self._without:
            return False
        self.traits.add(name)
        return True
