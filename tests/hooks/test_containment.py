"""Observing never writes to a workspace, and records nothing that the history is not to have."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from e2e.running_daemon import DaemonProcess, Site, files_below, running
from hooks.test_observe import after, before, told
from stet.wire.failures import Kind


def stored(site: Site, text: str) -> bool:
    """Whether any object of the history, or any file of the state, has these bytes."""
    site.person.call("log", limit=1)
    listed = site.git(
        "cat-file", "--batch-check=%(objectname) %(objecttype)", "--batch-all-objects"
    )
    oids = [line.split()[0] for line in listed.splitlines() if line.endswith("blob")]
    if any(text in site.git("cat-file", "blob", oid) for oid in oids):
        return True
    files = [p for p in site.daemon.state.rglob("*") if p.is_file()]
    return any(text.encode() in file.read_bytes() for file in files)


@pytest.fixture
def secretive() -> Iterator[Site]:
    with running({"exclude": '[".env"]', "max_file_bytes": "1000"}) as daemon:
        yield daemon.site("w")


def test_no_byte_of_the_workspace_changes(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.write("dir/b.txt", "one\n")
    (site.root / "link").symlink_to("a.txt")
    stood = files_below(site.root)
    for use, paths in [("t1", ["a.txt", "new/c.txt", "link"]), ("t2", [])]:
        before(site, use, *paths)
        assert files_below(site.root) == stood
        after(site, use, *paths)
        assert files_below(site.root) == stood


def test_excluded_and_too_large_files_are_not_stored_anywhere(secretive: Site) -> None:
    site = secretive
    site.write(".env", "SECRET=hunter2\n")
    site.write("large", "l4rge" * 300)
    named = before(site, "t1", ".env", "large")
    assert [".env" in named["warnings"][0], "large" in named["warnings"][1]] == [True, True]
    site.write(".env", "SECRET=hunter3\n")
    assert after(site, "t1", ".env", "large")["commit"] is None
    assert before(site, "t2")["complete"] is True
    site.write(".env", "SECRET=hunter4\n")
    site.write("large", "l4rger" * 300)
    site.write("a.txt", "made\n")
    assert [f["path"] for f in after(site, "t2")["files"]] == ["a.txt"]
    assert told(site) == [("observed", "conv-1", ["A a.txt"])]
    assert [stored(site, text) for text in ("made", "hunter", "l4rge")] == [True, False, False]


def test_a_large_file_that_becomes_small_is_not_taken_for_a_new_one(secretive: Site) -> None:
    site = secretive
    site.write("large", "x" * 2000)
    before(site, "t1")
    site.write("large", "small now\n")
    done = after(site, "t1")
    assert (done["commit"], len(done["warnings"])) == (None, 1)


def test_of_many_warnings_the_first_are_shown_and_the_others_counted(site: Site) -> None:
    outside = [f"../{number}.txt" for number in range(9)]
    for done in (before(site, "t1", *outside), after(site, "t1", *outside)):
        assert len(done["warnings"]) == 6
        assert done["warnings"][5] == "... and 4 more like these."


def test_paths_that_lead_out_or_into_git_are_left_out_with_a_warning(site: Site) -> None:
    outside = site.root.parent / "elsewhere.txt"
    outside.write_text("not yours\n")
    (site.root / "out").symlink_to(outside)
    (site.root / ".git").mkdir()
    (site.root / ".git/config").write_text("[core]\n")
    (site.root / "pipe").parent.mkdir(exist_ok=True)
    os.mkfifo(site.root / "pipe")
    bad = [str(outside), "../elsewhere.txt", ".git/config", "a\nb", "pipe/x"]
    done = before(site, "t1", *bad, "out", "fine.txt")
    assert len(done["warnings"]) == 5
    site.write("fine.txt", "1\n")
    assert [f["path"] for f in after(site, "t1", "fine.txt")["files"]] == ["fine.txt"]
    # The link is a file of the workspace; what it leads to is not.
    assert told(site)[0] == ("outside", None, ["A out"])
    assert not stored(site, "not yours")
    assert before(site, "t2")["complete"] is True
    assert "core" not in site.git("ls-tree", "-r", "history")


def test_an_edit_through_a_link_is_the_files_that_it_leads_to(site: Site) -> None:
    site.write("real.txt", "one\n")
    (site.root / "link").symlink_to("real.txt")
    before(site, "t1", "link")
    site.write("real.txt", "two\n")
    assert [f["path"] for f in after(site, "t1", "link")["files"]] == ["real.txt"]
    site.agent.call("undo")
    assert site.bytes_of("real.txt") == b"one\n"
    assert (site.root / "link").is_symlink()


def test_restricted_mode_lets_it_be_recorded_but_not_undone(site: Site) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", "a.txt")
    site.write("a.txt", "two\n")
    site.person.call("mode_set", mode="restricted", session="conv-1")
    commit = after(site, "t1", "a.txt")["commit"]
    assert told(site)[-1] == ("observed", "conv-1", ["M a.txt"])
    assert site.agent.refusal("undo").kind == Kind.TOOL_DISABLED
    assert site.person.call("undo", commits=[commit])["undone"] == [commit]
    assert site.bytes_of("a.txt") == b"one\n"


def test_protected_files_and_links_in_place_of_their_directories_are_flagged(site: Site) -> None:
    paths = ".mcp.json", ".vscode", "a/.vscode"
    before(site, "t1", *paths)
    site.write(".mcp.json", "{}\n")
    (site.root / ".vscode").symlink_to("other")
    site.write("a/.vscode", "no link\n")
    after(site, "t1", *paths)
    commit = site.git("log", "-1", "--format=%B", "history")
    flagged = [line for line in commit.splitlines() if line.startswith("Stet-Flagged: ")]
    assert flagged == ["Stet-Flagged: .mcp.json", "Stet-Flagged: .vscode"]


@pytest.mark.parametrize(
    "params",
    [
        {}, {"phase": "during"}, {"phase": "before", "paths": []}, {"phase": "before", "use": ""},
        {"phase": "before", "paths": "a"}, {"phase": "after", "preview": True},
        {"phase": "after", "if_match": "0" * 40}, {"phase": "before", "use": "a\nb"},
        {"phase": "before", "use": "x" * 199}, {"phase": "before", "within": -1},
        {"phase": "before", "session": "conv-2"}, {"phase": "before", "tool": "a\nb"},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_and_change_nothing(
    site: Site, params: dict[str, object]
) -> None:
    picture = site.picture()
    assert site.agent.refusal("observe", **params).kind == Kind.INVALID_PARAMS
    assert site.picture() == picture


def test_a_workspace_with_too_many_files_is_said_to_be_so(own_daemon: DaemonProcess) -> None:
    config = own_daemon.base / "c.toml"
    config.write_text(config.read_text() + "observe_max_files = 3\n")
    site = own_daemon.site("w")
    site.person.call("reload")
    for number in range(4):
        site.write(f"{number}.txt", "one\n")
    first = before(site, "t1")
    assert (first["complete"], len(first["warnings"])) == (False, 1)
    assert "more than 3 files" in first["warnings"][0]
    site.write("0.txt", "two\n")
    done = after(site, "t1")
    assert (done["commit"], done["complete"], told(site)) == (None, False, [])
    assert site.fsck() == ""


def test_no_time_is_said_to_be_so_and_what_was_done_counts_the_next_time(site: Site) -> None:
    site.write("a.txt", "one\n")
    first = before(site, "t1", within=0.0)
    assert (first["complete"], len(first["warnings"]), told(site)) == (False, 1, [])
    assert "there was no time to look at all of it" in first["warnings"][0]
    assert before(site, "t2")["complete"] is True
    site.write("a.txt", "two\n")
    after(site, "t2")
    assert told(site)[-1] == ("observed", "conv-1", ["M a.txt"])


def test_more_than_one_call_may_hold_is_left_to_the_next_time(own_daemon: DaemonProcess) -> None:
    config = own_daemon.base / "c.toml"
    config.write_text(config.read_text() + "max_call_files = 2\n")
    site = own_daemon.site("w")
    site.person.call("reload")
    before(site, "t1")
    for number in range(4):
        site.write(f"{number}.txt", "one\n")
    done = after(site, "t1")
    assert ([f["path"] for f in done["files"]], len(done["warnings"])) == (["0.txt", "1.txt"], 1)


def test_what_is_ignored_is_not_looked_at_and_a_directory_in_place_of_a_file_is(
    site: Site,
) -> None:
    site.write("thing", "a file\n")
    site.write(".gitignore", "*.o\n")
    before(site, "t1")
    (site.root / "thing").unlink()
    site.write("thing/inner.txt", "in a directory\n")
    site.write("x.o", "object\n")
    after(site, "t1")
    assert told(site)[-1] == ("observed", "conv-1", ["D thing", "A thing/inner.txt"])
    # One call can't make a file where a directory is in its way, nor can undo.
    assert site.agent.refusal("undo").kind == Kind.CONFLICT
    before(site, "t3")
    (site.root / "thing/inner.txt").unlink()
    (site.root / "thing").rmdir()
    site.write("thing", "a file again\n")
    after(site, "t3")
    assert told(site)[-1][2] in (
        ["A thing", "D thing/inner.txt"], ["D thing/inner.txt", "A thing"],
    )  # fmt: skip
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
