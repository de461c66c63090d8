"""A workspace lives through anything: edits, a person's saves, undos, restarts, kills.

Hypothesis chooses what happens; a model says what every file must hold. The model knows
edits and saves; what an undo makes of a file with later changes it takes from the answer,
after checking what any undo must keep: files that the undone edit did not touch, and, where
nobody was there since, exactly what stood there before.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from e2e.forking import ForkServer
from e2e.running_daemon import Client, Refusal, Site
from rigs import findings
from rigs.forked_daemon import ForkedDaemon

ALL = bool(os.environ.get("STET_TEST_ALL"))
PATHS = st.sampled_from(["a.txt", "b.txt", "deep/er/c.txt"])
TEXTS = st.text("ab\n", max_size=12).map(lambda text: text + "end\n")
AGENTS = st.sampled_from(["one", "two"])


@dataclass(frozen=True)
class Edit:
    """An acknowledged edit: enough to send it again and to take it back."""

    request: str
    session: str
    path: str
    text: str
    commit: str
    before: bytes | None


class WorkspaceMachine(RuleBasedStateMachine):
    """The daemon, its workspace, and what the workspace must hold."""

    forks: ForkServer
    tally: findings.Findings

    def __init__(self) -> None:
        super().__init__()
        self.daemon = ForkedDaemon(self.forks)
        self.files: dict[str, bytes] = {}
        self.saves: list[bytes] = []
        self.edits: list[Edit] = []
        self.undone: set[str] = set()
        self.commits: list[str] = []

    @initialize()
    def begin(self) -> None:
        self.daemon.start()
        self.site: Site = self.daemon.site("w")
        self.agents: dict[str, Client] = {}

    def teardown(self) -> None:
        try:
            if hasattr(self, "site"):
                self.judge_history()
        finally:
            self.daemon.close()

    def agent(self, name: str) -> Client:
        if name not in self.agents:
            self.agents[name] = self.site.another(name)
        return self.agents[name]

    # -- what happens

    @rule(agent=AGENTS, path=PATHS, text=TEXTS)
    def edit(self, agent: str, path: str, text: str) -> None:
        before = self.files.get(path)
        if before == text.encode():
            return
        request = uuid.uuid4().hex
        patches = [{"operation": "overwrite", "newText": text}]
        result = self.agent(agent).call("patch", path=path, patches=patches, request_id=request)
        self.files[path] = text.encode()
        self.edits.append(Edit(request, agent, path, text, result["commit"], before))
        self.commits.append(result["commit"])
        self.tally.points += 1

    @rule(path=PATHS, text=TEXTS, in_place=st.booleans())
    def save_by_hand(self, path: str, text: str, in_place: bool) -> None:
        target = self.site.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        written = target if in_place else target.with_suffix(".mine")
        written.write_bytes(text.encode())
        if not in_place:
            written.rename(target)
        self.files[path] = text.encode()

    @rule(path=PATHS)
    def delete_by_hand(self, path: str) -> None:
        (self.site.root / path).unlink(missing_ok=True)
        self.files.pop(path, None)

    @rule(path=PATHS)
    def ask_for_nonsense(self, path: str) -> None:
        patches = [{"operation": "replace", "oldText": "nowhere\nin the file", "newText": "x"}]
        refusal = self.agent("one").refusal("patch", path=path, patches=patches)
        assert refusal.kind == ("old_text_not_found" if path in self.files else "file_not_found")

    @precondition(lambda self: self.edits)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        edit = data.draw(st.sampled_from(self.edits))
        patches = [{"operation": "overwrite", "newText": edit.text}]
        result = self.agent(edit.session).call(
            "patch", path=edit.path, patches=patches, request_id=edit.request
        )
        self.tally.duplicated += result["commit"] != edit.commit or not result["replayed"]
        assert result["commit"] == edit.commit

    @precondition(lambda self: self.edits)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        edit = data.draw(st.sampled_from(self.edits))
        try:
            result = self.site.person.call("undo", commits=[edit.commit])
        except Refusal as refusal:
            expected = "nothing_to_undo" if edit.commit in self.undone else "conflict"
            if refusal.kind != expected:
                raise
            return
        assert edit.commit not in self.undone
        assert result["undone"] == [edit.commit]
        self.undone.add(edit.commit)
        self.commits.append(result["commit"])
        now = self.site.root / edit.path
        if self.files.get(edit.path) == edit.text.encode():
            found = now.read_bytes() if now.exists() else None
            assert found == edit.before, "nobody was there since, so all is as it was before"
        if now.exists():
            self.files[edit.path] = now.read_bytes()
        else:
            self.files.pop(edit.path, None)

    @rule()
    def kill(self) -> None:
        self.daemon.hang_up()
        self.daemon.kill()
        self.daemon.start()
        self.say_hello_again()

    @rule()
    def stop(self) -> None:
        self.daemon.hang_up()
        assert self.daemon.stop() == 0
        self.daemon.start()
        self.say_hello_again()

    def say_hello_again(self) -> None:
        self.agents.clear()
        self.site.connect()

    # -- what must hold

    @invariant()
    def files_are_as_they_must_be(self) -> None:
        if not hasattr(self, "site"):
            return
        found = {
            str(path.relative_to(self.site.root)): path.read_bytes()
            for path in self.site.root.rglob("*")
            if path.is_file()
        }
        self.tally.lost += found != self.files
        assert found == self.files

    def judge_history(self) -> None:
        history = self.site.git("rev-list", "--reverse", "--all").split()
        kept = [commit for commit in history if commit in set(self.commits)]
        self.tally.lost += kept != self.commits
        assert kept == self.commits, "every acknowledged commit is there, in its order"
        assert self.site.fsck() == ""


@pytest.mark.timeout(3600 if ALL else 300)
def test_a_workspace_lives_through_anything() -> None:
    tally = findings.begin("workspace machine")
    with ForkServer() as forks:
        WorkspaceMachine.forks = forks
        WorkspaceMachine.tally = tally
        run_state_machine_as_test(
            WorkspaceMachine,
            settings=settings(
                max_examples=120 if ALL else 8,
                stateful_step_count=40 if ALL else 25,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                derandomize=True,
            ),
        )
