"""The service under a real ``systemd --user``: each test is a scenario of ``scenarios.py``."""

from __future__ import annotations

import os

import pytest

from service import private_manager

_WHY_NOT = private_manager.why_not()
pytestmark = [
    pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT)),
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize(
    "scenario",
    [
        "install_and_first_request",
        "hardened_day",
        "takes_over_from_a_started_daemon",
        "killed_in_full_flight",
        "restarted_under_load",
        "client_in_the_middle_of_a_restart",
        "hung_writer",
        "reloaded",
        "idle_daemon_ends_and_comes_back",
        "uninstalled",
        "odd_directories",
        "nothing_of_others_is_touched",
    ],
)
def test_service(scenario: str) -> None:
    everything = {"STET_TEST_ALL": "1"} if os.environ.get("STET_TEST_ALL") else {}
    private_manager.python("-m", "service.scenarios", scenario, seconds=800, **everything)
