"""A world in memory for tests of dialects: files by path, clipboards by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stet.wire.failures import Refused
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile


@dataclass(frozen=True)
class MemoryWorld:
    """Implements stetd.editing.edits.World over two mappings."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    clipboards: Mapping[str, str] = field(default_factory=dict)
    root: str = "/workspace"

    def read(self, path: str) -> SourceFile:
        return SourceFile(path, self.files.get(path))

    def look(self, path: str) -> SourceFile:
        return self.read(path)


def plan_patch(
    data: bytes | None,
    *patches: Mapping[str, object],
    path: str = "a.txt",
    clipboards: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a ``patch`` call on one file that holds ``data`` (None: no file)."""
    world = MemoryWorld({} if data is None else {path: data}, clipboards or {})
    return DIALECTS["patch"]({"path": path, "patches": list(patches)}, world)


def patched(data: bytes | None, *patches: Mapping[str, object], **options: object) -> bytes:
    """The bytes of the file after the call, which must change it."""
    (planned,) = plan_patch(data, *patches, **options).files  # type: ignore[arg-type]
    assert planned.before == data
    assert planned.after is not None
    return planned.after


def refusal(data: bytes | None, *patches: Mapping[str, object], **options: object) -> Refused:
    """The refusal that the call meets; fails when it is accepted."""
    try:
        plan = plan_patch(data, *patches, **options)  # type: ignore[arg-type]
    except Refused as refused:
        return refused
    raise AssertionError(f"the call was accepted: {plan}")


def kinds(refused: Refused) -> list[tuple[str, int | None]]:
    """Kind and index of every failure."""
    return [(failure.kind, failure.index) for failure in refused.failures]


def replace(old: str, new: str | None = None, **others: object) -> dict[str, object]:
    """A ``replace`` patch."""
    patch: dict[str, object] = {"operation": "replace", "oldText": old, **others}
    return patch if new is None else {**patch, "newText": new}


def append(text: str, **others: object) -> dict[str, object]:
    """An ``append_eof`` patch."""
    return {"operation": "append_eof", "newText": text, **others}


def prepend(text: str, **others: object) -> dict[str, object]:
    """A ``prepend_bof`` patch."""
    return {"operation": "prepend_bof", "newText": text, **others}


def overwrite(text: str, **others: object) -> dict[str, object]:
    """An ``overwrite`` patch."""
    return {"operation": "overwrite", "newText": text, **others}
