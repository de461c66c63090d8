"""The last checks of a planned call before it is sealed.

They are about files that are excluded from the history or protected, and about combinations of
files in one call. They change nothing but the draft.
"""

from __future__ import annotations

import re
import stat
from itertools import combinations

from stet.wire.failures import Failure, Kind, Refused, refuse
from stetd.editing.edits import Plan
from stetd.editing.paths import (
    REPOSITORY_PARTS,
    folded_path,
    in_repository,
    may_be_link,
    repositories_made,
)
from stetd.history.excluding import Excludes
from stetd.history.protecting import Protection
from stetd.planning.world import EditCall
from stetd.state.workspace import Base
from stetd.storage.paths_on_disk import repository_parts
from stetd.transaction.drafts import Draft, DraftFile

#: Paths with names that a shell or a browser would expand or take off (``~``, ``file:``, quotes),
#: and with beginnings of Windows' paths (``C:\``, ``.\``).
_NOT_EXPANDED = re.compile(r"(?:.*/)?(?:(?:~|file:|[A-Za-z]:|\.\.?)[/\\].+|([\"'`]).+\1)")


def check_draft(draft: Draft, base: Base, call: EditCall, protection: Protection) -> None:
    """Refuse a draft that is not allowed; flag one that changes protected files."""
    _refuse_two_spellings(draft, call)
    _refuse_faulty_links(draft)
    _refuse_new_repositories(draft, base)
    changed = (item for item in draft.files if _changes(item))
    covered = [item.target.path for item in changed if _is_protected(item, protection)]
    if not covered:
        return
    if protection.action == "refuse" and not call.control:
        failures = (
            Failure(
                Kind.PATH_PROTECTED.value,
                f"{path}: this file is protected, because programs run what it says; agents may "
                "not change it. Leave it out, and tell the person what you would change: they can "
                "do it in an editor, or let agents (protected and protected_action in stet's "
                "configuration).",
                path=path,
            )
            for path in covered
        )
        raise Refused(*failures)
    draft.flagged = covered
    flagged_texts = [
        f"{path} is protected, because programs run what it says: the change is made, and "
        "flagged in the history for the person to look at."
        for path in covered
    ]
    draft.warnings = [*draft.warnings, *flagged_texts]
    draft.message = "\n".join([draft.message, *(f"Warning: {text}" for text in flagged_texts)])


def _is_protected(item: DraftFile, protection: Protection) -> bool:
    link = item.after is not None and stat.S_ISLNK(item.mode or 0)
    return protection.covers(item.target.path, link=link)


def _changes(item: DraftFile) -> bool:
    if item.found is None or item.after is None:
        return item.found is not None or item.after is not None
    # Without a mode, a new file gets other permission bits, perhaps.
    mode = item.mode or (None if item.new else item.found.mode)
    return item.after != item.found.data or mode != item.found.mode


# -- several names for one file


def _refuse_two_spellings(draft: Draft, call: EditCall) -> None:
    """Refuse two spellings of one file where letter case is ignored: an edit would be lost."""
    spellings: dict[str, list[DraftFile]] = {}
    for item in draft.files:
        spellings.setdefault(folded_path(item.target.path), []).append(item)
    failures = [
        failure
        for items in spellings.values()
        for one, other in combinations(items, 2)
        if (failure := _spelling_conflict(one, other, call)) is not None
    ]
    if failures:
        raise Refused(*failures)


def _spelling_conflict(one: DraftFile, other: DraftFile, call: EditCall) -> Failure | None:
    paths = f"{one.target.path} and {other.target.path}"
    if one.found is not None and other.found is not None:
        if one.found.inode != other.found.inode or one.found.inode == (0, 0):
            return None
        sentence = (
            f"{paths} are one file on this file system, under two spellings. Use one of them; to "
            "change the letter case of a name, move the file to another name first."
        )
    else:
        both_made = not (one.found or other.found) and None not in (one.after, other.after)
        if not both_made or call.needs_history:  # an undo restores names that existed together
            return None
        sentence = (
            f"one call can't make both {paths}: some file systems take these names for one file. "
            "Choose names that differ in more than letter case, or make them in two calls."
        )
    return Failure(Kind.INVALID_PARAMS.value, sentence, path=other.target.path)


# -- repositories


def _refuse_faulty_links(draft: Draft) -> None:
    for item in draft.files:
        if stat.S_ISLNK(item.mode or 0) and not may_be_link(item.target.name):
            path = item.target.path
            raise refuse(
                Kind.INVALID_PARAMS,
                f"{path}: Git accepts no link of this name. Choose another name.",
                path=path,
            )


def _refuse_new_repositories(draft: Draft, base: Base) -> None:
    """Refuse files that make a directory a Git repository, together or with earlier calls."""
    own = [item for item in draft.files if item.after is not None]
    before = [path for path, found in base.files.items() if found is not None]
    made = repositories_made([*before, *(item.target.path for item in own)])
    for directory, parts in made.items():
        above = f"{directory}/" if directory else ""
        inside = [item for item in own if item.target.path.startswith(above)]
        missing = REPOSITORY_PARTS - parts
        for item in inside:
            missing -= repository_parts(item.target, above.count("/"))
        if inside and not missing:
            raise in_repository(inside[0].target.path, directory)


# -- excluded files


def check_plan(plan: Plan, excludes: Excludes) -> None:
    """Refuse (path_protected) a plan that copies an excluded file's content to where it is kept.

    The history does not keep such a file (:mod:`stetd.history.excluding`), but it would keep a
    clipboard, a backup beside the file, or the file under another name. Refuse new files of names
    that are meant for a shell or a browser: nobody looks for them in a directory ``~``.
    """
    for file in plan.files:
        if file.before is None and _NOT_EXPANDED.fullmatch(file.path):
            raise refuse(
                Kind.INVALID_PARAMS,
                f"{file.path}: a path is taken as it is, so this would make files and directories "
                "of these very names. Send it with / between names, and without ~, file:, a drive "
                "and quotation marks.",
                path=file.path,
            )
    held = {file.path: file for file in plan.files if excludes(file.path)}
    carried: list[tuple[str, str]] = []
    # Of the edits: a call that only copies to a clipboard changes no file.
    read = next((edit.path for edit in plan.edits if excludes(edit.path)), None)
    if read is not None and plan.clipboards:
        name = next(iter(plan.clipboards))
        why = f"its text can't be kept in the clipboard {name!r}. Leave toClipboard out"
        carried.append((read, why))
    for file in plan.files:
        if file.path in held:
            continue
        there = f"to {file.path}, where its content would be kept"
        copied = (one for one in held.values() if one.before and one.before == file.after)
        source = next(copied, None)
        if file.old_path is not None and excludes(file.old_path):
            why = f"it can't be moved {there}. Choose a name that is excluded too"
            carried.append((file.old_path, why))
        elif source is not None:
            carried.append((source.path, f"it can't be copied {there}. Leave the backup out"))
    if carried:
        failures = (
            Failure(
                Kind.PATH_PROTECTED.value,
                f"{path} is excluded from the history (exclude, in the configuration), so {why}. "
                "Nothing was changed.",
                path=path,
            )
            for path, why in carried
        )
        raise Refused(*failures)
