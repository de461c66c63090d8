"""The two engines: the dialect of this project, and Codex's program. Each in a world of its own.

Ours is asked for its plan, on files in memory. Theirs is started, for each patch, in a
directory that holds the files.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from differential.cases import PLAIN, Case, Tree
from stet.wire.failures import Refused
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import SourceFile

_LONGEST_ARGUMENT = 100_000


@dataclass(frozen=True)
class Outcome:
    """What an engine did: ``done`` or refused, why, and the files afterwards."""

    done: bool
    tree: Tree
    reason: str = ""
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Files:
    """A world of regular files."""

    tree: Tree
    clipboards: Mapping[str, str] = field(default_factory=dict)
    root: str = "/workspace"

    def read(self, path: str) -> SourceFile:
        """The file at a path."""
        path = path.removeprefix("./")
        data, mode = self.tree.get(path, (None, 0))
        return SourceFile(path, data, stat.S_IFREG | mode if data is not None else None)

    look = read


def ours(case: Case, **options: object) -> Outcome:
    """What the dialect does, called with further parameters."""
    try:
        plan = DIALECTS["apply_patch"]({"input": case.patch, **options}, _Files(case.before))
    except Refused as refused:
        kinds = frozenset(failure.kind for failure in refused.failures)
        return Outcome(False, case.before, refused.message, kinds)
    tree = dict(case.before)
    modes = {planned.path: tree[planned.path][1] for planned in plan.files if planned.path in tree}
    for planned in plan.files:
        tree.pop(planned.path, None)
        if planned.after is not None:
            stood = modes.get(planned.path, PLAIN)
            mode = stood if planned.mode is None else stat.S_IMODE(planned.mode)
            tree[planned.path] = planned.after, mode
    return Outcome(True, tree, plan.message)


class Codex:
    """The program at ``binary``, to be started under the name ``apply_patch``."""

    def __init__(self, binary: str) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="codex-differential-"))
        self._link = self._base / "apply_patch"
        self._link.symlink_to(Path(binary).resolve(strict=True))
        home = self._base / "home"
        home.mkdir()
        self._environment = {"HOME": str(home), "CODEX_HOME": str(home), "PATH": os.defpath}

    def close(self) -> None:
        """Remove what it needed."""
        shutil.rmtree(self._base)

    def __call__(self, case: Case) -> Outcome:
        """What the program does."""
        with tempfile.TemporaryDirectory(dir=self._base) as root:
            _write(Path(root), case.before)
            short = len(case.patch.encode()) < _LONGEST_ARGUMENT
            ended = subprocess.run(
                [str(self._link), *([case.patch] if short else [])],
                input=None if short else case.patch.encode(),
                stdin=subprocess.DEVNULL if short else None,
                capture_output=True,
                cwd=root,
                env=self._environment,
                timeout=60,
                check=False,
            )
            said = (ended.stderr or ended.stdout).decode(errors="replace").replace(root + "/", "")
            return Outcome(ended.returncode == 0, _read(Path(root)), said.strip())


def _write(root: Path, tree: Tree) -> None:
    for name, (data, mode) in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)


def _read(root: Path) -> Tree:
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
