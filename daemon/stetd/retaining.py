"""Retention: dropping the oldest commits of a history, when it is too old or too large.

What is dropped is a beginning of the history, whole; the ids of what stays do not change. The
commit that becomes the oldest one keeps its parent's id, and the file ``shallow`` says that the
parent is not there, as in a shallow clone of plain git. Never dropped: the newest commit, any
commit that a pin or another reference names, and all after it.

    choose    the oldest commit that stays
    record    (writer) a commit of kind ``retention`` that says what is dropped, when and why;
              its journal record has the same (:class:`Cut`), and so has every checkpoint
    wait      for a checkpoint: recovery must not start from a commit that is gone
    cut       the file ``shallow``
    collect   what nothing needs any more (:mod:`stetd.collecting`)

Killed in between, the next start writes ``shallow`` if the record is there, and the next pass
collects what is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

from stet.wire.failures import Kind, refuse
from stetd import __version__
from stetd.collecting import collecting, directory_bytes
from stetd.failpoints import hit
from stetd.heads import History
from stetd.history.commits import CommitMeta, rfc3339
from stetd.history_work import check_open, record, wait_for_checkpoint
from stetd.storage.journal_format import Cut
from stetd.storage.object_files import ObjectFiles
from stetd.storage.reachable import Marking, Marks
from stetd.storage.references import HISTORY, read_reference, references_below
from stetd.storage.repacking import Progress
from stetd.storage.shadow_repo import ShadowRepository
from stetd.storage.shallow import read_shallow, write_shallow
from stetd.storage.stored_sizes import stored_sizes
from stetd.workspace import Workspace
from stetd.writer import Writer

_DAY = 86_400
#: What is too old may wait so long, so that a history is cut once a day and not after each call.
_SELDOM_S = _DAY
#: A history that has become too large is cut down to this part of the limit, so that it is not
#: cut again at once.
_SPARE = 0.9


@dataclass(frozen=True, slots=True)
class Policy:
    """How long and how much is kept: days, bytes; 0: for ever, any number."""

    days: int
    bytes: int

    def __bool__(self) -> bool:
        return bool(self.days or self.bytes)


class _Choice(NamedTuple):
    """Which part of a history stays: up to this place in the chain of ids; and why."""

    chain: bytes
    at: int
    why: str

    @property
    def oldest(self) -> str:
        """The oldest commit that stays."""
        return self.chain[20 * self.at : 20 * self.at + 20].hex()

    @property
    def parent(self) -> str:
        """The newest one that goes."""
        return self.chain[20 * self.at + 20 : 20 * self.at + 40].hex()

    @property
    def dropped(self) -> int:
        """How many go."""
        return len(self.chain) // 20 - 1 - self.at


def retaining(
    writer: Writer,
    workspace: Workspace,
    policy: Policy,
    progress: Progress,
    on_cut: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Generator[None, None, int]:
    """Drop what a policy says, step by step; gives how many commits were dropped.

    ``on_cut`` is called with the shadow repository when its history begins elsewhere. Not on
    the writer thread. Raises Refused, BrokenHistory, Damaged, OSError.
    """
    writer.background.require(workspace.number)
    choice = yield from _choose(writer, workspace, policy, progress, clock())
    cut = _recorded(writer, workspace, choice)
    while choice is not None and cut is None:
        choice = yield from _choose(writer, workspace, policy, progress, clock())
        cut = _recorded(writer, workspace, choice)
    if choice is not None and cut is not None:
        hit("retention.recorded")
        yield
        _take_checkpoint(writer, workspace.name, cut)
        hit("retention.checkpointed")
        write_shallow(workspace.shadow, choice.oldest, writer.state.disk)
        hit("retention.cut")
        writer.from_thread(workspace.repository.reopen)
        on_cut(workspace.shadow)
    if choice is not None or has_remains(workspace.shadow):
        yield from collecting(writer, workspace, progress, drop=True)
    return choice.dropped if choice is not None else 0


def has_remains(shadow: str) -> bool:
    """Whether a history was cut, and what was dropped has not been collected."""
    repository = ShadowRepository(shadow)
    try:
        parents = (repository.raw_parent(oid) for oid in read_shallow(shadow))
        return any(parent is not None and repository.is_commit(parent) for parent in parents)
    finally:
        repository.close()


# -- choosing


def _choose(
    writer: Writer, workspace: Workspace, policy: Policy, progress: Progress, now: float
) -> Generator[None, None, _Choice | None]:
    repository = ShadowRepository(workspace.shadow)
    try:
        chain = bytearray()
        by_age, worth = yield from _follow(repository, policy, progress, chain, now)
        if worth is None:
            return None
        at, why = by_age, f"older than {policy.days} days"
        if policy.bytes and directory_bytes(workspace.shadow) > policy.bytes:
            yield from collecting(writer, workspace, progress, drop=True)
            if directory_bytes(workspace.shadow) > policy.bytes:
                by_size = yield from _fitting(repository, policy, progress, chain)
                if by_size < at:
                    at, why = by_size, f"the history had more than {policy.bytes:,} bytes"
        at = max(at, _oldest_named(workspace.shadow, chain))
        hit("retention.chosen")
        if at >= worth:
            return None
        return _Choice(bytes(chain), at, why)
    finally:
        repository.close()


def _follow(
    repository: ShadowRepository, policy: Policy, progress: Progress, chain: bytearray, now: float
) -> Generator[None, None, tuple[int, int | None]]:
    """Fill in the ids of the chain, newest first.

    Gives the place of the oldest commit that is young enough, and that of the oldest that is
    worth being dropped: one that says itself what was dropped is not (None: no other).
    """
    progress.begin("following the history")
    since = now - policy.days * _DAY if policy.days else float("-inf")
    at, last, oldest = 0, 0, now
    worth: int | None = None
    for number, commit in enumerate(repository.walk(repository.head())):
        chain += bytes.fromhex(commit.oid)
        last, oldest = number, min(oldest, commit.meta.time)
        if commit.meta.time >= since:
            at = number
        if commit.meta.kind != "retention":
            worth = number
        progress.done = number
        yield
    return (at if oldest < since - _SELDOM_S else last), worth


def _fitting(
    repository: ShadowRepository, policy: Policy, progress: Progress, chain: bytearray
) -> Generator[None, None, int]:
    """The oldest commit with which all from the newest on fit into the limit."""
    progress.begin("measuring", len(chain) // 20)
    ids, sizes = stored_sizes(repository.path)
    marks = Marks(ids)
    files = ObjectFiles(repository.path)
    total, room = 0, int(policy.bytes * _SPARE)
    # Each object is counted where it is first met: with the newest commit that has it.
    marks.on_mark = lambda number: sizes_met.append(sizes[number])
    sizes_met: list[int] = []
    marking = Marking(files, marks, read_shallow(repository.path))
    try:
        for number in range(len(chain) // 20):
            yield from marking.mark_one_commit(bytes(chain[20 * number : 20 * number + 20]))
            total += sum(sizes_met)
            sizes_met.clear()
            progress.done = number + 1
            if total > room:
                return max(number - 1, 0)
        return len(chain) // 20 - 1
    finally:
        files.close()


def _oldest_named(shadow: str, chain: bytes | bytearray) -> int:
    """Where in the chain the oldest commit is that another reference names."""
    oldest = 0
    for name in references_below(shadow, "refs"):
        oid = read_reference(shadow, name) if name != HISTORY else None
        if oid is None:
            continue
        place = _place_of(bytes.fromhex(oid), chain)
        if place is None:  # not of this chain: nothing is known of what it needs
            return len(chain) // 20 - 1
        oldest = max(oldest, place)
    return oldest


def _place_of(oid: bytes, chain: bytes | bytearray) -> int | None:
    at = chain.find(oid)
    while at > 0 and at % 20:
        at = chain.find(oid, at + 1)
    return None if at < 0 else at // 20


# -- recording


def _recorded(writer: Writer, workspace: Workspace, choice: _Choice | None) -> Cut | None:
    if choice is None:
        return None
    return writer.from_thread(lambda: _record(writer, workspace, choice))


def _record(writer: Writer, workspace: Workspace, choice: _Choice) -> Cut | None:
    """Say what will be dropped, in the history and in the journal; on the writer thread.

    None, and nothing is said, if by now a pin names a commit that was to go.
    """
    state = writer.state
    check_open(writer, workspace)
    if _oldest_named(workspace.shadow, choice.chain) > choice.at:
        return None
    now = int(time.time())
    known = state.known[workspace.name]
    dropped = choice.dropped + (known.cut.dropped if known.cut is not None else 0)
    cut = Cut(choice.oldest, choice.parent, dropped, now, choice.why)
    history = History(workspace.head, workspace.repository.load_tree, now)
    meta = CommitMeta(
        kind="retention",
        time=now,
        subject=f"retention: {choice.dropped:,} commits before {choice.oldest} are dropped",
        why=f"{choice.why}. The history begins with {choice.oldest} from {rfc3339(now)} on; "
        f"{dropped:,} commits have been dropped in all.",
        method="retention",
        version=__version__,
    )
    history.add(meta, {})
    number = record(writer, workspace.name, commits=history.commits, cut=cut)
    workspace.head = history.head
    state.set_cut(workspace.name, cut)
    writer.to_git(workspace, number, history.objects)
    return cut


def _take_checkpoint(writer: Writer, name: str, cut: Cut) -> None:
    """Wait for a checkpoint that has the cut. Raises Refused where none can be had."""
    recorded = wait_for_checkpoint(writer)
    known = {each.name: each for each in recorded.workspaces} if recorded is not None else {}
    if name not in known or known[name].cut != cut:
        raise refuse(
            Kind.IO_ERROR, "no checkpoint could be taken; nothing of the history was dropped yet"
        )
