"""Commands that go to other directories, work on in the background, or are a subagent's."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from e2e.running_daemon import Site
from hooks.hooking import claude, run_hook
from hooks.test_observe import told, whole

PATIENT = ("claude-code", "--before", "50", "--after", "50")


def shell(site: Site, command: str, use: str = "t1", **given: Any) -> dict[str, Any]:
    """A payload before a shell command."""
    return claude("PreToolUse", "Bash", {"command": command, **given}, use, site.root)


def say(site: Site, payload: dict[str, Any], event: str = "", **environment: str) -> None:
    """Run the hook, which has nothing to say."""
    payload = {**payload, **({"hook_event_name": event} if event else {})}
    project = environment or {"CLAUDE_PROJECT_DIR": str(site.root)}
    assert run_hook(site.daemon, payload, *PATIENT, **project) == ""


def test_a_command_that_goes_to_another_workspace_is_recorded_in_both(site: Site) -> None:
    other = site.daemon.site(f"{site.root.name}-other")
    payload = shell(site, f"echo 1 > a.txt; cd {other.root} && echo 1 > b.txt")
    say(site, payload)
    site.write("a.txt", "1\n")
    other.write("b.txt", "1\n")
    payload["cwd"] = str(other.root)  # as Claude Code tells it afterwards
    say(site, payload, "PostToolUse")
    assert told(site) == [("observed", "s-1", ["A a.txt"])]
    assert told(other) == [("observed", "s-1", ["A b.txt"])]


def test_a_command_that_removes_its_own_directory_is_recorded(site: Site) -> None:
    site.overwrite("src/a.txt", "one\n")
    payload = shell(site, "rm -rf ../src") | {"cwd": str(site.root / "src")}
    nothing_known = {"CLAUDE_PROJECT_DIR": ""}
    say(site, payload, **nothing_known)
    shutil.rmtree(site.root / "src")
    say(site, payload, "PostToolUse", **nothing_known)
    assert told(site)[-1] == ("observed", "s-1", ["D src/a.txt"])


@pytest.mark.parametrize("variable", ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"])
def test_from_then_on_the_project_is_told_too(site: Site, variable: str) -> None:
    project = {variable: str(site.root)}
    other = site.daemon.site(f"{site.root.name}-other")
    payload = {**shell(site, "sh run"), "cwd": str(other.root)}
    say(site, payload, **project)
    site.write("a.txt", "1\n")
    other.write("b.txt", "1\n")
    say(site, payload, "PostToolUse", **project)
    assert [told(each)[0][0] for each in (site, other)] == ["observed", "observed"]


def test_a_workspace_that_nobody_looked_at_before_is_not_mentioned(site: Site) -> None:
    other = site.daemon.site(f"{site.root.name}-other")
    payload = shell(site, f'D={other.root}; cd "$D"; echo 1 > {site.root}/a.txt')
    say(site, payload)
    site.write("a.txt", "1\n")
    payload["cwd"] = str(other.root)
    say(site, payload, "PostToolUse")
    assert told(site) == [("observed", "s-1", ["A a.txt"])]
    # Where nothing else was recorded, it is said.
    payload["hook_event_name"] = "PostToolUse"
    assert "nothing was reported before the tool ran" in run_hook(site.daemon, payload, *PATIENT)


def test_a_directory_that_is_not_allowed_is_passed_over(site: Site) -> None:
    elsewhere = site.root.parent / f"{site.root.name}-elsewhere"
    elsewhere.mkdir()
    payload = shell(site, f"cd {elsewhere} && cd /nowhere/at/all && cd ~/ && make")
    say(site, payload)
    site.write("a.txt", "1\n")
    payload["cwd"] = str(elsewhere)
    say(site, payload, "PostToolUse")
    assert told(site) == [("observed", "s-1", ["A a.txt"])]


def test_a_command_in_the_background_is_recorded_to_its_end(site: Site) -> None:
    site.write("script.py", "one\n")
    command = "sleep 9; python script.py > log.txt; touch made.txt"
    payload = shell(site, command, run_in_background=True, description="Run it later")
    say(site, payload)
    say(site, payload, "PostToolUse")
    site.write("log.txt", "1\n")
    site.write("script.py", "the person's\n")
    site.write("other.txt", "the person's\n")
    task = {"id": "b1", "type": "shell", "status": "running", "command": command}
    say(site, {**payload, "background_tasks": [task]}, "Stop")
    site.write("made.txt", "1\n")
    say(site, {**payload, "background_tasks": []}, "Stop")
    site.write("log.txt", "the person's\n")
    say(site, {**payload, "background_tasks": []}, "Stop")
    assert told(site) == [
        ("outside", None, ["A script.py"]),
        ("observed", "s-1", ["A log.txt"]),
        ("observed", "s-1", ["A made.txt"]),
    ]
    assert site.log()[0]["message"] == "observed Bash: made.txt\n\nRun it later"
    whole(site)


@pytest.mark.parametrize("tool", ["Monitor", "monitor"])
def test_a_command_that_is_monitored_runs_in_the_background(site: Site, tool: str) -> None:
    (site.root / "sub").mkdir()
    given = {"command": "make | tee log.txt", "directory": str(site.root / "sub")}
    payload = claude("PreToolUse", tool, given, "t1", site.root)
    say(site, payload)
    say(site, payload, "PostToolUse")
    site.write("sub/log.txt", "1\n")
    say(site, payload, "Stop")
    assert told(site) == [("observed", "s-1", ["A sub/log.txt"])]


def test_a_subagents_edits_are_told_apart(own_site: Site) -> None:
    site = own_site
    given = {"file_path": str(site.root / "a.txt")}
    payload = claude("PreToolUse", "Write", given, "t1", site.root)
    payload.update(agent_id="a3041324800a51eff", agent_type="general-purpose")
    say(site, payload)
    site.write("a.txt", "1\n")
    say(site, payload, "PostToolUse")
    site.crash()
    [commit] = site.log()
    name = "general-purpose a3041324800a51eff"
    assert (commit["session"], commit["subagent"]) == ("s-1", name)
    assert f"Stet-Session: s-1\nStet-Subagent: {name}\n" in site.git("log", "-1", "--format=%B")
    assert site.agent.call("show", commit=commit["commit"])["subagent"] == name
    whole(site)


def test_what_is_said_of_a_workspace_that_nobody_looked_at_is_said_whole_or_not(
    own_site: Site,
) -> None:
    site = own_site
    site.daemon.restart(STET_OBSERVE_MAX_FILES="1")
    other = site.daemon.site(f"{site.root.name}-other")
    for name in ("a.txt", "b.txt", "c.txt"):
        other.write(name, "1\n")  # so that there is a second warning
    payload = shell(site, "sh run")
    say(site, payload)
    payload.update(cwd=str(other.root), hook_event_name="PostToolUse")
    say(site, payload)
    said = run_hook(site.daemon, payload, *PATIENT)
    assert "nothing was reported before the tool ran" in said
    assert said.endswith(" (and 1 more)\n")


def test_a_command_in_the_background_may_name_files_that_no_workspace_has(site: Site) -> None:
    payload = shell(site, "make > \ud83d > /out.txt > a.txt", run_in_background=True)
    say(site, payload)
    say(site, payload, "PostToolUse")
    site.write("a.txt", "1\n")
    say(site, payload, "Stop")
    assert told(site) == [("observed", "s-1", ["A a.txt"])]
