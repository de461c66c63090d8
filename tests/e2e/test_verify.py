"""``verify`` through a real daemon: rights, agreement with git, beside writers, after forgeries."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Site, git


def verified(site: Site, **params: Any) -> dict[str, Any]:
    return site.person.call("verify", **params)


def fill(site: Site, count: int = 12) -> list[str]:
    return [site.overwrite(f"d{n % 3}/f.txt", f"{n}\n")["commit"] for n in range(count)]


def test_a_history_is_whole_and_git_agrees(site: Site) -> None:
    site.write("a.sh", "one\n", mode=0o755)
    edits = fill(site)
    site.replace("a.sh", "one", "two")
    site.agent.call("undo", commits=[edits[10]])
    site.agent.call("undo", last=2)
    site.agent.call("redo")
    result = verified(site)
    commits = site.git("rev-list", "history").split()
    objects = site.git("rev-list", "--objects", "--no-object-names", "history").split()
    assert (result["ok"], result["problems"], result["warnings"]) == (True, [], [])
    assert (result["commits"], result["head"]) == (len(commits), commits[0])
    assert result["objects"] >= len(objects)
    assert result["changed_outside"] == 0
    assert site.fsck() == ""


def test_what_was_changed_outside_since_is_counted_and_no_problem(site: Site) -> None:
    fill(site)
    site.write("d0/f.txt", "by hand")
    (site.root / "d1/f.txt").unlink()
    site.write("unknown.txt", "x")
    result = verified(site)
    assert (result["ok"], result["changed_outside"]) == (True, 2)


@pytest.mark.parametrize("expect", ["", "HEAD", "abc", "z" * 40, "a" * 41, 5, "A" * 40])
def test_what_is_expected_must_be_an_id(site: Site, expect: object) -> None:
    assert site.person.refusal("verify", expect=expect).kind == "invalid_params"


def test_an_empty_history_is_whole(site: Site) -> None:
    result = verified(site)
    assert (result["ok"], result["commits"], result["head"]) == (True, 0, None)
    assert not verified(site, expect="ab" * 20)["ok"]


def test_beside_writers_it_is_whole(site: Site) -> None:
    stop = threading.Event()
    made: list[int] = []

    def write(number: int) -> None:
        client = site.another(f"s{number}")
        count = 0
        while not stop.is_set():
            client.overwrite(f"d{number}/f{count % 5}.txt", f"{number} {count}\n")
            count += 1
        made.append(count)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    try:
        results = [verified(site) for _ in range(6)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert [result["problems"] for result in results] == [[]] * 6
    counts = [result["commits"] for result in results]
    assert counts == sorted(counts)
    assert verified(site)["commits"] == sum(made)


# -- forgeries that plain git finds nothing wrong with


def rewritten(site: Site, *drop: str) -> str:
    """The history without some commits, made again by plain git; its new head."""
    parent: list[str] = []
    head = ""
    for oid in reversed(git(site.shadow, "rev-list", "history").split()):
        if oid not in drop:
            content = git(site.shadow, "cat-file", "commit", oid)
            head_, _, rest = content.partition("\nauthor ")
            lines = [head_.split("\n")[0], *[f"parent {p}" for p in parent]]
            forged = "\n".join(lines) + "\nauthor " + rest
            head = subprocess.run(
                ["git", "--git-dir", site.shadow, "hash-object", "-t", "commit", "-w", "--stdin"],
                input=forged.encode("utf-8", "surrogateescape"),
                capture_output=True,
                check=True,
            ).stdout.decode().strip()  # fmt: skip
            parent = [head]
    git(site.shadow, "update-ref", "refs/heads/history", head)
    return head


def test_a_history_without_one_of_its_commits_is_noticed(own_site: Site) -> None:
    edits = fill(own_site)
    verified(own_site)
    rewritten(own_site, edits[5])
    assert own_site.fsck() == ""
    [problem] = verified(own_site)["problems"]
    assert problem["kind"] == "reference"
    own_site.restart()  # the journal knows better, and the reference goes back
    assert verified(own_site)["ok"]
    assert git(own_site.shadow, "rev-parse", "history").strip() == edits[-1]


def test_a_history_without_the_text_of_a_file_is_noticed(own_site: Site) -> None:
    edits = fill(own_site)
    verified(own_site)
    text = git(own_site.shadow, "rev-parse", f"{edits[5]}:d2/f.txt").strip()
    Path(own_site.shadow, "objects", text[:2], text[2:]).unlink()
    [problem] = verified(own_site)["problems"]
    assert (problem["kind"], problem["commit"]) == ("missing_object", edits[5])
    assert text in problem["message"]


def test_a_history_that_was_cut_off_is_noticed(own_site: Site) -> None:
    edits = fill(own_site)
    verified(own_site)
    git(own_site.shadow, "update-ref", "refs/heads/history", edits[3])
    git(own_site.shadow, "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
    problems = verified(own_site)["problems"]
    assert {problem["kind"] for problem in problems} == {"missing_object", "reference"}
    assert edits[-1] in problems[0]["message"]


def test_a_damaged_journal_is_noticed(own_site: Site) -> None:
    fill(own_site, 3)
    own_site.log()
    newest = max((own_site.daemon.state / "journal").glob("*.wal"))
    whole = newest.read_bytes()
    damaged = bytearray(whole)
    damaged[100] ^= 1
    newest.write_bytes(damaged)
    [problem] = verified(own_site)["problems"]
    assert problem["kind"] == "journal"
    assert newest.name in problem["message"]
    newest.write_bytes(whole)
    assert verified(own_site)["ok"]


def test_calls_on_a_damaged_history_are_refused_or_right_and_go_on_when_it_is_mended(
    own_site: Site,
) -> None:
    fill(own_site)
    tree = own_site.git("rev-parse", "history:d1").strip()
    own_site.restart()
    path = Path(own_site.shadow, "objects", tree[:2], tree[2:])
    path.rename(path.with_suffix(".away"))
    patches = [{"operation": "overwrite", "newText": "new\n"}]
    refusal = own_site.agent.refusal("patch", path="d1/f.txt", patches=patches)
    assert refusal.kind == "io_error"
    assert tree in refusal.message
    assert "stet verify" in refusal.message
    assert own_site.bytes_of("d1/f.txt") == b"10\n"
    assert own_site.overwrite("d0/f.txt", "goes on\n")["commit"]
    [problem] = verified(own_site)["problems"]
    assert (problem["kind"], problem["object"]) == ("missing_object", tree)
    path.with_suffix(".away").rename(path)
    assert own_site.overwrite("d1/f.txt", "new\n")["commit"]
    assert verified(own_site)["ok"]
