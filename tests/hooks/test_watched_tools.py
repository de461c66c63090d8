"""What is kept of the tools that are being used: bounded, and gone with the workspace."""

from __future__ import annotations

from e2e.running_daemon import Site
from hooks.test_observe import after, before, told
from stetd.observing.before_note import BeforeNote
from stetd.observing.watched_tools import Late, WatchedTools


def test_the_paths_of_the_oldest_uses_go_first_when_there_are_many() -> None:
    watched = WatchedTools()
    for use in range(10):
        watched.expect("s", f"t{use}", [f"{use}/{n}/{'x' * 3900}" for n in range(500)])
    expected = {f"{use}/{n}/{'x' * 3900}" for use in (8, 9) for n in range(500)}
    assert watched.expected_of_others("another") == expected


def test_a_use_that_is_over_leaves_room_for_others() -> None:
    watched = WatchedTools()
    for use in range(10):
        watched.expect("s", f"t{use}", [f"{use}/{n}/{'x' * 3900}" for n in range(500)])
        watched.done("s", f"t{use}")
        watched.expect("s", "the same", ["a.txt"])
    watched.expect("s", "last", ["b.txt"])
    assert watched.expected_of_others("another") == {"a.txt", "b.txt"}


def test_only_a_use_in_the_background_goes_on_after_its_end() -> None:
    watched = WatchedTools()
    for use, background in (("t1", False), ("t2", True)):
        late = Late(use, "Bash", None, "", background)
        watched.expect("s", use, [f"{use}.txt"], late)
        watched.done("s", use)
    assert watched.expected_of_others("another") == {"t2.txt"}


def test_a_workspace_that_is_forgotten_takes_what_was_expected_in_it_along(site: Site) -> None:
    site.another("conv-2").call("observe", phase="before", use="u1", paths=["a.txt"])
    for method in ("workspace_forget", "workspace_allow"):
        site.daemon.control().call(method, root=str(site.root))
    site.connect()
    before(site, "t1")
    site.write("a.txt", "by the command\n")
    after(site, "t1")
    assert told(site) == [("observed", "conv-1", ["A a.txt"])]


def test_a_note_says_which_directories_were_missing() -> None:
    note = BeforeNote(paths=["a/b/c.txt", "d.txt", "e/f.txt"], lacking={0: 2, 2: 0})
    assert note.missing_directories() == {"a", "a/b"}
