"""A small fixed story that is told to a daemon in trouble, and the judge of what came of it.

The story: an update; a person's save; a creation in a new directory; a transaction over two
files (one of them the person's); an undo of it; an undo of the creation. The judge knows no
internals. It reads the history through the daemon and through git, replays the calls that
stand in it on plain dictionaries, and compares with the files. Whatever happened:

- what was acknowledged stands, what was refused does not, what was in flight is whole or not;
- nothing that the person saved is gone, nothing else is in the workspace;
- ``git fsck --strict`` is silent, and the newest tree is what is on disk;
- every call sent again with its request id ends up in the history exactly once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from e2e.running_daemon import Client, ConnectionEnded, Refusal, Site
from rigs.findings import Findings
from rigs.forked_daemon import ForkedDaemon

Files = dict[str, str]

FIRST_FILES: Files = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "alpha\nbeta\n",
    "keep/mine.txt": "no agent has been here\n",
}
SETTINGS = {"checkpoint_idle_s": 0.1, "grace_s": 0.05, "log_level": '"error"'}
UNKNOWN = ("outcome_unknown", "shutting_down")


def _patch(path: str, **patch: str) -> dict[str, Any]:
    return {"path": path, "patches": [patch]}


def _replace(path: str, old: str, new: str) -> dict[str, Any]:
    return _patch(path, operation="replace", oldText=old, newText=new)


def _create(path: str, text: str) -> dict[str, Any]:
    return _patch(path, operation="append_eof", newText=text)


def _swapped(path: str, old: str, new: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        files[path] = files[path].replace(old, new)

    return change


def _created(files: Files) -> None:
    files["new/deep/c.txt"] = "created\n"


def _together(files: Files) -> None:
    _swapped("a.txt", "two", "TWO")(files)
    _swapped("b.txt", "beta", "BETA")(files)


def _apart(files: Files) -> None:
    _swapped("a.txt", "TWO", "two")(files)
    _swapped("b.txt", "BETA", "beta")(files)


def _removed(files: Files) -> None:
    del files["new/deep/c.txt"]


def _by_hand(files: Files) -> None:
    files["b.txt"] += "by hand\n"


@dataclass(frozen=True)
class Call:
    """A request of the story, and what it does to the files."""

    request: str
    method: str
    params: dict[str, Any]
    change: Callable[[Files], None]


HAND = "the person's save"
CALLS = [
    Call("r1", "patch", _replace("a.txt", "one", "1"), _swapped("a.txt", "one", "1")),
    Call("r2", "patch", _create("new/deep/c.txt", "created\n"), _created),
    Call(
        "r3",
        "transaction",
        {
            "calls": [
                {"method": "patch", "params": _replace("a.txt", "two", "TWO")},
                {"method": "patch", "params": _replace("b.txt", "beta", "BETA")},
            ]
        },
        _together,
    ),
    Call("r4", "undo", {"request": "r3"}, _apart),
    Call("r5", "undo", {"request": "r2"}, _removed),
]
CHANGES = {HAND: _by_hand, **{call.request: call.change for call in CALLS}}
#: After which call the person saves.
_SAVE_AFTER = "r1"


class Answer(Enum):
    """What the client knows of a call."""

    DONE = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass
class Told:
    """What was sent, done by hand and answered, in order."""

    answers: dict[str, Answer] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    #: Calls and the save, in the order in which they happened.
    order: list[str] = field(default_factory=list)
    #: Held by whoever writes here or into the workspace.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> Told:
        """What has been told so far. The caller holds the lock."""
        return Told({**self.answers}, {**self.commits}, {**self.refusals}, [*self.order])

    def kinds(self) -> set[str]:
        """The kinds of all refusals."""
        return {said.partition(":")[0] for said in self.refusals.values()}

    def with_answer(self, answer: Answer) -> set[str]:
        """The requests that were answered so."""
        return {request for request, given in self.answers.items() if given is answer}


def prepare(daemon: ForkedDaemon) -> Site:
    """The story's workspace, with a session; nothing has been told yet."""
    root = daemon.place / "w"
    for path, content in FIRST_FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return daemon.site("w")


def tell(site: Site, told: Told, pause: Callable[[str], None] = lambda after: None) -> None:
    """Tell the story as far as the daemon lives; ``pause`` is called after every call."""
    for call in CALLS:
        if not send(site.agent, call, told):
            return
        if call.request == _SAVE_AFTER:
            save_by_hand(site.root, told)
        pause(call.request)


def save_by_hand(root: Path, told: Told) -> None:
    """What the person saves, once."""
    with told.lock:
        if HAND not in told.order:
            with (root / "b.txt").open("a") as file:
                file.write("by hand\n")
                file.flush()
                os.fsync(file.fileno())  # as an editor does; or else it may go with the power
            told.order.append(HAND)


def send(client: Client, call: Call, told: Told) -> bool:
    """Send a call and take down what is answered; False if the daemon is gone."""
    with told.lock:
        told.order.append(call.request)
        told.answers[call.request] = Answer.UNKNOWN
    try:
        result = client.call(call.method, **call.params, request_id=call.request)
    except Refusal as refusal:
        with told.lock:
            told.refusals[call.request] = str(refusal)
            if refusal.kind not in UNKNOWN:
                told.answers[call.request] = Answer.REFUSED
        return True
    except (ConnectionEnded, ConnectionError):
        return False
    with told.lock:
        told.answers[call.request] = Answer.DONE
        told.commits[call.request] = result["commit"]
    return True


# -- judging


@dataclass
class Verdict:
    """What is wrong with one point; empty lists if nothing is."""

    torn: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.torn or self.lost or self.duplicated)

    def add_to(self, findings: Findings, point: str) -> None:
        """Count the point, and say what was found there."""
        findings.points += 1
        findings.torn += bool(self.torn)
        findings.lost += bool(self.lost)
        findings.duplicated += bool(self.duplicated)
        if self:
            findings.notes.append(f"{point}: {self}")


def judge(site: Site, told: Told, *, leftovers: bool = False) -> Verdict:
    """Judge a daemon that runs and should be well; then send everything again and judge that.

    ``leftovers``: temporary files, and directories, may be there that could not be removed
    until now. No restart may leave them there.
    """
    verdict = Verdict()
    try:
        _judge_once(site, told, verdict, leftovers)
        if not verdict:
            retry(site, told, verdict, leftovers)
    except Refusal as refusal:
        verdict.lost.append(f"the history can't be read: {refusal}")
    return verdict


def retry(site: Site, told: Told, verdict: Verdict, leftovers: bool) -> None:
    """Every call again: those that stand are answered so, the others are carried out now."""
    standing = _standing(site)
    save_by_hand(site.root, told)
    for call in CALLS:
        try:
            result = site.agent.call(call.method, **call.params, request_id=call.request)
        except Refusal as refusal:
            verdict.lost.append(f"{call.request}, sent again, is refused: {refusal}")
            return
        if result["replayed"] != (call.request in standing):
            verdict.duplicated.append(f"{call.request}: replayed is {result['replayed']}")
        if result["commit"] != told.commits.setdefault(call.request, result["commit"]):
            verdict.duplicated.append(f"{call.request} is another commit than was answered")
        if told.answers.get(call.request) is not Answer.DONE:
            told.answers[call.request] = Answer.DONE
            if call.request not in standing:
                told.order = [each for each in told.order if each != call.request]
                told.order.append(call.request)
    _judge_once(site, told, verdict, leftovers)


def _standing(site: Site) -> list[str]:
    """The requests in the history, oldest first."""
    commits = site.log(limit=200)
    return [c["request"] for c in reversed(commits) if c["request"] is not None]


def _judge_once(site: Site, told: Told, verdict: Verdict, leftovers: bool) -> None:
    standing = _standing(site)
    for request in sorted({each for each in standing if standing.count(each) > 1}):
        verdict.duplicated.append(f"{request} stands twice: {standing}")
    for request in sorted(told.with_answer(Answer.DONE) - set(standing)):
        verdict.lost.append(f"{request} was acknowledged and is not in the history {standing}")
    for request in sorted(set(standing) & told.with_answer(Answer.REFUSED)):
        verdict.torn.append(f"{request} was refused and stands: {told.refusals[request]}")
    known = {c["commit"] for c in site.log(limit=200)}
    for request, commit in told.commits.items():
        if commit not in known:
            verdict.lost.append(f"{request}: commit {commit} is not in the history")
    _judge_files(site, _expected(told, standing), verdict, leftovers)
    complaints = site.fsck()
    if complaints:
        verdict.torn.append(f"git fsck: {complaints}")
    _judge_tree(site, verdict)


def _expected(told: Told, standing: list[str]) -> Files:
    files = dict(FIRST_FILES)
    for event in told.order:
        if event == HAND or event in standing:
            CHANGES[event](files)
    return files


def _judge_files(site: Site, expected: Files, verdict: Verdict, leftovers: bool) -> None:
    found = dict(_everything_below(site.root))
    folders = {f"{parent}/" for path in expected for parent in Path(path).parents}
    wanted: dict[str, str] = {**dict.fromkeys(folders - {"./"}, ""), **expected}
    if leftovers:
        found = {
            path: content
            for path, content in found.items()
            if path in wanted or not (path.endswith("/") or "/.stet-" in f"/{path}")
        }
    if found == wanted:
        return
    for path in sorted({*found, *wanted}):
        if found.get(path) == wanted.get(path):
            continue
        said = f"{path}: {found.get(path)!r}, expected {wanted.get(path)!r}"
        ours = path == "keep/mine.txt" or ("by hand" in wanted.get(path, ""))
        gone = ours and "by hand" not in found.get(path, "")
        (verdict.lost if gone else verdict.torn).append(said)


def _everything_below(root: Path) -> Iterator[tuple[str, str]]:
    for folder, names, files in os.walk(root):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root) + "/", ""
        for name in files:
            path = os.path.join(folder, name)
            content = Path(path).read_bytes().decode("latin-1")
            yield os.path.relpath(path, root), content


def _judge_tree(site: Site, verdict: Verdict) -> None:
    """The newest tree is what is on disk, for all files that it knows."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "--git-dir", site.shadow, "ls-tree", "-r", "-z", "refs/heads/history"],
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        if site.log(limit=1):
            verdict.lost.append(f"git ls-tree: {done.stderr}")
        return
    for line in done.stdout.split("\0")[:-1]:
        about, path = line.split("\t")
        file = site.root / path
        content = file.read_bytes() if file.exists() else b""
        oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        if oid != about.split()[2]:
            verdict.torn.append(f"{path} is not what the newest commit says: {content!r}")
