"""Refusing plans that would carry an excluded file's content to where it is kept.

The history does not keep such a file (:mod:`stetd.history.excluding`); a clipboard, a backup beside
the file, or a move to another name would.
"""

from __future__ import annotations

from stet.wire.failures import Failure, Kind, Refused
from stetd.editing.edits import Plan, PlannedFile
from stetd.history.excluding import Excludes


def check_plan(plan: Plan, excludes: Excludes) -> None:
    """Refuse (path_protected) a plan that keeps what ``excludes`` says is not to be kept."""
    if not excludes:
        return
    held = {file.path: file for file in plan.files if excludes(file.path)}
    failures = []
    # A call that only copies to a clipboard changes no file.
    read = next((edit.path for edit in plan.edits if excludes(edit.path)), None)
    if read is not None and plan.clipboards:
        name = next(iter(plan.clipboards))
        why = f"its text can't be kept in the clipboard {name!r}. Leave toClipboard out"
        failures.append(_failure(read, why))
    for file in plan.files:
        if file.path not in held:
            failures += _carried(file, held, excludes)
    if failures:
        raise Refused(*failures)


def _carried(file: PlannedFile, held: dict[str, PlannedFile], excludes: Excludes) -> list[Failure]:
    if file.old_path is not None and excludes(file.old_path):
        why = f"it can't be moved to {file.path}, where its content would be kept"
        return [_failure(file.old_path, f"{why}. Choose a name that is excluded too")]
    for source in held.values():
        if source.before and file.after == source.before:
            why = f"it can't be copied to {file.path}, where its content would be kept"
            return [_failure(source.path, f"{why}. Leave the backup out")]
    return []


def _failure(path: str, why: str) -> Failure:
    message = (
        f"{path} is excluded from the history (exclude, in the configuration), so {why}. Nothing "
        "was changed."
    )
    return Failure(Kind.PATH_PROTECTED.value, message, path=path)
