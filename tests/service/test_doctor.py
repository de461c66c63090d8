"""``stet doctor`` on broken installations (``broken.py``): each named, and mended as it says."""

from __future__ import annotations

import pytest

from service import private_manager

_WHY_NOT = private_manager.why_not()
pytestmark = [
    pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT)),
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize(
    "installation",
    [
        "stale_socket",
        "wrong_owner",
        "full_disk",
        "missing_unit",
        "login_without_variables",
        "newer_state",
        "bad_configuration",
        "no_runtime_directory",
        "corrupt_journal_tail",
        "dead_daemon_with_lock",
        "hung_daemon",
        "read_only_state",
        "read_only_disk",
    ],
)
def test_doctor_names_what_is_broken_and_how_to_mend_it(installation: str) -> None:
    try:
        private_manager.python("-m", "service.broken", installation, seconds=280)
    except private_manager.Skipped as skipped:
        pytest.skip(str(skipped))
