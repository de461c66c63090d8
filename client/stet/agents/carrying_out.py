"""Connects or disconnects a client: changes all its files, or none.

All files are read and planned before one is written. If a write fails or is interrupted, the files
that were written before are restored, unless somebody else has written to them since.

Disconnecting removes the entries from a file's text. If the result equals a backup, the file is as
it was, and the backup is removed. A list or object that is empty then stays if the newest backup
had it, else it is removed, too.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from stet.agents import clients, config_file, entries, jsonc
from stet.agents.clients import Client, Place, Scope
from stet.agents.config_file import ConfigFile, ConnectTrouble
from stet.agents.entries import Entries
from stet.agents.json_entries import Json
from stet.agents.jsonc import CannotSplice, Path
from stet.agents.toml_entries import Toml
from stet.service.socket_path import UnsafeDirectory, refuse_root_elsewhere
from stet.service.spawn import own_program


class Whole:
    """The format of a file that is stet's alone, recognised by its first line."""

    name = "text"

    def written(self, text: str, wanted: Entries) -> str:
        """The new text; keeps permissions of an earlier connect, and a person's additions."""
        return text if text.startswith(wanted[()]) else str(wanted[()])

    def found(self, text: str, _shape: Entries) -> Entries:
        """The whole text. Raises CannotSplice if stet did not write it."""
        if text and clients.OWN_MARK not in text.partition("\n")[0]:
            raise CannotSplice("there is a file of that name that stet connect has not written")
        return {(): text} if text else {}

    def removed(self, _text: str, _shape: Entries, before: str | None) -> str | None:
        """None: the file is removed."""
        return None if before is None else ""


#: How a file is written. Of ``shape`` only the paths and defaults count.
Format = Json | Toml | Whole


class Request(msgspec.Struct, frozen=True):
    """Which client to connect or disconnect, for whom, and with which options.

    ``hooks``: also its hooks; ``edits``: it edits without being asked.
    """

    client: Client
    scope: Scope
    project: str
    workspace: str | None = None
    tools: str | None = None
    hooks: bool = False
    edits: bool = False


class Target(msgspec.Struct, frozen=True):
    """A file of a client, its format, the wanted entries, and its mode if it is new."""

    path: str
    kind: Format
    wanted: dict[Path, Any]
    mode: int


class Change(msgspec.Struct, frozen=True):
    """The result for a file: ``created``, ``changed``, ``unchanged``; or, when disconnected,
    ``restored`` (as it was before), ``removed`` (it was made for stet), ``changed``, ``unread`` (it
    does not parse, but can't have an entry of stet). ``backup``: the path of the old content.
    """

    path: str
    action: str
    backup: str | None = None


class _Step(msgspec.Struct):
    """A file and its wanted content. ``keep``: back it up first, as ``backup``; ``spent``: a backup
    to remove. ``missing``: directories that may have been made for it.
    """

    file: ConfigFile
    action: str
    data: bytes | None
    keep: bool = False
    spent: ConfigFile | None = None
    backup: str | None = None
    written: bool = False
    missing: Sequence[str] = ()


def targets(request: Request) -> list[Target]:
    """The files of a client, with the wanted entries. Raises ConnectTrouble."""
    client = request.client
    project = request.project if request.scope == "project" else None
    environ, program = os.environ, own_program("stet")
    named = [name for name in entries.LOCATIONS if environ.get(name)]
    variables = {name: os.path.abspath(environ[name]) for name in named}
    for word in (*program, request.workspace or "", *variables.values(), project or ""):
        if not word.isprintable() or ("$" in word and client.expands):
            raise ConnectTrouble(
                f"{word!r} can't be written into a configuration of {client.title}, "
                "which would read it as something else. Use a path of plain characters."
            )
    given = [name for name in entries.FORWARDED if environ.get(name)]
    workspace = request.workspace or client.project_variable or project
    command = [*program, "mcp", *(["--workspace", workspace] if workspace else [])]
    command += ["--tools", request.tools] if request.tools else []
    found: dict[str, Target] = {}

    def add(place: Place, kind: Format, wanted: Mapping[Any, Any]) -> None:
        path = place.path(project, environ)
        target = Target(path, kind, {}, 0o600 if project is None else 0o644)
        found.setdefault(path, target).wanted.update(wanted)

    json = Json(client.strict)
    server = client.server(command, variables, given)
    add(client.place, Toml() if client.toml else json, {(client.servers, entries.NAME): server})
    hook = entries.hook_command(program, client.name, variables)
    if client.hooks is not None and request.hooks:
        add(client.hooks.place, json, client.hooks.entries(hook))
    if client.allowed is not None:
        words = (clients.EDITING_WORD,) if request.edits else clients.READING_WORDS
        add(client.allowed, json, {clients.ALLOWED: words})
    for own in client.own_files:
        if (own.in_projects or project is None) and (request.hooks or not own.for_hooks):
            add(own.place, Whole(), {(): own.text(hook, request.edits)})
    return list(found.values())


def connect(request: Request) -> list[Change]:
    """Write the wanted entries into the client's files. Raises ConnectTrouble."""
    wanted = targets(request)
    try:
        for target in wanted if request.scope == "user" else ():
            refuse_root_elsewhere(target.path)
    except UnsafeDirectory as error:
        raise ConnectTrouble(str(error)) from error
    return _carry_out([_connecting(target) for target in wanted])


def disconnect(request: Request) -> list[Change]:
    """Remove stet's entries from the client's files. Raises ConnectTrouble."""
    steps = [step for target in targets(request) if (step := _disconnecting(target)) is not None]
    changes = _carry_out(steps)
    for step in steps:
        if step.spent is not None:
            with contextlib.suppress(OSError):
                os.unlink(step.spent.named)
        if step.data is None:
            config_file.remove_directories(_inner_directories(request, step.file.named))
    return sorted(changes, key=lambda change: change.action == "unread")


def connected(request: Request) -> Iterator[tuple[str, list[entries.Command]]]:
    """The client's files that have an entry of stet, with the commands that they start."""
    with contextlib.suppress(ConnectTrouble):
        for target in targets(request):
            commands: list[entries.Command] = []
            with contextlib.suppress(ConnectTrouble, CannotSplice, ValueError):
                text = config_file.read(target.path).text
                commands = entries.commands(target.kind.found(text, target.wanted))
            if commands:
                yield target.path, commands


def _connecting(target: Target) -> _Step:
    file = config_file.read(target.path, mode=target.mode)
    with _named(file.path):
        own = target.kind.found(file.text, target.wanted)
        fresh = target.kind.written(file.text, target.wanted)
        if fresh == file.text:
            return _Step(file, "unchanged", file.data)
        config_file.check_writable(file)
        action = "created" if file.data is None else "changed"
        keep = file.data is not None and not _is_kept(target, file, own, fresh)
        return _Step(file, action, fresh.encode("utf-8"), keep)


def _is_kept(target: Target, file: ConfigFile, own: Entries, fresh: str) -> bool:
    """Whether no backup is needed: the text before stet, and a person's additions, are known."""
    kind, wanted = target.kind, target.wanted
    if isinstance(kind, Whole):
        return True
    now = kind.found(fresh, wanted)
    if not own or any(now.get(path) != wanted[path] for path in wanted if path != clients.ALLOWED):
        return False
    text, backup = _remaining(kind, file, wanted)
    if text is None:  # a person's additions to the entries are nowhere else
        return kind.written("", kind.found(file.text, wanted)) == file.text
    return backup is not None


def _disconnecting(target: Target) -> _Step | None:
    file = config_file.read(target.path)
    if file.data is None:
        return None
    # Search comments, too, if the client reads none: stet's entry may be in the text anyway.
    kind = Json() if isinstance(target.kind, Json) else target.kind
    try:
        with _named(file.path):
            if not kind.found(file.text, target.wanted):
                return None
    except ConnectTrouble:
        if entries.NAME.encode() in file.data:
            raise
        return _Step(file, "unread", file.data)
    config_file.check_writable(file)
    with _named(file.path):
        text, spent = _remaining(kind, file, target.wanted)
    data = None if text is None else text.encode("utf-8")
    action = "removed" if data is None else "restored" if spent else "changed"
    return _Step(file, action, data, spent=spent)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Adds the file's name to errors of reading and changing it."""
    try:
        yield
    except (jsonc.NotJson, tomllib.TOMLDecodeError) as error:
        raise ConnectTrouble(
            f"{path} does not parse: {error}. Nothing was changed; mend it first."
        ) from error
    except CannotSplice as error:
        raise ConnectTrouble(
            f"{path}: {error}. Nothing was changed; rename or remove that by hand first, or put "
            "in what the command prints without --write."
        ) from error


def _carry_out(steps: Sequence[_Step]) -> list[Change]:
    path, changing = "", [step for step in steps if step.data != step.file.data]
    try:
        for step in changing:
            path = step.file.path
            if step.keep:
                step.backup = config_file.back_up(step.file)
            step.missing = config_file.missing_directories(path)
            config_file.replace(step.file, step.data)
            step.written = True
    except BaseException as error:
        failures = filter(None, map(_put_back, reversed(changing)))
        outcome = " ".join(failures) or "Nothing was changed."
        if isinstance(error, ConnectTrouble):
            raise ConnectTrouble(f"{str(error).rstrip('.')}. {outcome}") from error
        if isinstance(error, OSError):
            raise ConnectTrouble(f"{path} can't be written: {error.strerror}. {outcome}") from error
        raise
    return [Change(step.file.named, step.action, step.backup) for step in steps]


def _put_back(step: _Step) -> str:
    """Restore a file; returns a sentence for the person if that fails."""
    file, backup = step.file, step.backup
    try:
        now = config_file.read(file.path).data
        if now == step.data:
            config_file.replace(replace(file, data=now), file.data)
        elif step.written and now != file.data:
            raise ConnectTrouble("somebody else has written there since")
    except (OSError, ConnectTrouble) as error:
        before = f"; as it was before: {backup}" if backup else ""
        return f"{file.path} was written and not put back ({error}){before}."
    config_file.remove_directories(step.missing)
    if backup is not None:
        with contextlib.suppress(OSError):
            os.unlink(backup)
    return ""


def _inner_directories(request: Request, path: str) -> list[str]:
    """The client's own directories above a file, which may have been made for it.

    Links are not resolved: a directory that a link leads to was not made for it.
    """
    homes = filter(None, map(os.environ.get, clients.HOMES))
    outer = {os.path.abspath(each) for each in (request.project, *homes)}
    directories = []
    directory = os.path.dirname(os.path.abspath(path))
    while directory not in outer and any(directory.startswith(each + os.sep) for each in outer):
        directories.append(directory)
        directory = os.path.dirname(directory)
    return directories


def _remaining(
    kind: Format, file: ConfigFile, shape: Entries
) -> tuple[str | None, ConfigFile | None]:
    """A file's text without stet's entries, None if the file is to be removed; and the backup with
    that text, if there is one. Raises CannotSplice.
    """
    # The texts of readable backups from before stet was connected, the newest first.
    clean: dict[str, ConfigFile] = {}
    for backup in config_file.backups(file):
        with contextlib.suppress(ConnectTrouble, CannotSplice, ValueError):
            if not kind.found(backup.text, shape):
                clean.setdefault(backup.text, backup)
    left = kind.removed(file.text, shape, next(iter(clean), None))
    return left, None if left is None else clean.get(left)
