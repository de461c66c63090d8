"""Putting a table into TOML text and taking it out, with every other byte as it stands. Pure.

A new table is written behind everything else, after an empty line, which TOML allows in any file;
:mod:`tomlkit` changes one that is there. It counts the comments before the next header to a table,
so they are put back when it has taken one out. Each result is read with :mod:`tomllib` and compared
with what should be in it, as :mod:`.json_splicing` does.
"""

from __future__ import annotations

import contextlib
import copy
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from stet.connecting.json_splicing import CannotSplice, has, lookup, newline_of

Path = tuple[str, ...]
#: Empty lines and comments at the end of a table.
_TRAILING = re.compile(r"(?<=\n)(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:[ \t]*#[^\n]*)?\Z")


def value_of(text: str) -> dict[str, Any]:
    """The value of a document, which may begin with a byte order mark. Raises TOMLDecodeError."""
    return tomllib.loads(text.removeprefix("\ufeff"))


def put(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """The text with this table: where it stands, else at the end. Raises CannotSplice, ValueError.

    What is as ``value`` has it stays as it stands, comments as well.
    """
    import tomlkit

    before = value_of(text)
    newline = newline_of(text)
    if has(before, path):
        document = _parsed(text)
        _alter(lookup(document, path), value)
        changed = _dumped(text, document)
    else:
        body = tomlkit.dumps(_nested(path, value)).replace("\n", newline)
        # Whether the last line was ended can be seen afterwards: then there is an empty line.
        changed = f"{text}{newline}{body}" if text else body
    expected = copy.deepcopy(before)
    above = expected
    for key in path[:-1]:
        above = above.setdefault(key, {})
        if not isinstance(above, dict):
            raise CannotSplice(f"{key} is not a table")
    above[path[-1]] = dict(value)
    return _checked(changed, expected)


def remove(text: str, path: Path) -> str:
    """The text without a table and those below it. Raises KeyError if there is none."""
    expected = value_of(text)
    lookup(expected, path)
    document = _parsed(text)
    while path:
        for value in (expected, document):
            del lookup(value, path[:-1])[path[-1]]
        # What was there for this table only is gone with it.
        path = path[:-1] if len(path) > 1 and not lookup(expected, path[:-1]) else ()
    return _checked(_with_comments(text, _dumped(text, document)), expected)


def _parsed(text: str) -> Any:
    """The document, if it can be given back to the byte. Raises CannotSplice."""
    import tomlkit

    plain = text.removeprefix("\ufeff")
    with contextlib.suppress(tomlkit.exceptions.TOMLKitError):
        document = tomlkit.parse(plain)
        # Not so where an array of tables stands between tables of one name, or in two places.
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
    """Make a table this value, and leave of it what is the same."""
    found = table.unwrap()
    for key in found.keys() - value.keys():
        del table[key]
    for key, each in value.items():
        if isinstance(each, dict) and isinstance(found.get(key), dict):
            _alter(table[key], each)
        elif key not in found or found[key] != each:
            table[key] = each


def _with_comments(text: str, changed: str) -> str:
    """The text without what was cut out of it, but with the comments at the end of that."""
    same = next((at for at, each in enumerate(changed) if each != text[at]), len(changed))
    start = text.rfind("\n", 0, same) + 1
    end = len(text) - (len(changed) - start)
    if text[:start] + text[end:] != changed:
        return changed
    comments = _TRAILING.search(text, start, end)
    rest = text[comments.start() if comments else end :]
    # The last line of a text that was not ended has its end only because of the table.
    empty = r"(?:(?<=\n)|\A)\r?\n\Z" if rest else r"\r?\n\Z"
    return re.sub(empty, "", text[:start]) + rest


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _checked(text: str, expected: Any) -> str:
    try:
        found = value_of(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotSplice(f"it is laid out in an unusual way ({error})") from error
    if found != expected:
        raise CannotSplice("it is laid out in an unusual way")
    return text
