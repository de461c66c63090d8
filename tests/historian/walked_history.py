"""The answers of a history without its index, found by walking. No tests here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from stet.wire.results import FileChange
from stetd.historian.index.history_index import CommitFilter
from stetd.historian.queries.commit_changes import changes_of, counted, row_of
from stetd.historian.queries.commit_lookup import (
    CommitLookup,
    Found,
    Touch,
    Touches,
    unknown_commit,
)
from stetd.history.commits import StoredCommit
from stetd.history.undone import TAKES_BACK, is_edit
from stetd.repository.stored_objects import StoredObjects


def walk_standing(walk: Iterable[StoredCommit]) -> Iterator[tuple[StoredCommit, str | None]]:
    """Each commit of a walk from the newest, with the one that took it back."""
    taken_back: dict[str, str] = {}
    for commit in walk:
        by = taken_back.get(commit.oid)
        if by is None and commit.meta.kind in TAKES_BACK:
            for oid in commit.meta.reverts:
                taken_back.setdefault(oid, commit.oid)
        yield commit, by


class WalkedHistory(CommitLookup):
    """What :class:`CommitLookup` asks the index is read from Git here, from the newest commit."""

    def __init__(self, repository: StoredObjects, head: str | None) -> None:
        self.repository, self.head = repository, head

    def ancestor(self, steps: int, oid: str) -> str | None:
        walk = islice(self.repository.walk(oid), steps, None)
        return next((commit.oid for commit in walk), None)

    def with_prefix(self, prefix: str) -> list[str]:
        return sorted(
            each.commit.oid for each in self.standing() if each.commit.oid.startswith(prefix)
        )

    def standing(self) -> Iterator[Found]:
        """Every commit, newest first."""
        walk = walk_standing(self.repository.walk(self.head))
        return (Found(commit, undone_by) for commit, undone_by in walk)

    def standing_edits(
        self, session: str | None, agent: str | None, paths: Sequence[str]
    ) -> Iterator[StoredCommit]:
        wanted = CommitFilter(session=session, agent=agent)
        paths = () if "" in paths else paths
        for commit, undone_by in self.standing():
            if (
                undone_by is None
                and is_edit(commit.meta)
                and wanted.matches(commit.meta)
                and (not paths or self.is_touching(commit, paths))
            ):
                yield commit

    def candidates(
        self, wanted: CommitFilter, after: str | None, paths: Sequence[str] = ()
    ) -> Iterator[Found]:
        paths = () if "" in paths else paths
        started = after is None
        for found in self.standing():
            touching = not paths or self.is_touching(found.commit, paths)
            if started and touching and wanted.matches(found.commit.meta):
                yield found
            started = started or found.commit.oid == after
        if not started:
            raise unknown_commit(str(after))

    def find(self, oids: Collection[str]) -> list[Found]:
        found = [each for each in self.standing() if each.commit.oid in oids]
        missing = set(oids) - {each.commit.oid for each in found}
        if missing:
            raise unknown_commit(min(missing))
        return found

    def of_request(self, request: str, session: str | None) -> Found | None:
        found = [
            each
            for each in self.standing()
            if each.commit.meta.request == request and each.commit.meta.kind != "outside"
        ]
        preferred = [each for each in found if session in (None, each.commit.meta.session)]
        return next(iter(preferred or found), None)

    def after(self, oid: str) -> Iterator[StoredCommit]:
        for commit in self.repository.walk(self.head):
            if commit.oid == oid:
                return
            yield commit
        raise unknown_commit(oid)

    def steps_back(self, chosen: Sequence[StoredCommit]) -> list[StoredCommit]:
        wanted = {commit.oid for commit in chosen}
        takers = {each.commit.oid: each.undone_by for each in self.standing()}

        def moved(commit: StoredCommit) -> bool:
            taker = takers[commit.oid]
            back = taker is None or self.repository.commit(taker).meta.moves
            return bool(commit.meta.moves and back)

        later = [c for c in self.after(chosen[-1].oid) if moved(c) or c.oid in wanted]
        return [*later, chosen[-1]]

    def touches(self, path: str, since: str) -> Touches:
        later: list[Touch] = []
        reached = False
        for commit in self.repository.walk(self.head):
            reached = reached or commit.oid == since
            before, after = self.entry(commit.parent, path), self.entry(commit.oid, path)
            if before != after:
                touch = Touch(commit, self._version(after))
                if reached:
                    return Touches(later, touch)
                later.append(touch)
        if not reached:
            raise unknown_commit(since)
        return Touches(later, None)

    def changes(self, commit: StoredCommit) -> list[FileChange]:
        changes = changes_of(self.repository, commit)
        return [counted(self.repository.blob, row_of(change)) for change in changes]

    def is_touching(self, commit: StoredCommit, paths: Sequence[str]) -> bool:
        changes = list(changes_of(self.repository, commit))
        touched = [p for c in changes for p in (c.path, c.old_path) if p is not None]
        return any(
            not path or changed == path or changed.startswith(path + "/")
            for changed in touched
            for path in paths
        )
