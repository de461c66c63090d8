"""A shell command in a workspace around another one: what is in the inner one is its own."""

from __future__ import annotations

from e2e.running_daemon import Site
from hooks.test_observe import after, before, told


def inner_of(site: Site) -> Site:
    """A workspace inside another one."""
    root = site.root / "inner"
    root.mkdir(exist_ok=True)
    site.person.call("workspace_allow", root=str(root))
    return Site(site.daemon, root, "conv-1")


def test_a_command_around_a_workspace_records_nothing_of_it_and_says_so(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.write("inner/x.txt", "one\n")
    inner = inner_of(site)
    first = before(site, "t1")
    assert (first["complete"], len(first["warnings"])) == (True, 1)
    assert "inner/" in first["warnings"][0]
    site.write("a.txt", "two\n")
    site.write("inner/x.txt", "two\n")
    site.write("inner/made.txt", "made\n")
    after(site, "t1")
    assert told(site) == [("outside", None, ["A a.txt"]), ("observed", "conv-1", ["M a.txt"])]
    before(inner, "t2")
    assert told(inner) == [("outside", None, ["A made.txt", "A x.txt"])]


def test_what_the_outer_history_had_is_neither_deleted_nor_changed_in_it(site: Site) -> None:
    site.write("inner/x.txt", "one\n")
    before(site, "t1")
    inner = inner_of(site)
    before(site, "t2")
    (site.root / "inner/x.txt").write_text("two\n")
    assert after(site, "t2")["files"] == []
    assert told(site) == [("outside", None, ["A inner/x.txt"])]
    inner.person.call("workspace_forget", root=str(inner.root))
    before(site, "t3")
    assert told(site)[1:] == [("outside", None, ["M inner/x.txt"])]


def test_files_of_a_workspace_that_ended_during_a_command_are_not_the_commands(
    site: Site,
) -> None:
    site.write("inner/x.txt", "the person's\n")
    inner = inner_of(site)
    before(site, "t1")
    inner.person.call("workspace_forget", root=str(inner.root))
    done = after(site, "t1")
    assert (done["commit"], done["files"]) == (None, [])


def test_a_tool_that_names_a_file_of_an_inner_workspace_is_recorded_where_it_asked(
    site: Site,
) -> None:
    inner_of(site)
    before(site, "t1", "inner/x.txt")
    site.write("inner/x.txt", "by the tool\n")
    after(site, "t1", "inner/x.txt")
    assert told(site) == [("observed", "conv-1", ["A inner/x.txt"])]
