"""Verifying a history: it is whole, unaltered, and the one that the journal knows.

The chain is followed from the head to the root. Every object that it needs must be there, with the
right kind and id, and its commits and trees must be as stetd writes them. All other objects in the
repository must have the right ids. The head, its reference and the number of commits must be those
of the journal: so a history that was cut off, moved back or replaced by another is found. If the
journal was forged as well, only a commit's id that was noted elsewhere helps (``expect``).

At 100,000 commits this holds the ids of all objects (some ten megabytes), and nothing else that
grows with the history.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing

import msgspec
from msgspec.structs import asdict

from stet.wire.failures import Refused
from stet.wire.results import Problem, VerifyResult
from stetd.historian.index.history_index import HistoryIndex, damage
from stetd.historian.queries.files import present
from stetd.history.checking import CheckedCommit, RawTree, check_commit, check_tree
from stetd.history.commits import rfc3339
from stetd.history.objects import EMPTY_TREE, TREE_MODE
from stetd.processes.long_work import Claim, Moment, Verifying
from stetd.repository.object_checking import Fault, ObjectCheck
from stetd.repository.recent import Recent
from stetd.repository.references import (
    HISTORY,
    PINS,
    DamagedReference,
    read_reference,
    read_shallow,
    references_below,
    unexpected_packed_line,
    why_no_pin_name,
)
from stetd.repository.rewritten import successors
from stetd.state.state import shadow_path
from stetd.storage.disk import Disk, read_file
from stetd.storage.journal_format import Reached
from stetd.storage.journal_heads import read_heads
from stetd.storage.worktree import Worktree

#: Problems that are reported; more are only counted.
_MOST_PROBLEMS = 1000
_MOST_WARNINGS = 100
_TREES = 512
#: Seconds by which a commit's time may be before its parent's without a warning.
_CLOCK_STEP_S = 300
_GRAPHS = ("objects/info/commit-graph", "objects/info/commit-graphs/commit-graph-chain")
_REPLACING_FILES = ("info/grafts", "objects/info/alternates", "shallow")


def read_history_reference(shadow: str) -> str | None:
    """The value of ``refs/heads/history``: an id, None, or "" if it is damaged."""
    try:
        return read_reference(shadow, HISTORY)
    except (DamagedReference, OSError):
        return ""


def claimed(state: str, name: str, now: Moment) -> Claim:
    """The daemon's knowledge of a history, from its memory and its journal, and the reference."""
    journal = trouble = None
    try:
        journal = read_heads(os.path.join(state, "journal"), now.position, name)
    except OSError as error:
        trouble = f"{os.path.basename(error.filename or '')}: {error.strerror}"
    reference = read_history_reference(shadow_path(state, name))
    return Claim(**asdict(now), journal=journal, journal_trouble=trouble, reference=reference)


def verified(asked: Verifying, disk: Disk) -> VerifyResult:
    """Verify a history."""
    shadow = shadow_path(asked.state, asked.name)
    with closing(ObjectCheck(shadow)) as check:
        return _Verification(asked, shadow, check).result(disk)


class _Verification(msgspec.Struct):
    asked: Verifying
    shadow: str
    check: ObjectCheck
    problems: list[Problem] = []
    warnings: list[str] = []
    commits: int = 0
    changed_outside: int | None = None
    uncounted: int = 0
    #: The commit at which the chain could not be followed further.
    broken_at: str | None = None
    #: The oldest commit, if the journal says that retention dropped those before it.
    ended_at: str | None = None
    #: The tree of the newest commit.
    tree: str = EMPTY_TREE
    #: Commits to find along the chain: reverted, with the newest commit that did; pinned.
    reverts: dict[str, str] = {}
    pins: dict[str, list[str]] = {}
    expected: bool = False
    #: Where the reference is in the chain, and the head before it was read: so many are newer.
    places: dict[str | None, int] = {}
    _faults: dict[str, Fault] = {}
    #: Objects that a reported problem names.
    _named: set[str] = set()
    _trees: Recent[str, tuple[RawTree, list[str]]] = msgspec.field(
        default_factory=lambda: Recent(_TREES)
    )

    def result(self, disk: Disk) -> VerifyResult:
        self.check.scan()
        self._faults = {fault.oid: fault for fault in self.check.faults if fault.oid is not None}
        self._read_references()
        self._follow_chain()
        self._compare_claims()
        self._add_other_faults()
        self._check_journal()
        self._check_what_replaces()
        self._check_databases()
        if self.asked.trouble is not None:
            by_now = "Nothing is damaged by now; it is tried again when a call comes. "
            well = "" if self.problems else by_now
            self._add("put_off", f"{well}The workspace was deferred: {self.asked.trouble}")
        self._compare_workspace(disk)
        if self.uncounted:
            self.problems.append(Problem("more", f"and {self.uncounted} more problems"))
        return VerifyResult(
            ok=not self.problems,
            commits=self.commits,
            objects=self.check.objects,
            problems=self.problems,
            head=self.asked.claim.head,
            changed_outside=self.changed_outside,
            warnings=self.warnings,
        )

    def _add(self, kind: str, message: str, **where: str | None) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Problem(kind, message, **where))
        else:
            self.uncounted += 1

    # -- the chain

    def _follow_chain(self) -> None:
        oid, child = self.asked.claim.head, None
        current = self._commit(oid, None) if oid is not None else None
        self.tree = current.tree if current is not None else EMPTY_TREE
        while oid is not None and current is not None:
            self._note_found(oid, current)
            self.commits += 1
            for fault in current.faults:
                self._add("malformed", f"commit {oid}: {fault}", commit=oid)
            before = None if self._is_recorded_end(oid, current) else current.parent
            parent = self._commit(before, oid) if before is not None else None
            step = parent.time - current.time if parent is not None else 0
            if parent is not None and step > _CLOCK_STEP_S and len(self.warnings) < _MOST_WARNINGS:
                self.warnings.append(
                    f"commit {oid} is of {rfc3339(current.time)}, its parent of "
                    f"{rfc3339(parent.time)}: the clock was set back between them"
                )
            for path, _, file in self._files(current.tree, parent.tree if parent else None, oid):
                self._is_there(file.hex(), "blob", oid, path)
            oid, child, current = before, oid, parent
        if oid is not None:
            self.broken_at = child or "the newest commit"

    def _note_found(self, oid: str, commit: CheckedCommit) -> None:
        """Note that this commit was found, if the chain is searched for it."""
        self.reverts.pop(oid, None)
        self.pins.pop(oid, None)
        for other in commit.reverts:
            self.reverts.setdefault(other, oid)
        if self.asked.expect is not None and oid.startswith(self.asked.expect):
            self.expected = True
        if oid in (self.asked.before.reference, self.asked.before.head):
            self.places[oid] = self.commits

    def _is_recorded_end(self, oid: str, commit: CheckedCommit) -> bool:
        """Whether the history begins here because retention has dropped what was before."""
        cut = self.asked.claim.cut
        if cut is None or (oid, commit.parent) != (cut.oldest, cut.parent):
            return False
        if read_shallow(self.shadow) != {cut.oldest}:
            return False  # recorded, and not carried out yet
        self.ended_at = oid
        return True

    def _commit(self, oid: str, child: str | None) -> CheckedCommit | None:
        found = self._need(oid, "commit", child, None)
        if found is None:
            return None
        commit = check_commit(found)
        if commit is None:
            self._add("malformed", f"commit {oid} can't be read as a commit", commit=oid)
        return commit

    def _read_references(self) -> None:
        garbage = unexpected_packed_line(self.shadow)
        if garbage is not None:
            self._add(
                "reference",
                f"line {garbage} of packed-refs is no reference, so plain git refuses the "
                f"repository. Remove that line (the whole, if it is no file) in {self.shadow}",
                what="packed-refs",
            )
        for reference in references_below(self.shadow, "refs"):
            try:
                oid = read_reference(self.shadow, reference)
            except (DamagedReference, OSError):
                oid = None
            folder, _, name = reference.rpartition("/")
            if folder != PINS:
                if reference != HISTORY and (oid is None or self.check.kind_now(oid) is None):
                    self._add(
                        "reference",
                        f"{reference} names no object that is there, so gc and forget are refused. "
                        f"Remove that file, or its line in packed-refs, from {self.shadow}",
                        what=reference,
                    )
            elif oid is None or why_no_pin_name(name):
                self._add(
                    "pin",
                    f"pin {name} holds no commit's id. Delete it: stet pin --delete {name}",
                    what=f"refs/pins/{name}",
                )
            else:
                self.pins.setdefault(oid, []).append(name)

    def _compare_claims(self) -> None:
        """Report what is said of the chain, and is not so: counts, references, pins, reverts."""
        claim = self.asked.claim
        dropped = claim.cut.dropped if claim.cut is not None and self.ended_at else 0
        expected = claim.commits - dropped
        if self.broken_at is None and claim.head is not None and self.commits != expected:
            self._add(
                "count",
                f"the history has {self.commits} commits, but {claim.commits} were made in it"
                + (f" and {dropped} dropped by retention" if dropped else ""),
                what=HISTORY,
            )
        self._compare_reference()
        beyond = f" (it can't be followed back beyond {self.broken_at})" if self.broken_at else ""
        for oid, child in sorted(self.reverts.items()):
            if not self.broken_at and not self.ended_at:  # else it may be among the dropped
                self._add(
                    "reverts",
                    f"commit {child} takes back {oid}, which is no commit before it",
                    commit=child,
                    object=oid,
                )
        for oid, names in sorted(self.pins.items()):
            for name in names:
                self._add(
                    "pin",
                    f"pin {name} names {oid}, which is not in the history{beyond}. If you do not "
                    f"need it: stet pin --delete {name}",
                    what=f"refs/pins/{name}",
                    object=oid,
                )
        if self.asked.expect is not None and not self.expected:
            self._add(
                "expect",
                f"the history does not have commit {self.asked.expect}, which it had when that "
                f"id was noted{beyond}: {self._why_not_expected(self.asked.expect)}",
                commit=self.asked.expect,
            )

    def _why_not_expected(self, expect: str) -> str:
        now = successors(self.shadow, expect)
        if now:
            return f"the repository says that it is {now[0]} since a path was forgotten"
        if self.ended_at is not None:
            return "it may be among those that retention has dropped; or it was replaced"
        return "it was cut off, or replaced by another"

    def _compare_reference(self) -> None:
        """Report a reference to no commit, or to one older than the head before it was read."""
        before, head = self.asked.before, self.asked.claim.head
        reference = before.reference
        at, least = (self.places.get(oid) for oid in (reference, before.head))
        in_place = at is not None and (least is None or at <= least)
        if in_place or reference == before.head or (reference and reference == head):
            return
        if reference is None:
            fault = f"is gone; it should name {head}"
        elif reference == "":
            fault = "does not hold a commit's id"
        else:
            how = "" if at is None else f" ({at} commits back)"
            fault = f"names {reference}{how}, but the newest commit is {head}"
        self._add("reference", f"{HISTORY} {fault}", what=HISTORY, commit=reference or None)

    # -- objects

    def _need(self, oid: str, kind: str, commit: str | None, path: str | None) -> bytes | None:
        """The content of an object that the history needs; None after reporting a problem."""
        if not self._is_there(oid, kind, commit, path):
            return None
        found = self.check.read(oid)
        if found is None:  # gone since it was checked
            self._name_missing(oid, kind, commit, path)
            return None
        return found[1]

    def _is_there(self, oid: str, kind: str, commit: str | None, path: str | None) -> bool:
        found = self.check.kind_now(oid)
        if found == kind:
            return True
        if found is None:
            self._name_missing(oid, kind, commit, path)
        else:
            self._add(
                "wrong_object",
                f"{_needed_by(commit, path)} needs {oid} as a {kind}, but that is a {found}",
                commit=commit,
                object=oid,
                path=path,
            )
        return False

    def _name_missing(self, oid: str, kind: str, commit: str | None, path: str | None) -> None:
        if oid in self._named:
            return
        self._named.add(oid)
        fault = self._faults.get(oid)
        where = f"{fault.path}: {fault.why}" if fault else "it is in no file of the repository"
        self._add(
            "damaged_object" if fault else "missing_object",
            f"{kind} {oid}, which {_needed_by(commit, path)} needs, is "
            f"{'damaged' if fault else 'missing'}: {where}",
            what=fault.path if fault else None,
            commit=commit,
            object=oid,
            path=path,
        )

    def _add_other_faults(self) -> None:
        """Report damaged objects that no commit needs, or of which there is an intact copy."""
        missing = any(p.kind == "missing_object" for p in self.problems)
        for fault in self.check.faults:
            if fault.oid is None:
                message = f"{fault.path}: {fault.why}"
                if fault.kind == "damaged_index":
                    index = shlex.quote(os.path.join(self.shadow, fault.path))
                    pack = self._pack_command(fault.path.removesuffix(".idx") + ".pack")
                    message += f". If its pack is whole, make it anew: rm -r {index}; {pack}"
                self._add(fault.kind, message, what=fault.path)
            elif fault.oid not in self._named:
                whole = self.check.kind_of(fault.oid) is not None
                why = "another copy of it is whole" if whole else "no commit is known to need it"
                self._add(
                    fault.kind,
                    f"object {fault.oid} is damaged ({why}): {fault.path}: {fault.why}",
                    what=fault.path,
                    object=fault.oid,
                )
        for path in self.check.unindexed if missing else ():
            self._add(
                "missing_index",
                f"{path} has no index, so nothing in it is found. Make one: "
                f"{self._pack_command(path)}",
                what=path,
            )

    def _pack_command(self, pack: str) -> str:
        return f"git index-pack {shlex.quote(os.path.join(self.shadow, pack))}"

    # -- trees

    def _files(
        self, new: str, old: str | None, commit: str | None
    ) -> Iterator[tuple[str, bytes, bytes]]:
        """The files of a tree that another does not have there: path, mode and id.

        ``commit``: of the problems that are reported; None: none are.
        """
        waiting = [(new, old, "")]
        while waiting:
            new, old, prefix = waiting.pop()
            before = (self._tree(old, None, "") if old is not None else None) or {}
            entries = self._tree(new, commit, prefix) or {}
            for name, (mode, oid) in sorted(entries.items() - before.items()):
                path = prefix + name.decode("utf-8", "replace")
                if mode != TREE_MODE:
                    yield path, mode, oid
                    continue
                known = before.get(name)
                beside = known[1].hex() if known is not None else None
                waiting.append((oid.hex(), beside, path + "/"))

    def _tree(self, oid: str, commit: str | None, path: str) -> RawTree | None:
        """The entries of a tree; ``commit`` None: report no problem, another call does."""
        known = self._trees.get(oid)
        if known is None:
            if commit is not None:
                content = self._need(oid, "tree", commit, path.rstrip("/") or None)
            else:
                kind, content = self.check.read(oid) or ("", None)
                content = content if kind == "tree" else None
            if content is None:
                return None
            known = check_tree(content)
            self._trees.keep(oid, known)
        entries, faults = known
        if faults and commit is not None and oid not in self._named:
            self._named.add(oid)
            for fault in faults:
                self._add(
                    "malformed",
                    f"tree {oid} ({path or 'the root'} of commit {commit}): {fault}",
                    commit=commit,
                    object=oid,
                )
        return entries

    # -- the journal, and files that change what plain git shows

    def _check_journal(self) -> None:
        claim = self.asked.claim
        if claim.journal is None:
            message = f"the journal can't be read: {claim.journal_trouble}"
            self._add("journal", message, what="journal")
            return
        reached, damages = claim.journal
        for sentence in damages:
            self._add("journal", sentence, what="journal")
        if damages:
            return
        own = claim.recorded or Reached(claim.head, claim.commits)
        if reached != own:
            self._add(
                "journal",
                f"the journal has the history at {reached.head} with {reached.commits} commits, "
                f"the daemon at {own.head} with {own.commits}",
                what="journal",
            )

    def _check_what_replaces(self) -> None:
        """Report files that make plain git show another history than the stored one."""
        shadow = self.shadow
        for name in references_below(shadow, "refs/replace"):
            oid = name.rsplit("/", 1)[1]
            self._add(
                "replaced",
                f"{name} makes git show another object in the place of {oid}. "
                f"Remove it: git --git-dir {shlex.quote(str(shadow))} replace -d {oid}",
                what=name,
            )
        for name in _REPLACING_FILES:
            if name == "shallow" and self.ended_at is not None:
                continue
            if os.path.lexists(os.path.join(shadow, name)):
                path = shlex.quote(os.path.join(shadow, name))
                why = f"stetd makes no such file. Remove it: rm -r {path}"
                # It is right if the journal has lost its record, unless it is a directory.
                if name == "shallow" and not os.path.isdir(os.path.join(shadow, name)):
                    why = "the journal knows of no commit that retention dropped"
                message = f"{name} makes git show another history; {why}"
                self._add("replaced", message, what=name)
        for name in _GRAPHS:
            if os.path.lexists(os.path.join(shadow, name)):
                self.warnings.append(
                    f"{name}: plain git takes parents from this file, which was not checked; stet "
                    "does not need it, and it may be removed"
                )
        try:
            head = read_file(os.path.join(shadow, "HEAD"), 100)
            whole = head == b"ref: " + HISTORY.encode() + b"\n"
        except OSError:
            whole = False
        if not whole:
            message = f"HEAD does not point to {HISTORY}; stetd writes it anew when it starts"
            self._add("reference", message, what="HEAD")

    def _check_databases(self) -> None:
        """Report damage of files that are derived from the history, or not needed for it."""
        index = HistoryIndex.path_for(self.shadow)
        answers = os.path.join(self.asked.state, "requests.sqlite3")
        for path, without in (
            (index, "it is made anew then"),
            (answers, "old calls that are sent again are not known then"),
        ):
            found = damage(path)
            if found is not None:
                self.warnings.append(
                    f"{path} is damaged: {' '.join(found.split())}. To do without it ({without}): "
                    f"stet stop; rm -f {shlex.quote(path)}*"
                )

    # -- the workspace

    def _compare_workspace(self, disk: Disk) -> None:
        """Count the files that differ from the newest commit; this is no problem."""
        try:
            worktree = Worktree(self.asked.root, disk)
        except OSError:
            return
        with closing(worktree):
            if not worktree.gone():
                files = self._files(self.tree, None, None)
                self.changed_outside = sum(
                    self._present(worktree, path) != (mode, oid) for path, mode, oid in files
                )

    def _present(self, worktree: Worktree, path: str) -> tuple[bytes, bytes] | None:
        try:
            found = present(worktree, path, self.asked.max_file_bytes)
        except (Refused, OSError):  # it can't be read, or is too large
            return None
        image = found.image if found else None
        return (b"%o" % image.git_mode, bytes.fromhex(image.oid)) if image else None


def _needed_by(commit: str | None, path: str | None) -> str:
    if commit is None:
        return "the journal"
    return f"commit {commit}" + (f" ({path})" if path else "")
