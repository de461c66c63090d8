"""A shadow repository that can't be written for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unwritable(shadow: str) -> Iterator[None]:
    """Its ``objects`` are no directory meanwhile, which also stops root; nothing is lost."""
    objects, away = Path(shadow, "objects"), Path(shadow, "away")
    objects.rename(away)
    objects.write_bytes(b"")
    try:
        yield
    finally:
        objects.unlink()
        away.rename(objects)
