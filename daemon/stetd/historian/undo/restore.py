"""Plans ``restore``: one file as it was right after a commit ``at``.

The last commit up to ``at`` that changed the path says what the file was. If there is none, the
first later commit decides:

| the first commit on the path after ``at`` | the file at ``at`` |
|---|---|
| found it (``outside``, ``snapshot``) | assumed to be as it was found; the answer says so |
| created it | there was none |
| there is none | unknown to the history: ``file_not_found`` |

An agent may restore a file only if all commits after ``at`` on that path are its own. A commit that
only found the file before the agent's first edit does not count.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence

from stet.wire.failures import Kind, refuse
from stetd.historian.queries.commit_lookup import CommitLookup, Touch, Touches
from stetd.historian.undo.reverting import conflict, current_version
from stetd.history.reverting_commits import InTheWay, Version, full_mode
from stetd.history.undone import FOUND
from stetd.planning.world import CallWorld, EditCall
from stetd.state.read_view import ReadView
from stetd.transaction.drafts import Draft


def plan_restore(lookup: CommitLookup, view: ReadView, call: EditCall, world: CallWorld) -> Draft:
    """Plan a ``restore``. Raises Refused: no_change, file_not_found, not_permitted, ..."""
    at = lookup.resolve(call.params["at"])
    path, touches = _known_path(lookup, view, call, at)
    by = touches.last or touches.later[-1]
    found_later = touches.last is None and by.commit.meta.kind in FOUND
    then = by.after if touches.last or found_later else None
    try:
        now = current_version(world, path)
    except InTheWay as obstacle:
        raise conflict([obstacle]) from obstacle
    if not call.control:
        later = touches.later[:-1] if found_later else touches.later
        _check_own(lookup, call, path, later, now)
    if now == then:
        raise refuse(
            Kind.NO_CHANGE,
            f"{path} is as it was after {at[:8]} already; nothing was changed.",
            path=path,
        )
    item = world.draft_file(path, then.data if then else None)
    if then is not None:
        bits = dict(by.commit.meta.permissions).get(path)
        if item.found is not None and stat.S_ISREG(item.found.mode):
            bits = stat.S_IMODE(item.found.mode)
        item.mode = full_mode(then, bits)
    act, state = ("restore", " as it was") if then is not None else ("remove", ": there was none")
    done = f"Would {act}" if call.preview else f"{act.capitalize()}d"
    warnings = []
    if found_later:
        warnings.append(
            f"the history knows {path} only since {by.commit.oid[:8]}, which is after {at[:8]}; it "
            "was restored as it was found then, before its first edit."
        )
    moved = [old for t in touches.later for old, new in t.commit.meta.moves if new == path]
    if then is None and moved:
        warnings.append(f"what was {path} is {moved[-1]} at {at[:8]}; restore that as well.")
    return Draft(
        kind="restore",
        subject=f"restore {path} as of {at[:8]}",
        files=[item],
        message=f"{done} {path}{state} after {at[:8]}.",
        warnings=warnings,
        leftover_directories=[
            made
            for touch in touches.later
            for made in touch.commit.meta.directories
            if path.startswith(f"{made}/")
        ],
    )


def _known_path(
    lookup: CommitLookup, view: ReadView, call: EditCall, at: str
) -> tuple[str, Touches]:
    """The canonical path and its commits. For a link: its own path if it has commits, else its
    target's.
    """
    canonical, asked = view.worktree.resolver.canonical, call.params["path"]
    for follow_last in (False, True):
        path = canonical(asked, call.directory, follow_last=follow_last)
        if view.excludes(path):
            raise refuse(
                Kind.FILE_NOT_FOUND,
                f"{path} is excluded from the history (exclude, in the configuration), which keeps "
                "no version of it to go back to. Nothing was changed.",
                path=path,
            )
        touches = lookup.touches(path, at)
        if touches.later or touches.last:
            return path, touches
    raise refuse(
        Kind.FILE_NOT_FOUND,
        f"{asked}: the history has no such file; it holds only files that edits have touched. "
        "`log` lists them.",
        path=asked,
    )


def _check_own(
    lookup: CommitLookup, call: EditCall, path: str, later: Sequence[Touch], now: Version | None
) -> None:
    others = [touch for touch in later if touch.commit.meta.session != call.session]
    if others:
        newest = others[0].commit
        reason = f"{newest.oid[:8]} ({newest.meta.subject}) is not of this session"
    elif now != lookup.file_at(lookup.head, path):
        reason = "it was changed outside"
    else:
        return
    raise refuse(
        Kind.NOT_PERMITTED,
        f"{path}: an agent may restore a file only if everything since is its own, but {reason}. "
        "Take back edits of your own with undo, or ask the person: "
        f"stet restore {shlex.quote(path)} --at ..",
        path=path,
    )
