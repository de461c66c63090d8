"""Damage to a shadow repository, at random and undone afterwards, and what each kind is called.

A damage changes one file (or swaps two), and says which problem must be told: the file or the
object must be named. What it does is told from a seed, so a failure can be seen again.
"""

from __future__ import annotations

import random
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.running_daemon import git

Problems = list[dict[str, Any]]


@dataclass(frozen=True)
class Damage:
    """Something done to a repository. ``names``: one of these must be in some problem."""

    what: str
    names: tuple[str, ...]
    #: It may have changed nothing that can be told (a bit that fills up a byte).
    may_be_nothing: bool = False

    def is_named(self, problems: Problems) -> bool:
        """Whether a problem tells of it."""
        texts = [" ".join(str(value) for value in problem.values()) for problem in problems]
        return any(name in text for name in self.names for text in texts)


class Vandal:
    """Damages one repository, and puts it back."""

    def __init__(self, shadow: Path, seed: int) -> None:
        self._shadow = shadow
        self._rng = random.Random(seed)
        self._saved: dict[Path, bytes | None] = {}

    @contextmanager
    def damaged(self) -> Iterator[Damage]:
        """The repository with one thing broken."""
        kind = self._rng.choice(KINDS)
        try:
            yield kind(self)
        finally:
            for path, content in self._saved.items():
                if content is None:
                    path.unlink(missing_ok=True)
                else:
                    path.parent.mkdir(exist_ok=True)
                    path.unlink(missing_ok=True)
                    path.write_bytes(content)
            self._saved.clear()

    # -- what is there

    def loose(self) -> list[Path]:
        objects = self._shadow / "objects"
        return sorted(p for p in objects.glob("[0-9a-f][0-9a-f]/*"))

    def packs(self, ending: str) -> list[Path]:
        return sorted((self._shadow / "objects/pack").glob(f"*{ending}"))

    def commits(self) -> list[str]:
        return git(self._shadow, "rev-list", "history").split()

    def choose(self, things: list[Any]) -> Any:
        return self._rng.choice(things)

    def below(self, number: int) -> int:
        return self._rng.randrange(number)

    # -- changing it

    def write(self, path: Path, content: bytes | None) -> None:
        """Overwrite a file in place, truncate it, or (None) remove it."""
        self._saved.setdefault(path, path.read_bytes() if path.exists() else None)
        if content is None:
            path.unlink()
            return
        path.parent.mkdir(exist_ok=True)
        if path.exists():
            path.chmod(0o600)
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(content)
            file.truncate()

    def flip(self, path: Path) -> None:
        content = bytearray(path.read_bytes())
        bit = self.below(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        self.write(path, bytes(content))

    def cut(self, path: Path) -> None:
        content = path.read_bytes()
        self.write(path, content[: self.below(len(content))])

    def swap(self, one: Path, other: Path) -> None:
        first, second = one.read_bytes(), other.read_bytes()
        self.write(one, second)
        self.write(other, first)


def _object(path: Path) -> str:
    return path.parent.name + path.name


def _flip_loose(vandal: Vandal) -> Damage:
    path = vandal.choose(vandal.loose())
    before = zlib.decompress(path.read_bytes())
    vandal.flip(path)
    try:
        same = zlib.decompress(path.read_bytes()) == before
    except zlib.error:
        same = False
    return Damage(f"a bit of {path}", (_object(path),), may_be_nothing=same)


def _cut_loose(vandal: Vandal) -> Damage:
    path = vandal.choose(vandal.loose())
    vandal.cut(path)
    return Damage(f"{path} cut short", (_object(path),))


def _remove_loose(vandal: Vandal) -> Damage:
    path = vandal.choose(vandal.loose())
    vandal.write(path, None)
    return Damage(f"{path} removed", (_object(path),))


def _swap_loose(vandal: Vandal) -> Damage:
    one = vandal.choose(vandal.loose())
    other = vandal.choose([p for p in vandal.loose() if p != one])
    vandal.swap(one, other)
    return Damage(f"{one} and {other} swapped", (_object(one),))


def _replace_loose(vandal: Vandal) -> Damage:
    """An object that is whole in itself, under another's name."""
    path = vandal.choose(vandal.loose())
    kind = zlib.decompress(path.read_bytes()).partition(b" ")[0]
    vandal.write(path, zlib.compress(kind + b" 4\0evil"))
    return Damage(f"{path} replaced", (_object(path),))


def _garbage_loose(vandal: Vandal) -> Damage:
    path = vandal.choose(vandal.loose())
    size = vandal.choose([0, 1, 100, 5000])
    vandal.write(path, bytes(vandal.below(256) for _ in range(size)))
    return Damage(f"{path} is {size} random bytes", (_object(path),))


def _flipped(ending: str) -> Callable[[Vandal], Damage]:
    """A bit of a pack's file with this ending."""

    def flip(vandal: Vandal) -> Damage:
        path = vandal.choose(vandal.packs(ending))
        vandal.flip(path)
        return Damage(f"a bit of {path}", (path.name,))

    return flip


def _cut_short(ending: str) -> Callable[[Vandal], Damage]:
    def cut(vandal: Vandal) -> Damage:
        path = vandal.choose(vandal.packs(ending))
        vandal.cut(path)
        return Damage(f"{path} cut short", (path.name,))

    return cut


_flip_pack, _cut_pack = _flipped(".pack"), _cut_short(".pack")
_flip_index, _cut_index = _flipped(".idx"), _cut_short(".idx")


def _remove_pack(vandal: Vandal) -> Damage:
    path = vandal.choose(vandal.packs(".pack"))
    vandal.write(path, None)
    return Damage(f"{path} removed", (path.name,))


def _remove_index(vandal: Vandal) -> Damage:
    path = vandal.choose(vandal.packs(".idx"))
    vandal.write(path, None)
    return Damage(f"{path} removed", (path.with_suffix(".pack").name,))


def _swap_indexes(vandal: Vandal) -> Damage:
    one, other, *_ = vandal.packs(".idx")
    vandal.swap(one, other)
    return Damage(f"{one} and {other} swapped", (one.name, one.with_suffix(".pack").name))


def _remove_both(vandal: Vandal) -> Damage:
    index = vandal.choose(vandal.packs(".idx"))
    listed = subprocess.run(
        ["git", "show-index"], input=index.read_bytes(), capture_output=True, check=True
    ).stdout.decode()
    ids = [line.split()[1] for line in listed.splitlines()]
    vandal.write(index, None)
    vandal.write(index.with_suffix(".pack"), None)
    return Damage(f"{index} and its pack removed", tuple(ids))


def _reference(vandal: Vandal, content: bytes | None, what: str) -> Damage:
    vandal.write(vandal._shadow / "refs/heads/history", content)
    return Damage(f"the reference {what}", ("refs/heads/history",))


def _reference_back(vandal: Vandal) -> Damage:
    commits = vandal.commits()
    steps = 1 + vandal.below(len(commits) - 1)
    return _reference(vandal, commits[steps].encode() + b"\n", f"moved {steps} back")


def _reference_elsewhere(vandal: Vandal) -> Damage:
    """Another chain that is whole in itself."""
    forged = git(
        vandal._shadow, "-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-m", "forged",
        vandal.commits()[0] + "^{tree}",
    ).strip()  # fmt: skip
    vandal._saved[vandal._shadow / "objects" / forged[:2] / forged[2:]] = None
    return _reference(vandal, forged.encode() + b"\n", "moved to another chain")


def _reference_broken(vandal: Vandal) -> Damage:
    content = vandal.choose([b"", b"\0" * 41, b"0" * 40 + b"\n", b"ref: refs/heads/x\n", b"\xff"])
    return _reference(vandal, content, f"is {content!r}")


def _reference_gone(vandal: Vandal) -> Damage:
    return _reference(vandal, None, "removed")


def _reference_cut(vandal: Vandal) -> Damage:
    whole = (vandal._shadow / "refs/heads/history").read_bytes()
    return _reference(vandal, whole[: vandal.below(40)], "cut short")


def _head_elsewhere(vandal: Vandal) -> Damage:
    vandal.write(vandal._shadow / "HEAD", b"ref: refs/heads/other\n")
    return Damage("HEAD points elsewhere", ("HEAD",))


def _replacement(vandal: Vandal) -> Damage:
    """Plain git would show another object in this one's place."""
    one, other = vandal.commits()[:2]
    vandal.write(vandal._shadow / "refs/replace" / one, other.encode() + b"\n")
    return Damage(f"{one} replaced in git's eyes", (f"refs/replace/{one}",))


def _grafts(vandal: Vandal) -> Damage:
    vandal.write(vandal._shadow / "info/grafts", vandal.commits()[3].encode() + b"\n")
    return Damage("a graft that hides the beginning", ("info/grafts",))


KINDS: list[Callable[[Vandal], Damage]] = [
    _flip_loose, _flip_loose, _cut_loose, _cut_loose, _remove_loose, _swap_loose, _replace_loose,
    _garbage_loose, _flip_pack, _flip_pack, _cut_pack, _remove_pack, _flip_index, _flip_index,
    _cut_index, _remove_index, _swap_indexes, _remove_both, _reference_back, _reference_back,
    _reference_elsewhere, _reference_broken, _reference_gone, _reference_cut, _head_elsewhere,
    _replacement, _grafts,
]  # fmt: skip
