"""The manual is what the program says, and man(1) has nothing to say against it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted((CHECKOUT / "man").glob("*.1"))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse prints options otherwise")
def test_it_is_made_from_the_program() -> None:
    script = CHECKOUT / "scripts" / "manual.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man here")
def test_pages_are_without_warnings() -> None:
    for page in PAGES:
        command = ["man", "--warnings", "--local-file", str(page)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""


def test_the_site_has_every_page() -> None:
    listed = (CHECKOUT / "mkdocs.yml").read_text()
    pages = {page.name for page in (CHECKOUT / "docs").glob("*.md")}

    assert {page for page in pages if f" {page}\n" not in listed} == set()
