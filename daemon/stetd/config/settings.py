"""The daemon's options: types, defaults, descriptions, and reading them from file and environment.

The file is TOML, with flat ``key = value`` lines. Environment variables ``STET_<KEY>`` override it
(``STET_DURABILITY=relaxed``). Without a file the defaults hold.

Unknown keys in the file are refused, because a misspelt key would silently leave the default.
Unknown STET_* variables are ignored: STET_RUNTIME_DIR, STET_STATE_DIR, STET_CONFIG and STET_BOOT_ID
are not options.

SIGHUP and the method ``reload`` read the file again (:class:`Reloading`). If it can't be used, all
options stay as they are; the reason is in the log and in ``status``.

``stet config`` prints what ``stetd --show-config`` and ``--check-config`` say, because the client
must not import the daemon, and must tell also why the configuration keeps it from starting.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import math
import operator
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta

from stet.wire.framing import DEFAULT_MAX_FRAME, UNLIMITED_FRAME
from stet.wire.results import OptionChange, ReloadResult
from stetd.history.excluding import fault_of
from stetd.history.protecting import DEFAULT_PATTERNS

_log = logging.getLogger("stetd.configuration")
_MIB = 1024 * 1024

#: Options that need a restart. Durability: synced calls must not follow unsynced ones.
NEED_RESTART = frozenset({"durability"})

#: What TOML, msgpack and SQLite can hold; and 30,000 years, which clocks can be told to wait for.
_LARGEST, _LONGEST_S = 2**63 - 1, 1e12
_Count = Annotated[int, Meta(ge=1, le=_LARGEST)]
_Amount = Annotated[int, Meta(ge=0, le=_LARGEST)]
#: Small enough that the seconds, or the bytes, can be held.
_DaysOrMiB = Annotated[int, Meta(ge=0, le=10**12)]
_Seconds = Annotated[float, Meta(gt=0, le=_LONGEST_S)]
_SecondsOrZero = Annotated[float, Meta(ge=0, le=_LONGEST_S)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All options of the daemon, each with its description. Made by :func:`load_settings`."""

    durability: Annotated[
        Literal["full", "relaxed"],
        "full: a reply is sent only when the call would survive a power cut. "
        "relaxed: it survives a kill of the daemon, but the last calls may be lost with power.",
    ] = "full"
    default_mode: Annotated[
        Literal["restricted", "unrestricted"],
        "Mode of a new session; never above its workspace's mode.",
    ] = "unrestricted"
    protected: Annotated[
        tuple[str, ...],
        "Files that programs run or obey later, as patterns of a .gitignore in the root of every "
        "workspace, in any letter case. (.git is never written, whatever this says.)",
    ] = DEFAULT_PATTERNS
    protected_action: Annotated[
        Literal["refuse", "flag", "allow"],
        "What becomes of an agent's edit of such a file: refuse; flag: it is made, "
        "with a warning, and its commit says Stet-Flagged; allow. What the person does on "
        "control.sock is flagged at most.",
    ] = "refuse"
    max_frame: Annotated[
        int,
        Meta(ge=1024, le=UNLIMITED_FRAME),
        "Largest request, in bytes; a larger one is refused with frame_too_large.",
    ] = DEFAULT_MAX_FRAME
    max_connections: Annotated[
        _Count,
        "Open connections on agent.sock; further ones are answered overloaded. "
        "control.sock has as many of its own, so that agents can't shut the person out.",
    ] = 1200
    max_pipelined: Annotated[
        _Count, "Requests of one connection in work at a time; more are left unread."
    ] = 64
    max_held_bytes: Annotated[
        int,
        Meta(ge=_MIB, le=_LARGEST),
        "Bytes of requests that are being received or carried out and of replies that are not "
        "taken, of all connections together; beyond it the connection with the most is "
        "closed (overloaded).",
    ] = 256 * _MIB
    frame_timeout_s: Annotated[
        _Seconds,
        "Seconds that a peer may pause in the middle of a message, and may leave "
        "replies unread when they pile up, before its connection is closed.",
    ] = 30
    max_file_bytes: Annotated[
        _Count, "Largest file that is read, edited or made, in bytes (file_too_large)."
    ] = 64 * _MIB
    max_call_files: Annotated[_Count, "Files that one call may look at (input_too_large)."] = 2_000
    max_call_bytes: Annotated[
        _Count,
        "Bytes of all files together that one call may read, and may write (input_too_large).",
    ] = 256 * _MIB
    max_clipboard_bytes: Annotated[
        _Amount, "All clipboards of one session together, in bytes of UTF-8."
    ] = 16 * _MIB
    grace_s: Annotated[
        _SecondsOrZero,
        "Seconds for which a replaced file is watched for late writes by programs "
        "that still had it open.",
    ] = 2
    checkpoint_bytes: Annotated[
        int,
        Meta(ge=64 * 1024, le=_LARGEST),
        "Bytes of journal after which a checkpoint is taken.",
    ] = 16 * _MIB
    checkpoint_idle_s: Annotated[
        _Seconds, "Seconds without a writing call after which a checkpoint is taken."
    ] = 2
    idle_exit_s: Annotated[
        _SecondsOrZero, "Seconds without any connection after which the daemon ends; 0: never."
    ] = 0
    request_record_calls: Annotated[
        _Count, "How many calls, at least, a request_id is remembered for."
    ] = 10_000
    request_record_s: Annotated[
        _SecondsOrZero, "How many seconds, at least, a request_id is remembered for."
    ] = 86_400
    snapshot_max_files: Annotated[
        _Count, "Files that a snapshot takes at most; it refuses a workspace with more."
    ] = 100_000
    snapshot_max_bytes: Annotated[
        _Amount, "Bytes of all files together that a snapshot takes at most."
    ] = 2 << 30
    observe_max_files: Annotated[
        _Count,
        "Files of a workspace up to which it is scanned as a whole, before and "
        "after a shell command of an agent (stet hook).",
    ] = 50_000
    retention_days: Annotated[
        _DaysOrMiB,
        "Days after which commits are dropped, oldest first; 0: never. A pinned "
        "commit stays, and so do all after it.",
    ] = 0
    retention_mb: Annotated[
        _DaysOrMiB,
        "Size in MiB of one history beyond which its oldest commits are dropped; 0: any.",
    ] = 0
    gc_idle_s: Annotated[
        _SecondsOrZero,
        "Seconds without a writing call after which a history in which much lies "
        "about is packed; 0: only by stet gc, and retention does not run by itself.",
    ] = 60
    exclude: Annotated[
        tuple[str, ...],
        "Files whose contents are never kept, as patterns of a .gitignore in the root of every "
        'workspace, in any letter case: [".env", "*.pem", "secrets/"]. Edits of them '
        "can't be undone.",
    ] = ()
    notify: Annotated[
        bool, "Whether a request for write access is reported by a notification on the desktop."
    ] = True
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        "Least severity that is logged; info has one line per call.",
    ] = "info"


class Option(NamedTuple):
    """An option's type, default and bounds; ``expected`` says the type in words."""

    type: Any
    default: Any
    bounds: Meta
    expected: str
    description: str


def _options() -> dict[str, Option]:
    found = {}
    for info in msgspec.structs.fields(Settings):
        kind, *bounds, description = get_args(info.type)
        expected = _WANTED.get(get_origin(kind) or kind, "")
        if get_origin(kind) is Literal:
            choices = [f"'{choice}'" for choice in get_args(kind)]
            expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
        bound = bounds[0] if bounds else Meta()
        found[info.name] = Option(kind, info.default, bound, expected, description)
    return found


_WANTED = {
    int: "a valid integer",
    float: "a valid number",
    bool: "a valid boolean",
    tuple: 'a valid list of strings, such as ["*.pem"]',
}
_BOUNDS = {
    "ge": (operator.ge, "greater than or equal to"),
    "gt": (operator.gt, "greater than"),
    "le": (operator.le, "less than or equal to"),
}
#: Units by the suffix of an option's name.
_UNITS = {"_s": "seconds", "_bytes": "bytes", "_mb": "MiB", "_days": "days", "_frame": "bytes"}
#: Every option by its name.
OPTIONS = _options()


class Fault(msgspec.Struct, frozen=True):
    """An error in the configuration, as a line; ``key`` is "" if it is not about one option."""

    where: str
    line: int | None
    key: str
    message: str


def _fault(where: str, line: int | None, key: str, reason: str) -> Fault:
    place = where if line is None else f"{where}, line {line}"
    return Fault(where, line, key, f"{place}: {reason}")


class ConfigurationError(Exception):
    """The configuration has errors. The message has one line for each."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(fault.message for fault in faults))
        self.faults = list(faults)


def load_settings(path: str, *, must_exist: bool = False) -> Settings:
    """The options in the TOML file, overridden by the environment. Raises ConfigurationError."""
    import tomllib  # the child processes get settings, and read none

    text = _read_file(path, must_exist=must_exist)
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = int(line[1]) if line else None
        raise ConfigurationError([_fault(path, number, "", f"not TOML: {error}")]) from error
    environment = _from_environment()
    given |= environment
    values: dict[str, object] = {}
    faults = []
    for key, value in given.items():
        if key not in OPTIONS:
            close = difflib.get_close_matches(key.lower(), OPTIONS, n=1)
            hint = f"The options are: {', '.join(sorted(OPTIONS))}."
            reason = f"there is no option {key}. {f'Did you mean {close[0]}?' if close else hint}"
            faults.append(_fault(path, _line_of(text, key), key, reason))
            continue
        try:
            values[key] = _convert(OPTIONS[key], value)
        except ValueError as error:
            reason = f"{error} (not {value!r})"
            if key in environment:
                variable = f"environment variable {_variable_of(key)}"
                faults.append(_fault(variable, None, key, reason))
            else:
                faults.append(_fault(path, _line_of(text, key), key, f"{key}: {reason}"))
    if faults:
        raise ConfigurationError(faults)
    return Settings(**values)  # type: ignore[arg-type]


def _read_file(path: str, *, must_exist: bool = False) -> str:
    """The text of the configuration file; "" if there is none. Raises ConfigurationError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        if not must_exist:
            return ""
        reason = "there is no such configuration file"
    except OSError as error:
        reason = f"can't be read: {error.strerror}"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8, from byte {error.start} on"
    raise ConfigurationError([_fault(path, None, "", reason)])


def _from_environment() -> dict[str, object]:
    """The options in the environment; lists are JSON. An empty variable counts as set."""
    given: dict[str, object] = {}
    for key, option in OPTIONS.items():
        value = os.environ.get(_variable_of(key))
        if value is None:
            continue
        given[key] = value
        if isinstance(option.default, tuple):
            with suppress(ValueError):  # _convert refuses what is not a list
                given[key] = json.loads(value)
    return given


def _convert(option: Option, value: object) -> Any:
    """The value in the option's type, which may be given as a string. Raises ValueError."""
    try:
        converted = msgspec.convert(value, option.type, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"Input should be {option.expected}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ValueError("Input should be a finite number")
    for name, (holds, words) in _BOUNDS.items():
        bound = getattr(option.bounds, name)
        if bound is not None and not holds(converted, bound):
            raise ValueError(f"Input should be {words} {bound:.12g}")
    for pattern in converted if isinstance(converted, tuple) else ():
        fault = fault_of(pattern)
        if fault is not None:
            raise ValueError(f"Value error, {pattern!r}: {fault}")
    return converted


def _variable_of(key: str) -> str:
    """The environment variable that overrides an option."""
    return f"STET_{key.upper()}"


def _line_of(text: str, key: str) -> int | None:
    """The line of a configuration file on which ``key`` is set, as far as it can be found."""
    setting = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    lines = enumerate(text.split("\n"), start=1)
    return next((number for number, line in lines if setting.match(line)), None)


def unit_of(name: str) -> str:
    """The unit of an option; "" for counts and choices."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def show_settings(path: str, settings: Settings) -> dict[str, Any]:
    """Every option with its value, which was read from this file, and where that comes from."""
    text, environment = _read_file(path), _from_environment()
    options = []
    for name, option in OPTIONS.items():
        line = None if name in environment else _line_of(text, name)
        in_file = "default" if line is None else "file"
        options.append(
            {
                "name": name,
                "value": getattr(settings, name),
                "default": option.default,
                "source": "environment" if name in environment else in_file,
                "line": line,
                "variable": _variable_of(name),
                "unit": unit_of(name),
                "restart": name in NEED_RESTART,
                "description": option.description,
            }
        )
    return {"path": path, "exists": os.path.exists(path), "options": options}


class Reloading(msgspec.Struct):
    """The settings in force and their file; ``apply`` gives the daemon new settings."""

    path: str
    must_exist: bool
    settings: Settings
    apply: Callable[[Settings], None] = lambda _: None
    #: Why the last reload failed; None if it did not.
    error: str | None = None
    _lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    async def reload(self) -> ReloadResult:
        """Read the file again and apply it. Returns the changes, or the error."""
        async with self._lock:
            try:
                # In a thread: the disk of the file may hang.
                read = await asyncio.to_thread(load_settings, self.path, must_exist=self.must_exist)
            except ConfigurationError as error:
                self.error = str(error)
                _log.error("the configuration is not taken over, the old one stays: %s", error)
                return ReloadResult(self.path, [], [], self.error)
            return self._apply(read)

    def _apply(self, read: Settings) -> ReloadResult:
        old = self.settings
        kept = {name: getattr(old, name) for name in NEED_RESTART}
        restart = sorted(name for name in kept if getattr(read, name) != kept[name])
        new = msgspec.structs.replace(read, **kept)
        changed = [
            OptionChange(name, getattr(old, name), getattr(new, name))
            for name in OPTIONS
            if getattr(old, name) != getattr(new, name)
        ]
        self.error, self.settings = None, new
        if changed:
            self.apply(new)
        changes = ", ".join(f"{each.option} {each.before} to {each.after}" for each in changed)
        _log.info("configuration read again: %s", changes or "nothing has changed")
        for name in restart:
            _log.warning("%s needs a restart: it stays %s until then", name, kept[name])
        return ReloadResult(self.path, changed, restart, None)
