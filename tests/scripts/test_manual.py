"""The manual is what the program says, and man(1) has nothing to say against it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stet.cli.arguments import COMMANDS
from stet.cli.parser import Parser
from stetd.cli import parser as daemon_parser

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted((CHECKOUT / "man").glob("*.1"))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse prints options otherwise")
def test_it_is_made_from_the_program() -> None:
    script = CHECKOUT / "scripts" / "manual.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_every_command_and_option_is_in_both() -> None:
    reference = (CHECKOUT / "docs" / "commands.md").read_text()
    said_once = reference.partition("\n## ")[0]
    own = [name for name in COMMANDS if name != "overview"]
    parsers = {name: Parser().parsers[name] for name in own} | {"stetd": daemon_parser()}
    for name, parser in parsers.items():
        page = "stetd.1" if name == "stetd" else f"stet-{name.split()[0]}.1"
        manual = (CHECKOUT / "man" / page).read_text().replace("\\-", "-")
        section = reference.partition(f"### {parser.prog}\n")[2].partition("\n#")[0]
        options = parser._option_string_actions
        assert {each for each in options if each not in said_once + section} == set(), name
        if "COMMAND ..." not in section:
            assert {each for each in options if each not in manual} == set(), name


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
