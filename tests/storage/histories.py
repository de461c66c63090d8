"""Histories in a shadow repository, commit by commit, without a daemon. No tests here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stetd.history.commits import CommitMeta
from stetd.history.objects import EMPTY_TREE, Image, NewObject, Tree, object_id
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.storage.disk import Disk
from stetd.transaction.heads import Head, HistoryBuilder


def blob(content: bytes) -> NewObject:
    """An object of this content."""
    return NewObject("blob", object_id("blob", content), content)


class Histories:
    """A shadow repository that grows by a commit at a time."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "workspaces" / "shadow")
        create_repository(self.path, Disk())
        self.repository = ShadowRepository(self.path)
        self.head = Head(None, Tree({}, EMPTY_TREE), 0)
        self.oids: list[str] = []

    def commit(self, files: Mapping[str, str | bytes | None], **meta: Any) -> str:
        """Put a commit on top that sets these files (None: removes); its id."""
        number = len(self.oids) + 1
        history = HistoryBuilder(self.head, self.repository.load_tree, number)
        blobs, images = [], {}
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            images[path] = None if data is None else Image(object_id("blob", data), 0o100644)
            if data is not None:
                blobs.append(blob(data))
        told = {"kind": "edit", "time": 1000 + number, "subject": f"subject {number}", **meta}
        oid = history.add(CommitMeta(**told), images)
        self.repository.write([*blobs, *history.objects])
        self.repository.set_head(oid)
        self.head = history.head
        self.oids.append(oid)
        return oid
