"""What ``import stet`` loads and exports."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import stet
from stet.cli import doctor

LOADED = "import sys; before = set(sys.modules); import stet; print(*(set(sys.modules) - before))"


def test_importing_loads_the_standard_library_and_msgspec_only() -> None:
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    packages = {name.split(".")[0] for name in run.stdout.split()}
    # typing_extensions is loaded by msgspec itself.
    foreign = packages - set(sys.stdlib_module_names) - {"stet", "msgspec", "typing_extensions"}
    assert foreign == set()
    assert packages & {"asyncio", "pydantic", "pygit2", "rich", "stetd", "argparse"} == set()


@pytest.mark.parametrize(
    "name", ["aio.connect", "calls.patch", "errors.StetError", "OldTextNotFound", "connect"]
)
def test_what_is_documented_is_there_after_importing_stet_alone(name: str) -> None:
    program = f"import stet; stet.{name}"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, check=False)
    assert b"" == done.stderr


def test_everything_exported_is_there() -> None:
    assert [name for name in stet.__all__ if not hasattr(stet, name)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == stet.__version__


def test_doctor_looks_for_every_package_that_is_needed() -> None:
    root = Path(__file__).parents[2]
    needed = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    assert list(doctor._PACKAGES) == [each.partition(">=")[0] for each in needed]
