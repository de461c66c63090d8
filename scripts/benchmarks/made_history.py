"""Long histories, made quickly: commits are written as packs, without a call for each.

What comes out is a state directory as a daemon leaves it at a stop: a shadow repository with
the commits, a journal with one checkpoint that names the head, and the query index. The files of
the workspace are as the newest commit has them.

    src/dNNN/fNNN.txt   or all in one directory: edited in turns, by twenty sessions of five agents
    far/NNN.txt         edited once each, in the first commits after they were seen
    blamed.txt          edited VERSIONS times, evenly over the whole history
    probe.txt           never edited before
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from stetd import __version__
from stetd.historian.index.history_index import GrowingIndex, HistoryIndex
from stetd.historian.index.keeping import catch_up
from stetd.history.commits import CommitMeta
from stetd.history.objects import EMPTY_TREE, Image, NewObject, Tree, object_id
from stetd.repository.packing import write_pack
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.state.state import shadow_path, workspace_name
from stetd.storage.disk import Disk
from stetd.storage.journal import Journal
from stetd.storage.journal_format import Checkpoint, WorkspaceState
from stetd.transaction.heads import Head, HistoryBuilder

FAR = 60
VERSIONS = 50
SESSIONS, AGENTS = 20, 5
_LINES = 30
_PER_DIRECTORY = 50
_MODE = 0o100644
_PACKED = 40_000
_PACKED_BYTES = 64 << 20
#: The time of the first commit; each later one is a second after the one before.
BEGUN = 1_700_000_000


@dataclass(slots=True)
class MadeHistory:
    """What was made. ``far``: the ids of the edits in ``far/NNN.txt``."""

    root: str
    shadow: str
    head: str
    commits: int
    far: list[str] = field(default_factory=list)
    made_s: float = 0.0
    indexed_s: float = 0.0


def source_path(number: int, *, flat: bool) -> str:
    """The n-th file that is edited in turns."""
    if flat:
        return f"src/f{number:05}.txt"
    return f"src/d{number // _PER_DIRECTORY:04}/f{number:05}.txt"


def far_path(number: int) -> str:
    """The n-th file that was edited once, long ago."""
    return f"far/{number:03}.txt"


def _content(path: str, version: int) -> bytes:
    lines = [f"line {n:03} of {path}\n" for n in range(_LINES)]
    lines[_LINES // 2] = f"version {version} of {path}\n"
    return "".join(lines).encode()


class _Maker:
    """A repository in the making, and the files as they are by now."""

    def __init__(self, shadow: str, root: str) -> None:
        self.root = root
        self.shadow = shadow
        create_repository(shadow, Disk())
        self.repository = ShadowRepository(shadow)
        self.head = Head(None, Tree({}, EMPTY_TREE), 0)
        self._objects: list[NewObject] = []
        self._bytes = 0
        self._now: dict[str, bytes] = {}

    def commit(self, files: dict[str, bytes], **meta: object) -> str:
        """Put a commit on top that sets these files."""
        history = HistoryBuilder(self.head, self.repository.load_tree, 0)
        images = {}
        for path, data in files.items():
            oid = object_id("blob", data)
            images[path] = Image(oid, _MODE)
            self._objects.append(NewObject("blob", oid, data))
            self._now[path] = data
        told = {"time": BEGUN + self.head.commits, "version": __version__, **meta}
        oid = history.add(CommitMeta(**told), images)  # type: ignore[arg-type]
        self.head = history.head
        self._objects += history.objects
        self._bytes += sum(len(each.content) for each in history.objects)
        if len(self._objects) > _PACKED or self._bytes > _PACKED_BYTES:
            self.write()
        return oid

    def edit(self, path: str, version: int) -> str:
        """One call on one file."""
        session = version % SESSIONS
        return self.commit(
            {path: _content(path, version)},
            kind="edit",
            subject=f"patch {path}: 1 edit",
            method="patch",
            agent=f"agent-{session % AGENTS}",
            session=f"conv-{session}",
            request=f"{version:032x}",
        )

    def write(self) -> None:
        """Write what has gathered as a pack, and the reference."""
        write_pack(self.shadow, self._objects, Disk())
        self._objects, self._bytes = [], 0
        if self.head.commit is not None:
            self.repository.set_head(self.head.commit)

    def write_files(self) -> None:
        """Bring the workspace to the newest commit."""
        for path, data in self._now.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(data)


def make_history(
    state: str, root: str, *, commits: int, files: int, flat: bool = False
) -> MadeHistory:
    """A history of about so many commits over so many files (besides those named above)."""
    begun = time.perf_counter()
    name = workspace_name(root)
    shadow = shadow_path(state, name)
    maker = _Maker(shadow, root)
    sources = [source_path(n, flat=flat) for n in range(files)]
    seen = [*sources, *map(far_path, range(FAR)), "blamed.txt", "probe.txt"]
    maker.commit({path: _content(path, 0) for path in seen}, kind="snapshot", subject="snapshot")
    far = [maker.edit(far_path(n), n + 1) for n in range(FAR)]
    for n, path in _edits(sources, commits):
        maker.edit(path, n)
    maker.write()
    maker.write_files()
    head = maker.head
    maker.repository.close()
    assert head.commit is not None
    _write_journal(state, WorkspaceState(name, root, "unrestricted", head.commit, head.commits))
    made = MadeHistory(root, shadow, head.commit, head.commits, far)
    made.made_s = time.perf_counter() - begun
    made.indexed_s = _index(shadow, head.commit)
    return made


def _edits(sources: list[str], commits: int) -> Iterator[tuple[int, str]]:
    """(number, path) of the edits: in turns, and now and then the file that is blamed."""
    every = max(1, commits // VERSIONS)
    for n in range(1, commits + 1):
        yield n, "blamed.txt" if n % every == 0 else sources[n * 7919 % len(sources)]


def _write_journal(state: str, workspace: WorkspaceState) -> None:
    wal = os.path.join(state, "journal")
    os.makedirs(wal, mode=0o700)
    journal = Journal(wal, Disk(), boot="made", version=__version__)
    position = journal.position
    journal.append(Checkpoint(position.segment, position.offset, 1, [workspace], []))
    journal.sync()
    journal.close()


def _index(shadow: str, head: str) -> float:
    """Index it all; the seconds that took."""
    begun = time.perf_counter()
    repository = ShadowRepository(shadow)
    index = GrowingIndex.open(HistoryIndex.path_for(shadow))
    for _ in catch_up(index, repository, head):
        pass
    index.close()
    repository.close()
    return time.perf_counter() - begun
