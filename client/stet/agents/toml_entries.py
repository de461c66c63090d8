"""Writes, finds and removes the entry for stet in TOML text; keeps everything else. Pure.

    [<servers>.stet]
    command = "/path/of/stet"
    args = ["mcp"]

A new table is appended to the text; :mod:`tomlkit` changes an existing one. It treats the comments
before the next header as part of the table, so they are restored after a removal. Each result is
read with :mod:`tomllib` and compared with the wanted value.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from stet.agents import entries
from stet.agents.entries import NAME, Entries
from stet.agents.jsonc import CannotSplice, checked, has, lookup, newline_of

#: Empty lines and comments at the end of a table.
_TRAILING = re.compile(r"(?<=\n)(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:[ \t]*#[^\n]*)?\Z")


def value_of(text: str) -> dict[str, Any]:
    """The value of a document, which may begin with a byte order mark. Raises TOMLDecodeError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise tomllib.TOMLDecodeError("nested too deep") from None
    except ValueError as error:  # also a number with more digits than Python reads
        raise tomllib.TOMLDecodeError(str(error)) from error


class Toml:
    """The format TOML; its only entry is the server."""

    name = "toml"

    def written(self, text: str, wanted: Entries) -> str:
        """The text with this server. Raises CannotSplice and TOMLDecodeError."""
        root = value_of(text)
        [(path, value)] = wanted.items()
        if has(root, path):
            found = lookup(root, path)
            value = entries.rewritten(found, value)
            if found == value:
                return text
        return put(text, str(path[0]), value)

    def found(self, text: str, shape: Entries) -> Entries:
        """The entry in a text. Raises TOMLDecodeError."""
        return entries.server_in(value_of(text), shape)

    def removed(self, text: str, shape: Entries, before: str | None) -> str | None:
        """The text without the entry, and without the table of servers if that is empty then and
        not in ``before``; None if nothing of use is left.
        """
        [(servers, _)] = shape
        keep = before is not None and servers in value_of(before)
        left = removed(text, str(servers), keep=keep)
        return left if before is not None or left.removeprefix("\ufeff").strip() else None


def put(text: str, servers: str, value: Mapping[str, Any]) -> str:
    """The text with this entry: at its place, else at the end. Equal members stay as they are."""
    expected = value_of(text)
    if has(expected, (servers, NAME)):
        # Without the comments behind the entry: tomlkit would put a new member behind them.
        _, at, end = _place(text, _without(text, servers, len(expected[servers]) == 1))
        document = _parsed(text[:at] + text[end:])
        _alter(document[servers][NAME], value)
        changed = _dumped(text, document)
        behind = len(changed) - (len(text) - end)
        changed = changed[:behind] + text[at:end] + changed[behind:]
    else:
        # An empty line before the table will tell that the last line ended with a newline.
        table = _table(text, servers, value)
        changed = text + table if text else table.lstrip()
    above = expected.setdefault(servers, {})
    if not isinstance(above, dict):
        raise CannotSplice(f"{servers} is not a table")
    above[NAME] = dict(value)
    return checked(changed, expected, value_of)


def _table(text: str, servers: str, value: Mapping[str, Any]) -> str:
    """The entry as it is appended to a text, from the end of the last line on."""
    import tomlkit

    newline = newline_of(text)
    return newline + tomlkit.dumps({servers: {NAME: value}}).replace("\n", newline)


def removed(text: str, servers: str, *, keep: bool = False) -> str:
    """The text without the entry. ``keep``: keep an empty table of servers."""
    expected = value_of(text)
    table = _table(text, servers, expected[servers].pop(NAME))
    gone = not (keep or expected[servers])
    if gone:
        del expected[servers]
    with contextlib.suppress(CannotSplice):
        if text.endswith(table):  # still as it was appended
            return checked(text.removesuffix(table), expected, value_of)
    changed = _without(text, servers, gone)
    start, at, end = _place(text, changed)
    if start < end:
        # Also the newline that came with the table: an empty line, or at the end of the text the
        # last line's.
        empty = r"(?:(?<=\n)|\A)\r?\n\Z" if text[at:] else r"\r?\n\Z"
        changed = re.sub(empty, "", text[:start]) + text[at:]
    return checked(changed, expected, value_of)


def _without(text: str, servers: str, gone: bool) -> str:
    """The text without the entry, by tomlkit; ``gone``: also without the table of servers."""
    document = _parsed(text)
    del document[servers][NAME]
    if gone:
        del document[servers]
    return _dumped(text, document)


def _parsed(text: str) -> Any:
    """The document, if tomlkit reproduces it to the byte. Raises CannotSplice."""
    import tomlkit

    plain = text.removeprefix("\ufeff")
    with contextlib.suppress(tomlkit.exceptions.TOMLKitError, RecursionError):
        document = tomlkit.parse(plain)
        # Not so where an array of tables is between tables of one name, or in two places.
        if tomlkit.dumps(document) == plain:
            return document
    raise CannotSplice("its tables stand in an order that can't be kept")


def _dumped(text: str, document: Any) -> str:
    """The document's text, with the beginning and the line terminators of the old one."""
    import tomlkit

    changed = tomlkit.dumps(document)
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        changed = re.sub(r"(?<!\r)\n", "\r\n", changed)
    return "\ufeff" + changed if text.startswith("\ufeff") else changed


def _alter(table: Any, value: Mapping[str, Any]) -> None:
    """Give a table this value; equal members stay as they are."""
    found = table.unwrap()
    for key in found.keys() - value.keys():
        del table[key]
    for key, each in value.items():
        if isinstance(each, dict) and isinstance(found.get(key), dict):
            _alter(table[key], each)
        elif key not in found or found[key] != each:
            table[key] = each


def _place(text: str, changed: str) -> tuple[int, int, int]:
    """The passage that ``changed`` lacks: its start, that of the comments at its end, and its end.
    If it lacks several passages, all three are the end of the text.
    """
    same = next((at for at, each in enumerate(changed) if each != text[at]), len(changed))
    start = text.rfind("\n", 0, same) + 1
    end = len(text) - (len(changed) - start)
    if text[:start] + text[end:] != changed:
        return len(text), len(text), len(text)
    comments = _TRAILING.search(text, start, end)
    return start, comments.start() if comments else end, end
