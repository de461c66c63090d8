"""A workspace, a home and an environment full of traps for whoever runs Git, or trusts it: nothing
of them is ever started, read as configuration, or changed, whatever method is called.

The traps are seen to work: plain git, run in the same workspace, falls into them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import (
    PATIENCE_S,
    Client,
    ConnectionEnded,
    DaemonProcess,
    Refusal,
    Site,
    files_below,
)
from rigs import tracer
from stetd.methods import METHODS

HOOKS = [
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout"),
    *("post-commit", "post-index-change", "post-merge", "post-rewrite", "post-update"),
    *("pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase"),
    *("prepare-commit-msg", "reference-transaction", "sendemail-validate", "update"),
]
PROGRAMS = [
    *("git", "ssh", "gpg", "sh", "bash", "less", "vi", "python", "python3", "notify-send"),
    *("xdg-open", "systemctl", "direnv", "watchman", "git-lfs", "git-gc", "git-repack"),
]


class Trap:
    """A program that notes that it was run; and everything that may lead somebody to run it."""

    def __init__(self, base: Path) -> None:
        self.note = base / "tripped"
        self.program = base / "trap"
        self.program.write_text(f'#!/bin/sh\necho "$0 $@" >> {self.note}\ncat\n')
        self.program.chmod(0o755)
        self.home = base / "home"
        self.programs = base / "programs"

    def configuration(self) -> str:
        """A Git configuration in which every command is the trap."""
        run = self.program
        return f"""
[core]
\tfsmonitor = {run}
\thooksPath = {self.home}/hooks
\teditor = {run}
\tpager = {run}
\tsshCommand = {run}
\taskPass = {run}
\tgitProxy = {run}
\tattributesFile = {self.home}/attributes
\texcludesFile = {self.home}/ignore
\tautocrlf = true
[filter "trap"]
\tclean = {run}
\tsmudge = {run}
\trequired = true
[diff "trap"]
\ttextconv = {run}
\tcommand = {run}
[diff]
\texternal = {run}
[merge "trap"]
\tdriver = {run} %A
[gpg]
\tprogram = {run}
[commit]
\tgpgSign = true
[credential]
\thelper = !{run}
[alias]
\tlog = !{run}
[uploadpack]
\tpackObjectsHook = {run}
[init]
\ttemplateDir = {self.home}/template
[safe]
\tdirectory = *
"""

    def set_home(self) -> None:
        """A home whose Git configuration, templates and programs are traps."""
        for name in (".gitconfig", ".config/git/config", "xdg/git/config", "system/gitconfig"):
            self._write(name, self.configuration())
        for name in ("attributes", ".config/git/attributes", "xdg/git/attributes"):
            self._write(name, "* filter=trap diff=trap merge=trap text eol=crlf\n")
        for name in ("ignore", ".config/git/ignore", "xdg/git/ignore"):
            self._write(name, "*\n")
        for hook in HOOKS:
            for folder in ("hooks", "template/hooks"):
                self._link(self.home / folder / hook)
        for program in PROGRAMS:
            self._link(self.programs / program)

    def set_workspace(self, root: Path) -> None:
        """A repository whose configuration, hooks and attributes are traps."""
        subprocess.run(["git", "init", "-q", str(root)], check=True, env=_without_git())
        with (root / ".git" / "config").open("a") as config:
            config.write(self.configuration())
        for hook in HOOKS:
            self._link(root / ".git" / "hooks" / hook)
        (root / ".gitattributes").write_text("* filter=trap diff=trap merge=trap text eol=crlf\n")
        (root / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap\n")
        (root / ".gitmodules").write_text(
            f'[submodule "s"]\n\tpath = s\n\turl = ext::{self.program}\n'
            f"\tupdate = !{self.program}\n"
        )
        (root / ".envrc").write_text(f"{self.program}\n")
        (root / "sub").mkdir()
        (root / "sub" / ".git").write_text("gitdir: ../.git\n")

    def environment(self, root: Path) -> dict[str, str]:
        """Every variable that Git, or a program like it, goes by."""
        run, home = str(self.program), self.home
        commands = [
            *(
                "GIT_SSH",
                "GIT_SSH_COMMAND",
                "GIT_EXTERNAL_DIFF",
                "GIT_EDITOR",
                "GIT_PAGER",
                "PAGER",
            ),
            *("EDITOR", "VISUAL", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "BROWSER"),
            *("GIT_SEQUENCE_EDITOR", "LESSOPEN", "GIT_FSMONITOR_TEST", "SHELL"),
        ]
        return {
            **dict.fromkeys(commands, run),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "xdg"),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "GIT_DIR": str(root / ".git"),
            "GIT_COMMON_DIR": str(root / ".git"),
            "GIT_WORK_TREE": str(root),
            "GIT_INDEX_FILE": str(root / ".git" / "index"),
            "GIT_OBJECT_DIRECTORY": str(root / ".git" / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(home),
            "GIT_NAMESPACE": "trapped",
            "GIT_CEILING_DIRECTORIES": "/",
            "GIT_CONFIG": str(home / ".gitconfig"),
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "GIT_CONFIG_SYSTEM": str(home / "system" / "gitconfig"),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": run,
            "GIT_CONFIG_KEY_1": "core.hooksPath",
            "GIT_CONFIG_VALUE_1": str(home / "hooks"),
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{run}'",
            "GIT_ATTR_SOURCE": "HEAD",
            "GIT_EXEC_PATH": str(self.programs),
            "GIT_TEMPLATE_DIR": str(home / "template"),
            "GIT_TRACE": str(self.note),
            "GIT_TRACE2": str(self.note),
            "GIT_AUTHOR_NAME": "Mallory",
            "GIT_COMMITTER_NAME": "Mallory",
            "STET_NOTIFY": "false",
        }

    def _write(self, name: str, text: str) -> None:
        (self.home / name).parent.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text(text)

    def _link(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(self.program)


def _without_git() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}


@pytest.fixture
def trapped(tmp_path: Path) -> Iterator[tuple[Trap, DaemonProcess, Path]]:
    """A daemon in an environment of traps, and the workspace that it is to serve."""
    trap = Trap(tmp_path)
    trap.set_home()
    # With something in its environment it is a process of its own from the start.
    daemon = DaemonProcess({"protected_action": '"allow"'}, {"HOME": str(trap.home)})
    root = daemon.base / "w"
    root.mkdir()
    trap.set_workspace(root)
    daemon.environment.update(trap.environment(root))
    try:
        daemon.start()
        yield trap, daemon, root
        assert daemon.stop() == 0
        assert daemon.log() == ""
    finally:
        daemon.close()


@contextmanager
def traced(daemon: DaemonProcess, output: Path) -> Iterator[None]:
    """What the daemon starts and opens goes into ``output``."""
    calls = "execve,execveat,fork,vfork,open,openat,openat2"
    command = ["strace", "-f", "-y", "-s", "4096", "-e", f"trace={calls}", "-e", "signal=none"]
    strace = subprocess.Popen(
        [*command, "-o", str(output), "-p", str(daemon.process.pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert strace.stderr is not None
    assert " attached" in strace.stderr.readline()
    try:
        yield
    finally:
        strace.send_signal(signal.SIGINT)
        strace.stderr.close()
        strace.wait(PATIENCE_S)


def everything(site: Site, root: Path) -> None:
    """Every method, with calls that do something where that is possible."""
    called: set[str] = set()

    def call(client: Client, method: str, /, **params: Any) -> dict[str, Any]:
        called.add(method)
        return client.call(method, **params)

    agent, person = site.agent, site.person
    called.add("hello")
    (root / "a.txt").write_bytes(b"one\r\ntwo\n$Id$\n")
    site.write("merge.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    patches = [{"operation": "replace", "oldText": "two", "newText": "2"}]
    first = call(agent, "patch", path="a.txt", patches=patches)
    call(agent, "patch_file", path="a.txt", changes=[{"search": "one", "replace": "1"}])
    block = "===SKIPPY_PATCH_START:a.txt===\n===FIND===\n2\n===REPLACE===\ntwo\n"
    call(agent, "patch_block", text=block + "===SKIPPY_PATCH_END===")
    envelope = "*** Begin Patch\n*** Add File: sub/new.txt\n+x\n*** Update File: .gitattributes\n"
    envelope += "*** Move to: sub/.gitattributes\n*** End Patch"
    call(agent, "apply_patch", input=envelope)
    early = site.replace("merge.txt", "2", "two")["commit"]
    site.replace("merge.txt", "8", "eight")
    call(agent, "undo", commits=[early])
    call(agent, "redo")
    edit = {
        "method": "patch_file",
        "params": {"path": "a.txt", "changes": [{"search": "two", "replace": "2"}]},
    }
    call(agent, "transaction", calls=[edit])
    call(agent, "rollback", to=early)
    call(agent, "restore", path="a.txt", at=first["commit"])
    for method, params in {
        "read": {"path": "a.txt"}, "log": {}, "show": {"commit": "HEAD"}, "diff": {},
        "blame": {"path": "a.txt"}, "export": {}, "status": {}, "clipboard_list": {},
    }.items():  # fmt: skip
        call(agent, method, **params)
    for method in ("snapshot", "verify", "gc", "snapshot", "workspace_list"):
        call(person, method)
    call(person, "forget", path="merge.txt")
    for method in sorted(METHODS.keys() - called - {"shutdown", "subscribe"}):
        for client in (agent, person):
            try:
                client.call(method)
            except (Refusal, ConnectionEnded):
                continue


def test_git_itself_falls_into_the_traps(tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    trap.set_home()
    root = tmp_path / "w"
    root.mkdir()
    trap.set_workspace(root)
    (root / "a.txt").write_text("x\n")
    subprocess.run(
        ["git", "-C", str(root), "add", "a.txt"],
        env={**_without_git(), "HOME": str(trap.home)},
        capture_output=True,
        check=False,
    )
    assert str(trap.program) in trap.note.read_text()


def test_nothing_is_run_read_or_changed(
    trapped: tuple[Trap, DaemonProcess, Path], tmp_path: Path
) -> None:
    trap, daemon, root = trapped
    around = [trap.home, root / ".git", trap.programs]
    before = [files_below(place) for place in around]
    daemon.control().call("workspace_allow", root=str(root))
    site = Site(daemon, root, "conv-1")
    everything(site, root)
    daemon.kill()
    daemon.start()
    site.connect()
    assert site.agent.call("read", path="a.txt")["eol"] == "mixed"
    daemon.restart()
    assert not trap.note.exists(), trap.note.read_text()
    assert [files_below(place) for place in around] == before
    site.connect()
    site.daemon.environment.clear()  # plain git from here on, and not in the traps
    assert "Mallory" not in site.git("log", "--format=fuller", "history")
    stored = site.git("cat-file", "blob", "history:a.txt").encode()
    assert stored == site.bytes_of("a.txt") == b"one\r\n2\n$Id$\n"


def test_no_program_is_started_and_no_configuration_of_git_opened(
    trapped: tuple[Trap, DaemonProcess, Path], tmp_path: Path
) -> None:
    reason = tracer.why_not()
    if reason is not None:
        pytest.skip(reason)
    _, daemon, root = trapped
    output = tmp_path / "trace"
    with traced(daemon, output):
        daemon.control().call("workspace_allow", root=str(root))
        site = Site(daemon, root, "conv-1")
        everything(site, root)
    lines = output.read_text(errors="replace").splitlines()
    assert [line for line in lines if re.search(r"\b(execve|execveat|fork|vfork)\(", line)] == []
    state = str(daemon.state)
    opened = [line for line in lines if state not in line]
    assert any("a.txt" in line for line in opened), "the trace shows nothing"
    suspicious = re.compile(r'"(\.git|[^"]*/\.git)["/]|gitconfig|git/config|git/attributes|/\.git/')
    assert [line for line in opened if suspicious.search(line)] == []
