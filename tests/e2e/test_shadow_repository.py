"""The shadow repository, read with plain git. The user's own is in test_runs_nothing.py."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Site, eventually

VERSION = re.compile(r"^    Stet-Version: \S+\n", re.MULTILINE)


def test_git_log_shows_agent_session_method_and_an_exact_diff_for_each_call(site: Site) -> None:
    site.write("a.py", "one\n")
    first = site.replace("a.py", "one", "two", message="Because two\nis better.", request_id="r1")
    site.write("a.py", "two\nby hand\n")
    second = site.replace("a.py", "two", "three", request_id="r2")
    pid = os.getpid()
    command = Path(f"/proc/{pid}/comm").read_text().strip()
    text = site.git("log", "-p", "--format=full", "history")
    text = re.sub(r"^index .*\n", "", VERSION.sub("", text), flags=re.MULTILINE)

    def commit(oid: str, author: str, message: str, *trailers: str) -> str:
        head = f"commit {oid}\nAuthor: {author}\nCommit: stetd <stetd@stet.invalid>\n\n"
        body = "".join(f"    {line}\n" for line in [*message.split("\n"), "", *trailers])
        return head + body + "\n"

    def by_agent(request: str) -> list[str]:
        return [
            "Stet-Kind: edit",
            "Stet-Method: patch",
            "Stet-Agent: tester",
            "Stet-Session: conv-1",
            f"Stet-Request: {request}",
            f"Stet-Peer: {pid} {command}",
        ]

    agent, outside = "tester <agent@stet.invalid>", "outside <outside@stet.invalid>"
    change = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"
    assert text == (
        commit(second["commit"], agent, "patch a.py: 1 edit", *by_agent("r2"))
        + f"{change}@@ -1,2 +1,2 @@\n-two\n+three\n by hand\n\n"
        + commit(second["outside"], outside, "changed outside: a.py", "Stet-Kind: outside")
        + f"{change}@@ -1 +1,2 @@\n two\n+by hand\n\n"
        + commit(
            first["commit"],
            agent,
            "patch a.py: 1 edit\n\nBecause two\nis better.",
            *by_agent("r1"),
        )
        + f"{change}@@ -1 +1 @@\n-one\n+two\n\n"
        + commit(first["outside"], outside, "first seen: a.py", "Stet-Kind: outside")
        + "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n"
        + "@@ -0,0 +1 @@\n+one\n"
    )
    assert site.fsck() == ""


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_the_diff_of_a_reply_is_what_git_shows(site: Site, mode: int) -> None:
    site.write("a.py", "".join(f"line {n}\n" for n in range(50)), mode=mode)
    call: dict[str, Any] = {
        "path": "a.py",
        "patches": [
            {"operation": "replace", "oldText": "line 5\n", "newText": ""},
            {"operation": "replace", "oldText": "line 40\n", "newText": "LINE 40\nmore"},
        ],
        "request_id": "r",
    }
    result = site.agent.call("patch", **call)
    shown = site.git("show", "--format=", result["commit"])
    assert result["diff"] == shown
    assert site.agent.call("show", commit=result["commit"])["diff"] == shown
    assert site.agent.call("patch", **call)["diff"] == shown


def test_diffs_of_new_removed_and_changed_modes_are_what_git_shows(site: Site) -> None:
    def assert_shown(commit: str, diff: str) -> None:
        assert site.git("show", "--format=", commit) == diff
        assert site.agent.call("show", commit=commit)["diff"] == diff

    site.write("a.sh", "one\n", mode=0o755)
    first = site.replace("a.sh", "one", "two")
    (site.root / "a.sh").chmod(0o644)
    site.write("a.sh", "two\nby hand\n")
    second = site.replace("a.sh", "two", "three")
    (site.root / "a.sh").chmod(0o755)
    third = site.replace("a.sh", "three", "four")
    for result in (first, second, third):
        assert_shown(result["commit"], result["diff"])
    for outside in (first["outside"], second["outside"], third["outside"]):
        diff = site.git("show", "--format=", outside)
        assert site.agent.call("show", commit=outside)["diff"] == diff
    made = site.overwrite("b.txt", "x")
    assert_shown(made["commit"], made["diff"])
    undone = site.agent.call("undo")
    assert_shown(undone["commit"], undone["diff"])


def test_trailers_are_what_git_takes_for_trailers(site: Site) -> None:
    edit = site.overwrite("a.txt", "x\n", request_id="r")["commit"]
    site.agent.call("undo")
    trailers = site.git("log", "-1", "--format=%(trailers:key=Stet-Reverts,valueonly)", "history")
    assert trailers.strip() == edit
    assert site.git("log", "-1", "--format=%(trailers:key=Stet-Kind,valueonly)", edit).strip() == (
        "edit"
    )


FORGED = "Stet-Kind: outside\nStet-Agent: somebody-else\nStet-Session: conv-9\nStet-Request: forged"


@pytest.mark.parametrize(
    "why",
    [
        FORGED,
        f"Really.\n\n{FORGED}",
        f"Really.\n\n{FORGED}\n\n",
        f"{FORGED}\n\n\n\n",
        f"\r\n\r\n{FORGED}\r\n\r\n",
        f"x\r\r{FORGED}",
        f"---\n{FORGED}",
        "author root <root> 0 +0000\n\ncommit",
    ],
)
def test_a_body_cannot_forge_trailers(site: Site, why: str) -> None:
    commit = site.overwrite("a.txt", "x\n", message=why, request_id="real")["commit"]
    [info] = site.log()
    assert (info["kind"], info["agent"], info["session"], info["request"]) == (
        "edit",
        "tester",
        "conv-1",
        "real",
    )
    fields = [
        site.git("log", "-1", f"--format=%(trailers:key=Stet-{key},valueonly)", commit).strip()
        for key in ("Kind", "Agent", "Session", "Request")
    ]
    assert fields == ["edit", "tester", "conv-1", "real"]
    assert site.git("log", "-1", "--format=%an <%ae>", commit) == "tester <agent@stet.invalid>\n"
    assert site.fsck() == ""
    site.daemon.control().call("status")


@pytest.mark.parametrize("label", ["a <b@c> d", "Stet-Kind: outside", "ü ñ", "a" * 200, "..."])
def test_odd_labels_come_back_as_they_were(site: Site, label: str) -> None:
    client = site.another(label)
    site.greeted(client, session=label, agent=label)
    client.overwrite("a.txt", "x\n", request_id=label)
    [info] = site.log()
    assert (info["agent"], info["session"], info["request"]) == (label, label, label)
    assert site.fsck() == ""


def test_plain_git_sees_a_call_though_nobody_asks_the_daemon_for_it(site: Site) -> None:
    """Within a second, on a machine that has time."""
    commit = site.overwrite("a.txt", "x\n")["commit"]
    reference = Path(site.shadow) / "refs/heads/history"
    assert eventually(lambda: reference.exists() and reference.read_text().strip() == commit)
