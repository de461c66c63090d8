"""What clients leave out of a payload, or spoil, and an edit is recorded all the same."""

from __future__ import annotations

from typing import Any

from e2e.running_daemon import Site
from hooks.hooking import claude, run_hook
from hooks.test_observe import told


def both(site: Site, payload: dict[str, Any], path: str, **after: Any) -> list[str]:
    """Run the hook before and after a tool that writes ``path``; what it said."""
    command = ("claude-code", "--before", "50", "--after", "50")
    said = [run_hook(site.daemon, payload, *command)]
    site.write(path, "by the tool\n")
    ended = {**payload, "hook_event_name": "PostToolUse", **after}
    return [*said, run_hook(site.daemon, ended, *command)]


def test_a_description_that_was_cut_in_half_a_surrogate_pair(site: Site) -> None:
    given = {"command": "x", "description": "cut \ud83d"}
    payload = claude("PreToolUse", "Bash", given, "t1", site.root)
    assert both(site, payload, "a.txt") == ["", ""]
    assert told(site) == [("observed", "s-1", ["A a.txt"])]
    assert site.log()[0]["message"].endswith("\n\ncut ?")


def test_an_absolute_name_needs_no_directory(site: Site) -> None:
    given = {"file_path": str(site.root / "a.txt")}
    payload = claude("PreToolUse", "Edit", given, "t1", site.root)
    del payload["cwd"]
    assert both(site, payload, "a.txt") == ["", ""]
    assert told(site) == [("observed", "s-1", ["A a.txt"])]


def test_a_relative_name_and_a_command_need_a_directory(site: Site) -> None:
    for tool, given in [("Edit", {"file_path": "a.txt"}), ("Bash", {"command": "x"})]:
        payload = claude("PreToolUse", tool, given, "t1", site.root)
        del payload["cwd"]
        assert run_hook(site.daemon, payload) == (
            "stet hook: nothing was recorded: the payload has no absolute cwd\n"
        )


def test_a_command_is_known_again_without_its_directory(site: Site) -> None:
    (site.root / "sub").mkdir()
    payload = {
        "conversation_id": "conv-cursor", "hook_event_name": "beforeShellExecution",
        "workspace_roots": [str(site.root)], "command": "x", "cwd": str(site.root / "sub"),
    }  # fmt: skip
    assert run_hook(site.daemon, payload, "cursor") == ""
    site.write("a.txt", "by the command\n")
    del payload["cwd"]
    payload["hook_event_name"] = "afterShellExecution"
    assert run_hook(site.daemon, payload, "cursor") == ""
    assert told(site) == [("observed", "conv-cursor", ["A a.txt"])]
