"""The entries for stet in JSON text: written, found, taken out. Pure.

    {<servers>: {"stet": SERVER}, "hooks": {EVENT: [GROUP ..]}}

A GROUP is a handler ``{"command": ..}``, or has handlers in ``hooks``; one of those may be ours
beside a person's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stet.connecting import entries, jsonc
from stet.connecting.entries import NAME, Entries, Group
from stet.connecting.json_splicing import CannotSplice, append, has, lookup, put, remove
from stet.connecting.jsonc import Path


def check(text: str, *, strict: bool) -> None:
    """Raises NotJson and CannotSplice for a text that entries can't be written into."""
    jsonc.value_of(text, strict=strict)
    root = jsonc.outline(text)
    if root is not None and not root.is_object:
        raise CannotSplice("the outermost value is not an object")


def written(text: str, wanted: Entries) -> str:
    """The text with these entries. Raises CannotSplice and NotJson."""
    if wanted.servers is not None and wanted.server is not None:
        text = _with_server(text, (wanted.servers, NAME), dict(wanted.server))
    if wanted.groups:
        for key, value in wanted.defaults.items():
            if not has(jsonc.value_of(text), (key,)):
                text = put(text, (key,), value)
        for group in wanted.groups:
            text = _with_group(text, group)
    return text


def _with_server(text: str, path: Path, value: dict[str, Any]) -> str:
    root = jsonc.value_of(text)
    if not has(root, path):
        return put(text, path, value)
    found = lookup(root, path)
    if entries.own_server(found) is None:
        raise CannotSplice(f"there is a server {NAME!r} that was not written by stet connect")
    value = entries.merged(found, value)
    return text if found == value else put(text, path, value)


def _with_group(text: str, group: Group) -> str:
    own = list(_own_in(jsonc.value_of(text), group.event))
    root = jsonc.value_of(text)
    if len(own) == 1 and len(own[0]) == 3 and lookup(root, own[0]) == group.value:
        return text
    before = root  # so that an array, and a place in it, are not lost meanwhile
    for path in reversed(own):
        text = remove(text, path, keep=before)
    return append(text, ("hooks", group.event), dict(group.value))


def found(text: str, servers: str | None) -> Entries:
    """The entries that are in a text."""
    root = jsonc.value_of(text)
    server = None
    if servers is not None and has(root, (servers, NAME)):
        value = lookup(root, (servers, NAME))
        server = value if entries.own_server(value) is not None else None
    groups = [
        Group(str(path[1]), lookup(root, path[:3]))
        for event in _events(root)
        for path in _own_in(root, event)
    ]
    return Entries(servers, server, groups)


def hook_commands(text: str) -> list[tuple[str, ...]]:
    """The commands of the hooks that were written here."""
    root = jsonc.value_of(text)
    paths = [path for event in _events(root) for path in _own_in(root, event)]
    handlers = [handler for path in paths for handler in _handlers(lookup(root, path))]
    return [command for each in handlers if (command := entries.own_handler(each)) is not None]


def removed(text: str, servers: str | None, keep: Any) -> str:
    """The text without the entries, and without what is left empty and not in ``keep``."""
    root = jsonc.value_of(text)
    for event in reversed(list(_events(root))):
        for path in reversed(list(_own_in(root, event))):
            text = remove(text, path, keep)
    if servers is not None and found(text, servers).server is not None:
        text = remove(text, (servers, NAME), keep)
    return text


def is_blank(text: str, wanted: Entries) -> bool:
    """Whether there is nothing in a text that somebody else may want to keep."""
    value = jsonc.value_of(text)
    if value is not None and value not in ({}, dict(wanted.defaults)):
        return False
    return not any(jsonc.comments(text, 0, len(text)))


def _events(root: Any) -> Iterator[str]:
    hooks = root.get("hooks") if isinstance(root, dict) else None
    yield from hooks if isinstance(hooks, dict) else ()


def _own_in(root: Any, event: str) -> Iterator[Path]:
    """Where the hooks of an event are that were written here: groups, or handlers in a group."""
    path: Path = ("hooks", event)
    if not has(root, path):
        return
    groups = lookup(root, path)
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        handlers = _handlers(group)
        own = [index for index, each in enumerate(handlers) if entries.own_handler(each)]
        if own and len(own) == len(handlers):
            yield (*path, number)
        else:
            yield from ((*path, number, "hooks", index) for index in own)


def _handlers(group: Any) -> list[Any]:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return inner if isinstance(inner, list) else [group]
