"""What all tests share: the rigs' findings at the end of the run, and that CI skips nothing."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import zlib
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import settings

import stet.session.methods  # noqa: F401 - before stetd, as a program of others
from rigs import findings

# A deadline for one example is a bet on how busy the machine is. What hangs ends with the test.
settings.register_profile("stet", deadline=None)
settings.load_profile("stet")

# See scripts/environment.sh; for those who run pytest by hand.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Who runs the tests in the background may have SIGINT ignored, which every process that they start
# would inherit; `stet watch` is ended by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKOUT = Path(__file__).parents[1]
#: Under this name a test's report says what its rig has found.
_FOUND = "findings"
_tallies: list[findings.Findings] = []

#: Directories of tests of which many take minutes, and files that take half a minute.
_LONGEST = (
    *("rigs", "recovery", "service", "mcp_server", "packaging", "scripts", "e2e"),
    *("real_clients", "historian", "fuzz", "ui", "hooks"),
    *("test_cli.py", "test_people.py", "test_refusals.py", "test_events.py", "test_spawn.py"),
    *("test_auditing_commands.py", "test_watch.py", "test_granting_commands.py"),
)
#: Files of one test that takes twenty seconds or more even in its short form: not in the sample.
_ONLY_FULL = (
    *("test_kth_write.py", "test_hostile_crowd.py", "test_directory_away.py", "test_socket.py"),
    *("test_excluded_files.py", "test_workspace_machine.py", "test_limits.py"),
)
#: The one that takes most of an hour when it is complete.
_FIRST = "test_kth_write.py"

#: What a reason to skip has to name in CI: the variable that asks for the long forms.
_LONG = "STET_TEST_ALL"


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What is not freed at once stays, to be counted by ``gc.collect``."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, or one process would be left alone with them."""
    if os.environ.get("STET_TEST_SAMPLE"):
        chosen = sampled(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    items.sort(key=lambda item: (item.path.name != _FIRST, item.path.parent.name not in _LONGEST))


def sampled(items: list[pytest.Item]) -> set[pytest.Item]:
    """What people run: a sixth of the tests of each long file, at least one, of each of these the
    first and the last row; all tests of the other files. The choice goes by names.
    """
    chosen: set[pytest.Item] = set()
    files: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if item.path.parent.name not in _LONGEST and item.path.name not in _LONGEST:
            chosen.add(item)
            continue
        if item.path.name in _ONLY_FULL:
            continue
        test = item.nodeid.partition("[")[0]
        files.setdefault(str(item.path), {}).setdefault(test, []).append(item)
    for tests in files.values():
        names = sorted(tests, key=lambda name: zlib.crc32(name.encode()))
        for name in names[: 1 + len(names) // 6]:
            chosen.update({tests[name][0], tests[name][-1]})
    return chosen


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


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
