"""Options: defaults, the file, the environment over the file, and faults with their place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import asdict

from stetd.config.settings import OPTIONS, ConfigurationError, Settings, load_settings
from stetd.history.protecting import DEFAULT_PATTERNS


@pytest.fixture(autouse=True)
def _no_options_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPTIONS:
        monkeypatch.delenv(f"STET_{name.upper()}", raising=False)


def write(directory: Path, text: str) -> str:
    path = directory / "config.toml"
    path.write_text(text)
    return str(path)


def fault(path: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path)
    return str(caught.value)


def test_defaults_are_these(tmp_path: Path) -> None:
    assert asdict(load_settings(str(tmp_path / "missing.toml"))) == {
        "durability": "full",
        "default_mode": "unrestricted",
        "protected": DEFAULT_PATTERNS,
        "protected_action": "refuse",
        "max_frame": 16 * 1024 * 1024,
        "max_connections": 1200,
        "max_pipelined": 64,
        "max_held_bytes": 256 * 1024 * 1024,
        "frame_timeout_s": 30,
        "max_file_bytes": 64 * 1024 * 1024,
        "max_call_files": 2_000,
        "max_call_bytes": 256 * 1024 * 1024,
        "max_clipboard_bytes": 16 * 1024 * 1024,
        "grace_s": 2.0,
        "checkpoint_bytes": 16 * 1024 * 1024,
        "checkpoint_idle_s": 2.0,
        "idle_exit_s": 0,
        "request_record_calls": 10_000,
        "request_record_s": 86_400,
        "snapshot_max_files": 100_000,
        "snapshot_max_bytes": 2 << 30,
        "observe_max_files": 50_000,
        "retention_days": 0,
        "retention_mb": 0,
        "gc_idle_s": 60,
        "notify": True,
        "exclude": (),
        "log_level": "info",
    }


@pytest.mark.parametrize("pattern", ["", "# secrets", "[a", "a\nb", "/"])
def test_a_pattern_that_excludes_nothing_is_refused_with_the_line(
    tmp_path: Path, pattern: str
) -> None:
    path = write(tmp_path, f'log_level = "info"\nexclude = [".env", {json.dumps(pattern)}]\n')
    assert f"line 2: exclude: Value error, {pattern!r}" in fault(path)


def test_every_option_is_described() -> None:
    assert [name for name, option in OPTIONS.items() if not option.description] == []


def test_environment_overrides_the_file_and_the_file_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 'durability = "relaxed"\nmax_frame = 4096\n')
    monkeypatch.setenv("STET_MAX_FRAME", "8192")
    settings = load_settings(path)
    assert (settings.durability, settings.max_frame) == ("relaxed", 8192)


def test_variables_that_say_where_things_are_are_no_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STET_RUNTIME_DIR", "STET_STATE_DIR", "STET_CONFIG", "STET_BOOT_ID"):
        monkeypatch.setenv(name, "x")
    assert load_settings(write(tmp_path, "")) == Settings()


def test_settings_can_not_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        setattr(Settings(), "max_frame", 5000)  # noqa: B010 - mypy knows that it can not be


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '# mine\n\ndurabilty = "full"\n',
            ", line 3: there is no option durabilty. Did you mean durability?",
        ),
        ("MAX_FRAME = 4096\n", ", line 1: there is no option MAX_FRAME. Did you mean max_frame?"),
        (
            "max_frame = 99999999999\n",
            ", line 1: max_frame: Input should be less than or equal to 4294967295 "
            "(not 99999999999)",
        ),
        (
            "max_frame = 4096\n[server]\nport = 1\n",
            ", line 2: there is no option server. The options are: ",
        ),
        ("max_frame = 4096\ngrace_s 2\n", ", line 2: not TOML: "),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text)
    assert fault(path).startswith(path + told)


def test_every_fault_is_told_on_its_own_line(tmp_path: Path) -> None:
    path = write(tmp_path, 'grace_s = -1\nmax_frame = "much"\ndurability = "half"\n')
    assert sorted(fault(path).split("\n")) == [
        f"{path}, line 1: grace_s: Input should be greater than or equal to 0 (not -1)",
        f"{path}, line 2: max_frame: Input should be a valid integer (not 'much')",
        f"{path}, line 3: durability: Input should be 'full' or 'relaxed' (not 'half')",
    ]


def test_fault_in_the_environment_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STET_MAX_CONNECTIONS", "0")
    path = write(tmp_path, "max_connections = 5\n")
    expected = (
        "environment variable STET_MAX_CONNECTIONS: "
        "Input should be greater than or equal to 1 (not '0')"
    )
    assert expected == fault(path)


@pytest.mark.parametrize("option", ["exclude", "protected"])
def test_a_pattern_with_a_byte_that_is_no_text_is_a_fault_and_not_a_crash_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv(f"STET_{option.upper()}", os.fsdecode(b'["a\xff"]'))
    assert f"environment variable STET_{option.upper()}: " in fault(write(tmp_path, ""))


@pytest.mark.parametrize("option", [o for o in OPTIONS if type(OPTIONS[o].default) in (int, float)])
def test_a_number_that_could_not_be_stored_is_refused(tmp_path: Path, option: str) -> None:
    path = write(tmp_path, f"{option} = 99999999999999999999\n")
    assert f"line 1: {option}: Input should be less than or equal to " in fault(path)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-0.1", '"soon"', "[]"])
def test_time_that_is_no_number_of_seconds_is_refused(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, f"frame_timeout_s = {value}\n")
    assert fault(path).startswith(f"{path}, line 1: frame_timeout_s: ")


def test_file_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    path = str(tmp_path / "config.toml")
    assert fault(path) == f"{path}: can't be read: Is a directory"
    (tmp_path / "latin.toml").write_bytes(b"# \xe4")
    path = str(tmp_path / "latin.toml")
    assert fault(path) == f"{path}: not UTF-8, from byte 2 on"


def test_missing_file_is_refused_only_when_it_was_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "missing.toml")
    assert load_settings(path) == Settings()
    with pytest.raises(ConfigurationError, match="there is no such configuration file"):
        load_settings(path, must_exist=True)
