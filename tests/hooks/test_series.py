"""Recorded series of hook payloads, replayed while the tools' changes are really made.

Each file of ``series/`` is written by us, in the shape that the client's documentation gives, and
that the real clients were seen to have. Each step has what the hook is told before and after a
tool, the shell command that stands for the tool, and the commits that come of it, oldest first,
here and in the ``other`` workspace (``$ROOT-other``). Afterwards every edit is taken back again.
"""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Site, files_below
from hooks.hooking import in_place, run_hook
from stet.agents.clients import CLIENTS

SERIES = sorted((Path(__file__).parent / "series").glob("*.json"))
#: Longer than it takes on a busy machine; the bounds have tests of their own.
PATIENT = ("--before", "50", "--after", "50")


def contents(site: Site) -> dict[str, tuple[int, bytes]]:
    """Path to mode and bytes; directories too, but not what .gitignore leaves out."""
    return {
        path: (mode, data)
        for path, (mode, _, data) in files_below(site.root).items()
        if path.split("/")[0] != "out"
    }


def new_commits(site: Site, known: int) -> list[dict[str, Any]]:
    """The commits after the first ``known`` ones, oldest first."""
    return list(reversed(site.log()))[known:]


def shape(commit: dict[str, Any]) -> list[Any]:
    files = sorted(commit["files"], key=lambda file: str(file["path"]))
    changes = [f"{file['status']} {file['path']}" for file in files]
    return [commit["kind"], commit["session"], changes]


@pytest.mark.parametrize("path", SERIES, ids=lambda path: path.stem)
def test_every_edit_of_a_series_is_in_the_log_attributed_and_undone(
    own_daemon: DaemonProcess, path: Path
) -> None:
    series = json.loads(path.read_text())
    site, other = own_daemon.site("w"), own_daemon.site("w-other")
    environment = in_place(series.get("environment", {}), site.root)
    for name, text in series["files"].items():
        site.write(name, text)
    stood: list[dict[str, tuple[int, bytes]]] = []
    known = known_of_other = 0
    hook = partial(run_hook, own_daemon)
    for step in in_place(series["steps"], site.root):
        before = contents(site)
        if step["before"] is not None:
            assert hook(step["before"], series["client"], *PATIENT, **environment) == ""
        assert contents(site) == before
        subprocess.run(["/bin/sh", "-c", step["shell"]], cwd=site.root, check=False)
        after = contents(site)
        if step["after"] is not None:
            assert hook(step["after"], series["client"], *PATIENT, **environment) == ""
        assert contents(site) == after
        made = new_commits(site, known)
        known += len(made)
        assert [shape(commit) for commit in made] == step["log"]
        made_there = new_commits(other, known_of_other)
        known_of_other += len(made_there)
        assert [shape(commit) for commit in made_there] == step.get("other", [])
        for commit in made:
            if commit["kind"] == "observed":
                stood.append(before)
                assert commit["method"] == "observed"
                assert commit["agent"] == series["client"]
                assert commit["subagent"] == step.get("subagent")
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""
    for before in reversed(stood):
        site.person.call("undo", last=1)
        assert contents(site) == before
    assert site.person.call("verify")["problems"] == []


@pytest.mark.parametrize("path", SERIES, ids=lambda path: path.stem)
def test_the_client_is_told_to_report_the_tools_of_a_series(path: Path) -> None:
    series = json.loads(path.read_text())
    hooks = CLIENTS[series["client"]].hooks
    recorded = [step for step in series["steps"] if step["log"]]
    for payload in [step[when] or {} for step in recorded for when in ("before", "after")]:
        if hooks and hooks.matcher and payload.get("hook_event_name") in hooks.events:
            assert re.fullmatch(hooks.matcher, payload["tool_name"])
