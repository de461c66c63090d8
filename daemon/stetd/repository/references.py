"""Reads and writes the references of a shadow repository as files: the history's, and pins.

A reference is a file with an id and a line end, or a line of ``packed-refs`` (which only plain git
writes). The background thread moves ``refs/heads/history`` (:mod:`stetd.repository.shadow_repo`);
pins are the person's names for commits:

    refs/pins/<name>

A pin is stored only as its reference, which is durable before the method is answered. Git's
garbage collection keeps everything reachable from it.

The file ``shallow`` says where retention has cut the history (gitformat-shallow): the ids of the
commits whose parents are missing, one per line. For plain git they have no parents.
"""

from __future__ import annotations

import os
import re

from stetd.storage.disk import Disk, NotRegular, read_file, read_if_exists, replace_file

HISTORY = "refs/heads/history"
PINS = "refs/pins"
_ID = re.compile(rb"([0-9a-f]{40})\n?")
_PACKED = re.compile(r"([0-9a-f]{40}) (\S+)")
_PACKED_LINE = re.compile(r"(?:[0-9a-f]{40} \S+|\^[0-9a-f]{40}|#.*)\n|")
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHALLOW = re.compile(rb"^[0-9a-f]{40}$", re.MULTILINE)
_COULD_BE_ID = re.compile(r"[0-9a-fA-F]{4,40}")


class DamagedReference(Exception):
    """The file of a reference has no id."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the reference {name} is damaged")


def why_no_pin_name(name: str) -> str | None:
    """Why a text is no valid name of a pin; None if it is."""
    if not _PIN.fullmatch(name) or ".." in name or name.endswith((".", ".lock", ".tmp")):
        return (
            "a pin's name has letters, digits, '.', '_' and '-', at most 100, and begins with a "
            "letter or digit"
        )
    if _COULD_BE_ID.fullmatch(name):
        return "it could be the beginning of a commit's id"
    if name.upper() == "HEAD":
        return "HEAD is the newest commit"
    return None


def read_reference(repository: str, name: str) -> str | None:
    """The id that a reference names; None if there is none. Raises DamagedReference, OSError."""
    try:
        content = read_file(os.path.join(repository, name), 4096)
    except (FileNotFoundError, NotADirectoryError):
        return _packed(repository).get(name)
    except IsADirectoryError:
        return None
    except NotRegular as error:
        raise DamagedReference(name) from error
    found = _ID.fullmatch(content)
    if found is None:
        raise DamagedReference(name)
    return found[1].decode()


def _packed_lines(repository: str) -> list[str]:
    try:
        content = read_if_exists(os.path.join(repository, "packed-refs"))
    except (IsADirectoryError, NotRegular):
        return ["no file"]  # plain git refuses to work with it, as with an invalid line
    return content.decode("utf-8", "replace").split("\n") if content else []


def _packed(repository: str) -> dict[str, str]:
    matches = map(_PACKED.fullmatch, _packed_lines(repository))
    return {found[2]: found[1] for found in matches if found}


def unexpected_packed_line(repository: str) -> int | None:
    """The number, from 1, of the first line of ``packed-refs`` that plain git rejects."""
    *lines, rest = _packed_lines(repository) or [""]
    each = enumerate([*(f"{line}\n" for line in lines), rest], 1)
    return next((n for n, line in each if not _PACKED_LINE.fullmatch(line)), None)


def references_below(repository: str, folder: str) -> list[str]:
    """The ordered full names of all references below a folder such as ``refs/pins``."""
    names = {name for name in _packed(repository) if name.startswith(folder + "/")}
    for below, _, files in os.walk(os.path.join(repository, folder)):
        inner = os.path.relpath(below, repository)
        names.update(f"{inner}/{name}" for name in files if not name.endswith((".lock", ".tmp")))
    return sorted(names)


def pin_names(repository: str) -> list[str]:
    """The ordered names of all pins, also of damaged ones."""
    prefix = PINS + "/"
    return [name.removeprefix(prefix) for name in references_below(repository, PINS)]


def set_pin(repository: str, name: str, oid: str, disk: Disk) -> None:
    """Make or move a pin, durably. Raises OSError, SyncFailed."""
    assert why_no_pin_name(name) is None, "BUG: a pin of a name that is none"
    write_reference(repository, f"{PINS}/{name}", oid, disk)


def write_reference(repository: str, name: str, oid: str, disk: Disk) -> None:
    """Point a reference at a commit, durably. Raises OSError, SyncFailed."""
    path = os.path.join(repository, name)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, mode=0o700)
        disk.sync_path(os.path.dirname(folder))
    replace_file(path, oid.encode() + b"\n", disk, ".lock")  # Git takes a ".tmp" for a reference


def delete_pin(repository: str, name: str, disk: Disk) -> None:
    """Remove a pin, durably. Raises OSError, SyncFailed."""
    assert why_no_pin_name(name) is None, "BUG: a pin of a name that is none"
    reference = f"{PINS}/{name}"
    if reference in _packed(repository):
        packed = os.path.join(repository, "packed-refs")
        # Its line, and the line that says which commit the tag names, if it is a tag.
        line = rb"^[0-9a-f]{40} %s(\n\^[0-9a-f]{40})?(\n|\Z)" % re.escape(reference).encode()
        kept = re.sub(line, b"", read_if_exists(packed), flags=re.MULTILINE)
        replace_file(packed, kept, disk)
    path = os.path.join(repository, reference)
    if os.path.exists(path):
        disk.unlink(path)
        disk.sync_path(os.path.dirname(path))


def pinned_id(shadow: str, name: str) -> str | None:
    """The id that a pin names; "" if its reference is damaged, None if there is no pin."""
    try:
        return None if why_no_pin_name(name) else read_reference(shadow, f"{PINS}/{name}")
    except DamagedReference:
        return ""


def named_commits(shadow: str) -> list[str]:
    """The commits that references name, except the reference of the history itself."""
    names = (name for name in references_below(shadow, "refs") if name != HISTORY)
    found = (read_reference(shadow, name) for name in names)
    return sorted({oid for oid in found if oid is not None})


# -- where retention has cut the history


def read_shallow(repository: str) -> frozenset[str]:
    """The commits whose parents were dropped."""
    content = read_if_exists(os.path.join(repository, "shallow"))
    return frozenset(oid.decode() for oid in _SHALLOW.findall(content))


def write_shallow(repository: str, oldest: str, disk: Disk, *others: str) -> None:
    """Cut the history before this commit, and these others, durably."""
    content = "".join(f"{oid}\n" for oid in (oldest, *others)).encode()
    replace_file(os.path.join(repository, "shallow"), content, disk)
