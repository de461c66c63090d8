"""The entry for stet in TOML text: written, found, taken out. Pure.

[<servers>.stet]
command = "/path/of/stet"
args = ["mcp"]
"""

from __future__ import annotations

from stet.connecting import entries
from stet.connecting.entries import NAME, Entries
from stet.connecting.json_splicing import CannotSplice, has, lookup
from stet.connecting.toml_splicing import put, remove, value_of


def written(text: str, wanted: Entries) -> str:
    """The text with this server. Raises CannotSplice and TOMLDecodeError."""
    if wanted.servers is None or wanted.server is None:
        return text
    path, root = (wanted.servers, NAME), value_of(text)
    if not has(root, path):
        return put(text, path, wanted.server)
    found = lookup(root, path)
    if entries.own_server(found) is None:
        raise CannotSplice(f"there is a server {NAME!r} that was not written by stet connect")
    value = entries.merged(found, wanted.server)
    return text if found == value else put(text, path, value)


def found(text: str, servers: str | None) -> Entries:
    """The entry that is in a text."""
    root = value_of(text)
    if servers is None or not has(root, (servers, NAME)):
        return Entries(servers)
    value = lookup(root, (servers, NAME))
    return Entries(servers, value if entries.own_server(value) is not None else None)


def removed(text: str, servers: str | None) -> str:
    """The text without the entry."""
    if servers is None or found(text, servers).server is None:
        return text
    return remove(text, (servers, NAME))
