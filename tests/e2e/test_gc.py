"""Garbage collection beside work, asked for and by itself; killed wherever it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.running_daemon import ConnectionEnded, Gate, Refusal, Site, eventually, running
from stet.wire.failures import Kind


@pytest.fixture
def place() -> Iterator[Site]:
    """A daemon that packs a history soon after it has been left alone."""
    with running({"gc_idle_s": 0.3, "checkpoint_idle_s": 0.1}) as daemon:
        yield daemon.site("w")


def edited(site: Site, calls: int, start: int = 0) -> None:
    lines = [f"line {number} of a file that is edited often\n" for number in range(200)]
    for number in range(start, start + calls):
        lines[number * 7 % 200] = f"edit {number}\n"
        site.overwrite(f"src/{number % 3}.py", "".join(lines))


def loose(site: Site) -> list[Path]:
    found: list[Path] = []
    for directory in Path(site.shadow, "objects").glob("??"):
        with suppress(FileNotFoundError):  # the daemon has removed it meanwhile
            found += [path for path in directory.iterdir() if path.is_file()]
    return found


def git_log(site: Site) -> str:
    return site.git("log", "--format=%H %T", "-p", "history")


def test_gc_packs_the_history_and_changes_none_of_it(own_site: Site) -> None:
    site = own_site
    edited(site, 60)
    before = git_log(site)
    result = site.person.call("gc")
    assert result["bytes_after"] < result["bytes_before"] * 0.6
    assert loose(site) == []
    assert git_log(site) == before
    assert site.fsck() == ""
    verified = site.person.call("verify")
    assert (verified["ok"], verified["problems"]) == (True, [])
    again = site.person.call("gc")
    assert again["bytes_after"] == again["bytes_before"]
    site.agent.call("undo", last=60)
    assert not (site.root / "src/0.py").exists()
    site.restart()
    assert site.person.call("verify")["ok"] is True


def test_gc_is_the_persons_and_works_on_a_workspace_that_is_named(own_site: Site) -> None:
    assert own_site.agent.refusal("gc").kind == Kind.NOT_PERMITTED
    edited(own_site, 3)
    client = own_site.daemon.control()
    assert client.call("gc", workspace=str(own_site.root))["dropped"] == 0
    other = client.refusal("gc", workspace=str(own_site.root.parent))
    assert other.kind == Kind.WORKSPACE_NOT_ALLOWED


def test_a_history_left_alone_is_packed_by_itself(place: Site) -> None:
    for number in range(500):
        place.overwrite("more/a/b.txt", f"{number}\n")
        place.log(limit=1)  # makes Git follow at once, in loose objects; on a slow machine in packs
        if len(loose(place)) > 300:
            break
    assert eventually(lambda: not loose(place))
    assert place.fsck() == ""
    assert place.person.call("verify")["ok"] is True


def test_calls_go_on_beside_it_and_the_history_is_whole(own_site: Site) -> None:
    site = own_site
    edited(site, 150)
    busy = threading.Event()

    def collect() -> None:
        while not busy.is_set():
            site.person.call("gc")

    thread = threading.Thread(target=collect)
    thread.start()
    beside = site.greeted(site.daemon.control())
    try:
        for number in range(10):
            edited(site, 15, start=150 + 15 * number)
            assert beside.call("verify")["problems"] == []
    finally:
        busy.set()
        thread.join()
    assert len(site.git("rev-list", "history").split()) == 300
    assert site.fsck() == ""
    assert site.person.call("verify")["ok"] is True
    site.restart()
    assert site.person.call("verify")["ok"] is True


def test_a_damaged_history_is_not_collected(own_site: Site) -> None:
    site = own_site
    edited(site, 5)
    blob = site.git("rev-parse", "history~2:src/0.py").strip()
    Path(site.shadow, "objects", blob[:2], blob[2:]).unlink()
    before = sorted(loose(site))
    refusal = site.person.refusal("gc")
    assert refusal.kind == Kind.IO_ERROR
    assert blob in refusal.message
    assert sorted(loose(site)) == before


def test_an_object_that_goes_while_the_history_is_collected_is_damage(
    own_site: Site, tmp_path: Path
) -> None:
    site = own_site
    gate = Gate(tmp_path, "gc.before_pack")
    site.restart(**gate.environment)
    edited(site, 5)
    blob = site.git("rev-parse", "history~3:src/1.py").strip()  # of which a delta is to be made
    site.person.send("gc")
    gate.once_reached()
    Path(site.shadow, "objects", blob[:2], blob[2:]).unlink()
    gate.open()
    with pytest.raises(Refusal, match=f"the history is damaged: object {blob} is") as said:
        site.person.result_of(site.person.receive())
    assert said.value.kind == Kind.IO_ERROR


@pytest.mark.parametrize(
    "point",
    [
        "gc.before_pack",
        "gc.pack_written",
        "gc.pack_durable",
        "gc.before_removing",
        "git.pack_unindexed",
        "gc.removed_pack",
        "gc.removed_loose:2",
        "gc.swept",
    ],
)
def test_killed_in_the_middle_the_next_start_finds_all(own_site: Site, point: str) -> None:
    site = own_site
    edited(site, 20)
    site.person.call("gc")
    edited(site, 20, start=20)
    before = git_log(site)
    site.restart(STET_FAILPOINT=point)
    edited(site, 3, start=40)
    last = site.log(limit=1)[0]["commit"]
    with pytest.raises(ConnectionEnded):
        site.person.call("gc")
    assert site.daemon.wait() == -9
    site.daemon.start()
    site.connect()
    assert site.log(limit=1)[0]["commit"] == last
    assert git_log(site).endswith(before)
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    assert not list(Path(site.shadow, "objects/pack").glob("*.tmp"))
    site.person.call("gc")
    assert git_log(site).endswith(before)


def test_a_workspace_that_is_allowed_again_leaves_alone_what_is_being_written(
    own_site: Site,
) -> None:
    """A pack, say, whose writing goes on while the workspace is forgotten and allowed."""
    own_site.overwrite("a.txt", "one\n")
    own_site.log()
    staged = Path(own_site.shadow, "objects/pack/gc.pack.tmp")
    staged.write_bytes(b"PACK")
    person = own_site.daemon.control()
    person.call("workspace_forget", root=str(own_site.root))
    person.call("workspace_allow", root=str(own_site.root))
    assert staged.exists()
    own_site.daemon.restart()
    assert not staged.exists(), "what a killed daemon has left goes at the start"


def test_what_plain_git_derived_from_what_goes_goes_as_well(own_site: Site) -> None:
    site = own_site
    edited(site, 9)
    site.overwrite(".env", "secret\n")
    edited(site, 9)
    site.git("gc", "--quiet")
    site.git("commit-graph", "write", "--reachable")
    site.git("multi-pack-index", "write")
    edited(site, 9)
    site.person.call("gc")
    assert site.fsck() == ""
    site.git("commit-graph", "write", "--reachable", "--split")
    site.git("multi-pack-index", "write")
    site.person.call("forget", path=".env")
    assert site.fsck() == ""
    site.git("gc", "--quiet")
    assert site.person.call("verify")["problems"] == []
