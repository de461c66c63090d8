"""The MCP Inspector from npm, in its command-line mode: another implementation of the protocol.

Each run of it is a process that starts a server of its own, so it takes seconds. The usual run
lists in both eras, calls every tool in one of them, and has some refused; with STET_TEST_ALL=1
every tool is called, refused and undone in both. .ci/run installs the Inspector below .run/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import PATIENCE_S, Site
from mcp_server.test_sdk_client import edit_of

CHECKOUT = Path(__file__).parents[2]
INSPECTOR = CHECKOUT / ".run/inspector/node_modules/.bin/mcp-inspector"
FULL = os.environ.get("STET_TEST_ALL") == "1"
ERAS = ("legacy", "modern")
EDITS = ("patch", "patch_file", "patch_block", "apply_patch")
#: The Inspector's exit status when a tool's result is an error.
TOOL_ERROR = 5


@pytest.fixture(scope="module", autouse=True)
def inspector_works() -> None:
    """Skip where it is not installed, or made for a newer Node.js than there is."""
    try:
        subprocess.run([INSPECTOR, "--cli", "-V"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the MCP Inspector does not run here ({error}); .ci/run installs it")


def inspect(site: Site, era: str, *asked: str) -> tuple[int, Any, str]:
    """One run: the exit status, the result, and what went to standard error."""
    done = subprocess.run(
        [
            *(INSPECTOR, "--cli", sys.executable, "-P", "-m", "stet.cli", "mcp", "--structured"),
            *("--cwd", site.root, "--protocol-era", era, "--format", "json", "-q"),
            *("--connect-timeout", "120000"),
            *(f"-e{name}={value}" for name, value in passed_on(site).items()),
            *asked,
        ],
        env={**site.daemon.environment, "HOME": str(site.daemon.base)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    said = json.loads(done.stdout)["result"] if done.stdout else None
    return done.returncode, said, done.stderr


def passed_on(site: Site) -> dict[str, str]:
    """What the server needs of the environment; the Inspector hands on nothing else."""
    own = {key: value for key, value in site.daemon.environment.items() if key.startswith("STET_")}
    return {**own, "STET_SESSION": "inspected"}


def call(site: Site, era: str, tool: str, arguments: dict[str, Any]) -> tuple[int, Any, str]:
    given = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    return inspect(site, era, "--method", "tools/call", *given)


def succeeds(site: Site, era: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    status, result, complaint = call(site, era, tool, arguments)
    assert (0, "") == (status, complaint), (tool, result)
    assert result["isError"] is False
    structured: dict[str, Any] = result["structuredContent"]
    return structured


def is_refused(site: Site, era: str, tool: str, arguments: dict[str, Any]) -> str:
    """The kind of the error."""
    status, result, _ = call(site, era, tool, arguments)
    assert (status, result["isError"]) == (TOOL_ERROR, True)
    assert result["content"][0]["text"]
    kind: str = result["structuredContent"]["error"]["kind"]
    return kind


def chosen(things: list[tuple[str, Any]]) -> list[tuple[str, str, Any]]:
    """Each thing in both eras, or in the usual run in one of them, in turn."""
    if FULL:
        return [(era, *thing) for era in ERAS for thing in things]
    return [(ERAS[number % 2], *thing) for number, thing in enumerate(things)]


@pytest.mark.parametrize("era", ERAS)
def test_the_list_of_tools_is_understood_and_nothing_in_it_is_found_fault_with(
    era: str, site: Site
) -> None:
    status, result, complaint = inspect(site, era, "--method", "tools/list", "--strict")
    assert (0, "") == (status, complaint)
    assert 10 == len(result["tools"])


@pytest.mark.timeout(600)
def test_every_tool_that_edits_does_it_and_is_undone(site: Site) -> None:
    asked = chosen([(tool, edit_of(tool, f"{tool}.txt", "old", "new")) for tool in EDITS])
    with ThreadPoolExecutor(2) as some:
        for tool in EDITS:
            site.write(f"{tool}.txt", "old\n")
        for era in ERAS if FULL else ("one in each",):
            now = [each for each in asked if era in (each[0], "one in each")]
            results = list(some.map(lambda each: succeeds(site, *each), now))
            for _, tool, _ in now:
                assert site.bytes_of(f"{tool}.txt") == b"new\n"
            succeeds(site, now[0][0], "undo", {"commits": [each["commit"] for each in results]})
            for _, tool, _ in now:
                assert site.bytes_of(f"{tool}.txt") == b"old\n"


@pytest.mark.timeout(600)
def test_every_tool_that_tells_something_tells_it(site: Site) -> None:
    first = site.overwrite("a.txt", "1\n")["commit"]
    site.overwrite("a.txt", "2\n")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": "a.txt"}),
        ("log", {"limit": 1}),
        ("show", {"commit": first}),
        ("diff", {"from": first}),
        ("request_mode_upgrade", {"reason": "to edit"}),
    ]
    keys = {"read": "text", "log": "cursor", "show": "diff", "diff": "files"}
    with ThreadPoolExecutor(2) as some:
        some_results = some.map(lambda each: (each[1], succeeds(site, *each)), chosen(asked))
        for tool, result in some_results:
            assert result[keys.get(tool, "status")]


@pytest.mark.timeout(600)
def test_a_refusal_is_told_as_the_tools_error(site: Site) -> None:
    site.write("a.txt", "old\n")
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("apply_patch", edit_of("apply_patch", "a.txt", "odl", "new"), "old_text_not_found"),
        ("undo", {}, "nothing_to_undo"),
        ("patch", edit_of("patch", "a.txt", "odl", "new"), "old_text_not_found"),
        ("patch_file", edit_of("patch_file", "a.txt", "odl", "new"), "old_text_not_found"),
        ("patch_block", edit_of("patch_block", "a.txt", "odl", "new"), "old_text_not_found"),
        ("read", {"path": "b.txt"}, "file_not_found"),
        ("log", {"limit": 0}, "invalid_params"),
        ("show", {"commit": "ffff"}, "unknown_commit"),
        ("diff", {"from": "ffff"}, "unknown_commit"),
        ("request_mode_upgrade", {"wait": -1}, "invalid_params"),
    ][: None if FULL else 2]
    now = chosen([(tool, (arguments, kind)) for tool, arguments, kind in asked])
    with ThreadPoolExecutor(2) as some:
        kinds = list(some.map(lambda each: is_refused(site, each[0], each[1], each[2][0]), now))
    assert [kind for _, _, (_, kind) in now] == kinds
    assert site.bytes_of("a.txt") == b"old\n"
