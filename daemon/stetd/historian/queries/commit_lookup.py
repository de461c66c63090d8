"""Looking back: finding commits by name, request or path, and which of them stand.

Every question is asked of :class:`Past`, and answered by walking from the newest commit. That
is linear in the distance; nobody else walks, and
:class:`stetd.historian.queries.indexed_lookup.IndexedPast` answers the same from the query index.

Reads commits, so what was committed before must have reached the repository.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import FileChange
from stetd.historian.queries.commit_changes import changes_of, counted, has_text, trees_around
from stetd.history.commit_rows import Wanted, meets
from stetd.history.commits import StoredCommit
from stetd.history.file_undoing import Version
from stetd.history.taking_back import FileDelta
from stetd.history.undoing import is_edit, walk_standing
from stetd.repository.rewritten import successors
from stetd.repository.shallow import read_shallow
from stetd.repository.stored_objects import StoredObjects

_FROM_HEAD = re.compile(r"HEAD(?:~([0-9]{0,9}))?")
_STEPS = re.compile(r"[0-9]{0,9}")
#: (git mode, blob id); None is no file.
Known = tuple[int, str] | None


class Found(NamedTuple):
    """A commit, and the standing one that took it back, if there is one."""

    commit: StoredCommit
    undone_by: str | None


class Touch(NamedTuple):
    """A commit that touched one path, and what it made of it."""

    commit: StoredCommit
    before: Version | None
    after: Version | None


class Touches(NamedTuple):
    """The commits that touched a path: all after one, newest first, and the last up to it."""

    later: list[Touch]
    last: Touch | None


class UnknownCursor(Exception):
    """The commit after which to go on is not part of the history."""


class Past:
    """The history of one workspace up to a head."""

    def __init__(self, repository: StoredObjects, head: str | None) -> None:
        self.repository = repository
        self.head = head
        #: The commits at which the history was cut off: what stood before them is not known.
        self.cut_off = read_shallow(repository.path)

    # -- finding commits

    def resolve(self, name: str) -> str:
        """The full id of a commit parameter. Raises Refused (unknown_commit)."""
        from_head = _FROM_HEAD.fullmatch(name)
        if from_head:
            steps = 0 if from_head[1] is None else int(from_head[1] or 1)
            found = self.ancestor(steps)
            if found is None:
                raise unknown_commit(name)
            return found
        if not 4 <= len(name) <= 40 or not set(name.lower()) <= set("0123456789abcdef"):
            return self._resolve_pin(name)
        # What was called so may have another id since a path was forgotten.
        named = self.with_prefix(name.lower()) or successors(self.repository.path, name.lower())
        if len(named) > 1:
            shown = ", ".join(oid[:12] for oid in named[:5])
            raise refuse(
                Kind.UNKNOWN_COMMIT,
                f"{name}: {len(named)} commits begin so ({shown}); send more digits",
            )
        if not named:
            raise unknown_commit(name)
        return named[0]

    def _resolve_pin(self, name: str) -> str:
        """The commit that a pin names, or with ``~n`` after it, the n-th before that one."""
        pin, tilde, count = name.partition("~")
        oid = self.repository.pinned(pin)
        if oid is None or not _STEPS.fullmatch(count):
            raise unknown_commit(name)
        found = self.ancestor(int(count or 1) if tilde else 0, oid)
        if found is None:
            raise unknown_commit(name)
        return found

    def ancestor(self, steps: int, oid: str | None = None) -> str | None:
        """The commit that many steps before this one (None: the newest), if there is one."""
        walk = islice(self.repository.walk(oid or self.head), steps, None)
        return next((commit.oid for commit in walk), None)

    def with_prefix(self, prefix: str) -> list[str]:
        """The commits whose id begins so (at least 4 digits), in order of their ids."""
        return self.repository.commits_with_prefix(prefix)

    def standing(self) -> Iterator[Found]:
        """Every commit, newest first."""
        walk = walk_standing(self.repository.walk(self.head))
        return (Found(commit, undone_by) for commit, undone_by in walk)

    def standing_edits(
        self, session: str | None, agent: str | None, paths: Sequence[str]
    ) -> Iterator[StoredCommit]:
        """The edits that are not undone, newest first; None, no paths, or "" among them: of all."""
        wanted = Wanted(session=session, agent=agent)
        paths = () if "" in paths else paths
        for commit, undone_by in self.standing():
            if undone_by is not None or not is_edit(commit.meta):
                continue
            if not meets(commit.meta, wanted):
                continue
            if not paths or self.is_touching(commit, paths):
                yield commit

    def candidates(self, wanted: Wanted, after: str | None) -> Iterator[Found]:
        """The commits that may be wanted, newest first; each must be looked at again.

        ``after``: only those older than this one. Raises UnknownCursor.
        """
        started = after is None
        for found in self.standing():
            if started and meets(found.commit.meta, wanted):
                yield found
            started = started or found.commit.oid == after
        if not started:
            raise UnknownCursor

    def find(self, oids: Collection[str]) -> list[Found]:
        """These commits (full ids), newest first. Raises Refused (unknown_commit)."""
        wanted = set(oids)
        found = []
        for each in self.standing():
            if each.commit.oid in wanted:
                found.append(each)
                wanted.discard(each.commit.oid)
                if not wanted:
                    return found
        raise unknown_commit(min(wanted))

    def of_request(self, request: str, session: str | None) -> Found | None:
        """The commit that a request made.

        Its id is scoped to a session, so others may have it too: that of ``session`` is
        preferred (None: any), else the newest.
        """
        other = None
        for each in self._with_request(request):
            meta = each.commit.meta
            if meta.request != request or meta.kind == "outside":
                continue
            if session is None or meta.session == session:
                return each
            other = other or each
        return other

    def _with_request(self, request: str) -> Iterator[Found]:  # noqa: ARG002 - all may
        """The commits that a request may have made, newest first."""
        return self.standing()

    def after(self, oid: str) -> Iterator[StoredCommit]:
        """The commits after this one, newest first. Raises Refused (unknown_commit)."""
        for commit in self.repository.walk(self.head):
            if commit.oid == oid:
                return
            yield commit
        raise unknown_commit(oid)

    def steps_back(self, chosen: Sequence[StoredCommit]) -> list[StoredCommit]:
        """The chosen commits (newest first) among those that moved files since, newest first."""
        wanted = {commit.oid for commit in chosen}
        oldest = chosen[-1]
        later = [c for c in self.after(oldest.oid) if c.meta.moves or c.oid in wanted]
        return [*later, oldest]

    def touches(self, path: str, since: str) -> Touches:
        """What happened to a path. Raises Refused (unknown_commit) if ``since`` is none."""
        later: list[Touch] = []
        reached = False
        for commit in self.repository.walk(self.head):
            reached = reached or commit.oid == since
            before, after = self.entry(commit.parent, path), self.entry(commit.oid, path)
            if before != after:
                touch = Touch(commit, self._version(before), self._version(after))
                if reached:
                    return Touches(later, touch)
                later.append(touch)
        if not reached:
            raise unknown_commit(since)
        return Touches(later, None)

    # -- what commits did

    def file_at(self, oid: str, path: str) -> Version | None:
        """A file as a commit left it; None if the history has none there."""
        return self._version(self.entry(oid, path))

    def file_now(self, path: str) -> Version | None:
        """A file as the newest commit has it; None if it has none there."""
        return self._version(self.entry(self.head, path))

    def touched(self, commit: StoredCommit) -> list[str]:
        """The paths that a commit changed, both of a file that it moved."""
        changes = changes_of(self.repository, commit)
        return sorted({path for c in changes for path in (c.path, c.old_path) if path is not None})

    def deltas(self, commit: StoredCommit) -> list[FileDelta]:
        """What a commit did to each of its files."""
        return [
            FileDelta(path, self._version(before), self._version(after))
            for path, before, after in self._changes(commit)
        ]

    def changes(self, commit: StoredCommit) -> list[FileChange]:
        """What a commit did to its files, as results tell it, in the order of their paths."""
        changes = changes_of(self.repository, commit)
        return [counted(self.repository, change) for change in changes]

    def has_text(self, commit: StoredCommit, text: str) -> bool:
        """Whether a commit's message, or a line that it added or removed, has this text."""
        return has_text(self.repository, commit, text)

    def found_only(self, commit: StoredCommit) -> bool:
        """Whether all that a commit did was to record files that the history had not."""
        return all(before is None for _, before, _ in self._changes(commit))

    def is_touching(self, commit: StoredCommit, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these files, or one below; "" is the root."""
        return any(
            not path or changed == path or changed.startswith(path + "/")
            for changed in self.touched(commit)
            for path in paths
        )

    def _changes(self, commit: StoredCommit) -> Iterator[tuple[str, Known, Known]]:
        return self.repository.trees.changed(*trees_around(self.repository, commit))

    def entry(self, oid: str | None, path: str) -> Known:
        """What a commit (None: none) has at a path."""
        if oid is None:
            return None
        return self.repository.trees.find(self.repository.commit(oid).tree, path)

    def _version(self, known: Known) -> Version | None:
        return Version(self.repository.blob(known[1]), known[0]) if known else None


def unknown_commit(name: str) -> Refused:
    """The refusal of a name that no commit has."""
    return refuse(
        Kind.UNKNOWN_COMMIT,
        f"{name}: there is no such commit in this workspace's history. Send a full id, a unique "
        "prefix of at least 4 digits, HEAD or HEAD~n; `log` lists the ids.",
    )
