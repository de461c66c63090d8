"""What a user sees an agent do, told step by step, with every byte checked.

    python scripts/story.py [--keep]

On a copy of the ``json`` and ``asyncio`` packages of this interpreter, with a daemon of its
own: an agent cuts a function out of one file and pastes it into another; the person edits
the first file by hand in between; the cut is taken back around the hand edit; the daemon is
stopped and started again. What the files must hold is worked out here with plain string
operations, apart from anything that stet does, and compared byte for byte at each step.
Ends with status 1 at the first difference. ``--keep`` leaves the directory there.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field

import stet
from private_daemon import DaemonTrouble, PrivateDaemon

#: The function that is moved, if this version of Python still has it there.
FAVOURITE = "_format_pipe"
SOURCE = "asyncio/base_events.py"
TARGET = "asyncio/base_subprocess.py"
CLIPBOARD = "function"
SESSION = "refactoring"
AGENT = "example-agent"

Tree = dict[str, bytes]


class Difference(Exception):
    """Something is not as it must be; the message says what."""


@dataclass
class Story:
    """One telling: the directories, the daemon, and what the files must hold by now."""

    directory: str
    daemon: PrivateDaemon
    project: str
    expected: Tree = field(default_factory=dict)
    shadow: str = ""
    steps: int = 0
    checks: int = 0

    def step(self, what: str) -> None:
        """Say what happens next."""
        self.steps += 1
        print(f"\n{self.steps}. {what}", flush=True)

    def check(self, what: str, found: object, expected: object) -> None:
        """Compare, and say so. Raises Difference."""
        if found != expected:
            raise Difference(f"{what}\n  expected: {expected!r:.2000}\n  found:    {found!r:.2000}")
        self.checks += 1
        print(f"   ok: {what}", flush=True)

    def check_files(self) -> None:
        """Compare every file of the project with what it must hold. Raises Difference."""
        found = tree_of(self.project)
        for path in sorted(found.keys() | self.expected.keys()):
            if found.get(path) != self.expected.get(path):
                raise Difference(describe_difference(path, found, self.expected))
        self.checks += 1
        print(f"   ok: all {len(found)} files are, byte for byte, what they must be", flush=True)

    def run_stet(self, *arguments: str, shown: bool = True) -> str:
        """Run the command ``stet`` in the project, as the person; what it printed."""
        program = os.path.join(os.path.dirname(sys.executable), "stet")
        return self._run([program, *arguments], f"stet {shlex.join(arguments)}", shown=shown)

    def run_git(self, *arguments: str, shown: bool = True) -> str:
        """Run plain git on the shadow repository; what it printed, errors too."""
        command = ["git", "--git-dir", self.shadow, "--no-pager", *arguments]
        return self._run(command, f"git --git-dir SHADOW {shlex.join(arguments)}", shown=shown)

    def _run(self, command: Sequence[str], name: str, *, shown: bool) -> str:
        if shown:
            print(f"   $ {name}", flush=True)
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.daemon.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = done.stdout.decode("utf-8", "replace")
        if shown or done.returncode != 0:
            quote(said.replace(self.directory, "..."))
        if done.returncode != 0:
            raise Difference(f"{name} ended with status {done.returncode}")
        return said

    def agent(self) -> stet.Session:
        """Connect as the agent does: its own session, on the agents' socket."""
        return stet.connect(
            self.project,
            session=SESSION,
            agent=AGENT,
            endpoint=self.daemon.endpoint(),
            start=False,
        )


def quote(text: str) -> None:
    """Print what a program said, set off from the story."""
    for line in text.splitlines():
        print(f"   | {line}".rstrip(), flush=True)


def tree_of(root: str) -> Tree:
    """Every file below a directory: its bytes by its path."""
    tree = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                tree[os.path.relpath(path, root)] = file.read()
    return tree


def describe_difference(path: str, found: Tree, expected: Tree) -> str:
    """Where a file first differs from what it must be."""
    if path not in found:
        return f"{path} is missing"
    if path not in expected:
        return f"{path} is there, and nobody made it"
    ours, theirs = expected[path].split(b"\n"), found[path].split(b"\n")
    pairs = zip(ours, theirs, strict=False)
    line = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    return (
        f"{path}, line {line + 1}\n  expected: {ours[line : line + 3]!r}"
        f"\n  found:    {theirs[line : line + 3]!r}"
    )


# -- what the files must hold: plain string operations, nothing of stet's


def function_to_move(source: str) -> str:
    """The text of a top-level function, with the blank lines after it; it stands once."""
    lines = source.split("\n")
    found: list[tuple[str, str]] = []
    for node, following in itertools.pairwise(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            end = node.end_lineno or node.lineno
            while end < following.lineno - 1 and not lines[end].strip():
                end += 1
            text = "\n".join(lines[node.lineno - 1 : end]) + "\n"
            if source.count(text) == 1:
                found.append((node.name, text))
    if not found:
        raise Difference(f"{SOURCE} has no function that could be moved")
    return dict(found).get(FAVOURITE, found[0][1])


def indented(text: str, prefix: str) -> str:
    """The text with ``prefix`` before each line that is not blank."""
    return "".join(
        prefix + line if line.strip() else line for line in text.splitlines(keepends=True)
    )


def hand_edited(text: str) -> str:
    """What the person makes of the file: a note on top, and a line at the end."""
    return "# NOTE(me): to be split up next week.\n" + text + "\n# end of file\n"


# -- the story


def tell(story: Story) -> None:
    """Tell it from the beginning to the end. Raises Difference."""
    prepare(story)
    refuse(story)
    original = story.expected[SOURCE].decode()
    function = function_to_move(original)
    cut_commit = cut(story, function)
    edit_by_hand(story)
    paste(story, function)
    look(story, cut_commit)
    take_back(story, original, cut_commit)
    restart(story, function)
    audit(story)


def prepare(story: Story) -> None:
    """A project of real source files, allowed by the person."""
    story.step("A project: copies of this Python's json and asyncio packages")
    for package in (json, asyncio):
        origin = os.path.dirname(package.__file__ or "")
        shutil.copytree(
            origin,
            os.path.join(story.project, package.__name__),
            ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
        )
    story.expected = tree_of(story.project)
    print(f"   {len(story.expected)} files in .../project")

    story.step("The daemon starts, and the person allows agents to edit there")
    story.daemon.start()
    print(f"   stetd, process {story.daemon.pid}, with directories of its own in ...")
    story.run_stet("init", ".")
    (workspace,) = json.loads(story.run_stet("workspaces", "--json", shown=False))["workspaces"]
    story.shadow = workspace["shadow"]
    story.check_files()


def refuse(story: Story) -> None:
    """An edit that could mean several places."""
    text = "        return "
    lines = story.expected[SOURCE].decode().split("\n")
    places = [number for number, line in enumerate(lines, 1) if text in line]
    story.step(f"The agent asks to replace {text!r}, which stands in {len(places)} places")
    with story.agent() as agent:
        try:
            agent.patch(SOURCE, [stet.replace(text, "        raise ")])
        except stet.StetError as error:
            kind, message = error.kind, error.message
            candidates = error.data["failures"][0].get("candidates", [])
        else:
            raise Difference("an ambiguous edit was carried out")
    quote(message[:600])
    story.check("refused as old_text_not_unique", kind, "old_text_not_unique")
    story.check("the first places are named", candidates[:5], places[:5])
    story.check_files()


def cut(story: Story, function: str) -> str:
    """The first call: the function leaves its file and is in the clipboard."""
    name = function.split("(")[0].removeprefix("def ")
    story.step(f"The agent cuts {name}() out of {SOURCE}, into a clipboard")
    with story.agent() as agent:
        result = agent.patch(
            SOURCE,
            [stet.replace(function, "", to_clipboard=CLIPBOARD)],
            message=f"{name} is only used for subprocesses",
        )
        stored = agent.clipboard_get(CLIPBOARD).text
    quote(result.message)
    source = story.expected[SOURCE].decode()
    story.expected[SOURCE] = source.replace(function, "").encode()
    story.check("the clipboard holds the function", stored, function)
    story.check_files()
    return result.commit or ""


def edit_by_hand(story: Story) -> None:
    """The person saves the same file, elsewhere in it, without telling anybody."""
    story.step(f"Meanwhile the person edits {SOURCE} by hand: the first line and the last")
    text = hand_edited(story.expected[SOURCE].decode())
    with open(os.path.join(story.project, SOURCE), "w", encoding="utf-8", newline="") as file:
        file.write(text)
    story.expected[SOURCE] = text.encode()
    story.check_files()


def paste(story: Story, function: str) -> None:
    """The second call: into a class at the end of the other file, indented to fit."""
    story.step(f"In its next call the agent pastes it at the end of {TARGET}, as a method")
    with story.agent() as agent:
        result = agent.patch(
            TARGET,
            [
                stet.append_eof("\n    @staticmethod\n"),
                stet.append_eof(from_clipboard=CLIPBOARD, reindent={"add": "    "}),
            ],
            message="its new home",
        )
    quote(result.message)
    pasted = "\n    @staticmethod\n" + indented(function, "    ")
    story.expected[TARGET] += pasted.encode()
    compile(story.expected[TARGET], TARGET, "exec")
    story.check_files()


def look(story: Story, cut_commit: str) -> None:
    """What the person sees of it."""
    story.step("The person looks at what was done")
    story.run_stet("log")
    story.run_stet("show", cut_commit[:12])
    story.run_stet("diff", "HEAD", "--", SOURCE)


def take_back(story: Story, original: str, cut_commit: str) -> None:
    """Undo the first of the two calls: the hand edit and the second call stay."""
    story.step("The person takes back the cut; the hand edit and the paste are to stay")
    story.run_stet("undo", cut_commit[:12], "-m", "still used elsewhere")
    # The original with the hand edit: as if there never had been a cut.
    story.expected[SOURCE] = hand_edited(original).encode()
    story.check_files()
    story.run_stet("log")
    kinds = [
        commit["kind"]
        for commit in json.loads(story.run_stet("log", "--json", shown=False))["commits"]
    ]
    story.check(
        "the history, newest first",
        kinds,
        ["undo", "outside", "edit", "outside", "edit", "outside"],
    )


def restart(story: Story, function: str) -> None:
    """Clipboards and history outlive the daemon."""
    story.step("The daemon is stopped (SIGTERM) and started again")
    story.daemon.stop()
    print("   it ended with status 0")
    story.daemon.start()
    with story.agent() as agent:
        story.check("the clipboard is still there", agent.clipboard_get(CLIPBOARD).text, function)
        story.check("and so is the history", len(agent.log().commits), 6)
    story.daemon.stop()
    story.check_files()


def audit(story: Story) -> None:
    """The shadow repository, read with plain git."""
    story.step("What plain git sees in the shadow repository")
    story.run_git("log", "--reverse", "--stat", "--format=%h %an: %s")
    story.run_git("log", "-1", "--format=full")
    said = story.run_git("fsck", "--strict", "--full", "--no-dangling")
    story.check("git fsck finds nothing", said.strip(), "")
    for path in (SOURCE, TARGET):
        blob = subprocess.run(
            ["git", "--git-dir", story.shadow, "show", f"history:{path}"],
            env=story.daemon.environ,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        story.check(f"{path} in the history is {path} on disk", blob, story.expected[path])


def main() -> int:
    """Tell the story in a new directory; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the directory there")
    options = parser.parse_args()
    if shutil.which("git") is None:
        print("the story needs git, to read the shadow repository with", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    # Not in $TMPDIR: a socket's path must be short.
    directory = os.path.realpath(tempfile.mkdtemp(prefix="stet-story-", dir="/tmp"))
    project = os.path.join(directory, "project")
    os.mkdir(project)
    keep = options.keep
    try:
        with PrivateDaemon(directory) as daemon:
            story = Story(directory, daemon, project)
            tell(story)
    except (Difference, DaemonTrouble, stet.StetError) as error:
        keep = True
        print(f"\nNOT AS IT MUST BE: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the output, such as head, has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        if keep:
            print(f"\nLeft for a look: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory)
    print(f"\nAs expected: {story.steps} steps, {story.checks} checks, no difference.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
