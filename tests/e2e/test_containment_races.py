"""The races of rigs/test_races.py through a daemon's socket: names change while calls are made.

800 calls for each race in the usual run, 10,000 with STET_TEST_ALL=1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess, Refusal, Site, faultless
from rigs import findings
from rigs.swapping import PRECIOUS, arrange, picture, swapping, times_away

CALLS = 10_000 if os.environ.get("STET_TEST_ALL") else 800
#: Refusals that tell of a name that changed, and of nothing else.
EXPECTED = {
    *("contended", "path_outside_workspace", "not_a_file", "file_not_found", "conflict"),
    *("no_change", "nothing_to_undo", "already_exists", None),
}
_names = count(1)


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with faultless({"durability": '"relaxed"'}) as process:
        yield process


def call(site: Site, kind: str, number: int) -> str | None:
    """One of the calls that an agent might make; the kind of its refusal, None if it was made."""
    folder = "" if kind == "file" else "d/"
    path = f"{folder}new-{number % 32}" if number % 8 == 1 and kind == "directory" else f"{folder}f"
    try:
        if number % 8 == 3:
            assert site.agent.call("read", path=path)["text"].encode() != PRECIOUS
        elif kind == "moved":  # never makes the directory anew
            change = {"search": "[0-9]+", "replace": str(number), "regex": True}
            site.agent.call("patch_file", path=path, changes=[change])
        elif number % 8 == 5:
            site.agent.call("undo")
        else:
            site.overwrite(path, f"{number}\n")
    except Refusal as refusal:
        return refusal.kind
    return None


def escapes(base: Path, refused: list[str | None]) -> list[str]:
    """What happened to the directory while it was outside, and should not have."""
    found = []
    for away in times_away(base):
        number = away.operations // 2
        if away.touched:
            found.append(f"after call {number} the directory was touched")
        found += [f"{name} was left outside" for name in away.settled if ".stet-" in name]
        if away.operations % 2 == 0 or number >= len(refused) or number % 8 == 3:
            continue
        if refused[number] is None and away.at_once.get("f") != f"{number}\n":
            found.append(f"call {number} took effect after the directory had gone")
        if refused[number] is not None and away.settled.get("f") == f"{number}\n":
            found.append(f"call {number} was refused and took effect outside")
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["directory", "file", "moved"])
def test_nothing_outside_is_touched(daemon: DaemonProcess, kind: str) -> None:
    tally = findings.begin(f"races through the socket, {kind}")
    base = daemon.base / f"race-{next(_names)}"
    base.mkdir()
    workspace = arrange(base, kind)
    daemon.control().call("workspace_allow", root=str(workspace))
    site = Site(daemon, workspace, "conv-1")
    before = picture(base / "outside")
    refused = []
    with swapping(base, kind) as shared:
        for number in range(CALLS):
            shared.next_phase()
            refused.append(call(site, kind, number))
            assert refused[-1] in EXPECTED
            shared.next_phase()
    tally.points = CALLS
    made = refused.count(None)
    tally.notes.append(f"{shared.swaps} swaps, {CALLS - made} refused")
    assert made > 0
    if kind == "moved":
        assert escapes(base, refused) == []
    else:
        assert picture(base / "outside") == before
    assert list(base.rglob(".stet-*")) == []
    assert PRECIOUS.decode() not in site.git("log", "-p", "history")
    assert site.person.call("verify")["ok"]
