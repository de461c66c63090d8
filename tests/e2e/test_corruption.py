"""A history that is damaged at random: ``verify`` names it, and nothing crashes, hangs or lies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.damage import Damage, Vandal
from e2e.running_daemon import Client, Refusal, Site, running
from historian.test_lost_historian import historian_of
from rigs import findings

COMPLETE = bool(os.environ.get("STET_TEST_ALL"))
ROUNDS = 200 if COMPLETE else 40
#: What a refusal may say of a history that can't be read.
KINDS = {"io_error", "unknown_commit"}


@pytest.fixture(scope="module")
def damaged_site() -> Iterator[Site]:
    """A history of loose objects and three packs."""
    with running({"log_level": '"error"'}) as daemon:
        site = daemon.site("w")
        site.write("hand.txt", "by hand\n")
        site.log()
        historian = historian_of(daemon)
        assert historian is not None
        for burst in range(4):
            numbers = []
            os.kill(historian, signal.SIGSTOP)  # so that all of a burst is written at once
            for number in range(30 if burst < 3 else 8):
                path = f"d{number % 3}/e{number % 2}/f{number % 5}.txt"
                text = f"{burst} {number}\n" * 12
                patches = [{"operation": "overwrite", "newText": text}]
                numbers.append(site.agent.send("patch", path=path, patches=patches))
            for _ in numbers:
                site.agent.result_of(site.agent.receive())
            os.kill(historian, signal.SIGCONT)
            site.once_written()
            site.replace("hand.txt", "by hand\n", f"by hand\n{burst}\n")
            site.log(limit=1)
        site.agent.call("undo", last=3)
        site.write("hand.txt", "changed\n")
        site.replace("hand.txt", "changed", "again")
        site.agent.call("read", path="hand.txt", at="HEAD")
        site.once_written()
        vandal = Vandal(Path(site.shadow), seed=0)
        assert (len(vandal.packs(".pack")), len(vandal.loose()) > 10) == (3, True)
        yield site


@pytest.fixture
def whole(damaged_site: Site) -> Site:
    result = damaged_site.person.call("verify")
    assert (result["ok"], result["problems"], result["warnings"]) == (True, [], [])
    assert damaged_site.fsck() == ""
    return damaged_site


def attempts(site: Site) -> list[tuple[str, dict[str, Any]]]:
    """Calls that read all of the history, each kind in its own way."""
    commits = site.ids(limit=1000)
    return [
        ("log", {"limit": 1000}),
        ("log", {"limit": 1000, "text": "no such text"}),
        ("log", {"limit": 1000, "path": "d1"}),
        *(("show", {"commit": commit}) for commit in commits[::9]),
        ("show", {"commit": commits[-1][:7]}),
        ("diff", {"from": commits[-1], "to": "HEAD"}),
        ("diff", {}),
        *(("read", {"path": f"d1/e1/f{n}.txt", "at": "HEAD"}) for n in range(5)),
        ("read", {"path": "hand.txt", "at": "HEAD~30"}),
        ("undo", {"commits": [commits[-3]], "preview": True}),
        ("undo", {"last": 40, "preview": True}),
        ("rollback", {"to": commits[-3], "preview": True}),
    ]


def answer(client: Client, method: str, params: dict[str, Any]) -> tuple[str, str]:
    """How a call was answered: its error's kind, or "" and the result."""
    try:
        found = "", json.dumps(client.call(method, **params), sort_keys=True)
    except Refusal as refusal:
        found = refusal.kind, refusal.message
    return found


@pytest.mark.timeout(1200)
def test_damage_is_named_and_survived(whole: Site) -> None:
    site, daemon = whole, whole.daemon
    tally = findings.begin("corruption")
    calls = attempts(site)
    expected = [answer(site.person, method, params) for method, params in calls]
    vandal = Vandal(Path(site.shadow), seed=20261122)
    refusals = 0
    for round_ in range(ROUNDS):
        with vandal.damaged() as damage:
            check_round(site, damage, round_)
            refused = 0
            for (method, params), before in zip(calls, expected, strict=True):
                kind, text = answer(site.person, method, params)
                # The right answer, or a refusal that says what it is about; nothing else.
                if (kind, text) != before:
                    assert kind in KINDS, (round_, damage.what, method, params, kind, text)
                    assert "stet verify" in text or kind == "unknown_commit", text
                    refused += 1
            tally.points += 1
            refusals += refused
            assert daemon.process.poll() is None, (round_, damage.what)
    assert daemon.log() == ""
    tally.notes.append(f"every damage named, {refusals} reads refused, none wrong")
    assert refusals > ROUNDS
    # Nothing of it is left.
    result = site.person.call("verify")
    assert (result["ok"], result["problems"]) == (True, [])


def check_round(site: Site, damage: Damage, round_: int) -> None:
    result = site.person.call("verify")
    if damage.may_be_nothing and result["ok"]:
        assert site.fsck() == ""
        return
    assert not result["ok"], (round_, damage.what)
    assert damage.is_named(result["problems"]), (round_, damage.what, result["problems"][:5])
