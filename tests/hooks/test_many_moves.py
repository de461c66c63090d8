"""What the reply of a command that moves many files costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stetd.history.objects import Image
from stetd.observing import recording

FILES = 300


class Path(str):
    """A path that counts how often paths are compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Path.compared += 1
        return str.__eq__(self, other)


def test_the_cost_of_a_reply_follows_the_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer makes it while all other calls wait."""
    image = {n: Image(f"{n:040}", 0o100644) for n in range(FILES)}
    own: dict[str, Image | None] = {Path(f"old/{n}"): None for n in range(FILES)}
    own |= {Path(f"new/{n}"): image[n] for n in range(FILES)}
    known = {f"old/{n}": image[n] for n in range(FILES)}

    def find_entry(_tree: object, path: str, _load: object) -> tuple[int, str] | None:
        found = known.get(str(path))
        return (found.mode, found.oid) if found else None

    monkeypatch.setattr(recording, "find_entry", find_entry)
    recorder: Any = SimpleNamespace(_image_before=lambda path: known.get(str(path)))
    Path.compared = 0
    history = SimpleNamespace(head=SimpleNamespace(tree=None), load=None)
    moves = recording._moves(cast("Any", history), own)
    files = recording._Recorder._file_changes(recorder, own, moves)
    in_the_reply = [(file.status, file.old_path, file.path) for file in files]
    assert sorted(in_the_reply) == sorted(("R", f"old/{n}", f"new/{n}") for n in range(FILES))
    assert Path.compared < 20 * FILES
