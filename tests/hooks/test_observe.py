"""``observe``: what an agent's own tools do is recorded as the agent's, and nothing else is."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from e2e.running_daemon import Site
from stet.wire.failures import Kind


def before(site: Site, use: str, *paths: str, **more: Any) -> dict[str, Any]:
    """The agent says that a tool is about to run; without paths on the whole workspace."""
    named = {"paths": list(paths)} if paths else {}
    return site.agent.call("observe", phase="before", tool="Edit", use=use, **named, **more)


def after(site: Site, use: str, *paths: str, **more: Any) -> dict[str, Any]:
    """And that it has run."""
    named = {"paths": list(paths)} if paths else {}
    call = {"phase": "after", "tool": "Edit", "use": use, "request_id": use, **named, **more}
    return site.agent.call("observe", **call)


def told(site: Site, **filters: Any) -> list[tuple[str, str | None, list[str]]]:
    """The log, oldest first: kind, session, and what became of which file."""
    return [
        (each["kind"], each["session"], [f"{f['status']} {f['path']}" for f in each["files"]])
        for each in reversed(site.log(**filters))
    ]


def whole(site: Site) -> None:
    """Nothing in the history is damaged."""
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""


def test_an_edit_is_the_agents_and_what_stood_there_nobodys(site: Site) -> None:
    file = site.write("a.py", "one\n")
    first = before(site, "t1", "a.py")
    assert (first["commit"], first["files"], first["warnings"]) == (None, [], [])
    file.write_text("two\n")
    done = after(site, "t1", str(file), message="because")
    [own, found] = site.log()
    assert [done["commit"], first["outside"]] == [own["commit"], found["commit"]]
    assert (own["kind"], own["method"], own["agent"], own["session"], own["request"]) == (
        "observed", "observed", "tester", "conv-1", "t1",
    )  # fmt: skip
    assert own["message"] == "observed Edit: a.py\n\nbecause"
    assert told(site) == [("outside", None, ["A a.py"]), ("observed", "conv-1", ["M a.py"])]
    shown = site.agent.call("show", commit=done["commit"])["diff"]
    assert "-one\n+two\n" in shown
    [line] = site.agent.call("blame", path="a.py")["lines"]
    assert (line["text"], line["kind"], line["session"]) == ("two\n", "observed", "conv-1")
    assert "Stet-Kind: observed\nStet-Method: observed\n" in site.git(
        "log", "-1", "--format=%B", "history"
    )
    whole(site)


def test_an_observed_edit_is_undone_by_the_agent_whose_it_is(site: Site) -> None:
    file = site.write("a.py", "one\n")
    before(site, "t1", "a.py")
    file.write_text("two\n")
    commit = after(site, "t1", "a.py")["commit"]
    assert site.another("conv-2").refusal("undo", commits=[commit]).kind == Kind.NOT_PERMITTED
    assert site.agent.call("undo")["undone"] == [commit]
    assert file.read_bytes() == b"one\n"
    site.agent.call("redo")
    assert file.read_bytes() == b"two\n"
    whole(site)


def test_a_new_file_in_a_new_directory_goes_with_its_directory_when_it_is_undone(
    site: Site,
) -> None:
    before(site, "t1", "new/deep/a.py")
    site.write("new/deep/a.py", "made\n")
    done = after(site, "t1", "new/deep/a.py")
    assert [(f["path"], f["status"]) for f in done["files"]] == [("new/deep/a.py", "A")]
    assert told(site) == [("observed", "conv-1", ["A new/deep/a.py"])]
    site.agent.call("undo")
    assert list(site.root.iterdir()) == []
    whole(site)


def test_a_file_of_which_nothing_is_known_is_not_taken_for_the_tools(site: Site) -> None:
    site.write("a.py", "somebody's\n")
    done = after(site, "t1", "a.py")
    assert (done["commit"], done["files"]) == (None, [])
    assert "a.py" in done["warnings"][0]
    assert told(site) == [("outside", None, ["A a.py"])]
    assert site.agent.refusal("undo").kind == Kind.NOTHING_TO_UNDO


@pytest.mark.parametrize(("old", "new"), [("d/x", "d"), ("d", "d/x")])
def test_a_file_and_a_directory_of_which_nothing_is_known_change_places_in_one_commit(
    site: Site, old: str, new: str
) -> None:
    site.overwrite(old, "known\n")
    (os.unlink if old == "d" else shutil.rmtree)(site.root / "d")
    site.write(new, "somebody's\n")
    done = after(site, "t1", new)
    assert (done["commit"], done["files"]) == (None, [])
    assert "changed outside: d, d/x" == site.log()[0]["message"]
    files = sorted([f"A {new}", f"D {old}"], key=lambda told: told[2:])
    assert told(site)[1:] == [("outside", None, files)]
    whole(site)


def test_a_shell_command_that_does_everything(site: Site) -> None:
    site.write("changed.txt", "old\n")
    site.write("deleted.txt", "gone\n", mode=0o600)
    site.write("old-name.txt", "moved\n")
    site.write("script.sh", "#!/bin/sh\n")
    site.write("dir/inner.txt", "inner\n")
    site.write("kept.txt", "kept\n")
    site.write("build/ignored.o", "not looked at\n")
    site.write(".gitignore", "build/\n")
    (site.root / "link").symlink_to("kept.txt")
    stood = {p: (site.root / p).read_bytes() for p in ("changed.txt", "deleted.txt", "script.sh")}
    first = before(site, "t1")
    assert (first["complete"], first["warnings"]) == (True, [])
    site.write("changed.txt", "new\n")
    (site.root / "deleted.txt").unlink()
    (site.root / "old-name.txt").rename(site.root / "new-name.txt")
    (site.root / "script.sh").chmod(0o755)
    shutil.rmtree(site.root / "dir")
    site.write("made/a.txt", "made\n")
    site.write("build/ignored.o", "still not\n")
    (site.root / "link").unlink()
    (site.root / "link").symlink_to("changed.txt")
    done = after(site, "t1")
    assert sorted((f["status"], f["path"]) for f in done["files"]) == [
        ("A", "made/a.txt"), ("D", "deleted.txt"), ("D", "dir/inner.txt"), ("M", "changed.txt"),
        ("M", "link"), ("M", "script.sh"), ("R", "new-name.txt"),
    ]  # fmt: skip
    assert [kind for kind, _, _ in told(site)] == ["outside", "observed"]
    whole(site)
    site.agent.call("undo")
    assert {p: (site.root / p).read_bytes() for p in stood} == stood
    assert (site.root / "deleted.txt").stat().st_mode & 0o777 == 0o600
    assert (site.root / "script.sh").stat().st_mode & 0o777 == 0o644
    assert (site.root / "old-name.txt").read_bytes() == b"moved\n"
    assert (site.root / "dir/inner.txt").read_bytes() == b"inner\n"
    assert os.readlink(site.root / "link") == "kept.txt"
    assert not (site.root / "made").exists()
    assert not (site.root / "new-name.txt").exists()
    assert (site.root / "build/ignored.o").read_bytes() == b"still not\n"
    whole(site)


def test_what_a_person_saved_before_the_command_is_not_the_commands(site: Site) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1")
    after(site, "t1")
    site.write("a.txt", "by a person\n")
    before(site, "t2")
    site.write("b.txt", "by the command\n")
    after(site, "t2")
    assert told(site) == [
        ("outside", None, ["A a.txt"]),
        ("outside", None, ["M a.txt"]),
        ("observed", "conv-1", ["A b.txt"]),
    ]


def test_a_command_of_which_nobody_told_before_claims_nothing(site: Site) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1")
    site.write("a.txt", "by anybody\n")
    done = after(site, "t2")
    assert (done["commit"], done["files"]) == (None, [])
    assert len(done["warnings"]) == 1
    assert told(site) == [("outside", None, ["A a.txt"])]


def test_a_command_that_is_run_again_unannounced_claims_nothing(site: Site) -> None:
    unnamed = {"request_id": None}  # as of a client whose uses of tools have no ids
    site.write("a.txt", "one\n")
    before(site, "make")
    site.write("a.txt", "by the command\n")
    after(site, "make", **unnamed)
    site.write("a.txt", "by a person\n")
    site.write("notes.txt", "by a person\n")
    assert after(site, "make", **unnamed)["untold"]
    before(site, "make")
    site.write("b.txt", "by the command\n")
    after(site, "make", **unnamed)
    assert told(site)[1:] == [
        ("observed", "conv-1", ["M a.txt"]),
        ("outside", None, ["M a.txt", "A notes.txt"]),
        ("observed", "conv-1", ["A b.txt"]),
    ]


def test_what_another_call_has_committed_meanwhile_is_not_claimed(site: Site) -> None:
    site.write("a.txt", "one\ntwo\nthree\n")
    before(site, "t1")
    other = site.another("conv-2")
    patches = [{"operation": "replace", "oldText": "three", "newText": "THREE"}]
    other.call("patch", path="a.txt", patches=patches)
    (site.root / "a.txt").write_text("ONE\ntwo\nTHREE\n")
    commit = after(site, "t1")["commit"]
    assert told(site)[1:] == [("edit", "conv-2", ["M a.txt"]), ("observed", "conv-1", ["M a.txt"])]
    diff = site.agent.call("show", commit=commit)["diff"]
    assert ("-one\n+ONE\n" in diff, "+THREE" in diff) == (True, False)
    whole(site)


def test_a_command_does_not_claim_the_file_that_another_agent_is_editing(site: Site) -> None:
    site.write("a.txt", "one\n")
    other = site.another("conv-2")
    before(site, "t1")
    other.call("observe", phase="before", tool="Edit", use="u1", paths=["a.txt"])
    site.write("a.txt", "by the other\n")
    site.write("b.txt", "by the command\n")
    after(site, "t1")
    other.call("observe", phase="after", tool="Edit", use="u1", paths=["a.txt"])
    assert told(site)[1:] == [
        ("observed", "conv-1", ["A b.txt"]),
        ("observed", "conv-2", ["M a.txt"]),
    ]


def test_the_same_again_is_answered_from_the_record(site: Site) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", "a.txt")
    site.write("a.txt", "two\n")
    first = after(site, "t1", "a.txt")
    site.write("a.txt", "by a person\n")
    again = after(site, "t1", "a.txt")
    assert again == {**first, "replayed": True}
    assert [kind for kind, _, _ in told(site)] == ["outside", "observed"]
    assert site.agent.refusal(
        "observe", phase="after", use="t1", paths=["b.txt"], request_id="t1"
    ).kind == Kind.INVALID_PARAMS  # fmt: skip


def test_the_same_command_again_may_be_told_with_other_bounds(site: Site) -> None:
    before(site, "t1")
    site.write("a.txt", "one\n")
    first = after(site, "t1", within=9.0)
    assert after(site, "t1", within=5.0) == {**first, "replayed": True}


@pytest.mark.parametrize("kept", [True, False], ids=["stopped", "killed"])
def test_a_daemon_that_ended_in_between_still_knows_what_stood_there(
    own_site: Site, kept: bool
) -> None:
    site = own_site
    site.write("a.txt", "one\n")
    before(site, "t1", "a.txt", "new.txt")
    before(site, "t2")
    if kept:
        site.daemon.stop()
    else:
        site.daemon.kill()
    site.write("a.txt", "two\n")
    site.write("new.txt", "made\n")
    site.write("other.txt", "made by the command\n")
    site.daemon.start()
    site.connect()
    after(site, "t1", "a.txt", "new.txt")
    after(site, "t2")
    found = [] if kept else [("outside", None, ["M a.txt"])]  # recovery looks at what was touched
    own = ["A new.txt", *([] if found else ["M a.txt"])]
    assert told(site)[1:] == [
        *found,
        ("observed", "conv-1", sorted(own, key=lambda change: change[2:])),
        ("observed", "conv-1", ["A other.txt"]),
    ]
    site.crash()
    assert after(site, "t1", "a.txt", "new.txt")["replayed"] is True
    whole(site)
    assert len(told(site)) == 3 + len(found)


def test_calls_that_wait_together_are_carried_out_before_the_disk_is_looked_at(
    site: Site,
) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", "a.txt")
    patches = [{"operation": "replace", "oldText": "one", "newText": "two"}]
    agent = site.agent
    frames = [
        agent.frame("patch", "p", {"path": "a.txt", "patches": patches}),
        agent.frame("observe", "o", {"phase": "after", "use": "t1", "paths": ["a.txt"]}),
        agent.frame("observe", "b", {"phase": "before", "use": "t2", "paths": ["a.txt"]}),
    ]
    agent.send_bytes(b"".join(frames))
    replies = {reply.id: agent.result_of(reply) for reply in (agent.receive() for _ in frames)}
    assert (replies["o"]["commit"], replies["b"]["outside"]) == (None, None)
    assert told(site) == [("outside", None, ["A a.txt"]), ("edit", "conv-1", ["M a.txt"])]
    assert site.bytes_of("a.txt") == b"two\n"


@pytest.mark.parametrize("edit_first", [True, False])
def test_an_edit_may_have_any_request_id_beside_a_tools_note(site: Site, edit_first: bool) -> None:
    file = site.write("a.py", "one\n")

    def edit() -> dict[str, Any]:
        return site.overwrite("b.py", "new\n", request_id="before:t1")

    first = edit() if edit_first else None
    before(site, "t1", "a.py", "c.py")
    first = first or edit()
    file.write_text("two\n")
    site.write("c.py", "made\n")
    done = after(site, "t1", "a.py", "c.py")
    assert [("a.py", "M"), ("c.py", "A")] == [(f["path"], f["status"]) for f in done["files"]]
    again = edit()
    assert (True, first["commit"]) == (again["replayed"], again["commit"])


@pytest.mark.parametrize("named", [False, True])
def test_a_link_of_which_git_would_complain_is_not_recorded(site: Site, named: bool) -> None:
    paths = [".gitmodules"] if named else []
    site.overwrite(".gitmodules", "[submodule]\n")
    before(site, "t1", *paths)
    (site.root / ".gitmodules").unlink()
    (site.root / ".gitmodules").symlink_to("elsewhere")
    after(site, "t1", *paths)
    assert told(site)[-1] == ("observed", "conv-1", ["D .gitmodules"])
    assert site.agent.refusal("undo").kind == Kind.CONFLICT
    assert os.readlink(site.root / ".gitmodules") == "elsewhere"
    assert site.fsck() == ""


@pytest.mark.parametrize("named", ["src", "src/a.py/new.py"])
def test_a_tool_that_names_no_possible_file_says_nothing_of_the_files_there(
    site: Site, named: str
) -> None:
    """A directory, or a path below a file: such a tool fails, and all stays as it was."""
    site.write("src/a.py", "one\n")
    site.replace("src/a.py", "one", "two")
    known = told(site)
    before(site, "t1", named)
    after(site, "t1", named)
    assert told(site) == known
    [line] = site.agent.call("blame", path="src/a.py")["lines"]
    assert (line["text"], line["session"]) == ("two\n", "conv-1")
    whole(site)
