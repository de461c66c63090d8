"""``stet gc``, ``snapshot`` and ``forget``, as a person meets them."""

from __future__ import annotations

import json
import os

import pytest

from client.live import Installation, installation
from stet.cli.upkeep import progress
from stet.wire.results import WorkInfo


@pytest.fixture
def ws(ws: Installation) -> Installation:
    """The workspace, with a file in it."""
    ws.write("src/a.py", "one\n")
    return ws


def test_gc_says_what_it_came_to(ws: Installation) -> None:
    ws.patch("src/a.py", "one", "two")
    run = ws.stet("gc")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("The history takes ")
    assert ws.json("gc").keys() == {"bytes_before", "bytes_after", "dropped", "dropped_commits"}


def test_a_terminal_gets_the_json_and_no_progress(ws: Installation) -> None:
    assert "dropped" in json.loads(ws.on_terminal("gc", "--json"))


def test_a_snapshot_says_what_it_took_and_left_out(ws: Installation) -> None:
    ws.write("b.txt", "b\n")
    os.symlink("b.txt", os.path.join(ws.workspace, ".gitignore"))
    run = ws.stet("snapshot", "-m", "before")
    assert run.returncode == 0
    first, second = run.stdout.splitlines()
    assert first.endswith("2 files, 6 bytes: 2 added, 0 modified, 0 removed")
    assert second.startswith("left out: .gitignore: ")
    assert ws.stet("snapshot").stdout.startswith("Nothing has changed (2 files, 6 bytes).")
    assert ws.json("snapshot")["commit"] is None
    assert "before" in ws.stet("log").stdout


def test_what_there_is_one_of_is_told_as_one() -> None:
    with installation() as own:
        own.stet("init")
        own.write("a.txt", "a\n")
        assert "  1 file, 2 bytes: 1 added, " in own.stet("snapshot").stdout
        assert own.stet("log", "--oneline").stdout[9:] == "snapshot: 1 file, 1 changed\n"
        assert own.stet("verify").stdout.startswith("The history is whole: 1 commit and 3 objects.")
        assert "history: 1 commit of 1 workspace, " in own.stet("doctor").stdout


def test_forget_asks_for_a_yes_and_shows_what_it_would_do(ws: Installation) -> None:
    ws.patch("src/a.py", "one", "a-secret")
    assert ws.stet("forget", "src/a.py").returncode == 2
    assert ws.stet("forget", "src/a.py", "--json").returncode == 2
    assert ws.json("forget", "src/a.py", "--preview")["commit"] is None
    preview = ws.stet("forget", "src/a.py", "--preview")
    assert preview.returncode == 0
    assert "2 versions in 2 commits would be forgotten" in preview.stdout
    assert "still in the workspace" in preview.stdout
    assert "a-secret" in ws.stet("show", "HEAD").stdout
    done = ws.stet("forget", "a.py", "--yes", "-m", "a key", cwd="src")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 versions in 2 commits forgotten" in done.stdout
    assert "a-secret" not in ws.stet("log", "--text", "a-secret").stdout
    assert ws.text("src/a.py") == "a-secret\n"
    assert ws.stet("forget", "src/a.py", "--yes").returncode == 1
    assert ws.stet("verify").returncode == 0


def test_what_to_do_about_the_same_content_elsewhere_is_told_where_it_works() -> None:
    with installation() as own:
        own.stet("init")
        for path in ("a.txt", "copy.txt"):
            own.stet("patch", "--path", path, stdin='[{"operation": "overwrite", "newText": "k"}]')
        assert "other paths: --contents" in own.stet("forget", "a.txt", "--preview").stdout
        done = own.stet("forget", "a.txt", "--yes")
        assert "also at copy.txt" in done.stdout
        assert "stay, at other paths: forget these, too" in done.stdout
        assert own.stet("forget", "a.txt", "--contents", "--yes").returncode == 1
        assert own.stet("forget", "copy.txt", "--yes").returncode == 0


def test_progress_is_one_short_line() -> None:
    assert progress(WorkInfo("gc", "/w", "packing", 1200, 5000)) == "gc: packing 1,200 of 5,000"
    assert progress(WorkInfo("gc", "/w", "listing", 0, None)) == "gc: listing"
    assert progress(WorkInfo("snapshot", "/w", "", 0, None)) == "snapshot: waits for other work"


def test_a_purge_leaves_no_list_of_the_files_that_a_snapshot_saw() -> None:
    with installation() as own:
        own.stet("init")
        own.write("merger-with-acme.txt", "a\n")
        own.stet("snapshot")
        own.stop()
        state = os.path.join(own.base, "state")
        assert os.listdir(os.path.join(state, "snapshots"))
        nowhere = {"HOME": own.base, "XDG_CONFIG_HOME": own.base, "XDG_RUNTIME_DIR": own.base}
        told = own.json("service", "uninstall", "--purge-history", "--yes", **nowhere)
        assert (told["purged"], os.path.exists(state)) == ([state], False)
