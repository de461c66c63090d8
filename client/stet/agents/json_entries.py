"""The entries for stet in JSON text: written, found, taken out. Pure.

    {<servers>: {"stet": SERVER}, "hooks": {EVENT: [GROUP ..]}, "permissions": {"allow": [WORD ..]}}

A GROUP is a handler ``{"command": ..}``, or has handlers in ``hooks``; one of those may be ours
beside a person's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from stet.agents import entries, jsonc
from stet.agents.entries import NAME, Entries, Group
from stet.agents.json_splicing import (
    CannotSplice,
    altered,
    append,
    has,
    lookup,
    put,
    remove,
)
from stet.agents.jsonc import Path


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
        root = jsonc.value_of(text)
        for key, value in wanted.defaults.items():
            if not has(root, (key,)):
                text = put(text, (key,), value)
        for group in wanted.groups:
            own = list(_own_handlers(root, group.event))
            if own:
                text = _with_program(text, own, group)
            else:
                text = append(text, ("hooks", group.event), dict(group.value))
    there = _own_words(jsonc.value_of(text), wanted.listed)
    for word in wanted.words:
        if word not in there and f"mcp__{NAME}" not in there:  # which allows all the others
            text = append(text, wanted.listed, word)
    return text


def _own_words(root: Any, listed: tuple[str, ...]) -> list[str]:
    """The words about stet's tools in a list."""
    words = lookup(root, listed) if listed and has(root, listed) else ()
    return [each for each in words if entries.own_word(each)] if isinstance(words, list) else []


def _with_server(text: str, path: Path, value: dict[str, Any]) -> str:
    root = jsonc.value_of(text)
    if not has(root, path):
        return put(text, path, value)
    found = lookup(root, path)
    if entries.own_server(found) is None:
        raise CannotSplice(f"there is a server {NAME!r} that was not written by stet connect")
    return altered(text, path, entries.merged(found, value))


def _with_program(text: str, own: list[Path], group: Group) -> str:
    """The text with the hooks of an event as they stand, but for the program they start."""
    (wanted,) = _handlers(group.value)
    for path in own:
        path = (*path, "command")
        command = entries.merged_hook(lookup(jsonc.value_of(text), path), wanted["command"])
        text = altered(text, path, command)
    return text


def found(text: str, shape: Entries) -> Entries:
    """The entries that are in a text, where ``shape`` has them."""
    root = jsonc.value_of(text)
    server = None
    if shape.servers is not None and has(root, (shape.servers, NAME)):
        value = lookup(root, (shape.servers, NAME))
        server = value if entries.own_server(value) is not None else None
    groups = [group for event in _events(root) for group in _own_groups(root, event)]
    words = _own_words(root, shape.listed)
    return replace(shape, server=server, groups=groups, words=words)


def _own_groups(root: Any, event: str) -> Iterator[Group]:
    """The groups of an event, without the handlers in them that are a person's."""
    groups = lookup(root, ("hooks", event))
    for group in groups if isinstance(groups, list) else ():
        handlers = _handlers(group)
        own = [each for each in handlers if entries.own_handler(each)]
        if own:
            yield Group(event, group if own == handlers else {**group, "hooks": own})


def hook_commands(text: str) -> list[tuple[str, ...]]:
    """The commands of the hooks that were written here."""
    root = jsonc.value_of(text)
    paths = [path for event in _events(root) for path in _own_handlers(root, event)]
    commands = [entries.own_handler(lookup(root, path)) for path in paths]
    return [command for command in commands if command is not None]


def removed(text: str, shape: Entries, keep: Any) -> str:
    """The text without the entries, and without what is left empty and not in ``keep``."""
    root = jsonc.value_of(text)
    for word in _own_words(root, shape.listed):
        at = lookup(jsonc.value_of(text), shape.listed).index(word)
        text = remove(text, (*shape.listed, at), keep)
    for event in reversed(list(_events(root))):
        for path in reversed(list(_own_in(root, event))):
            text = remove(text, path, keep)
    if shape.servers is not None and found(text, shape).server is not None:
        text = remove(text, (shape.servers, NAME), keep)
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


def _own_handlers(root: Any, event: str) -> Iterator[Path]:
    """Where the handlers of an event are that were written here."""
    path: Path = ("hooks", event)
    groups = lookup(root, path) if has(root, path) else None
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        for index, each in enumerate(_handlers(group)):
            if entries.own_handler(each):
                yield (*path, number) if each is group else (*path, number, "hooks", index)


def _own_in(root: Any, event: str) -> Iterator[Path]:
    """What goes with those handlers: groups, or a handler in a group with a person's own."""
    own = list(_own_handlers(root, event))
    for number in dict.fromkeys(path[2] for path in own):
        group: Path = ("hooks", event, number)
        inside = [path for path in own if path[:3] == group]
        yield from [group] if len(inside) == len(_handlers(lookup(root, group))) else inside


def _handlers(group: Any) -> list[Any]:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return inner if isinstance(inner, list) else [group]
