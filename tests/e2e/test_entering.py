"""Who enters a workspace: what it is told of the others, and whom its hello holds up.

A confined client is a process with mounts of its own over what it was not given. Which views
count as seeing a workspace is in server/test_peer_view.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e.running_daemon import Gate, Site, running
from server.test_peer_view import needs_namespaces

#: Says hello to a socket with each workspace; prints what it is told.
SAYS_HELLO = """
import json, socket, sys
for workspace in sys.argv[2:]:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(sys.argv[1])
        hello = {"protocol": 1, "workspace": workspace}
        client.sendall(json.dumps({"id": 1, "method": "hello", "params": hello}).encode() + b"\\n")
        print(client.makefile().readline(), end="")
"""


def told_confined(site: Site, hidden: Path, *workspaces: Path) -> list[str]:
    """What a process is told from which a directory is hidden."""
    program = [sys.executable, "-c", SAYS_HELLO, str(site.daemon.runtime / "agent.sock")]
    script = 'mount -t tmpfs x "$1"; shift; exec "$@"'
    command = ["unshare", "-Urm", "bash", "-ec", script, "-", str(hidden), *program]
    done = subprocess.run(
        [*command, *map(str, workspaces)], capture_output=True, text=True, check=True
    )
    replies: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return [reply["error"]["message"] for reply in replies]


def not_seen(root: Path) -> str:
    return (
        f"{root} is not what this process sees at that path, so it may not edit there. A sandbox "
        "needs the whole workspace, at the path that it has outside."
    )


def test_a_hello_that_takes_long_to_look_at_holds_up_nobody_else(tmp_path: Path) -> None:
    """A process makes its own table of mounts, as large as it likes."""
    gate = Gate(tmp_path, "hello.looking:4")
    with running(**gate.environment) as daemon:
        site = daemon.site("w")
        site.another("conv-2")
        slow = daemon.agent()
        slow.send("hello", protocol=1, workspace=str(site.root))
        gate.once_reached()
        for number in range(10):
            site.overwrite("a.txt", f"{number}\n")
        assert slow.is_silent()
        gate.open()
        assert slow.receive().error is None


@needs_namespaces
def test_who_does_not_see_a_workspace_is_not_told_what_is_in_it(site: Site) -> None:
    (site.root / "there").mkdir()
    site.write("file", "x\n")
    asked = [site.root, *(site.root / name for name in ("there", "file", "missing"))]
    assert [not_seen(site.root)] * 4 == told_confined(site, site.root, *asked)


@needs_namespaces
def test_who_does_not_see_a_workspace_does_not_have_it_tried_again(own_site: Site) -> None:
    """It is put off as long as it is not there. Who sees where it was is told why."""
    site, moved = own_site, own_site.root.with_name("moved")
    hidden = site.root.parent / "above"
    hidden.mkdir()
    root = hidden / "w"
    root.mkdir()
    site.daemon.control().call("workspace_allow", root=str(root))
    site.daemon.stop()
    root.rename(moved)
    site.daemon.start()
    assert [not_seen(root)] == told_confined(site, hidden, root)
    assert [f"{root}: No such file or directory."] == told_confined(site, site.root, root)
    moved.rename(root)
    assert [not_seen(root)] == told_confined(site, hidden, root)
    [known] = [
        each
        for each in site.daemon.control().call("workspace_list")["workspaces"]
        if each["root"] == str(root)
    ]
    assert "No such file or directory" in known["trouble"]
    site.daemon.agent().call("hello", protocol=1, workspace=str(root))


def test_a_link_in_place_of_a_workspace_that_was_away_makes_no_other_one_allowed(
    tmp_path: Path,
) -> None:
    """Also not while the hello goes on that has it tried again."""
    gate = Gate(tmp_path, "hello.looking")
    with running() as daemon:
        site = daemon.site("w")
        daemon.stop()
        site.root.rename(daemon.base / "moved")
        elsewhere = daemon.base / "elsewhere"
        elsewhere.mkdir()
        daemon.start(**gate.environment)
        client = daemon.agent()
        client.send("hello", protocol=1, workspace=str(site.root))
        gate.once_reached()
        site.root.symlink_to(elsewhere)
        gate.open()
        error = client.receive().error
        assert error is not None
        expected = f"{site.root}: a symbolic link is there now, and leads to {elsewhere}."
        assert expected == error.message
        known = daemon.control().call("workspace_list")["workspaces"]
        assert [str(site.root)] == [each["root"] for each in known]
