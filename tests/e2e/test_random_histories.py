"""Random edits, saves, undos, rollbacks and restarts against a model that knows what must stand.

The model is a few dictionaries; what an undo must give is asked of ``git merge-file``, which
the contract names as the rule. After every step all files are compared byte for byte, and the
log commit for commit: kind, session, files, and what is undone by what.

How many commits there are can differ from run to run, after a kill. Which rules may run, and
what they draw, must not depend on it: Hypothesis would find its own data inconsistent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run

from e2e.running_daemon import Client, DaemonProcess, Refusal, Site, running
from e2e.test_edit_files import oid
from e2e.test_undo_files import git_merge

PATHS = ["a.txt", "dir/b.txt", "dir/sub/c.txt"]
SESSIONS = ["one", "two"]
#: Kinds that count as edits, and those that redo takes back.
EDITS, REDOABLE = ("edit", "restore"), ("undo", "rollback")
Content = bytes | None
Changes = dict[str, tuple[Content, Content]]
_sites = count(1)
#: Which commit, as a share of all.
SHARES = st.floats(0, 1, exclude_max=True)


@dataclass
class Commit:
    """A commit as it must be in the log."""

    id: str
    kind: str
    session: str | None
    changes: Changes
    reverts: list[str] = field(default_factory=list)

    @property
    def found_only(self) -> bool:
        """Whether it only records files that the history had not."""
        return self.kind == "outside" and all(old is None for old, _ in self.changes.values())


class Conflict(Exception):
    """The model says that an undo can't be done."""


def taken_back(before: Content, after: Content, now: Content) -> Content:
    """What a file must become. Raises Conflict."""
    if now in (after, before):
        return before
    if after is None or now is None or before is None:
        raise Conflict
    merged = git_merge(after, now, before)
    if merged is None:
        raise Conflict
    return merged


def undone_by(commits: list[Commit], name: str) -> str | None:
    """The newest of these commits that took this one back and is not taken back itself."""
    for other in reversed(commits):
        if name in other.reverts and undone_by(commits, other.id) is None:
            return other.id
    return None


class Histories(RuleBasedStateMachine):
    """One workspace, two agents, a person."""

    daemon: DaemonProcess

    def __init__(self) -> None:
        super().__init__()
        self.disk: dict[str, bytes] = {}
        self.known: dict[str, bytes] = {}
        self.commits: list[Commit] = []
        self.words = count(1)
        self.calls = 0
        self.site: Site

    @initialize()
    def allow(self) -> None:
        self.site = self.daemon.site(f"h{next(_sites)}")
        self._greet()

    def _greet(self) -> None:
        self.agents = {name: self.site.another(name) for name in SESSIONS}

    def teardown(self) -> None:
        if hasattr(self, "site"):
            assert self.site.fsck() == ""

    def word(self) -> str:
        """A line that stands nowhere else."""
        return f"word {next(self.words)}.\n"

    # -- what a person does beside the daemon

    @rule(path=st.sampled_from(PATHS), place=st.floats(0, 1), lines=st.integers(1, 12))
    def save(self, path: str, place: float, lines: int) -> None:
        old = self.disk.get(path, b"").splitlines(keepends=True)
        at = round(place * len(old))
        new = [self.word().encode() for _ in range(lines)]
        self._put(path, b"".join(old[:at] + new + old[at + lines % 2 :]))

    @rule(path=st.sampled_from(PATHS))
    def remove(self, path: str) -> None:
        if path in self.disk:
            self._put(path, None)

    @rule(path=st.sampled_from(PATHS))
    def put_back(self, path: str) -> None:
        """`git checkout` of what the history had last."""
        if path in self.known:
            self._put(path, self.known[path])

    def _put(self, path: str, content: Content) -> None:
        file = self.site.root / path
        if content is None:
            file.unlink()
            del self.disk[path]
        else:
            self.site.write(path, content)
            self.disk[path] = content

    # -- what agents do

    @rule(
        session=st.sampled_from(SESSIONS),
        path=st.sampled_from(PATHS),
        place=st.floats(0, 1, exclude_max=True),
        what=st.sampled_from(["replace", "delete", "append", "prepend", "overwrite"]),
        preview=st.sampled_from([False, False, False, True]),
    )
    def edit(self, session: str, path: str, place: float, what: str, preview: bool) -> None:
        lines = self.disk.get(path, b"").decode().splitlines(keepends=True)
        new = self.word()
        patch: dict[str, Any] = {"operation": "append_eof", "newText": new}
        after = "".join([*lines, new])
        if what in ("replace", "delete") and lines:
            at = int(place * len(lines))
            new = "" if what == "delete" else new
            patch = {"operation": "replace", "oldText": lines[at], "newText": new}
            after = "".join([*lines[:at], new, *lines[at + 1 :]])
        elif what == "prepend":
            patch["operation"] = "prepend_bof"
            after = "".join([new, *lines])
        elif what == "overwrite":
            patch["operation"] = "overwrite"
            after = new
        result = self.agents[session].call("patch", path=path, patches=[patch], preview=preview)
        if preview:
            assert result["commit"] is None
            return
        changes: Changes = {path: (self.disk.get(path), after.encode())}
        self._done(result, "edit", session, changes)

    @rule(which=SHARES, by_person=st.booleans())
    def undo_one(self, which: float, by_person: bool) -> None:
        if not self.commits:
            return
        commit = self.commits[self.place(which)]
        session = None if by_person else commit.session
        undone = self.undone_by(commit) is not None or commit.found_only
        refusal = "nothing_to_undo" if undone else None
        self._take_back("undo", session, [commit], {"commits": [commit.id[:12]]}, refusal)

    @rule(session=st.sampled_from([None, *SESSIONS]), last=st.integers(1, 4))
    def undo_last(self, session: str | None, last: int) -> None:
        chosen = [
            commit
            for commit in reversed(self.commits)
            if commit.kind in EDITS
            and session in (None, commit.session)
            and self.undone_by(commit) is None
        ][:last]
        refusal = None if chosen else "nothing_to_undo"
        self._take_back("undo", session, chosen, {"last": last}, refusal)

    @rule(session=st.sampled_from([None, *SESSIONS]))
    def redo(self, session: str | None) -> None:
        chosen = [
            commit
            for commit in reversed(self.commits)
            if commit.kind in REDOABLE
            and session in (None, commit.session)
            and self.undone_by(commit) is None
        ][:1]
        self._take_back("redo", session, chosen, {}, None if chosen else "nothing_to_undo")

    @rule(which=SHARES)
    def redo_one(self, which: float) -> None:
        if not self.commits:
            return
        commit = self.commits[self.place(which)]
        undone = "nothing_to_undo" if self.undone_by(commit) is not None else None
        refusal = undone if commit.kind in REDOABLE else "invalid_params"
        self._take_back("redo", None, [commit], {"commits": [commit.id]}, refusal)

    def _take_back(
        self,
        method: str,
        session: str | None,
        chosen: list[Commit],
        params: dict[str, Any],
        refused: str | None,
    ) -> None:
        """A call that must take these back, or be refused: for this, or for what the model says."""
        client = self.site.person if session is None else self.agents[session]
        if refused is None and self.undone_twice(chosen):
            refused = "nothing_to_undo"
        versions, conflict = self._without(chosen)
        if refused is None and conflict:
            refused = "conflict"
        if refused is not None:
            self._refused(client, method, params, refused)
            return
        result = client.call(method, **params)
        assert result["undone"] == [commit.id for commit in chosen]
        changes = {path: (self.disk.get(path), after) for path, after in versions.items()}
        self._done(result, method, session, changes, result["undone"])

    def _refused(self, client: Client, method: str, params: dict[str, Any], *kinds: str) -> None:
        before_call = self.site.picture()
        assert client.refusal(method, **params).kind in kinds
        assert self.site.picture() == before_call

    def _without(self, chosen: list[Commit]) -> tuple[dict[str, Content], bool]:
        """What files become when commits are taken back, and whether that is a conflict."""
        versions: dict[str, Content] = {}
        conflict = False
        for commit in chosen:
            for path, (before, after) in commit.changes.items():
                if commit.kind == "outside" and before is None:
                    continue  # what was found is never removed
                now = versions.setdefault(path, self.disk.get(path))
                try:
                    versions[path] = taken_back(before, after, now)
                except Conflict:
                    conflict = True
        return versions, conflict

    @rule(which=SHARES, session=st.sampled_from([None, None, *SESSIONS]), outside=st.booleans())
    def rollback(self, which: float, session: str | None, outside: bool) -> None:
        """Its own choice is taken over, if it leaves what it must."""
        if not self.commits:
            return
        at = self.place(which)
        client = self.site.person if session is None else self.agents[session]
        params: dict[str, Any] = {"to": self.commits[at].id}
        if outside and session is None:
            params["include_outside"] = True
        later = self.commits[at + 1 :]
        edits = [c for c in later if c.kind in EDITS and session in (None, c.session)]
        stand = [c.id for c in edits if self.undone_by(c) is None]
        stood = self.standing_after(at + 1)
        before_call = self.site.picture()
        result = _outcome(client, "rollback", params)
        if isinstance(result, Refusal):
            assert self.site.picture() == before_call
            assert result.kind == "conflict" or (result.kind == "nothing_to_undo" and not stand)
            return
        by_id = {commit.id: commit for commit in self.commits}
        versions, conflict = self._without([by_id[each] for each in result["undone"]])
        assert not conflict
        changes = {path: (self.disk.get(path), after) for path, after in versions.items()}
        self._done(result, "rollback", session, changes, result["undone"])
        assert all(self.undone_by(each) is not None for each in edits)
        if session is None:
            earlier = [c for c in self.commits[: at + 1] if self.undone_by(c) is None]
            assert {c.id for c in earlier} == stood

    @rule(which=SHARES, path=st.sampled_from(PATHS))
    def restore(self, which: float, path: str) -> None:
        if not self.commits:
            return
        at = self.place(which)
        params = {"path": path, "at": self.commits[at].id}
        earlier = [c for c in self.commits[: at + 1] if path in c.changes]
        later = [c for c in self.commits[at + 1 :] if path in c.changes]
        if not (earlier or later):
            self._refused(self.site.person, "restore", params, "file_not_found")
            return
        if earlier:
            then = earlier[-1].changes[path][1]
        else:
            then = later[0].changes[path][1] if later[0].kind == "outside" else None
        if self.disk.get(path) == then:
            self._refused(self.site.person, "restore", params, "no_change")
            return
        result = self.site.person.call("restore", **params)
        self._done(result, "restore", None, {path: (self.disk.get(path), then)})

    def _done(
        self,
        result: dict[str, Any],
        kind: str,
        session: str | None,
        changes: Changes,
        reverts: list[str] = [],  # noqa: B006 - never changed
    ) -> None:
        """Take over what a call did, and what it found."""
        self.calls += 1
        found = {
            path: (self.known.get(path), self.disk.get(path))
            for path in changes
            if self.known.get(path) != self.disk.get(path)
        }
        assert (result["outside"] is not None) is bool(found)
        if found:
            self.commits.append(Commit(result["outside"], "outside", None, found))
        really = {path: (old, new) for path, (old, new) in changes.items() if old != new}
        self.commits.append(Commit(result["commit"], kind, session, really, reverts))
        assert sorted(each["path"] for each in result["files"]) == sorted(really)
        for path, (_, after) in changes.items():
            self._know(path, after)
            if after is None:
                self.disk.pop(path, None)
            else:
                self.disk[path] = after

    # -- life goes on

    @rule(how=st.sampled_from(["restart", "kill"]))
    def restart(self, how: str) -> None:
        if self.calls < 3:
            return
        if how == "kill":
            self.daemon.kill()
            self.daemon.start()
        else:
            self.daemon.restart()
        self.site.connect()
        self._greet()
        if how == "kill":
            self._adopt_what_recovery_found()

    def _adopt_what_recovery_found(self) -> None:
        """Files that are not as a recent call left them are recorded at the start."""
        known = {commit.id for commit in self.commits}
        for each in reversed(self.site.log(limit=1000)):
            if each["commit"] in known:
                continue
            assert each["kind"] == "outside"
            changes: Changes = {}
            for change in each["files"]:
                path = change["path"]
                changes[path] = (self.known.get(path), self.disk.get(path))
                assert changes[path][0] != changes[path][1]
                found = [None if each is None else oid(each) for each in changes[path]]
                assert found == [change["before"], change["after"]]
            self.commits.append(Commit(each["commit"], "outside", None, changes))
            for path, (_, now) in changes.items():
                self._know(path, now)

    def _know(self, path: str, content: Content) -> None:
        if content is None:
            self.known.pop(path, None)
        else:
            self.known[path] = content

    # -- what must hold

    def place(self, share: float) -> int:
        """Which of the commits that is."""
        return int(share * len(self.commits))

    def undone_by(self, commit: Commit) -> str | None:
        """The newest standing commit that took this one back."""
        return undone_by(self.commits, commit.id)

    def standing_after(self, number: int) -> set[str]:
        """What stood when there were so many commits."""
        made = self.commits[:number]
        return {commit.id for commit in made if undone_by(made, commit.id) is None}

    def undone_twice(self, chosen: list[Commit]) -> bool:
        """Whether taking these back, one after the other, leads to a commit undone by two."""
        ids = [commit.id for commit in chosen]
        for step in range(1, len(ids) + 1):
            made = [*self.commits, Commit("this call", "undo", None, {}, ids[:step])]
            stand = [commit for commit in made if undone_by(made, commit.id) is None]
            named = [each for commit in stand for each in commit.reverts]
            if len(named) != len(set(named)):
                return True
        return False

    @invariant()
    def files_are_as_the_model_says(self) -> None:
        if not hasattr(self, "site"):
            return
        found = {
            str(path.relative_to(self.site.root)): path.read_bytes()
            for path in self.site.root.rglob("*")
            if path.is_file()
        }
        assert found == self.disk

    @invariant()
    def the_log_is_as_the_model_says(self) -> None:
        if not hasattr(self, "site"):
            return
        expected = [
            (
                commit.id,
                commit.kind,
                commit.session,
                sorted(commit.changes),
                commit.reverts,
                self.undone_by(commit),
            )
            for commit in reversed(self.commits)
        ]
        assert expected == [
            (
                each["commit"],
                each["kind"],
                each["session"],
                sorted(change["path"] for change in each["files"]),
                each["reverts"],
                each["reverted_by"],
            )
            for each in self.site.log(limit=1000)
        ]


def _outcome(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any] | Refusal:
    try:
        return client.call(method, **params)
    except Refusal as refusal:
        return refusal


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running({"grace_s": 0}) as process:
        yield process


def test_random_histories_are_what_the_model_says(daemon: DaemonProcess) -> None:
    machine = type("Machine", (Histories,), {"daemon": daemon})
    few = settings(
        max_examples=12,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # A step takes milliseconds and a restart a second: shrinking would take hours.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    try:
        run(machine, settings=few)
    except Refusal as refusal:
        raise AssertionError(f"{refusal.message}\n{daemon.log()}") from refusal
