"""Several workspaces on one daemon: beside each other, and one inside another."""

from __future__ import annotations

from e2e.running_daemon import DaemonProcess, fsck


def test_the_same_edit_in_two_workspaces_is_whole_in_both_histories(
    shared_daemon: DaemonProcess,
) -> None:
    """An object that one shadow repository had was once not written to the other."""
    one, two = shared_daemon.site("one"), shared_daemon.site("two")
    for site in (one, two):
        site.write("a.txt", "first\n")
        site.replace("a.txt", "first", "second")
    for site in (one, two):
        assert fsck(site.shadow) == ""
        assert site.git("show", "history:a.txt") == "second\n"
        site.agent.call("undo")
        assert site.bytes_of("a.txt") == b"first\n"
