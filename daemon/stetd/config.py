"""The daemon's options: what they are, their units and defaults, and where they come from.

A TOML file of flat ``key = value`` lines, overridden by environment variables ``STET_<KEY>``
(``STET_DURABILITY=relaxed``). The file is $STET_CONFIG, else $XDG_CONFIG_HOME/stet/config.toml,
else ~/.config/stet/config.toml; a file that does not exist means the defaults.

Unknown keys in the file are refused, so that a misspelt ``durabilty`` can't silently leave
the default. Unknown STET_* variables are not: STET_RUNTIME_DIR, STET_STATE_DIR, STET_CONFIG
and STET_BOOT_ID say where things are and are no options (see :mod:`stetd.directories`).

Settings are values and never change. A daemon that is told to read its configuration again
(:mod:`stetd.reloading`) gets new ones; the options in NEED_RESTART stay as they were.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from stet.wire.framing import DEFAULT_MAX_FRAME, UNLIMITED_FRAME
from stetd.history.excluding import fault_of
from stetd.history.protecting import DEFAULT_PATTERNS

_ENV_PREFIX = "STET_"
_MIB = 1024 * 1024

#: Options that a running daemon can't take over: calls journalled without a sync would lie below
#: calls that were promised to be durable.
NEED_RESTART = frozenset({"durability"})

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=0)]


class Settings(BaseModel):
    """Every option of the daemon. Frozen; made by :func:`load_settings`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    durability: Literal["full", "relaxed"] = Field(
        default="full",
        description="full: a reply is sent only when the call would survive a power cut. "
        "relaxed: it survives a kill of the daemon, but the last calls may be lost with power.",
    )
    default_mode: Literal["restricted", "unrestricted"] = Field(
        default="unrestricted",
        description="Mode of a new session; never above its workspace's mode.",
    )
    protected: tuple[str, ...] = Field(
        default=DEFAULT_PATTERNS,
        description="Files that programs run or obey later, as patterns of a .gitignore in the "
        "root of every workspace, in any letter case. (.git is never written, whatever this says.)",
    )
    protected_action: Literal["refuse", "flag", "allow"] = Field(
        default="refuse",
        description="What becomes of an agent's edit of such a file: refuse; flag: it is made, "
        "with a warning, and its commit says Stet-Flagged; allow. What the person does on "
        "control.sock is flagged at most.",
    )
    max_frame: int = Field(
        default=DEFAULT_MAX_FRAME,
        ge=1024,
        le=UNLIMITED_FRAME,
        description="Largest request, in bytes; a larger one is refused with frame_too_large.",
    )
    max_connections: int = Field(
        default=1200,
        ge=1,
        description="Open connections on agent.sock; further ones are answered overloaded. "
        "control.sock has as many of its own, so that agents can't shut the person out.",
    )
    max_pipelined: int = Field(
        default=64,
        ge=1,
        description="Requests of one connection in work at a time; more are left unread.",
    )
    max_held_bytes: int = Field(
        default=256 * _MIB,
        ge=_MIB,
        description="Bytes of requests that are being received or carried out and of replies that "
        "are not taken, of all connections together; beyond it the connection with the most is "
        "closed (overloaded).",
    )
    frame_timeout_s: PositiveSeconds = Field(
        default=30,
        description="Seconds that a peer may pause in the middle of a message, and may leave "
        "replies unread when they pile up, before its connection is closed.",
    )
    max_file_bytes: int = Field(
        default=64 * _MIB,
        ge=1,
        description="Largest file that is read or edited, in bytes (file_too_large).",
    )
    max_call_files: int = Field(
        default=2_000,
        ge=1,
        description="Files that one call may look at (input_too_large).",
    )
    max_call_bytes: int = Field(
        default=256 * _MIB,
        ge=1,
        description="Bytes of all files together that one call may read, and may write "
        "(input_too_large).",
    )
    max_clipboard_bytes: Bytes = Field(
        default=16 * _MIB,
        description="All clipboards of one session together, in bytes of UTF-8.",
    )
    grace_s: Seconds = Field(
        default=2.0,
        description="Seconds for which a replaced file is watched for late writes by programs "
        "that still had it open.",
    )
    checkpoint_bytes: int = Field(
        default=16 * _MIB,
        ge=64 * 1024,
        description="Bytes of journal after which a checkpoint is taken.",
    )
    checkpoint_idle_s: PositiveSeconds = Field(
        default=2.0,
        description="Seconds without a writing call after which a checkpoint is taken.",
    )
    idle_exit_s: Seconds = Field(
        default=0,
        description="Seconds without any connection after which the daemon ends; 0: never.",
    )
    request_record_calls: int = Field(
        default=10_000,
        ge=1,
        description="How many calls, at least, a request_id is remembered for.",
    )
    request_record_s: Seconds = Field(
        default=86_400,
        description="How many seconds, at least, a request_id is remembered for.",
    )
    snapshot_max_files: int = Field(
        default=100_000,
        ge=1,
        description="Files that a snapshot takes at most; it refuses a workspace with more.",
    )
    snapshot_max_bytes: Bytes = Field(
        default=2 << 30,
        description="Bytes of all files together that a snapshot takes at most.",
    )
    observe_max_files: int = Field(
        default=50_000,
        ge=1,
        description="Files of a workspace up to which it is looked at as a whole, before and "
        "after a shell command of an agent (stet hook).",
    )
    retention_days: int = Field(
        default=0,
        ge=0,
        description="Days after which commits are dropped, oldest first; 0: never. A pinned "
        "commit stays, and so do all after it.",
    )
    retention_mb: int = Field(
        default=0,
        ge=0,
        description="Size in MiB of one history beyond which its oldest commits are dropped; 0: "
        "any.",
    )
    gc_idle_s: Seconds = Field(
        default=60,
        description="Seconds without a writing call after which a history in which much lies "
        "about is packed; 0: only by stet gc.",
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Files whose contents are never kept, as patterns of a .gitignore in the root "
        'of every workspace, in any letter case: [".env", "*.pem", "secrets/"]. Edits of them '
        "can't be undone.",
    )
    notify: bool = Field(
        default=True,
        description="Whether a request for write access is told by a notification on the desktop.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Least severity that is logged; info has one line per call.",
    )

    @field_validator("exclude", "protected")
    @classmethod
    def _patterns_that_match(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            fault = fault_of(pattern)
            if fault is not None:
                raise ValueError(f"{pattern!r}: {fault}")
        return patterns


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an option can't be used. ``line`` of the file counts from 1; None: not from the file,
    or not to be found. ``key`` is "" where the file itself is at fault.
    """

    where: str
    line: int | None
    key: str
    reason: str

    def __str__(self) -> str:
        """One line: where, which key, why."""
        place = self.where if self.line is None else f"{self.where}, line {self.line}"
        return f"{place}: {self.reason}"


class ConfigurationError(Exception):
    """The options can't be used. The message has a line per fault: where, which key, why."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = list(faults)


def load_settings(path: str, *, must_exist: bool = False) -> Settings:
    """The options in the TOML file at ``path``, overridden by the environment.

    A missing file is an empty one unless ``must_exist``. Raises ConfigurationError.
    """
    text = read_file(path, must_exist=must_exist)
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = int(line[1]) if line else None
        raise ConfigurationError([Fault(path, number, "", f"not TOML: {error}")]) from error
    try:
        return Settings(**{**given, **_from_environment()})
    except ValidationError as error:
        faults = [_describe(fault, path, text) for fault in error.errors()]
        raise ConfigurationError(faults) from error


def read_file(path: str, *, must_exist: bool = False) -> str:
    """The text of the configuration file; "" if there is none. Raises ConfigurationError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError as error:
        if not must_exist:
            return ""
        reason = "there is no such configuration file"
        raise ConfigurationError([Fault(path, None, "", reason)]) from error
    except OSError as error:
        reason = f"can't be read: {error.strerror}"
        raise ConfigurationError([Fault(path, None, "", reason)]) from error
    except UnicodeDecodeError as error:
        reason = f"not UTF-8, from byte {error.start} on"
        raise ConfigurationError([Fault(path, None, "", reason)]) from error


def _from_environment() -> dict[str, object]:
    """What the environment says; a list there is JSON. An empty variable says something, too."""
    said: dict[str, object] = {}
    variables = {name.upper(): value for name, value in os.environ.items()}
    for key in Settings.model_fields:
        value = variables.get(variable_of(key))
        if value is None:
            continue
        said[key] = value
        if isinstance(Settings.model_fields[key].default, tuple):
            with suppress(ValueError):  # then it is refused, as no list
                said[key] = json.loads(value)
    return said


def variable_of(key: str) -> str:
    """The environment variable that overrides an option."""
    return _ENV_PREFIX + key.upper()


def is_in_environment(key: str) -> bool:
    """Whether the environment says what an option is; the case of the name does not matter."""
    return any(name.upper() == variable_of(key) for name in os.environ)


def line_of(text: str, key: str) -> int | None:
    """The line of a configuration file on which ``key`` is set, as far as it can be found."""
    setting = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    for number, line in enumerate(text.split("\n"), start=1):
        if setting.match(line):
            return number
    return None


def _describe(fault: ErrorDetails, path: str, text: str) -> Fault:
    key = str(fault["loc"][0]) if fault["loc"] else ""
    line = line_of(text, key)
    if fault["type"] == "extra_forbidden":
        return Fault(path, line, key, f"there is no option {key}.{_suggestion(key)}")
    reason = f"{fault['msg']} (not {fault['input']!r})"
    if is_in_environment(key):
        return Fault(f"environment variable {variable_of(key)}", None, key, reason)
    return Fault(path, line, key, f"{key}: {reason}")


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, Settings.model_fields, n=1)
    if close:
        return f" Did you mean {close[0]}?"
    return f" The options are: {', '.join(sorted(Settings.model_fields))}."
