"""A whole workspace in memory: files, links and directories, as a call's World sees them.

For tests of planning that must not touch a disk and yet name paths in every way: relative,
absolute, with dots, through links. Its refusals have the words of the real one, because the
same expectations are put to both (:mod:`scenarios`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.edits import Plan, SourceFile
from stetd.editing.paths import check_component

_MOST_LINKS = 40


@dataclass(frozen=True)
class Tree:
    """What stands in a workspace, by path relative to its root.

    ``modes`` are permission bits of files, where known. ``directories`` are those that would
    not be there for what is in them; others are implied.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    directories: frozenset[str] = frozenset()

    def all_directories(self) -> frozenset[str]:
        """Every directory, the root ("") included."""
        found = {"", *self.directories}
        for path in [*self.files, *self.links, *self.directories]:
            while "/" in path:
                path = path.rpartition("/")[0]
                found.add(path)
        return frozenset(found)

    def after(self, plan: Plan) -> Tree:
        """The tree once ``plan`` is carried out. Asserts that it was planned on this one."""
        files, links, modes = dict(self.files), dict(self.links), dict(self.modes)
        for planned in plan.files:
            stood = files.pop(planned.path, None)
            if stood is None and planned.path in links:
                stood = links.pop(planned.path).encode()
            assert planned.before == stood, f"{planned.path} was planned on other bytes"
            if planned.after is None or planned.new:
                modes.pop(planned.path, None)
            if planned.after is None:
                continue
            if planned.mode is not None and stat.S_ISLNK(planned.mode):
                links[planned.path] = planned.after.decode()
            else:
                files[planned.path] = planned.after
                if planned.mode is not None:
                    modes[planned.path] = stat.S_IMODE(planned.mode)
        return Tree(files, links, modes, self.directories)


@dataclass(frozen=True)
class TreeWorld:
    """Implements stetd.editing.edits.World over a tree."""

    tree: Tree
    clipboards: Mapping[str, str] = field(default_factory=dict)
    root: str = "/workspace"

    def read(self, path: str) -> SourceFile:
        """The file at a path, links followed."""
        canonical = self.resolve(path)
        if canonical in self.tree.all_directories():
            raise _refused(
                Kind.NOT_A_FILE,
                canonical,
                "this is a directory; only regular files can be edited",
            )
        return self._at(canonical)

    def look(self, path: str) -> SourceFile:
        """What stands at a path itself."""
        canonical = self.resolve(path, follow_last=False)
        if canonical in self.tree.links:
            return SourceFile(canonical, self.tree.links[canonical].encode(), stat.S_IFLNK | 0o777)
        return self.read(path)

    def _at(self, canonical: str) -> SourceFile:
        data = self.tree.files.get(canonical)
        if data is None:
            return SourceFile(canonical, None)
        return SourceFile(canonical, data, stat.S_IFREG | self.tree.modes.get(canonical, 0o644))

    def resolve(self, path: str, *, follow_last: bool = True) -> str:
        """The canonical path. Raises Refused, as the real resolver does."""
        todo = list(reversed(self._parts(path, path)))
        if not todo:
            raise _refused(Kind.NOT_A_FILE, path, "this is a directory; name a file")
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if not done:
                    raise self._outside(path)
                done.pop()
                continue
            check_component(part, path)
            here = "/".join([*done, part])
            if here in self.tree.links and (todo or follow_last):
                links += 1
                if links > _MOST_LINKS:
                    raise _refused(Kind.NOT_A_FILE, path, "too many symbolic links")
                target = self.tree.links[here]
                if target.startswith("/"):
                    done = []
                todo.extend(reversed(self._parts(target, path)))
                continue
            if not todo:
                return here
            if here in self.tree.files:
                raise _refused(Kind.NOT_A_FILE, path, f"{part} is not a directory")
            if here not in self.tree.all_directories():
                return self._beyond(path, [*done, part], todo[::-1])
            done.append(part)
        raise _refused(Kind.NOT_A_FILE, path, "this is a directory; name a file")

    def _parts(self, path: str, asked: str) -> list[str]:
        if path.startswith("/"):
            if path.rstrip("/") != self.root and not path.startswith(self.root + "/"):
                raise self._outside(asked)
            path = path[len(self.root) :]
        return [part for part in path.split("/") if part not in ("", ".")]

    def _beyond(self, path: str, done: list[str], rest: Iterable[str]) -> str:
        """What does not exist has no links."""
        rest = list(rest)
        if ".." in rest:
            raise _refused(
                Kind.INVALID_PARAMS,
                path,
                "'..' after a directory that does not exist; write the path without '..'",
            )
        for part in rest:
            check_component(part, path)
        return "/".join([*done, *rest])

    def _outside(self, path: str) -> Refused:
        return _refused(
            Kind.PATH_OUTSIDE_WORKSPACE,
            path,
            f"this path leads outside the workspace {self.root}. "
            "Use a path inside the workspace, relative to it.",
        )


def _refused(kind: Kind, path: str, what: str) -> Refused:
    return refuse(kind, f"{path}: {what}", path=path)
