"""What all tests share: the rigs' findings at the end of the run, and that CI skips nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from dataclasses import asdict

import pytest
from hypothesis import settings

from rigs import findings

# A deadline for one example is a bet on how busy the machine is. What hangs ends with the test.
settings.register_profile("stet", deadline=None)
settings.load_profile("stet")

# See scripts/environment.sh; for those who run pytest by hand.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Who runs the tests in the background may have SIGINT ignored, which every process that they start
# would inherit; `stet watch` is ended by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Under this name a test's report says what its rig has found.
_FOUND = "findings"
_tallies: list[findings.Findings] = []

#: Directories of tests of which many take minutes.
_LONGEST = ("rigs", "recovery", "service", "mcp_server", "packaging", "scripts", "e2e")
#: The one that takes most of an hour when it is complete.
_FIRST = "test_kth_write.py"

#: What a reason to skip has to name in CI: the variable that asks for the long forms.
_LONG = "STET_TEST_ALL"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, or one process would be left alone with them."""
    items.sort(key=lambda item: (item.path.name != _FIRST, item.path.parent.name not in _LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send what a rig has found along; in CI, what can't be tried has failed."""
    report = yield
    if report.when == "teardown":
        vars(report)[_FOUND] = [asdict(tally) for tally in findings.ALL]
        findings.ALL.clear()
    if os.environ.get("CI") and report.skipped and isinstance(report.longrepr, tuple):
        *_, reason = report.longrepr
        if _LONG not in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped, which nothing is in CI: {reason}"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a rig has found: also that of a run which is ended before its end."""
    _tallies.extend(findings.Findings(**found) for found in vars(report).get(_FOUND, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what each rig tried and found."""
    if _tallies:
        terminalreporter.section("rigs")
        for tally in _tallies:
            terminalreporter.line(tally.line())
