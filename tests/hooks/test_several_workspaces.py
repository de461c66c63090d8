"""A tool that names files of several directories: what can be recorded is, the rest is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.running_daemon import DaemonProcess, Site
from hooks.hooking import claude, run_hook
from hooks.test_bad_input import answering, impostor
from hooks.test_observe import told


def patching(*paths: Path) -> dict[str, str]:
    """The input of an apply_patch that names these files."""
    lines = [f"*** Add File: {path}\n+by the tool\n" for path in paths]
    return {"command": "*** Begin Patch\n" + "".join(lines) + "*** End Patch\n"}


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_elsewhere_keeps_no_file_of_the_workspace_from_being_recorded(
    site: Site, turned: bool
) -> None:
    elsewhere = site.root.parent / "elsewhere.txt"
    paths = [elsewhere, site.root / "a.txt", site.root / "sub/b.txt"]
    given = patching(*(reversed(paths) if turned else paths))
    payload = claude("PreToolUse", "apply_patch", given, "t1", site.root)
    why = f"stet hook: not recorded: {elsewhere}: {site.root.parent} is not an allowed workspace"
    assert run_hook(site.daemon, payload).startswith(why)
    site.write("a.txt", "by the tool\n")
    site.write("sub/b.txt", "by the tool\n")
    payload["hook_event_name"] = "PostToolUse"
    assert run_hook(site.daemon, payload).startswith(why)
    assert told(site) == [("observed", "s-1", ["A a.txt", "A sub/b.txt"])]


def test_each_workspace_has_its_own_and_all_that_was_left_out_is_counted(site: Site) -> None:
    other = site.daemon.site(f"{site.root.name}-other")
    bare = [site.root.parent / f"{site.root.name}-bare{n}" for n in range(6)]
    for directory in bare:
        directory.mkdir()
    above = site.root.parent / "above.txt"  # what lies deeper may not be dropped with it
    paths = [above, *(d / "c.txt" for d in bare), other.root / "a.txt", site.root / "a.txt"]
    payload = claude("PreToolUse", "apply_patch", patching(*paths), "t1", site.root)
    said = run_hook(site.daemon, payload, "codex", "--before", "50")
    assert said.startswith(f"stet hook: not recorded: {above}: ")
    assert said.endswith(" (and 6 more)\n")
    for each in (site, other):
        each.write("a.txt", "by the tool\n")
    payload["hook_event_name"] = "PostToolUse"
    run_hook(site.daemon, payload, "codex", "--after", "50")
    assert [told(site), told(other)] == [[("observed", "s-1", ["A a.txt"])]] * 2


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_in_a_workspace_inside_is_recorded_there_whatever_is_named_first(
    site: Site, turned: bool
) -> None:
    inner = site.daemon.site(f"{site.root.name}/inner")
    paths = [site.root / "a.txt", inner.root / "deep/b.txt", site.root / "sub/c.txt"]
    given = patching(*(reversed(paths) if turned else paths))
    payload = claude("PreToolUse", "apply_patch", given, "t1", site.root)
    assert run_hook(site.daemon, payload, "codex") == ""
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("by the tool\n")
    payload["hook_event_name"] = "PostToolUse"
    assert run_hook(site.daemon, payload, "codex") == ""
    assert told(site) == [("observed", "s-1", ["A a.txt", "A sub/c.txt"])]
    assert told(inner) == [("observed", "s-1", ["A deep/b.txt"])]


def test_a_name_that_no_message_can_hold_is_left_out_alone(site: Site) -> None:
    paths = [site.root / "half \ud83d", site.root / "a.txt"]
    payload = claude("PreToolUse", "apply_patch", patching(*paths), "t1", site.root)
    why = f"stet hook: not recorded: {site.root}/half ?: its name is not text in UTF-8\n"
    assert run_hook(site.daemon, payload) == why
    site.write("a.txt", "by the tool\n")
    payload["hook_event_name"] = "PostToolUse"
    assert run_hook(site.daemon, payload) == why
    assert told(site) == [("observed", "s-1", ["A a.txt"])]


def test_a_workspace_that_does_not_hold_the_file_is_told_of(
    unstarted: DaemonProcess, tmp_path: Path
) -> None:
    answer = answering(b'{"id": 1, "result": {"workspace": {"root": "/elsewhere"}}}\n')
    with impostor(unstarted, answer):
        given = {"file_path": str(tmp_path / "a.txt")}
        said = run_hook(unstarted, claude("PreToolUse", "Edit", given, "t", tmp_path))
    assert said == (f"stet hook: not recorded: {tmp_path}/a.txt: it does not lie in /elsewhere\n")


def test_of_too_many_workspaces_the_agents_own_is_among_those_that_are_told(site: Site) -> None:
    others = [site.daemon.site(f"{site.root.name}-other{n}") for n in range(4)]
    paths = [each.root / "a.txt" for each in (*others, site)]
    payload = claude("PreToolUse", "apply_patch", patching(*paths), "t1", site.root)
    why = "stet hook: not recorded, because they lie in other workspaces: 1\n"
    assert run_hook(site.daemon, payload, "codex", "--before", "50") == why
    site.write("a.txt", "by the tool\n")
    payload["hook_event_name"] = "PostToolUse"
    assert run_hook(site.daemon, payload, "codex", "--after", "50") == why
    assert told(site) == [("observed", "s-1", ["A a.txt"])]
