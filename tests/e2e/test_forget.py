"""Forgetting: after it nothing in the state holds what stood at the path; all else is as it was."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import re
import resource
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import in_process
from e2e.running_daemon import ConnectionEnded, Gate, Refusal, Site, eventually
from e2e.test_transaction_of_dialects import patch, replace
from historian.test_lost_historian import historian_of
from own_peer import own_peer
from stet.wire.failures import Kind, Refused
from stetd.processes.historian_client import Historian
from stetd.upkeep import forget
from unwritable import unwritable

SECRET = "hunter2-is-the-password"
OTHER = "correct-horse-battery"


def everything(site: Site) -> bytes:
    """All that the state directory holds: every file, and every object that git can find.

    What the daemon does in the background may remove a file, a directory or a pack that was just
    listed: then it is read again.
    """
    found: list[bytes] = []

    def is_read() -> bool:
        with suppress(FileNotFoundError, subprocess.CalledProcessError):
            found[:] = _read(site)
            return True
        return False

    assert eventually(is_read)
    return b"\n".join(found)


def _read(site: Site) -> list[bytes]:
    found = []
    for path in sorted(site.daemon.state.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            found.append(data)
            if re.fullmatch("[0-9a-f]{38}", path.name):
                found.append(zlib.decompress(data))
            if path.suffix == ".pack":
                found.append(inflated(data))
    command = ["git", "--git-dir", site.shadow, "cat-file", "--batch", "--batch-all-objects"]
    found.append(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def inflated(pack: bytes) -> bytes:
    """Whatever in a pack can be inflated, from wherever it may begin."""
    found = []
    for at in range(12, len(pack) - 20):
        if pack[at] & 0x0F == 8 and (pack[at] << 8 | pack[at + 1]) % 31 == 0:
            stream = zlib.decompressobj()
            try:
                found.append(stream.decompress(pack[at:], 1 << 20))
            except zlib.error:
                continue
    return b"\n".join(found)


def history_of(site: Site) -> dict[str, Any]:
    """A history with a secret in the middle; the ids of its commits."""
    ids: dict[str, Any] = {"before": site.overwrite("a.txt", "one\n")["commit"]}
    ids["pinned early"] = ids["before"]
    ids["secret"] = site.overwrite(".env", f"key = {SECRET}\n", request_id="r-secret")["commit"]
    ids["edit"] = site.replace("a.txt", "one", "two")["commit"]
    both = [
        (".env", replace(SECRET, OTHER, toClipboard="held")),
        ("b.txt", {"operation": "overwrite", "newText": "b\n"}),
    ]
    calls = [patch(path, each) for path, each in both]
    ids["both"] = site.agent.call("transaction", calls=calls)["commit"]
    ids["undone"] = site.overwrite("c.txt", "c\n")["commit"]
    ids["undo"] = site.agent.call("undo", commits=[ids["undone"]])["commit"]
    site.person.call("pin_set", name="late", commit=ids["both"])
    site.person.call("pin_set", name="early", commit=ids["before"])
    site.log(text=SECRET)
    return ids


def test_the_secret_is_nowhere_and_all_else_is_there(own_site: Site) -> None:
    site = own_site
    ids = history_of(site)
    assert SECRET.encode() in everything(site)
    (site.root / ".env").unlink()
    result = site.person.call("forget", path=".env", clipboards=True, message="a key")
    found = everything(site)
    assert SECRET.encode() not in found
    assert OTHER.encode() not in found
    assert (result["paths"], result["commits"], result["contents"]) == ([".env"], 2, 2)
    assert (result["contents_left"], result["in_workspace"]) == (0, [])
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    log = site.log(limit=100)
    assert [info["kind"] for info in log] == [
        "forget",
        "undo",
        "edit",
        "edit",
        "edit",
        "edit",
        "edit",
    ]
    assert log[0]["commit"] == result["commit"]
    assert ".env" in log[0]["message"]
    assert "a key" in log[0]["message"]
    assert log[0]["agent"] == "tester"
    assert log[-1]["commit"] == ids["before"], "what came before keeps its id"
    assert site.git("ls-tree", "-r", "--name-only", "history") == "a.txt\nb.txt\n"
    assert log[1]["reverts"] == [log[2]["commit"]]
    assert log[2]["reverted_by"] == log[1]["commit"]
    pins = {pin["name"]: pin["commit"] for pin in site.person.call("pin_list")["pins"]}
    assert pins == {"early": ids["before"], "late": log[3]["commit"]}
    site.restart()
    assert SECRET.encode() not in everything(site)
    assert site.person.call("verify")["problems"] == []
    assert site.ids(limit=100) == [info["commit"] for info in log]


def test_no_process_holds_what_was_removed(own_site: Site) -> None:
    """A pack takes space, and can be read, as long as somebody has it open."""
    site = own_site
    site.overwrite("d/a.txt", SECRET)
    site.overwrite("e/b.txt", "one\n")
    site.person.call("gc")
    site.restart()
    site.overwrite("d/c.txt", "one\n")  # the historian reads the tree of d
    site.log()
    site.person.call("forget", path="d/a.txt")
    engine = site.daemon.process.pid
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    for pid in [engine, *map(int, children)]:
        with suppress(FileNotFoundError):  # one that planned may have ended
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(FileNotFoundError):
                    assert ".pack (deleted)" not in os.readlink(f"/proc/{pid}/fd/{descriptor}")


def test_noted_ids_still_lead_to_their_commits(own_site: Site) -> None:
    site = own_site
    ids = history_of(site)
    site.person.call("forget", path=".env", clipboards=True)
    log = site.log(limit=100)
    shown = site.person.call("show", commit=ids["both"])
    assert shown["commit"] == log[3]["commit"] != ids["both"]
    assert [file["path"] for file in shown["files"]] == ["b.txt"]
    assert site.person.call("show", commit=ids["edit"][:10])["commit"] == log[4]["commit"]
    site.person.call("forget", path="b.txt")
    again = site.person.call("show", commit=ids["both"])
    assert again["commit"] not in (shown["commit"], ids["both"])
    assert again["files"] == []
    verified = site.person.call("verify", expect=ids["both"])
    assert [problem["kind"] for problem in verified["problems"]] == ["expect"]
    assert again["commit"] in verified["problems"][0]["message"]
    assert site.person.call("verify", expect=ids["before"])["ok"] is True


def test_what_was_forgotten_is_not_taken_back(own_site: Site) -> None:
    site = own_site
    ids = history_of(site)
    site.person.call("forget", path=".env", clipboards=True)
    before = site.picture()
    for commit in (ids["secret"], ids["both"]):
        refusal = site.person.refusal("undo", commits=[commit])
        assert refusal.kind == Kind.NOTHING_TO_UNDO
        assert ".env" in refusal.message
    refusal = site.person.refusal("restore", path=".env", at=ids["secret"])
    assert refusal.kind == Kind.FILE_NOT_FOUND
    assert site.person.refusal("read", path=".env", at=ids["secret"]).kind == Kind.FILE_NOT_FOUND
    assert site.person.refusal("undo", commits=[site.log(limit=1)[0]["commit"]]).kind == (
        Kind.NOTHING_TO_UNDO
    )
    assert site.picture() == before
    site.agent.call("undo")
    assert site.bytes_of("a.txt") == b"one\n"
    assert site.bytes_of(".env") == f"key = {OTHER}\n".encode()
    assert site.person.call("verify")["problems"] == []


def test_retries_are_answered_without_the_secret(own_site: Site) -> None:
    site = own_site
    history_of(site)
    site.person.call("forget", path=".env", clipboards=True)
    answer = site.overwrite(".env", f"key = {SECRET}\n", request_id="r-secret")
    assert answer["replayed"] is True
    assert answer["files"] == []
    assert site.person.call("show", commit=answer["commit"])["kind"] == "edit"


def test_a_preview_changes_nothing_and_clipboards_are_told_and_kept_unless_asked(
    own_site: Site,
) -> None:
    site = own_site
    history_of(site)
    held = site.agent.call("clipboard_get", name="held")["text"]
    assert SECRET in held
    site.agent.call("clipboard_set", name="more", text=f"x\nkey = {SECRET}\n")
    before = site.picture()
    preview = site.person.call("forget", path=".env", preview=True)
    assert (preview["commit"], preview["commits"], preview["rewritten"]) == (None, 2, 5)
    assert preview["in_workspace"] == [".env"]
    assert site.picture() == before
    assert preview["clipboards"] == [
        {"session": "conv-1", "clipboard": "held"},
        {"session": "conv-1", "clipboard": "more"},
    ]
    site.person.call("forget", path=".env")
    assert site.agent.call("clipboard_get", name="more")["text"] == f"x\nkey = {SECRET}\n"


def test_verify_waits_for_every_forget_that_was_sent_before(own_site: Site) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.rewritten")
    for path in ("a.txt", "b.txt"):
        site.overwrite(path, f"{SECRET} {path}\n")
    site.restart(**gate.environment)
    sent = [site.person.send("forget", path=path) for path in ("a.txt", "b.txt")]
    gate.once_reached()
    sent.append(site.person.send("verify"))
    site.person.until_begun()
    gate.open()
    replies = [site.person.receive() for _ in sent]
    assert [reply.id for reply in replies] == sent
    assert site.person.result_of(replies[-1])["problems"] == []


def test_clipboards_that_are_filled_beside_it_are_told_and_go(own_site: Site) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.rewritten")
    history_of(site)
    site.restart(**gate.environment)
    site.person.send("forget", path=".env", clipboards=True)
    gate.once_reached()
    site.agent.call("clipboard_set", name="late", text=f"key = {SECRET}\n")
    gate.open()
    reply = site.person.result_of(site.person.receive())
    assert [each["clipboard"] for each in reply["clipboards"]] == ["held", "late"]
    (site.root / ".env").unlink()
    assert SECRET.encode() not in everything(site)


def test_what_was_forgotten_can_be_written_again(own_site: Site) -> None:
    site = own_site
    site.overwrite("a.txt", f"{SECRET}\n")
    site.person.call("forget", path="a.txt")
    site.overwrite("b.txt", f"{SECRET}\n")
    assert site.git("show", "history:b.txt") == f"{SECRET}\n"
    site.overwrite("a.txt", "other\n")
    assert site.log(limit=2)[1]["message"] == "first seen: a.txt"
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []


def test_the_same_content_elsewhere_is_told_and_goes_if_asked(own_site: Site) -> None:
    site = own_site
    site.overwrite("keys/a.pem", f"{SECRET}\n")
    site.overwrite("copy.txt", f"{SECRET}\n")
    site.overwrite("other.txt", "other\n")
    site.overwrite("keys/b.pem", "of no other path\n")
    site.overwrite("copy.txt", "no more\n")
    for preview in (True, False):
        result = site.person.call("forget", path="keys", preview=preview)
        assert (result["paths"], result["also_at"], result["contents_left"]) == (
            ["keys/a.pem", "keys/b.pem"], [], 1,
        )  # fmt: skip
    assert (
        site.log(limit=1)[0]["message"] == "forget keys: 2 commits changed it, 5 commits rewritten"
    )
    site.overwrite("copy.txt", f"{SECRET}\n")
    site.overwrite("keys/c.pem", f"{SECRET}\n")
    result = site.person.call("forget", path="keys")
    assert (result["also_at"], result["contents_left"]) == (["copy.txt"], 1)
    assert site.log(limit=1)[0]["message"] == "forget keys: 1 commit changed it, 1 commit rewritten"
    assert SECRET.encode() in everything(site)
    for path in ("keys/a.pem", "keys/c.pem", "copy.txt"):
        os.unlink(site.root / path)
    result = site.person.call("forget", path="copy.txt", contents=True, preview=True)
    assert result["contents_left"] == 0
    result = site.person.call("forget", path="copy.txt", contents=True)
    assert SECRET.encode() not in everything(site)
    assert site.git("ls-tree", "-r", "--name-only", "history") == "other.txt\n"
    assert site.person.call("verify")["problems"] == []


def test_contents_go_at_any_path(own_site: Site) -> None:
    site = own_site
    site.overwrite("a/key", f"{SECRET}\n")
    site.overwrite("deep/er/copy", f"{SECRET}\n")
    site.overwrite("deep/other", "other\n")
    result = site.person.call("forget", path="a/key", contents=True)
    assert result["paths"] == ["a/key", "deep/er/copy"]
    assert SECRET.encode() not in everything(site)
    assert site.git("ls-tree", "-r", "--name-only", "history") == "deep/other\n"
    assert site.fsck() == ""


def test_a_path_that_the_history_never_had(own_site: Site) -> None:
    own_site.overwrite("a.txt", "x\n")
    before = own_site.picture()
    for path in ("nothing.txt", "a.txt/x", "nowhere/at/all"):
        kind = own_site.person.refusal("forget", path=path).kind
        assert kind in (Kind.FILE_NOT_FOUND, Kind.NOT_A_FILE)
    assert own_site.picture() == before


def test_a_damaged_reference_is_in_the_way(own_site: Site) -> None:
    site = own_site
    history_of(site)
    for name in ("refs/heads/mine", "refs/pins/mine"):
        damaged = Path(site.shadow, name)
        damaged.write_bytes(b"")
        refusal = site.person.refusal("forget", path=".env")
        assert (refusal.kind, name in refusal.message) == (Kind.IO_ERROR, True)
        [problem] = site.person.call("verify")["problems"]
        assert name in problem["what"]
        damaged.unlink()


def test_a_reference_that_keeps_the_old_history_is_in_the_way(own_site: Site) -> None:
    site = own_site
    history_of(site)
    tree = site.git("rev-parse", "history~2^{tree}").strip()
    site.git("tag", "light", "history~2")
    who = ("-c", "user.name=x", "-c", "user.email=x@stet.invalid")
    site.git(*who, "tag", "-a", "-m", "x", "heavy", tree)
    refusal = site.person.refusal("forget", path=".env")
    assert refusal.kind == Kind.CONFLICT
    assert "refs/tags/heavy" in refusal.message
    site.git("tag", "-d", "heavy")
    (site.root / ".env").unlink()
    site.person.call("forget", path=".env", clipboards=True)
    assert SECRET.encode() not in everything(site)
    assert site.fsck() == ""


@pytest.mark.parametrize(
    "point",
    ["forget.pack_written", "forget.rewritten", "checkpoint.recorded:2", "forget.before_record",
     "forget.recorded", "forget.references_moved", "forget.checkpointed", "forget.replies_changed",
     "gc.pack_durable", "git.pack_unindexed", "gc.swept"],
)  # fmt: skip
def test_killed_in_the_middle_it_is_the_old_history_or_the_new(own_site: Site, point: str) -> None:
    site = own_site
    history_of(site)
    (site.root / ".env").unlink()
    old = site.git("rev-parse", "history").strip()
    site.restart(STET_FAILPOINT=point)
    with pytest.raises(ConnectionEnded):
        site.person.call("forget", path=".env", clipboards=True)
    assert site.daemon.wait() == -9
    site.daemon.start()
    site.connect()
    assert site.person.call("verify")["problems"] == []
    head = site.log(limit=1)[0]
    if head["kind"] != "forget":
        assert head["commit"] == old
        site.person.call("forget", path=".env", clipboards=True)
    # Whatever was left to be done is done before this is.
    site.person.call("gc")
    assert SECRET.encode() not in everything(site)
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    log = site.log(limit=100)
    assert [info["kind"] for info in log].count("forget") == 1
    pins = {pin["name"]: pin["commit"] for pin in site.person.call("pin_list")["pins"]}
    assert pins == {"early": log[-1]["commit"], "late": log[3]["commit"]}
    site.restart()
    assert site.person.call("verify")["problems"] == []


Calling = Callable[..., Any]


@contextmanager
def with_a_secret(base: Path) -> Iterator[tuple[in_process.InProcess, Calling]]:
    """A daemon in this process, whose history has a secret; and the calls of a person."""
    root = base / "ws"
    root.mkdir()
    (root / ".env").write_text(f"key = {SECRET}\n")
    with in_process.running(base) as daemon:
        person = daemon.connect(control=True, peer=own_peer("test"))

        def call(method: str, **params: Any) -> Any:
            return asyncio.run(person.call(method, params))

        call("workspace_allow", root=str(root))
        call("hello", protocol=1, workspace=str(root), session="s")
        call("snapshot")
        yield daemon, call


def test_what_has_failed_before_the_switch_keeps_the_clipboards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were gone, and the refusal said that nothing was changed."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with with_a_secret(tmp_path) as (_, call):
        held = {"name": "held", "text": f"key = {SECRET}\n"}
        call("clipboard_set", **held)
        monkeypatch.setattr(forget, "PackStream", full)
        with pytest.raises(Refused, match="Nothing was changed"):
            call("forget", path=".env", clipboards=True)
        assert call("clipboard_get", name="held").text == held["text"]


def test_a_clipboard_that_is_stored_meanwhile_is_searched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_a_secret(tmp_path) as (daemon, call):
        agent = daemon.connect(control=True, peer=own_peer("agent"))
        hello = {"protocol": 1, "workspace": str(tmp_path / "ws"), "session": "s"}
        asyncio.run(agent.call("hello", hello))
        ask, asked = daemon.writer.historian.ask, list[str]()

        async def ask_and_store(question: str, *more: Any, **options: Any) -> Any:
            answer = await ask(question, *more, **options)
            asked.append(question)
            if asked.count("leave out") == 2:
                stored = {"name": "late", "text": f"key = {SECRET}\n"}
                await agent.call("clipboard_set", stored)
            return answer

        monkeypatch.setattr(Historian, "ask", staticmethod(ask_and_store))
        assert [each.clipboard for each in call("forget", path=".env").clipboards] == ["late"]


def test_what_has_failed_after_the_switch_is_finished_by_the_next(own_site: Site) -> None:
    """The secret would stay in packs and replies until the daemon is started again."""
    history_of(own_site)
    person = own_site.person
    in_the_way = own_site.daemon.state / "snapshots" / (Path(own_site.shadow).name + ".stat")
    in_the_way.mkdir(parents=True)
    refusal = person.refusal("forget", path=".env", clipboards=True)
    assert refusal.kind == Kind.IO_ERROR
    assert refusal.message == (
        "forget: the history is rewritten without .env, but this is not finished: "
        f"{in_the_way}: Is a directory. "
        "The next forget, or the next start of the daemon, finishes it."
    )
    assert SECRET.encode() in everything(own_site)
    in_the_way.rmdir()
    assert person.refusal("forget", path=".env").kind == Kind.FILE_NOT_FOUND  # it is done
    assert SECRET.encode() not in everything(own_site)
    assert person.call("verify")["problems"] == []


def test_what_the_disk_has_refused_after_the_switch_is_finished_by_the_next_start(
    own_site: Site,
) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.recorded")
    history_of(site)
    (site.root / ".env").unlink()
    site.restart(**gate.environment)
    site.person.send("forget", path=".env", clipboards=True)
    gate.once_reached()
    with unwritable(site.shadow):
        gate.open()
        with pytest.raises(Refusal, match="so the journal still holds what is to be forgotten"):
            site.person.result_of(site.person.receive())
    assert SECRET.encode() in everything(site)
    site.restart()
    assert eventually(lambda: SECRET.encode() not in everything(site))
    assert site.person.call("verify")["problems"] == []


def test_a_forget_whose_last_record_fails_does_not_say_that_nothing_was_changed(
    own_site: Site,
) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.replies_changed")
    history_of(site)
    site.restart(**gate.environment)
    site.person.send("forget", path=".env", clipboards=True)
    gate.once_reached()
    pid = site.daemon.process.pid
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))
    gate.open()
    with pytest.raises(Refusal, match=r"the history is rewritten without \.env") as refused:
        site.person.result_of(site.person.receive())
    assert "Nothing was changed" not in str(refused.value)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    site.restart()
    assert eventually(lambda: SECRET.encode() not in everything(site))


def test_a_forget_after_which_the_engine_can_not_read_the_history_says_what_has_changed(
    own_site: Site,
) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.replies_changed")
    history_of(site)
    site.restart(**gate.environment)
    site.person.send("forget", path=".env", clipboards=True)
    gate.once_reached()
    in_the_way = Path(site.shadow) / "shallow"
    in_the_way.mkdir()
    gate.open()
    with pytest.raises(Refusal, match=r"the history is rewritten without \.env") as refused:
        site.person.result_of(site.person.receive())
    assert "Nothing was changed" not in str(refused.value)
    in_the_way.rmdir()
    site.restart()
    assert eventually(lambda: SECRET.encode() not in everything(site))


def test_what_has_failed_after_the_switch_is_finished_where_it_is_allowed_again(
    own_site: Site,
) -> None:
    history_of(own_site)
    person, root = own_site.person, str(own_site.root)
    in_the_way = own_site.daemon.state / "snapshots" / (Path(own_site.shadow).name + ".stat")
    in_the_way.mkdir(parents=True)
    assert person.refusal("forget", path=".env", clipboards=True).kind == Kind.IO_ERROR
    person.call("workspace_forget", root=root)
    own_site.daemon.restart()
    in_the_way.rmdir()
    assert SECRET.encode() in everything(own_site)
    own_site.daemon.control().call("workspace_allow", root=root)
    assert eventually(lambda: SECRET.encode() not in everything(own_site))


def test_a_late_write_beside_it_does_not_bring_the_secret_back(own_site: Site) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.rewritten")
    file = site.root / ".env"
    site.overwrite(".env", f"key = {SECRET}\n")
    site.restart(**gate.environment)
    other = site.another("other")
    with file.open("ab", buffering=0) as held:
        site.person.send("forget", path=".env")
        gate.once_reached()  # what is written late is recorded when it begins
        other.overwrite(".env", "clean\n")
        held.write(b"late\n")
    gate.open()
    site.person.result_of(site.person.receive())
    time.sleep(2.2)  # longer than the grace period
    assert site.log()[0]["kind"] == "forget"
    assert SECRET.encode() not in everything(site)


def test_calls_beside_it_are_kept(own_site: Site) -> None:
    site = own_site
    for number in range(30):
        site.overwrite(f"{number % 3}.txt", f"{number}\n")
        site.overwrite(".env", f"{SECRET} {number}\n")
    other = site.another("conv-2")
    number = site.person.send("forget", path=".env")
    made = []
    for turn in range(40):
        patches = [{"operation": "overwrite", "newText": f"beside {turn}\n"}]
        made.append(other.call("patch", path="beside.txt", patches=patches)["commit"])
    reply = site.person.receive()
    assert reply.id == number
    assert site.person.result_of(reply)["commits"] == 30
    assert site.git("show", "history:beside.txt") == "beside 39\n"
    assert len(site.git("rev-list", "history").split()) == 60 + 40 + 1
    assert site.person.call("verify")["problems"] == []
    (site.root / ".env").unlink()
    assert Path(site.shadow, "rewritten").exists()
    assert site.person.call("show", commit=made[0])["kind"] == "edit"
    assert SECRET.encode() not in everything(site)


@contextmanager
def edited_all_the_time(site: Site) -> Iterator[list[str]]:
    """An agent that sends one edit after the other; the commits of those that were answered.

    It begins before the context does, and ends with it, or with the daemon.
    """
    agent, made, begun, ended = site.another("busy"), list[str](), threading.Event(), False

    def edit() -> None:
        with suppress(ConnectionEnded):
            while not ended:
                text = f"beside {len(made)}\n"
                made.append(agent.overwrite("beside.txt", text)["commit"])
                begun.set()

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        begun.wait(60)
        yield made
    finally:
        ended = True
        thread.join()


def long_history(site: Site, length: int) -> None:
    """A history with a secret in its middle."""
    for half in range(2):
        sent = []
        for number in range(length // 2):
            patches = [{"operation": "overwrite", "newText": f"{half} {number}\n"}]
            sent.append(site.agent.send("patch", path=f"{number % 7}/a.txt", patches=patches))
        for _ in sent:
            site.agent.result_of(site.agent.receive())
        if not half:
            site.overwrite(".env", f"key = {SECRET}\n")
    (site.root / ".env").unlink()


def test_it_ends_beside_an_agent_that_edits_all_the_time(own_site: Site) -> None:
    """It read the whole history again for each edit, and was refused after 20 times."""
    site, length = own_site, 2000
    long_history(site, length)
    first = site.git("rev-list", "history").split()[-1]
    site.person.call("pin_set", name="first", commit=first)
    with edited_all_the_time(site) as made:
        result = site.person.call("forget", path=".env")
    assert result["commits"] == 1
    assert site.git("rev-parse", f"history~{length + 1 + len(made)}").strip() == first
    assert site.git("show", "history:beside.txt") == f"beside {len(made) - 1}\n"
    for commit in (made[0], made[-1]):
        assert site.person.call("show", commit=commit)["kind"] == "edit"
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    site.person.call("gc")  # nothing is written to the repository while it is read
    assert SECRET.encode() not in everything(site)


@pytest.mark.parametrize(
    "point",
    ["forget.pack_written:2", "forget.before_record", "forget.recorded", "forget.references_moved"],
)
def test_killed_beside_an_agent_that_edits_all_the_time(own_site: Site, point: str) -> None:
    site = own_site
    long_history(site, 60)
    site.restart(STET_FAILPOINT=point)
    with edited_all_the_time(site) as made:
        with pytest.raises(ConnectionEnded):
            site.person.call("forget", path=".env")
        assert site.daemon.wait() == -9
    site.daemon.start()
    site.connect()
    assert site.person.call("verify")["problems"] == []
    if site.log(kind="forget") == []:
        site.person.call("forget", path=".env")
    site.person.call("gc")
    assert SECRET.encode() not in everything(site)
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    answered = [site.person.call("show", commit=commit)["commit"] for commit in made]
    log = site.git("rev-list", "--reverse", "history", "--", "beside.txt").split()
    assert log[: len(made)] == answered


def test_a_historian_that_is_lost_between_two_rounds_begins_again(own_site: Site) -> None:
    site, gate = own_site, Gate(own_site.daemon.base, "forget.rewritten")
    long_history(site, 60)
    site.restart(**gate.environment)
    with edited_all_the_time(site) as made:
        site.person.send("forget", path=".env")
        gate.once_reached()
        historian = historian_of(site.daemon)
        assert historian is not None
        os.kill(historian, signal.SIGKILL)
        gate.open()
        site.person.result_of(site.person.receive())
    assert site.git("show", "history:beside.txt") == f"beside {len(made) - 1}\n"
    assert len(site.git("rev-list", "history").split()) == 61 + len(made) + 1
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    assert SECRET.encode() not in everything(site)


@pytest.mark.parametrize("contents", [False, True])
def test_what_comes_after_the_first_look_is_rewritten_as_if_it_had_been_there(
    own_site: Site, contents: bool
) -> None:
    """Ids of before are known, and new contents of the path are looked for everywhere."""
    site, gate = own_site, Gate(own_site.daemon.base, "forget.rewritten")
    ids = history_of(site)
    copied = site.overwrite("copy.txt", "later a secret\n")["commit"]
    site.restart(**gate.environment)
    site.person.send("forget", path=".env", contents=contents)
    gate.once_reached()
    other, person = site.another("other"), site.greeted(site.daemon.control())
    site.agent.call("undo", commits=[ids["undo"]])
    other.overwrite(".env", "later a secret\n")
    last = other.overwrite("last.txt", "last\n")["commit"]
    person.call("pin_set", name="last", commit=last)
    person.call("pin_set", name="first", commit=ids["before"])
    gate.open()
    result = site.person.result_of(site.person.receive())
    assert (result["commits"], result["contents"]) == ((4, 3) if contents else (3, 3))
    assert result["paths"] == [".env", "copy.txt"] if contents else [".env"]
    assert result["contents_left"] == (not contents)
    log = site.log(limit=100)
    assert [info["kind"] for info in log] == ["forget", "edit", "edit", "undo", "edit", "undo"] + (
        ["edit"] * 5
    )
    assert log[3]["reverts"] == [log[5]["commit"]]
    assert log[4]["commit"] == person.call("show", commit=copied)["commit"] != copied
    pins = {pin["name"]: pin["commit"] for pin in person.call("pin_list")["pins"]}
    assert (pins["last"], pins["first"]) == (log[1]["commit"], ids["before"])
    left = {"a.txt", "b.txt", "c.txt", "last.txt"} | (set() if contents else {"copy.txt"})
    assert set(site.git("ls-tree", "-r", "--name-only", "history").split()) == left
    assert site.fsck() == ""
    assert person.call("verify")["problems"] == []


def test_if_edits_are_too_fast_it_says_how_to_stop_them_and_after_gc_it_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the refused one has written is gone by then."""
    with with_a_secret(tmp_path) as (_, call):
        with monkeypatch.context() as patched:
            patched.setattr(forget, "_ROUNDS", 0)
            how = re.escape(f"stet mode restricted -C {tmp_path / 'ws'}")
            with pytest.raises(Refused, match=how) as refused:
                call("forget", path=".env")
            assert refused.value.kind == Kind.CONTENDED
        call("gc")
        call("forget", path=".env")
        assert call("verify").problems == []


def test_a_call_may_need_again_what_is_being_removed(own_site: Site) -> None:
    """The forgotten directory is edited while its objects go: the new one is the same tree."""
    site, gate = own_site, Gate(own_site.daemon.base, "gc.before_removing")
    site.restart(**gate.environment)
    site.overwrite("a.txt", "one\n")
    site.overwrite(".env", f"{SECRET}\n")
    site.person.send("forget", path=".env")
    gate.once_reached()
    site.overwrite(".env", "other\n")
    gate.open()
    site.person.result_of(site.person.receive())
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []


def test_what_a_full_disk_has_left_of_a_write_goes_as_well(own_site: Site) -> None:
    """It stayed under its temporary name for good."""
    site = own_site
    site.overwrite("a.txt", "one\n")
    site.once_written()
    engine = site.daemon.process.pid
    [historian] = map(int, Path(f"/proc/{engine}/task/{engine}/children").read_text().split())
    unlimited = resource.prlimit(historian, resource.RLIMIT_FSIZE)
    resource.prlimit(historian, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
    site.overwrite(".env", f"key = {SECRET}\n" + random.Random(0).randbytes(9000).hex())
    assert eventually(lambda: list(Path(site.shadow).glob("objects/??/tmp_obj*")))
    for number in range(30):  # so many objects are written as a pack
        site.overwrite("a.txt", f"{number}\n")
    resource.prlimit(historian, resource.RLIMIT_FSIZE, unlimited)
    half = Path(site.shadow, "objects/pack/pack-1.pack")  # as of a historian that was killed
    for path in (half, half.with_suffix(".idx.tmp"), half.with_name("new.pack.tmp")):
        path.write_text(SECRET)
    (site.root / ".env").unlink()
    site.person.call("forget", path=".env")
    assert not [path for path in Path(site.shadow).rglob("*") if "tmp" in path.name]
    assert SECRET.encode() not in everything(site)
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []


def test_calls_wait_for_no_more_than_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is as it was, and the rest is done while they go on, however long it takes."""
    monkeypatch.setattr(forget, "_PAUSE_S", 0.05)
    with with_a_secret(tmp_path) as (daemon, call):
        agent = daemon.connect(control=True, peer=own_peer("agent"))
        hello = {"protocol": 1, "workspace": str(tmp_path / "ws")}
        asyncio.run(agent.call("hello", hello))
        ask, asked, edits = daemon.writer.historian.ask, list[str](), list[asyncio.Task[Any]]()

        def edit() -> None:
            patches = [{"operation": "overwrite", "newText": f"{len(edits)}\n"}]
            params = {"path": "a.txt", "patches": patches}
            edits.append(asyncio.ensure_future(agent.call("patch", params)))

        async def ask_slowly(question: str, *more: Any, **options: Any) -> Any:
            if question != "leave out":
                return await ask(question, *more, **options)
            asked.append(question)
            if len(asked) == 3:
                edit()
                for _ in range(20):  # turns of the loop
                    await asyncio.sleep(0)
                assert not edits[1].done()
                await asyncio.Event().wait()
            answer = await ask(question, *more, **options)
            if len(asked) == 2:
                edit()
                await edits[0]
            return answer

        monkeypatch.setattr(Historian, "ask", staticmethod(ask_slowly))
        assert call("forget", path=".env").rewritten == 3
        assert [edit.done() for edit in edits] == [True, True]
        assert call("verify").problems == []
