"""Reverts the chosen commits of an undo, redo or rollback: plans the draft, or the conflict.

The rules for files are pure (:mod:`stetd.history.reverting_commits`); this module applies them to
the files on disk.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace

from stet.wire.failures import Failure, Kind, Refused, refuse
from stetd.editing.paths import files_above
from stetd.historian.queries.commit_lookup import CommitLookup
from stetd.history.commits import StoredCommit
from stetd.history.excluding import Excludes
from stetd.history.objects import LINK
from stetd.history.reverting_commits import (
    FileConflict,
    FileDelta,
    InTheWay,
    RevertedFiles,
    Version,
    full_mode,
)
from stetd.history.undone import FOUND, TAKES_BACK, UndoneTwice, undone_twice
from stetd.planning.world import CallWorld
from stetd.repository.stored_objects import MissingObject
from stetd.transaction.drafts import Draft, DraftFile

#: Conflicting commits that a refusal names.
_MAX_NAMED = 4


def plan_revert(
    lookup: CommitLookup,
    excludes: Excludes,
    world: CallWorld,
    chosen: Sequence[StoredCommit],
    kind: str,
    subject: str,
) -> Draft:
    """Plan the revert of commits, given newest first.

    Raises Refused: conflict, nothing_to_undo (a commit would be undone twice), ...
    """
    reverted = _reverted(lookup, world, chosen)
    reverted.conflicts += _uncovered(lookup, excludes, world, reverted)
    if reverted.conflicts:
        raise _in_the_way(lookup, world, reverted.conflicts, chosen)
    return Draft(
        kind=kind,
        subject=subject,
        files=_files(world, reverted),
        reverts=tuple(commit.oid for commit in chosen),
        leftover_directories=[d for commit in chosen for d in commit.meta.directories],
    )


def is_exact(lookup: CommitLookup, world: CallWorld, chosen: Sequence[StoredCommit]) -> bool:
    """Whether the revert of commits, given newest first, finds each file as the commit left it."""
    try:
        reverted = _reverted(lookup, world, chosen)
    except (Refused, MissingObject):
        return False
    return reverted.exact and not reverted.conflicts


def _reverted(
    lookup: CommitLookup, world: CallWorld, chosen: Sequence[StoredCommit]
) -> RevertedFiles:
    _check(lookup, chosen)
    reverted = RevertedFiles(partial(current_version, world), partial(_mode, world), _merged)
    oids = {commit.oid for commit in chosen}
    for commit in lookup.steps_back(chosen):
        if commit.oid not in oids:
            reverted.paths.pass_by(commit)
            continue
        meta, deltas, recorded = commit.meta, lookup.deltas(commit), dict(commit.meta.permissions)
        if meta.kind in FOUND:  # it could not see which bits were there before
            before = dict(lookup.permissions_before(commit, (delta.path for delta in deltas)))
            # None may be known because the commit that had them was dropped.
            known = [d for d in deltas if d.path in before or not lookup.cut_off]
            meta = replace(meta, regraded=tuple(_regraded(known, before, recorded)))
            gone = (d.path for d in deltas if d.after is None or d.after.git_mode == LINK)
            recorded.update((path, before[path]) for path in gone if path in before)
        reverted.revert(meta, deltas, recorded)
    standing = (path for path, version in reverted.files.items() if version is not None)
    for path, above in files_above(standing):
        reason = f"{above} comes back as a file, so nothing can be below it"
        reverted.conflicts.append(FileConflict(path, reason))
    return reverted


def _regraded(
    deltas: Iterable[FileDelta], before: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    """The permission bits of the files that a commit found changed: path, before and after."""
    for delta in deltas:
        if delta.before is not None and delta.after is not None:
            old = full_mode(delta.before, before.get(delta.path))
            new = full_mode(delta.after, after.get(delta.path))
            yield delta.path, stat.S_IMODE(old), stat.S_IMODE(new)


def _uncovered(
    lookup: CommitLookup, excludes: Excludes, world: CallWorld, reverted: RevertedFiles
) -> Iterator[FileConflict]:
    """Files that are excluded by now, and that would get an old name back that is kept, with
    content that the history does not have.
    """
    for path, origin in reverted.moved_from.items():
        if origin is None or excludes(path) or not excludes(origin):
            continue
        if current_version(world, origin) != lookup.file_at(lookup.head, origin):
            reason = (
                "it is excluded from the history (exclude, in the configuration), so it can't "
                f"become {path} again, where its content would be kept"
            )
            yield FileConflict(origin, reason)


def _merged(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes | None, list[str]]:
    from stetd.repository.merging import merge_file

    return merge_file(base, ours, theirs)


def _check(lookup: CommitLookup, chosen: Sequence[StoredCommit]) -> None:
    for commit in chosen:
        if commit.oid in lookup.cut_off:
            raise refuse(
                Kind.NOTHING_TO_UNDO,
                f"{commit.oid[:8]} is the oldest commit that the history still has: what stood "
                "before it was dropped to save space, so there is nothing to go back to.",
            )
        if paths := commit.meta.forgotten:
            what = ", ".join(paths[:3]) + (" and others" if len(paths) > 3 else "")
            raise refuse(
                Kind.NOTHING_TO_UNDO,
                f"{commit.oid[:8]} changed {what}, which the history was asked to forget: what "
                "stood there is gone, so the call can't be taken back. Nothing was changed.",
            )
    excluded = [(commit, path) for commit in chosen for _, path in commit.meta.excluded]
    if excluded:
        raise _not_kept(excluded)
    twice = would_undo_twice(lookup, chosen)
    if twice is not None:
        raise refuse(Kind.NOTHING_TO_UNDO, _why_not_twice(lookup, chosen, twice))


def _why_not_twice(lookup: CommitLookup, chosen: Sequence[StoredCommit], twice: UndoneTwice) -> str:
    commit, by = twice.commit[:8], twice.by[:8]
    undone_by = lookup.find({twice.by})[0].undone_by
    if undone_by is None:
        return (
            f"this would undo {commit} a second time, which {by} has undone already; nothing was "
            f"changed. Take {by} back first."
        )
    named = any(each.oid == twice.commit for each in chosen)
    return (
        f"this would undo {commit} twice, because {by}, which undid it before, would stand again; "
        f"nothing was changed. Leave {commit if named else undone_by[:8]} out."
    )


def _not_kept(excluded: Sequence[tuple[StoredCommit, str]]) -> Refused:
    reason = "the history does not keep this file, so there is nothing to go back to"
    failures = [
        Failure(
            Kind.CONFLICT.value,
            f"{path}: {commit.oid[:8]} changed this file, which is excluded from the history: what "
            "stood there before is not kept, so the call can't be taken back. Nothing was changed. "
            "Other calls can be undone by their ids, which `log` gives.",
            path=path,
        )
        for commit, path in excluded
    ]
    conflicts = [{"path": path, "hunks": [reason], "commits": []} for _, path in excluded]
    return Refused(*failures, extra={"conflicts": conflicts})


def would_undo_twice(lookup: CommitLookup, chosen: Sequence[StoredCommit]) -> UndoneTwice | None:
    """The commit that would be undone a second time if these (newest first) were reverted."""
    wanted = {commit.oid for commit in chosen if commit.meta.kind in TAKES_BACK}
    if not wanted:
        return None
    found = lookup.find(wanted)
    while more := {oid for each in found for oid in _known_reverts(lookup, each.commit)} - wanted:
        wanted |= more
        found = lookup.find(wanted)
    return undone_twice(found, [commit.oid for commit in chosen if commit.oid in wanted])


def _known_reverts(lookup: CommitLookup, commit: StoredCommit) -> Sequence[str]:
    """The commits that a commit took back, without those that retention has dropped."""
    if commit.meta.kind not in TAKES_BACK:
        return ()
    return [oid for oid in commit.meta.reverts if lookup.number(oid) is not None]


def current_version(world: CallWorld, path: str) -> Version | None:
    """The file at a path of the history. Raises InTheWay, Refused (file_too_large, ...)."""
    found = world.read_entry(path)
    if found is None or found.image is None or found.data is None:
        return None
    return Version(found.data, found.image.git_mode)


def _mode(world: CallWorld, path: str) -> int | None:
    found = world.seen[path][1]
    return found.mode if found is not None else None


def _files(world: CallWorld, reverted: RevertedFiles) -> list[DraftFile]:
    files = []
    for path, version in reverted.files.items():
        item = world.draft_file(path, version.data if version else None)
        origin = reverted.moved_from.get(path)
        if origin is not None and item.found is None and version is not None:
            item.old_path = origin if reverted.files[origin] is None else None
        item.mode = reverted.modes[path]
        files.append(item)
    return files


def _in_the_way(
    lookup: CommitLookup,
    world: CallWorld,
    conflicts: Sequence[FileConflict],
    chosen: Sequence[StoredCommit],
) -> Refused:
    """The refusal for conflicts; names the commits that changed each file since."""
    own = {commit.oid for commit in chosen}
    since: dict[str, tuple[Sequence[StoredCommit], bool]] = {}
    for path in {each.path for each in conflicts}:
        others = lookup.touching_since(chosen[-1].oid, path) - own
        try:
            differs = current_version(world, path) != lookup.file_at(lookup.head, path)
        except InTheWay:  # commits of this call count, too: another call must revert them first
            around = lookup.around(path)
            differs = not around
            others |= lookup.touching_since(chosen[-1].oid, *around)
        standing = [each.commit for each in lookup.find(others) if each.undone_by is None]
        since[path] = standing, differs
    return conflict(conflicts, since)


def conflict(
    conflicts: Sequence[FileConflict],
    since: Mapping[str, tuple[Sequence[StoredCommit], bool]] = MappingProxyType({}),
) -> Refused:
    """The refusal for conflicts, with their hunks and the commits in the way.

    ``since``: by path, the commits in effect that changed a file since, newest first, and whether
    it has changes that no commit has.
    """
    failures, details = [], []
    for each in conflicts:
        others, unrecorded = since.get(each.path, ((), False))
        names = ["an edit outside that is not recorded yet"] if unrecorded else []
        names += [f"{commit.oid[:8]} ({_who(commit)})" for commit in others]
        if len(names) > _MAX_NAMED:
            names[_MAX_NAMED:] = [f"{len(names) - _MAX_NAMED} more"]
        why = each.hunks[0]
        if why.startswith("<<<<<<<"):
            why = "the same or adjacent lines were changed since"
        message = f"{each.path}: later changes are in the way, so nothing was changed: {why}"
        message = message.rstrip(".") + "."
        if names:
            message += f" Changed since by: {', '.join(names)}."
        failures.append(Failure(Kind.CONFLICT.value, message, path=each.path))
        commits = [commit.oid for commit in others]
        details.append({"path": each.path, "hunks": each.hunks, "commits": commits})
    # Several commits of one file may be in conflict.
    return Refused(*dict.fromkeys(failures), extra={"conflicts": details})


def _who(commit: StoredCommit) -> str:
    meta = commit.meta
    return "/".join(name for name in (meta.agent, meta.session) if name) or meta.kind
