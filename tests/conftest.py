"""What all tests share: the rigs' findings at the end of the run."""

from __future__ import annotations

import pytest

from rigs import findings


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what each rig tried and found."""
    if findings.ALL:
        terminalreporter.section("rigs")
        for tally in findings.ALL:
            terminalreporter.line(tally.line())
