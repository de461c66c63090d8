"""Writes, finds and removes the entries for stet in JSON text. Pure.

    {<servers>: {"stet": SERVER}, "hooks": {EVENT: [GROUP ..]}, "permissions": {"allow": [WORD ..]}}

A GROUP is a handler ``{"command": ..}``, or has handlers in ``hooks``, stet's beside a person's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from stet.agents import entries, jsonc
from stet.agents.clients import ALLOWED, EDITING_WORD, READING_WORDS
from stet.agents.entries import Entries
from stet.agents.jsonc import CannotSplice, Path, has, lookup, put, remove


class Json(msgspec.Struct, frozen=True):
    """The format JSON; ``strict``: the client accepts no comments."""

    strict: bool = False
    name = "json"

    def written(self, text: str, wanted: Entries) -> str:
        """The text with these entries. Raises CannotSplice and NotJson."""
        root = jsonc.value_of(text)
        for path, value in wanted.items():
            if path == ALLOWED:
                there = _listed(root, path)
                # The word for all tools allows the others.
                fresh = [each for each in value if each not in there and EDITING_WORD not in there]
                for at, word in enumerate(fresh, len(there)):
                    text = put(text, (*path, at), word)
            elif path[0] == "hooks":
                [group] = value
                groups = [each for each in _own_groups(root) if each.event == path]
                for place in [(*each, "command") for own in groups for each in own.handlers]:
                    # Only the program that it starts is replaced.
                    command = entries.handlers(group)[0]["command"]
                    text = put(text, place, entries.merged_hook(lookup(root, place), command))
                if not groups:
                    text = put(text, (*path, len(_listed(root, path))), group)
            elif not has(root, path):
                text = put(text, path, value)
            elif entries.is_server(path):
                text = put(text, path, entries.rewritten(lookup(root, path), value))
        return text

    def found(self, text: str, shape: Entries) -> Entries:
        """The entries in a text, at the places that ``shape`` has. Raises NotJson and CannotSplice
        for a text that entries can't be written into.
        """
        root = jsonc.value_of(text, strict=self.strict)
        if not isinstance(root, dict) and jsonc.outline(text) is not None:
            raise CannotSplice("the outermost value is not an object")
        found = entries.server_in(root, shape)
        for group in _own_groups(root):
            found.setdefault(group.event, []).append(group.value)
        if words := _own_words(root, shape):
            found[ALLOWED] = words
        # With the defaults, and in the order of the text, so that a file without a person's
        # additions can be written again.
        whole = {**entries.defaults(shape), **found} if found else {}
        places = {key: place for place, key in enumerate(root or ())}
        return {path: whole[path] for path in sorted(whole, key=lambda p: places.get(p[0], -1))}

    def removed(self, text: str, shape: Entries, before: str | None) -> str | None:
        """The text without the entries, and without what is empty then and not in ``before``.

        None if nothing of use is left.
        """
        keep = None if before is None else jsonc.value_of(before)
        root = jsonc.value_of(text)
        there, kept = _listed(root, ALLOWED), _listed(keep, ALLOWED)
        for word in _own_words(root, shape):
            if word not in kept:
                text = remove(text, (*ALLOWED, there.index(word)), keep)
                there.remove(word)
        own: list[Path] = [*entries.server_in(root, shape)]
        own += [path for group in _own_groups(root) for path in group.own]
        for path in reversed(own):
            text = remove(text, path, keep)
        bare = text
        for path in entries.defaults(shape):
            if before is not None and not has(keep, path) and has(root, path):
                bare = remove(bare, path, keep)
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
    defaults = {key: value for (key,), value in entries.defaults(shape).items()}
    return jsonc.value_of(text) in (None, {}, defaults) and "/" not in text  # no comment either


def _listed(root: Any, path: Path) -> list[Any]:
    """The array at a path; an empty one if there is none."""
    found = lookup(root, path) if has(root, path) else None
    return found if isinstance(found, list) else []


def _own_words(root: Any, shape: Entries) -> list[str]:
    """The words that stet writes; single ones, and those about its other tools, are a person's."""
    words = _listed(root, ALLOWED) if ALLOWED in shape else []
    own = READING_WORDS if all(each in words for each in READING_WORDS) else ()
    return [*own, *(each for each in words if each == EDITING_WORD)]


class _Group(NamedTuple):
    """An element of an event's array that has handlers of stet. ``event``: the path of the array;
    ``own``: the paths of what is stet's alone; ``value``: the element without a person's handlers.
    """

    event: Path
    handlers: list[Path]
    own: list[Path]
    value: Any


def _own_groups(root: Any) -> Iterator[_Group]:
    hooks = root.get("hooks") if isinstance(root, dict) else None
    events: list[Path] = [("hooks", event) for event in hooks] if isinstance(hooks, dict) else []
    for event in events:
        for number, group in enumerate(_listed(root, event)):
            path: Path = (*event, number)
            every = entries.handlers(group)
            own = [at for at, each in enumerate(every) if entries.own_handler(each)]
            paths = [path if every[at] is group else (*path, "hooks", at) for at in own]
            if own and len(own) == len(every):
                yield _Group(event, paths, [path], group)
            elif own:
                alone = {**group, "hooks": [every[at] for at in own]}
                yield _Group(event, paths, paths, alone)
