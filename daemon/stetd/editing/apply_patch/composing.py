"""Files as the operations of a patch leave them, one after the other (DIALECTS.md 4)."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.results import EditReport
from stetd.editing.apply_patch.updating import Mark
from stetd.editing.edits import PlannedFile, SourceFile, World
from stetd.editing.paths import directories_above
from stetd.editing.text import Document

_MOST_LINKS = 40


class Node(msgspec.Struct, frozen=True):
    """What stands at a path in the middle of a patch; ``data`` None: nothing."""

    data: bytes | None = None
    mode: int | None = None
    #: The path at which this file stood before the patch, None for a new one.
    origin: str | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link."""
        return self.mode is not None and stat.S_ISLNK(self.mode)


@dataclass
class Composition:
    """The files that a patch touches, over a world that stays as it is."""

    world: World
    #: Paths at which something has failed: what stands there afterwards is not known.
    tainted: set[str] = field(default_factory=set)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _found: dict[str, SourceFile] = field(default_factory=dict)

    def own(self, path: str) -> str:
        """The canonical path of what stands at ``path`` itself. Raises Refused."""
        source = self.world.look(path)
        self._found.setdefault(source.path, source)
        return source.path

    def followed(self, path: str) -> str:
        """The canonical path of what ``path`` leads to, through links. Raises Refused."""
        spelled = path
        for _ in range(_MOST_LINKS):
            own = self.own(spelled)
            node = self.node(own)
            if not node.is_link:
                return own
            spelled = SourceFile(own, node.data, node.mode).leads_to(self.world.root)
        raise refuse(Kind.NOT_A_FILE, f"{path}: too many symbolic links", path=path)

    def node(self, path: str) -> Node:
        """What stands at a canonical path now."""
        if path not in self._nodes:
            source = self._found[path]
            origin = path if source.data is not None else None
            self._nodes[path] = Node(source.data, source.mode, origin)
        return self._nodes[path]

    def put(self, path: str, node: Node) -> None:
        """Let ``node`` stand at a path."""
        self.node(path)
        self._nodes[path] = node

    def move(self, source: str, target: str) -> None:
        """Let what stands at ``source`` stand at ``target``, and nothing at ``source``."""
        self.put(target, self.node(source))
        self.put(source, Node())

    # -- the outcome

    def planned(self) -> Iterator[PlannedFile]:
        """What changes on disk, in the order in which the patch touched it."""
        for path, node in self._nodes.items():
            source = self._found[path]
            mode = node.mode if node.mode != source.mode else None
            same_kind = node.is_link == source.is_link and mode is None
            if node.data == source.data and (same_kind or node.data is None):
                continue
            yield PlannedFile(path, source.data, node.data, self._old_path(path), mode=mode)

    def _old_path(self, path: str) -> str | None:
        """Where a file that is new at ``path`` stood before, if nothing stands there now."""
        origin = self._nodes[path].origin
        if origin in (None, path) or self._found[path].data is not None:
            return None
        assert origin is not None
        return origin if self._nodes[origin].data is None else None

    def statuses(self) -> Iterator[tuple[str, str]]:
        """``A``, ``M`` or ``D`` and the path, of all that changes; a move is ``M`` its target."""
        moved = {node.origin for path, node in self._nodes.items() if node.origin != path}
        for file in self.planned():
            origin = self._nodes[file.path].origin
            if file.after is None:
                if file.path not in moved:
                    yield "D", file.path
            elif file.before is None and origin is None:
                yield "A", file.path
            else:
                yield "M", file.path

    def reports(self) -> list[EditReport]:
        """Where the edits of the patch have landed, in their order."""
        reports = []
        for path, node in self._nodes.items():
            if node.data is None or not node.marks:
                continue
            count = max(1, Document.from_bytes(node.data).line_count)
            for mark in node.marks:
                first = min(mark.first + 1, count)
                last = min(max(first, mark.last), count)
                reports.append(EditReport(mark.index, path, first, last, mark.rung))
        return sorted(reports, key=lambda report: report.index)

    def files_above(self) -> Iterator[tuple[str, str]]:
        """Files that the patch makes below the path of another one that it makes."""
        made = {path for path, node in self._nodes.items() if node.data is not None}
        for path in made:
            yield from ((path, above) for above in directories_above(path) if above in made)
