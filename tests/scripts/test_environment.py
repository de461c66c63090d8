"""What the scripts install, and when they need not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.parametrize(
    ("there", "wanted", "installs"),
    [("dev", "none", False), ("dev", "dev", False), ("none", "dev", True), ("dev", "docs", True)],
)
def test_an_installation_serves_for_what_it_holds(
    there: str, wanted: str, installs: bool, tmp_path: Path
) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPTS / "environment.sh", tmp_path / "scripts")
    shutil.copy(SCRIPTS.parent / "pyproject.toml", tmp_path)
    script = f"""
        . scripts/environment.sh
        is_new_enough() {{ true; }}
        quietly() {{ :; }}
        find_checkout
        mkdir .venv
        made_from {there} >.venv/installed-{there}
        need_environment {wanted}
    """
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ("Installing" in done.stdout) is installs
    assert (" -e .[ui]" in done.stdout) is installs  # stet ui works after scripts/run
