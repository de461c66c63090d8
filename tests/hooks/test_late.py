"""Uses of tools whose end nobody tells, or too early: the files they name, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from e2e.running_daemon import Site
from hooks.test_observe import after, before, told, whole
from stet.wire.failures import Kind
from stetd.observing import watched_tools
from stetd.observing.watched_tools import Late, WatchedTools


def stop(site: Site, **more: bool) -> None:
    """The agent's turn is over."""
    site.agent.call("observe", phase="stop", **more)


def test_what_a_command_named_is_its_own_when_the_session_next_tells_something(site: Site) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", late=["a.txt", "new/b.txt"], message="because", subagent="helper 1")
    site.write("a.txt", "by the command\n")
    site.write("new/b.txt", "by the command\n")
    site.write("c.txt", "the person's\n")
    before(site, "t2", "d.txt")
    assert told(site) == [
        ("outside", None, ["A a.txt"]),
        ("observed", "conv-1", ["M a.txt", "A new/b.txt"]),
    ]
    [own, _] = site.log()
    assert own["message"] == "observed Edit: a.txt, new/b.txt\n\nbecause"
    assert own["subagent"] == "helper 1"
    site.agent.call("undo")
    assert site.bytes_of("a.txt") == b"one\n"
    assert not (site.root / "new").exists()
    assert site.bytes_of("c.txt") == b"the person's\n"
    whole(site)


@pytest.mark.parametrize("event", ["after", "stop"])
def test_any_event_of_the_session_finds_it(site: Site, event: str) -> None:
    before(site, "t1", late=["a.txt"])
    before(site, "t2", "b.txt")
    site.write("a.txt", "by the command\n")
    site.write("b.txt", "by the tool\n")
    after(site, "t2", "b.txt") if event == "after" else stop(site)
    assert ("observed", "conv-1", ["A a.txt"]) in told(site)


def test_a_command_whose_end_is_told_after_all_is_one_commit(site: Site) -> None:
    before(site, "t1", late=["a.txt"])
    site.write("a.txt", "by the command\n")
    site.write("b.txt", "by the command\n")
    after(site, "t1")
    site.write("a.txt", "the person's\n")
    stop(site)
    assert told(site) == [("observed", "conv-1", ["A a.txt", "A b.txt"])]


def test_another_session_neither_finds_nor_claims_it(site: Site) -> None:
    other = site.another("conv-2")
    before(site, "t1", late=["a.txt"])
    other.call("observe", phase="before", use="u1")
    site.write("a.txt", "by the command\n")
    other.call("observe", phase="after", use="u1")
    other.call("observe", phase="stop")
    assert told(site) == []
    stop(site)
    assert told(site) == [("observed", "conv-1", ["A a.txt"])]
    assert site.log()[0]["message"] == "observed Edit: a.txt"


def test_a_command_that_may_never_have_run_claims_each_file_once_and_in_its_turn(
    site: Site,
) -> None:
    site.write("a.txt", "one\n")
    site.write("b.txt", "one\n")
    before(site, "t1", late=["a.txt", "b.txt"])
    site.write("a.txt", "by the command\n")
    before(site, "t2", "c.txt")
    site.write("a.txt", "the person's\n")
    stop(site)
    site.write("b.txt", "the person's\n")
    before(site, "t3")
    assert told(site)[1:] == [
        ("observed", "conv-1", ["M a.txt"]),
        ("outside", None, ["M a.txt", "M b.txt"]),
    ]


@pytest.mark.parametrize("request_id", ["t1", None])
def test_a_command_in_the_background_goes_on_until_a_stop_says_that_none_does(
    site: Site, request_id: str | None
) -> None:
    before(site, "t1", late=["log.txt"], background=True)
    site.write("log.txt", "1\n")
    after(site, "t1", request_id=request_id)
    for line in ("2\n", "3\n"):
        site.write("log.txt", line)
        stop(site, background=True)
    site.write("log.txt", "4\n")
    stop(site)
    site.write("log.txt", "the person's\n")
    before(site, "t2")
    assert told(site) == [
        ("observed", "conv-1", ["A log.txt"]),
        *[("observed", "conv-1", ["M log.txt"])] * 3,
        ("outside", None, ["M log.txt"]),
    ]
    whole(site)


def test_a_command_in_the_background_that_never_began_claims_nothing(site: Site) -> None:
    before(site, "t1", late=["log.txt"], background=True)
    site.write("log.txt", "the person's\n")
    before(site, "t2")
    stop(site)
    assert told(site) == [("outside", None, ["A log.txt"])]


def test_a_late_use_leaves_alone_what_another_tool_is_editing(site: Site) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", late=["a.txt"])
    before(site, "t2", "a.txt")
    site.write("a.txt", "by the editor\n")
    commit = after(site, "t2", "a.txt")["commit"]
    assert site.log()[0]["commit"] == commit


def test_an_earlier_tool_of_the_session_that_failed_keeps_no_file_from_a_late_use(
    site: Site,
) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", "a.txt")  # Codex reports no end of a patch that does not fit
    before(site, "t2", late=["a.txt"])
    site.write("a.txt", "by the command\n")
    before(site, "t3", "a.txt")
    assert ("observed", "conv-1", ["M a.txt"]) in told(site)


@pytest.mark.parametrize("background", [False, True])
def test_a_tool_that_failed_keeps_its_file_from_other_sessions_until_its_turn_ends(
    site: Site, background: bool
) -> None:
    site.write("a.txt", "one\n")
    before(site, "t1", "a.txt")
    stop(site, background=background)  # a subagent in the background may still be editing
    other = site.another("conv-2")
    other.call("observe", phase="before", use="u1")
    site.write("a.txt", "by the command\n")
    other.call("observe", phase="after", use="u1")
    assert (("observed", "conv-2", ["M a.txt"]) in told(site)) is not background


def test_a_file_that_a_gitignore_leaves_out_is_not_looked_at(site: Site) -> None:
    site.write(".gitignore", "*.env\nout/\n")
    site.write("a.env", "the person's\n")
    late = ["a.env", "out/log", str(site.root / "out/log2"), "kept.txt"]
    before(site, "t1", late=late)
    for path in ("a.env", "out/log", "out/log2", "kept.txt"):
        site.write(path, "by the command\n")
    stop(site)
    assert told(site) == [
        ("outside", None, ["A .gitignore"]),
        ("observed", "conv-1", ["A kept.txt"]),
    ]


def test_in_a_workspace_that_is_too_large_the_named_files_are_known(own_site: Site) -> None:
    site = own_site
    site.restart(STET_OBSERVE_MAX_FILES="1")
    for name in ("a.txt", "b.txt", "c.txt"):
        site.write(name, "one\n")
    assert before(site, "t1", late=["a.txt", "new.txt"])["complete"] is False
    for name in ("a.txt", "b.txt", "new.txt"):
        site.write(name, "two\n")
    stop(site)
    assert told(site)[-1] == ("observed", "conv-1", ["M a.txt", "A new.txt"])


def test_what_has_become_a_directory_takes_no_file_from_the_history(site: Site) -> None:
    """As with a clone in the background: what its directory is named looked like a file."""
    before(site, "t1", late=["vendor/lib"], background=True)
    after(site, "t1")
    before(site, "t2")
    site.write("vendor/lib/a.py", "one\n")
    after(site, "t2")
    before(site, "t3", "b.txt")
    stop(site, background=True)
    assert told(site) == [("observed", "conv-1", ["A vendor/lib/a.py"])]


def test_late_files_are_named_before_a_command_only(site: Site) -> None:
    for wrong in ({"phase": "after"}, {"phase": "stop"}, {"phase": "before", "paths": ["b"]}):
        refused = site.agent.refusal("observe", use="t1", late=["a.txt"], **wrong)
        assert refused.kind == Kind.INVALID_PARAMS


def test_a_use_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedTools()
    late = Late("t1", None, None, "", background=False)
    now = 1000.0
    monkeypatch.setattr(watched_tools, "time", SimpleNamespace(monotonic=lambda: now))
    watched.expect("s", "t1", ["a"], late=late)
    watched.expect("s", "t2", ["b"], late=late._replace(use="t2", background=True))
    watched.done("s", "t2")
    assert list(watched.late_of("another", None)) == []
    now += 601
    assert [paths for _, paths in watched.late_of("s", None)] == [["b"]]
    now += 3000
    assert list(watched.late_of("s", None)) == []
