"""Writes, finds and removes the entries for stet in JSON text. Pure.

    {<servers>: {"stet": SERVER}, "hooks": {EVENT: [GROUP ..]}, "permissions": {"allow": [WORD ..]}}

A GROUP is a handler ``{"command": ..}``, or has handlers in ``hooks``, stet's beside a person's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from stet.agents import entries, jsonc
from stet.agents.clients import EDITING_WORD, READING_WORDS
from stet.agents.entries import Entries, Group
from stet.agents.jsonc import CannotSplice, Path, altered, append, has, lookup, put, remove


class Json(msgspec.Struct, frozen=True):
    """The format JSON; ``strict``: the client accepts no comments."""

    strict: bool = False
    name = "json"

    def check(self, text: str) -> None:
        """Raises NotJson and CannotSplice for a text that entries can't be written into."""
        jsonc.value_of(text, strict=self.strict)
        root = jsonc.outline(text)
        if root is not None and not root.is_object:
            raise CannotSplice("the outermost value is not an object")

    def written(self, text: str, wanted: Entries) -> str:
        """The text with these entries. Raises CannotSplice and NotJson."""
        root = jsonc.value_of(text)
        if wanted.server is not None:
            path = wanted.server_path
            if not has(root, path):
                text = put(text, path, dict(wanted.server))
            else:
                text = altered(text, path, entries.rewritten(lookup(root, path), wanted.server))
        for key, value in wanted.defaults.items():
            if not has(root, (key,)):
                text = put(text, (key,), value)
        for group in wanted.groups:
            own = list(_own_handlers(root, group.event))
            if not own:
                text = append(text, ("hooks", group.event), dict(group.value))
            for handler in own:  # only the program that it starts is replaced
                command = entries.merged_hook(
                    lookup(root, handler)["command"], entries.handlers(group.value)[0]["command"]
                )
                text = altered(text, (*handler, "command"), command)
        there = _words(root, wanted.listed)
        for word in wanted.words:
            if word not in there and EDITING_WORD not in there:  # which allows all the others
                text = append(text, wanted.listed, word)
        return text

    def found(self, text: str, shape: Entries) -> Entries:
        """The entries in a text, at the places that ``shape`` has."""
        root = jsonc.value_of(text)
        groups: list[Group] = []
        for event in _events(root):
            listed = lookup(root, ("hooks", event))
            for group in listed if isinstance(listed, list) else ():
                handlers = entries.handlers(group)
                own = [each for each in handlers if entries.own_handler(each)]
                if own:  # without the handlers that are a person's
                    value = group if own == handlers else {**group, "hooks": own}
                    groups.append(Group(event, value))
        words = _own_words(root, shape.listed)
        return replace(shape, server=shape.server_in(root), groups=groups, words=words)

    def removed(self, text: str, shape: Entries, before: str | None) -> str | None:
        """The text without the entries, and without what is empty then and not in ``before``.

        None if nothing of use is left.
        """
        keep = None if before is None else jsonc.value_of(before)
        root = jsonc.value_of(text)
        for word in _own_words(root, shape.listed):
            if word not in _words(keep, shape.listed):
                at = _words(jsonc.value_of(text), shape.listed).index(word)
                text = remove(text, (*shape.listed, at), keep)
        for event in reversed(list(_events(root))):
            for path in reversed(list(_own_in(root, event))):
                text = remove(text, path, keep)
        if shape.server_in(root) is not None:
            text = remove(text, shape.server_path, keep)
        bare = text
        for key in shape.defaults:
            if before is not None and not has(keep, (key,)) and has(root, (key,)):
                bare = remove(bare, (key,), keep)
        if jsonc.value_of(bare) == keep:
            text = bare  # a person's own hooks need these members
        left = jsonc.outline(text)
        assert left is not None, "BUG: entries were in an object"
        lead, value = text[: left.start], text[left.start :]
        if before is not None and lead.rstrip() == before.rstrip() and _is_blank(value, shape):
            return before  # where no value was, none is left
        return None if before is None and _is_blank(text, shape) else text


def _is_blank(text: str, shape: Entries) -> bool:
    """Whether a text has nothing that a person may want to keep."""
    nothing = jsonc.value_of(text) in (None, {}, dict(shape.defaults))
    return nothing and not any(jsonc.comments(text, 0, len(text)))


def _words(root: Any, listed: tuple[str, ...]) -> list[Any]:
    words = lookup(root, listed) if has(root, listed) else ()
    return words if isinstance(words, list) else []


def _own_words(root: Any, listed: tuple[str, ...]) -> list[str]:
    """The words in a list that stet writes; single ones, and those about its other tools, are a
    person's.
    """
    words = _words(root, listed)
    own = READING_WORDS if all(each in words for each in READING_WORDS) else ()
    return [*own, *(each for each in words if each == EDITING_WORD)]


def _events(root: Any) -> Iterator[str]:
    hooks = root.get("hooks") if isinstance(root, dict) else None
    yield from hooks if isinstance(hooks, dict) else ()


def _own_handlers(root: Any, event: str) -> Iterator[Path]:
    """The paths of an event's handlers that stet wrote."""
    path: Path = ("hooks", event)
    groups = lookup(root, path) if has(root, path) else None
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        for index, each in enumerate(entries.handlers(group)):
            if entries.own_handler(each):
                yield (*path, number) if each is group else (*path, number, "hooks", index)


def _own_in(root: Any, event: str) -> Iterator[Path]:
    """The paths to remove: whole groups, or a handler in a group with a person's own handlers."""
    own = list(_own_handlers(root, event))
    for number in dict.fromkeys(path[2] for path in own):
        group: Path = ("hooks", event, number)
        inside = [path for path in own if path[:3] == group]
        yield from [group] if len(inside) == len(entries.handlers(lookup(root, group))) else inside
