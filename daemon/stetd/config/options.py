"""What ``stetd --show-config`` and ``--check-config`` tell: every option, and where it is from.

For a person and for ``stet config``, which runs these as a process of its own: the client
loads nothing of the daemon's, and needs no running daemon to be told why none starts.

``--show-config`` gives ``{"path", "exists", "options": [..]}``, ``--check-config`` gives
``{"path", "ok", "faults": [..]}``, with entries as :class:`Option` and :class:`FaultInfo`.
"""

from __future__ import annotations

import os

import msgspec

from stetd.config.settings import (
    NEED_RESTART,
    OPTIONS,
    ConfigurationError,
    Settings,
    is_in_environment,
    line_of,
    load_settings,
    read_file,
    variable_of,
)

#: By the end of an option's name.
_UNITS = {"_s": "seconds", "_bytes": "bytes", "_mb": "MiB", "_days": "days", "_frame": "bytes"}


class Option(msgspec.Struct, frozen=True):
    """One option. ``source``: ``default``, ``file`` (then ``line``, from 1) or ``environment``.

    ``unit`` is "" for counts and choices. ``restart``: a running daemon can't take it over.
    """

    name: str
    value: object
    default: object
    source: str
    line: int | None
    variable: str
    unit: str
    restart: bool
    description: str


class Shown(msgspec.Struct, frozen=True):
    """All options as they are in force for a daemon that is started now."""

    path: str
    exists: bool
    options: list[Option]


class FaultInfo(msgspec.Struct, frozen=True):
    """As :class:`stetd.config.settings.Fault`; ``message`` is the whole of it in words."""

    where: str
    line: int | None
    key: str
    message: str


class Checked(msgspec.Struct, frozen=True):
    """What is wrong with a configuration file, and with the environment over it."""

    path: str
    ok: bool
    faults: list[FaultInfo]


def unit_of(name: str) -> str:
    """The unit of an option, by its name; "" for counts and choices."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def toml(value: object) -> str:
    """A value as it is written in the file; none has characters that TOML would escape."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def table() -> str:
    """Every option with default, unit and meaning, as the table in README.md."""
    rows = (
        f"| `{name}` | `{toml(field.default)}` | {unit_of(name)} | {field.description} |"
        for name, field in OPTIONS.items()
    )
    return "\n".join(["| key | default | unit | |", "|---|---|---|---|", *rows])


def show(path: str, *, must_exist: bool = False) -> Shown:
    """Every option. Raises ConfigurationError if they can't be used."""
    settings = load_settings(path, must_exist=must_exist)
    text = read_file(path)
    return Shown(path, os.path.exists(path), [_option(n, settings, text) for n in _names()])


def check(path: str, *, must_exist: bool = False) -> Checked:
    """What is wrong with the options, if anything."""
    try:
        load_settings(path, must_exist=must_exist)
    except ConfigurationError as error:
        found = [
            FaultInfo(fault.where, fault.line, fault.key, str(fault)) for fault in error.faults
        ]
        return Checked(path, ok=False, faults=found)
    return Checked(path, ok=True, faults=[])


def in_json(told: Shown | Checked) -> str:
    """The same as a line of JSON."""
    return msgspec.json.encode(told).decode()


def in_words(told: Shown | Checked) -> str:
    """The same for a person who runs stetd itself; ``stet config`` has its own words."""
    if isinstance(told, Checked):
        return f"{told.path}: ok" if told.ok else "\n".join(f.message for f in told.faults)
    lines = [f"# {told.path}{'' if told.exists else ' (not there)'}"]
    return "\n".join([*lines, *(f"{o.name} = {toml(o.value)}" for o in told.options)])


def _names() -> list[str]:
    return list(OPTIONS)


def _option(name: str, settings: Settings, text: str) -> Option:
    field = OPTIONS[name]
    line = line_of(text, name)
    source = "default" if line is None else "file"
    return Option(
        name=name,
        value=getattr(settings, name),
        default=field.default,
        source="environment" if is_in_environment(name) else source,
        line=None if is_in_environment(name) else line,
        variable=variable_of(name),
        unit=unit_of(name),
        restart=name in NEED_RESTART,
        description=field.description,
    )
