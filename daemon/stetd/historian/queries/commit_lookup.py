"""Finds commits by name, request or path, and tells which of them are undone.

:func:`with_lookup` gives a :class:`CommitLookup` on an index that has every commit up to the head
(:mod:`stetd.historian.index.keeping`). Contents of files are read from Git.
"""

from __future__ import annotations

import errno
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import FileChange
from stetd.editing.paths import directories_above
from stetd.historian.index.history_index import CommitFilter, HistoryIndex, newest_first
from stetd.historian.index.keeping import instead, opened
from stetd.historian.queries.commit_changes import counted, has_text, trees_around
from stetd.history.commits import StoredCommit
from stetd.history.objects import EMPTY_TREE, Change
from stetd.history.reverting_commits import FileDelta, Version
from stetd.history.undone import is_edit
from stetd.repository.references import read_shallow
from stetd.repository.rewritten import successors
from stetd.repository.stored_objects import MissingObject, StoredObjects
from stetd.state.read_view import ReadView

T = TypeVar("T")
_PREFIX = re.compile(r"[0-9a-fA-F]{4,40}")
_STEPS = re.compile(r"[0-9]{0,9}")
_FULL_ID = re.compile(r"[0-9a-fA-F]{40}")
#: Seconds for which a question waits for its index.
_PATIENCE_S = 20.0
#: Commits with a prefix that are searched: enough to know that the prefix is ambiguous.
_MAX_WITH_PREFIX = 100
#: Files below a path that are searched: enough to name some of the commits that made them.
_MAX_AROUND = 20


class Found(NamedTuple):
    """A commit, and the commit in effect that reverted it, if there is one."""

    commit: StoredCommit
    undone_by: str | None


class Touch(NamedTuple):
    """A commit that changed a path, and the file afterwards."""

    commit: StoredCommit
    after: Version | None


class Touches(NamedTuple):
    """The commits that changed a path: all after one, newest first, and the last up to it."""

    later: list[Touch]
    last: Touch | None


def with_lookup(view: ReadView, run: Callable[[CommitLookup], T]) -> T:
    """Run a function on the history of a view. Raises as :func:`look_back`."""
    with view.handles.opened(view.shadow) as repository:
        return look_back(repository, view.head, run)


def look_back(repository: StoredObjects, head: str | None, run: Callable[[CommitLookup], T]) -> T:
    """Run a function on the history up to a head. ``run`` may be called twice.

    Raises Refused (overloaded) if the index is not ready in time; MissingObject, OSError.
    """
    deadline = time.monotonic() + _PATIENCE_S

    def ask(index: HistoryIndex) -> T:
        with closing(index):
            return run(CommitLookup(repository, head, index))

    try:
        try:
            return ask(opened(repository, head, deadline))
        except (sqlite3.Error, MissingObject, msgspec.MsgspecError, UnicodeDecodeError):
            # The index may be damaged.
            other = instead(repository, head, deadline)
            if other is None:
                raise
            return ask(other)
    except sqlite3.Error as error:
        raise OSError(errno.EIO, f"the index of the history: {error}", repository.path) from error


class CommitLookup:
    """The history of one workspace up to a head.

    Commits are numbered from 1 at the root. The index may have commits after the head: they
    are skipped.
    """

    def __init__(self, repository: StoredObjects, head: str | None, index: HistoryIndex) -> None:
        self.repository = repository
        self.head = head
        self.index = index
        #: The first commits of a history that retention has cut: earlier content is unknown.
        self.cut_off = read_shallow(repository.path)
        #: The number of commits.
        self.count = (index.position(head) or 0) if head is not None else 0
        self._undone_by: dict[int, str | None] = {}

    # -- finding commits

    def resolve(self, name: str) -> str:
        """The full id for a commit parameter: HEAD, an id or its prefix, or a pin; ``~n`` after one
        means the n-th commit before it. Raises Refused (unknown_commit).
        """
        base, tilde, count = name.partition("~")
        if base == "HEAD":
            oid = self.head
        else:
            oid = self._by_prefix(base) if _PREFIX.fullmatch(base) else self.repository.pinned(base)
        found = None
        if oid is not None and _STEPS.fullmatch(count):
            found = self.ancestor(int(count or 1) if tilde else 0, oid)
        if self.head is None:
            raise refuse(Kind.UNKNOWN_COMMIT, f"{name}: no such commit: the history is still empty")
        if found is None:
            raise unknown_commit(name)
        return found

    def _by_prefix(self, name: str) -> str | None:
        """The commit with this prefix. Raises Refused if there are several."""
        named = self.with_prefix(name.lower())
        if not named:  # it may have a new id since a path was forgotten, or be dropped since then
            found = successors(self.repository.path, name.lower())
            named = [oid for oid in found if self.number(oid) is not None]
        if len(named) > 1:
            shown = ", ".join(oid[:12] for oid in named[:5])
            raise refuse(
                Kind.UNKNOWN_COMMIT,
                f"{name}: {len(named)} commits begin so ({shown}); send more digits",
            )
        return named[0] if named else None

    def number(self, oid: str) -> int | None:
        """A commit's number, by its full id; None if it is not part of the history."""
        number = self.index.position(oid) if _FULL_ID.fullmatch(oid) else None
        return number if number is not None and number <= self.count else None

    def _known(self, oid: str) -> int:
        number = self.number(oid)
        if number is None:
            raise unknown_commit(oid)
        return number

    def oid(self, n: int) -> str:
        """The id of the n-th commit."""
        oid = self.index.oid(n)
        if oid is None:
            raise MissingObject(f"commit {n} of {self.count} is not in the index")
        return oid

    def commit(self, n: int) -> StoredCommit:
        """The n-th commit."""
        return self.repository.commit(self.oid(n))

    def ancestor(self, steps: int, oid: str) -> str | None:
        """The commit so many steps before this one; None if there is none."""
        number = self.number(oid)
        if number is None:  # pinned with plain git
            walk = islice(self.repository.walk(oid), steps, None)
            return next((commit.oid for commit in walk), None)
        return self.oid(number - steps) if steps < number else None

    def with_prefix(self, prefix: str) -> list[str]:
        """The commits with this prefix (at least 4 digits), ordered by id."""
        return self.index.with_prefix(prefix, self.count, _MAX_WITH_PREFIX)

    def found(self, n: int) -> Found:
        """The n-th commit, and the newest commit in effect that reverted it."""
        return Found(self.commit(n), self.undone_by(n))

    def undone_by(self, n: int) -> str | None:
        """The newest commit in effect that reverted the n-th.

        A commit that reverts may be reverted itself, so this is decided for it first; with a list,
        not by recursion, because such chains can be long.
        """
        known = self._undone_by
        waiting = [n]
        while waiting:
            top = waiting[-1]
            reverting = self.index.reverted_by(top, self.count)
            unknown = [each for each in reverting if each not in known]
            if unknown:
                waiting += unknown
                continue
            standing = (self.oid(each) for each in reverting if known[each] is None)
            known[top] = next(standing, None)
            waiting.pop()
        return known[n]

    def judged(self, oids: Iterable[str]) -> list[str]:
        """The ids of the commits of which was asked whether they are undone, of these, and of all
        that have reverted them.
        """
        for oid in oids:
            self.undone_by(self._known(oid))
        return [self.oid(n) for n in self._undone_by]

    def is_undone(self, commit: StoredCommit) -> bool:
        """Whether a commit in effect has reverted this one."""
        return self.undone_by(self._known(commit.oid)) is not None

    def standing_edits(
        self, session: str | None, agent: str | None, paths: Sequence[str]
    ) -> Iterator[StoredCommit]:
        """The edits that are not undone, newest first. None, no paths or the path "": all."""
        wanted = CommitFilter(session=session, agent=agent, standing=True)
        for n in self._select(wanted, paths, self.count):
            if self.undone_by(n) is None:
                commit = self.commit(n)
                if is_edit(commit.meta) and wanted.matches(commit.meta):
                    yield commit

    def _select(self, wanted: CommitFilter, paths: Sequence[str], upto: int) -> Iterator[int]:
        if not paths or "" in paths:
            return self.index.select(wanted, upto)
        each = (self.index.select(replace(wanted, path=path), upto) for path in set(paths))
        return newest_first(*each)

    def candidates(
        self, wanted: CommitFilter, after: str | None, paths: Sequence[str] = ()
    ) -> Iterator[Found]:
        """The commits that may meet the filters, newest first; the caller must check each again.

        ``after``: only commits older than this one. ``paths``: only commits that may have touched
        one of these; no paths, or the path "": any. Raises Refused (unknown_commit).
        """
        upto = self.count if after is None else self._known(after) - 1
        return map(self.found, self._select(wanted, paths, upto))

    def find(self, oids: Collection[str]) -> list[Found]:
        """These commits (full ids), newest first. Raises Refused (unknown_commit)."""
        numbers = map(self._known, sorted(set(oids)))
        return [self.found(n) for n in sorted(numbers, reverse=True)]

    def of_request(self, request: str, session: str | None) -> Found | None:
        """The commit that a request made; None if there is none.

        Sessions may have the same request id: the commit of ``session`` is preferred (None: any),
        else the newest.
        """
        other = None
        wanted = CommitFilter(request=request)
        for each in self.candidates(wanted, after=None):
            meta = each.commit.meta
            if not wanted.matches(meta) or meta.kind == "outside":
                continue
            if session is None or meta.session == session:
                return each
            other = other or each
        return other

    def after(self, oid: str) -> Iterator[StoredCommit]:
        """The commits after this one, newest first. Raises Refused (unknown_commit)."""
        return islice(self.repository.walk(self.head), self.count - self._known(oid))

    def steps_back(self, chosen: Sequence[StoredCommit]) -> list[StoredCommit]:
        """The chosen commits and all later ones that moved files, newest first.

        Leaves out commits whose moves were undone without moving a file back: it was gone then.
        """
        wanted = {self._known(commit.oid): commit for commit in chosen}
        moving = self.index.moving(min(wanted), self.count)
        undone = {n: by for n in moving if (by := self.undone_by(n)) is not None}
        moved = [
            n for n in moving if n not in undone or self.repository.commit(undone[n]).meta.moves
        ]
        return [wanted.get(n) or self.commit(n) for n in sorted({*wanted, *moved}, reverse=True)]

    def touches(self, path: str, since: str) -> Touches:
        """The commits that changed a path. Raises Refused (unknown_commit) for ``since``."""
        reached = self._known(since)
        later: list[Touch] = []
        for n in self.index.select(CommitFilter(path=path), self.count):
            commit = self.commit(n)
            before, after = self.entry(commit.parent, path), self.entry(commit.oid, path)
            if before != after:
                touch = Touch(commit, self._version(after))
                if n <= reached:
                    return Touches(later, touch)
                later.append(touch)
        return Touches(later, None)

    def reverts_all(self, commit: StoredCommit) -> bool:
        """Whether a commit that reverts others changed every file of them.

        It left a file alone that it did not change; a file that was gone then, too, unless it
        changed one of another name, which may be the same.
        """
        changed: dict[str, tuple[Change, Change]] = {}
        for each in reversed(self.find([o for o in commit.meta.reverts if self.number(o)])):
            for path, before, after in self.tree_changes(each.commit):
                changed[path] = (changed.get(path, (before,))[0], after)
        own = {path for path, _, _ in self.tree_changes(commit)}
        renamed = not own <= changed.keys()
        for path, (before, after) in changed.items():
            found = self.entry(commit.parent, path)
            left_alone = path not in own and (found is not None or not renamed)
            if before != after and (left_alone or found == before):
                return False
        return True

    def touching_since(self, since: str, *paths: str) -> set[str]:
        """The ids of the commits after ``since`` that changed one of these files."""
        return {touch.commit.oid for path in paths for touch in self.touches(path, since).later}

    def around(self, path: str) -> list[str]:
        """Files above a path and some below it: while they exist, the path can't be a file."""
        tree = self.repository.commit(self.head).tree if self.head is not None else EMPTY_TREE
        above = [each for each in directories_above(path) if self.entry(self.head, each)]
        return [*above, *islice(self.repository.files_below(tree, path), _MAX_AROUND)]

    # -- contents and changes

    def file_at(self, oid: str | None, path: str) -> Version | None:
        """A file right after a commit; None if the history has none there."""
        return self._version(self.entry(oid, path))

    def deltas(self, commit: StoredCommit) -> list[FileDelta]:
        """A commit's changes, with the contents before and after."""
        return [
            FileDelta(path, self._version(before), self._version(after))
            for path, before, after in self.tree_changes(commit)
        ]

    def permissions_before(
        self, commit: StoredCommit, paths: Iterable[str]
    ) -> Iterator[tuple[str, int]]:
        """The permission bits of these paths, as the last commits before this one recorded them."""
        n = self._known(commit.oid)
        for path in paths:
            last = self.index.last_change(path, n - 1)
            said = self.commit(last[0]).meta.permissions if last is not None else ()
            yield from (each for each in said if each[0] == path)

    def changes(self, commit: StoredCommit) -> list[FileChange]:
        """A commit's changes as in results, ordered by path."""
        rows = self.index.files(self._known(commit.oid))
        return [counted(self.repository.blob, row) for row in rows]

    def has_text(self, commit: StoredCommit, text: str) -> bool:
        """Whether a commit's message, or a line that it added or removed, contains this text."""
        files = self.index.files_with(self._known(commit.oid), text)
        return has_text(self.repository, commit, text, files)

    def found_only(self, commit: StoredCommit) -> bool:
        """Whether a commit only recorded files that the history did not have."""
        return all(before is None for _, before, _ in self.tree_changes(commit))

    def is_touching(self, commit: StoredCommit, paths: Sequence[str]) -> bool:
        """Whether a commit changed one of these paths, or a path below one; "" is the root."""
        return self.index.touches(self._known(commit.oid), paths)

    def tree_changes(self, commit: StoredCommit) -> Iterator[tuple[str, Change, Change]]:
        """A commit's changes of its parent's tree: path, before and after."""
        return self.repository.changed(*trees_around(self.repository, commit))

    def entry(self, oid: str | None, path: str) -> Change:
        """A commit's entry at a path; None if there is none, or no commit."""
        if oid is None:
            return None
        return self.repository.file_in(self.repository.commit(oid).tree, path)

    def _version(self, known: Change) -> Version | None:
        return Version(self.repository.blob(known[1]), known[0]) if known else None


def unknown_commit(name: str) -> Refused:
    """The refusal for a name that no commit has."""
    return refuse(
        Kind.UNKNOWN_COMMIT,
        f"{name or repr(name)}: there is no such commit in this workspace's history. Send a full "
        "id, a unique prefix of at least 4 digits, HEAD or HEAD~n; `log` lists the ids.",
    )
