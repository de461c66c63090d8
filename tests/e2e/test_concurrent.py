"""Many at once: the effect is that of one order, and that order is the history's."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

from e2e.running_daemon import PATIENCE_S, Client, Refusal, Site

AGENTS = 5
ROUNDS = 12
#: A program that forks with a session open, and edits in both processes at once.
FORKS = """
import os, stet

with stet.connect(session="forks", start=False) as s:
    child = os.fork()
    for number in range(20):
        done = s.patch(f"{os.getpid()}.txt", stet.append_eof(f"{number}\\n"))
        assert [file.path for file in done.files] == [f"{os.getpid()}.txt"]
        assert s.show(done.commit).peer.pid == os.getpid()
    assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


def at_once(work: list[Callable[[], None]]) -> None:
    """Run all of them in threads; fails if one of them fails."""
    errors: list[BaseException] = []

    def guarded(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[run]) for run in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def count_up(client: Client) -> None:
    """Add one to the number in the file, as often as it takes for ROUNDS successes."""
    done = 0
    while done < ROUNDS:
        read = client.call("read", path="count.txt")
        number = int(read["text"].split()[1])
        patches = [
            {
                "operation": "replace",
                "oldText": f"count {number}\n",
                "newText": f"count {number + 1}\n",
            }
        ]
        try:
            client.call("patch", path="count.txt", patches=patches, if_match=read["oid"])
        except Refusal as refusal:
            if refusal.kind != "stale":
                raise
        else:
            done += 1


def test_concurrent_agents_count_without_losing_one(site: Site) -> None:
    site.write("count.txt", "count 0\n")
    clients = [site.another(f"s{n}") for n in range(AGENTS)]
    at_once([lambda client=client: count_up(client) for client in clients])  # type: ignore[misc]
    total = AGENTS * ROUNDS
    assert site.bytes_of("count.txt") == f"count {total}\n".encode()
    edits = [each["commit"] for each in reversed(site.log(limit=1000)) if each["kind"] == "edit"]
    assert len(edits) == total
    for number, commit in enumerate(edits, start=1):
        assert site.git("show", f"{commit}:count.txt") == f"count {number}\n"
    assert site.fsck() == ""


def test_concurrent_undos_of_one_edit_succeed_once(site: Site) -> None:
    site.write("a.txt", "one\n")
    edit = site.replace("a.txt", "one", "two")["commit"]
    clients = [site.greeted(site.daemon.control()) for _ in range(AGENTS)]
    outcomes: list[str] = []

    def undo(client: Client) -> None:
        try:
            client.call("undo", commits=[edit])
        except Refusal as refusal:
            outcomes.append(refusal.kind)
        else:
            outcomes.append("undone")

    at_once([lambda client=client: undo(client) for client in clients])  # type: ignore[misc]
    assert sorted(outcomes) == ["nothing_to_undo"] * (AGENTS - 1) + ["undone"]
    assert site.bytes_of("a.txt") == b"one\n"


def test_agents_edit_while_a_person_saves_and_every_commit_is_exact(site: Site) -> None:
    """What an agent's commit changed is its own line, whatever somebody saved in between."""
    file = site.write("a.txt", "start\n")
    clients = [site.another(f"s{n}") for n in range(3)]
    running = threading.Event()
    running.set()
    saves = 0

    def save() -> None:
        nonlocal saves
        beside = file.with_name("beside")
        while running.is_set():
            saves += 1
            beside.write_bytes(file.read_bytes()[-2_000:] + b"saved %d\n" % saves)
            beside.rename(file)
            running.wait(0.002)

    def append(number: int, client: Client) -> None:
        for round_number in range(ROUNDS):
            patches = [{"operation": "append_eof", "newText": f"agent {number} {round_number}\n"}]
            try:
                client.call("patch", path="a.txt", patches=patches)
            except Refusal as refusal:
                if refusal.kind != "contended":
                    raise

    def edit_all() -> None:
        try:
            at_once([lambda n=n, c=c: append(n, c) for n, c in enumerate(clients)])  # type: ignore[misc]
        finally:
            running.clear()

    at_once([save, edit_all])
    log = site.log(limit=1000)
    for each in log:
        if each["kind"] != "edit":
            continue
        [change] = each["files"]
        before = site.git("cat-file", "blob", change["before"])
        after = site.git("cat-file", "blob", change["after"])
        added = after.removeprefix(before)
        assert after == before + added
        assert added.startswith("agent ")
        assert added.count("\n") == 1
    assert sorted(path.name for path in site.root.iterdir()) == ["a.txt"]
    standing = site.bytes_of("a.txt").decode()
    site.replace("a.txt", standing, "end\n")
    newest = site.log(limit=1)[0]
    assert site.git("cat-file", "blob", newest["files"][0]["before"]) == standing
    assert site.fsck() == ""


def test_a_process_that_forks_and_its_child_have_a_connection_each(site: Site) -> None:
    subprocess.run(
        [sys.executable, "-c", FORKS],
        cwd=site.root,
        env=site.daemon.environment,
        check=True,
        timeout=PATIENCE_S,
    )
    assert len(site.log()) == 40
