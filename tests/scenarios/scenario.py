"""Reading the folders of scenarios: what each says, checked for what it must not say."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from stet.wire.results import EditResult
from tree_world import Tree

FOLDER = Path(__file__).parent
ROOT = "@ROOT@"
#: Which parameter ``call.txt`` becomes.
TEXT_PARAMETER = {"patch_block": "text", "apply_patch": "input"}

_NAME = re.compile(r"[0-9]{3}_[a-z0-9_]+\Z")
_MEMBERS = {
    "before.json": {"modes", "links", "directories", "clipboards"},
    "after.json": {"modes", "links", "clipboards"},
    "reply.json": {field.encode_name for field in msgspec.structs.fields(EditResult)} | {"changed"},
}
_ENTRIES = {"before", "call.json", "call.txt", "after", "error.json", *_MEMBERS}

Json = dict[str, Any]


class Malformed(Exception):
    """A folder that is no scenario."""


@dataclass(frozen=True)
class Scenario:
    """One case. ``error`` is None for a call that must succeed."""

    dialect: str
    name: str
    params: Json
    before: Tree
    clipboards: Mapping[str, str]
    after: Tree
    clipboards_after: Mapping[str, str]
    reply: Json = field(default_factory=dict)
    error: Json | None = None

    @property
    def changes(self) -> bool:
        """Whether the call must make a commit."""
        return self.error is None and self.reply.get("changed", True)

    def at(self, root: str) -> Scenario:
        """The scenario with its workspace at ``root``."""

        def moved(tree: Tree) -> Tree:
            return replace(tree, links=rooted(tree.links, root))

        return replace(
            self,
            params=rooted(self.params, root),
            before=moved(self.before),
            clipboards=rooted(self.clipboards, root),
            after=moved(self.after),
            clipboards_after=rooted(self.clipboards_after, root),
            reply=rooted(self.reply, root),
            error=rooted(self.error, root),
        )


def rooted(value: Any, root: str) -> Any:
    """``value`` with every ``@ROOT@`` in it replaced."""
    if isinstance(value, str):
        return value.replace(ROOT, root)
    if isinstance(value, Mapping):
        return {rooted(key, root): rooted(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [rooted(item, root) for item in value]
    return value


def dialects() -> list[str]:
    """The dialects that have scenarios."""
    return sorted(
        folder.name
        for folder in FOLDER.iterdir()
        if folder.is_dir() and not folder.name.startswith(("_", "."))
    )


def folders(dialect: str) -> list[Path]:
    """The folders of a dialect's scenarios, in order, well formed or not."""
    return sorted(FOLDER.joinpath(dialect).iterdir())


def load(folder: Path) -> Scenario:
    """Read a folder. Raises Malformed."""
    names = {each.name for each in folder.iterdir()}
    dialect = folder.parent.name
    _require(
        folder, bool(_NAME.match(folder.name)), "its name is not NNN_sentence_in_small_letters"
    )
    _require(folder, names <= _ENTRIES, f"unknown members: {sorted(names - _ENTRIES)}")
    failing = "error.json" in names
    good = {"after", "after.json", "reply.json"} & names
    _require(folder, failing != bool(good), "it needs either error.json, or after and reply.json")
    state = _json(folder, "before.json")
    before = _tree(folder / "before", state)
    reply, error = _json(folder, "reply.json"), _json(folder, "error.json") if failing else None
    if error is not None:
        _require(folder, {"kind", "message"} <= set(error), "error.json needs kind and message")
    unchanged = failing or (reply.get("changed") is False and "after" not in names)
    later = _json(folder, "after.json")
    after = before if unchanged else _tree(folder / "after", {"links": dict(before.links), **later})
    clipboards: dict[str, str] = state.get("clipboards", {})
    return Scenario(
        dialect,
        folder.name,
        _params(folder, dialect),
        before,
        clipboards,
        after,
        later.get("clipboards", clipboards),
        reply,
        error,
    )


def _require(folder: Path, condition: bool, otherwise: str) -> None:
    if not condition:
        raise Malformed(f"{folder.parent.name}/{folder.name}: {otherwise}")


def _params(folder: Path, dialect: str) -> Json:
    text = folder / "call.txt"
    params = _json(folder, "call.json")
    if text.exists():
        _require(folder, dialect in TEXT_PARAMETER, "call.txt is for dialects that are text")
        _require(folder, TEXT_PARAMETER[dialect] not in params, "the text is given twice")
        params[TEXT_PARAMETER[dialect]] = text.read_bytes().decode()
    _require(folder, bool(params), "there is no call")
    return params


def _json(folder: Path, name: str) -> Json:
    path = folder / name
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise Malformed(f"{folder.parent.name}/{folder.name}: {name}: {error}") from error
    _require(folder, isinstance(value, dict), f"{name} is no object")
    unknown = set(value) - _MEMBERS.get(name, set(value))
    _require(folder, not unknown, f"{name} has unknown members: {sorted(unknown)}")
    return dict(value)


def _tree(folder: Path, state: Json) -> Tree:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in _files_below(folder)
    }
    return Tree(
        files,
        state.get("links", {}),
        {path: int(mode, 8) for path, mode in state.get("modes", {}).items()},
        frozenset(state.get("directories", [])),
    )


def _files_below(folder: Path) -> Iterable[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)
