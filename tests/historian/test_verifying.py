"""Verifying a history made by hand: each thing that can be wrong with it is told, and no other."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from e2e.running_daemon import git
from stet.wire.failures import Kind, refuse
from stet.wire.results import VerifyResult
from stetd.historian.index.history_index import HistoryIndex
from stetd.historian.queries import verify as verifying
from stetd.historian.queries.verify import read_history_reference, verified
from stetd.history.commits import CommitMeta, commit_object
from stetd.history.objects import EMPTY_TREE, NewObject, object_id
from stetd.processes.long_work import Claim, Verifying
from stetd.repository.packing import write_pack
from stetd.repository.references import HISTORY, references_below, set_pin
from stetd.storage.disk import Disk
from stetd.storage.journal import Position
from stetd.storage.journal_format import Reached
from stetd.storage.worktree import Worktree
from storage.histories import Histories, blob


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Histories]:
    histories = Histories(tmp_path)
    for number in range(12):
        histories.commit({f"d{number % 3}/f.txt": f"{number}\n"}, method="patch")
    yield histories
    histories.repository.close()


@pytest.fixture
def worktree(tmp_path: Path) -> Iterator[Worktree]:
    (tmp_path / "w").mkdir()
    opened = Worktree(os.fspath(tmp_path / "w"), Disk())
    yield opened
    opened.close()


def claim_of(
    head: str | None,
    commits: int,
    journal: tuple[Reached, list[str]] | None,
    trouble: str | None = None,
) -> Claim:
    return Claim(head, commits, Position(1, 0), journal=journal, journal_trouble=trouble)


def verify(made: Histories, worktree: Worktree, **changed: Any) -> VerifyResult:
    head, count = made.head.commit, made.head.commits
    claim = claim_of(head, count, (Reached(head, count), []))
    fields: dict[str, Any] = {
        "state": os.path.dirname(os.path.dirname(made.path)),
        "name": os.path.basename(made.path),
        "root": worktree.root,
        "max_file_bytes": 1 << 20,
        "before": claim,
        "claim": claim,
        **changed,
    }
    reference = fields.pop("reference", read_history_reference(made.path))
    fields["before"] = replace(fields["before"], reference=reference)
    return verified(Verifying(**fields), Disk())


def told(result: VerifyResult) -> list[tuple[str, str]]:
    assert result.ok == (not result.problems)
    return [(problem.kind, problem.message) for problem in result.problems]


def test_a_whole_history_is_counted(made: Histories, worktree: Worktree) -> None:
    result = verify(made, worktree)
    assert told(result) == []
    # A commit, a root, a directory and a blob each.
    assert (result.commits, result.objects, result.head) == (12, 48, made.oids[-1])
    assert result.changed_outside == 3
    assert result.warnings == []


def test_a_history_of_many_trees_is_verified_with_few_of_them_in_memory(
    made: Histories, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "_TREES", 2)
    result = verify(made, worktree)
    assert (told(result), result.objects) == ([], 48)


def test_an_empty_history_is_whole(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "x").mkdir()
    empty = Histories(tmp_path / "x")
    result = verify(empty, worktree)
    assert (told(result), result.commits, result.changed_outside) == ([], 0, 0)
    empty.repository.close()


def test_files_as_the_history_has_them_are_not_counted(made: Histories, worktree: Worktree) -> None:
    for number in (9, 10):
        path = Path(worktree.root, f"d{number % 3}/f.txt")
        path.parent.mkdir()
        path.write_text(f"{number}\n")
    assert verify(made, worktree).changed_outside == 1
    Path(worktree.root, "d0/f.txt").chmod(0o755)
    assert verify(made, worktree).changed_outside == 2


def test_a_file_that_may_not_be_read_is_counted_and_keeps_nothing_from_being_verified(
    made: Histories, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(worktree.root, "d0/f.txt")
    path.parent.mkdir()
    path.write_text("9\n")

    def forbidden(*_: object) -> None:
        raise refuse(Kind.IO_ERROR, "d0/f.txt: Permission denied")

    monkeypatch.setattr(Worktree, "read", forbidden)
    result = verify(made, worktree)
    assert (told(result), result.changed_outside) == ([], 3)


def test_an_expected_commit_must_be_in_the_chain(made: Histories, worktree: Worktree) -> None:
    for oid in (made.oids[0], made.oids[5][:12], made.oids[-1]):
        assert told(verify(made, worktree, expect=oid)) == []
    [(kind, message)] = told(verify(made, worktree, expect="ab" * 20))
    assert kind == "expect"
    assert "cut off, or replaced by another" in message


def test_a_history_that_was_cut_off_with_its_journal_lacks_what_is_expected(
    made: Histories, worktree: Worktree
) -> None:
    head = made.oids[7]
    made.repository.set_head(head)
    claim = claim_of(head, 8, (Reached(head, 8), []))
    assert told(verify(made, worktree, before=claim, claim=claim)) == []
    [(kind, _)] = told(verify(made, worktree, before=claim, claim=claim, expect=made.oids[11]))
    assert kind == "expect"


def test_another_number_of_commits_is_told(made: Histories, worktree: Worktree) -> None:
    head = made.head.commit
    claim = claim_of(head, 13, (Reached(head, 13), []))
    assert told(verify(made, worktree, before=claim, claim=claim)) == [
        ("count", "the history has 12 commits, but 13 were made in it")
    ]


def test_a_journal_that_disagrees_is_told(made: Histories, worktree: Worktree) -> None:
    head = made.head.commit
    claim = claim_of(head, 12, (Reached(made.oids[3], 4), []))
    [(kind, message)] = told(verify(made, worktree, claim=claim))
    assert kind == "journal"
    assert made.oids[3] in message
    claim = claim_of(head, 12, (Reached(head, 12), ["a sentence"]))
    assert told(verify(made, worktree, claim=claim)) == [("journal", "a sentence")]
    claim = claim_of(head, 12, None, "00000001.wal: No such file or directory")
    [(kind, _)] = told(verify(made, worktree, claim=claim))
    assert kind == "journal"


# -- the reference


def test_a_reference_between_the_two_heads_is_in_place(made: Histories, worktree: Worktree) -> None:
    head = made.oids[8]
    before = claim_of(head, 9, (Reached(head, 9), []))
    for oid in made.oids[8:]:
        assert told(verify(made, worktree, before=before, reference=oid)) == []
    [(kind, message)] = told(verify(made, worktree, before=before, reference=made.oids[7]))
    assert kind == "reference"
    assert f"names {made.oids[7]} (4 commits back)" in message


@pytest.mark.parametrize("reference", ["", None, "ab" * 20])
def test_a_reference_that_names_no_commit_of_the_history_is_told(
    made: Histories, worktree: Worktree, reference: str | None
) -> None:
    [(kind, _)] = told(verify(made, worktree, reference=reference))
    assert kind == "reference"


def test_a_packed_reference_counts(made: Histories, worktree: Worktree) -> None:
    Path(made.path, "packed-refs").write_text(
        f"# pack-refs with: peeled fully-peeled sorted \n{made.head.commit} refs/heads/history\n"
    )
    os.unlink(made.repository.reference_path)
    assert read_history_reference(made.path) == made.head.commit
    assert told(verify(made, worktree)) == []


@pytest.mark.parametrize("line", ["rubbish", "", "\x00\x85", "refs/heads/history", "12ab refs/x"])
def test_packed_references_that_plain_git_refuses_are_told(
    made: Histories, worktree: Worktree, line: str
) -> None:
    packed = Path(made.path, "packed-refs")
    git(made.path, "pack-refs", "--all")
    with packed.open("a") as file:
        file.write(f"{line}\n{made.oids[2]} refs/tags/a\n")
    number = len(packed.read_text().split("\n")) - 2
    with pytest.raises(AssertionError, match="unexpected line"):
        git(made.path, "for-each-ref")
    [(kind, message)] = told(verify(made, worktree))
    assert kind == "reference"
    assert message.startswith(f"line {number} of packed-refs is no reference, ")


def test_packed_references_that_are_no_file_are_told(made: Histories, worktree: Worktree) -> None:
    Path(made.path, "packed-refs").mkdir()
    with pytest.raises(AssertionError, match="couldn't read"):
        git(made.path, "for-each-ref")
    [(kind, message)] = told(verify(made, worktree))
    assert kind == "reference"
    assert message.startswith("line 1 of packed-refs is no reference, ")
    assert references_below(made.path, "refs") == [HISTORY]


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("packed-refs", "reference"),
        ("HEAD", "reference"),
        ("refs/heads/history", "reference"),
        ("refs/pins/a", "pin"),
        ("shallow", "replaced"),
        ("objects/pack/*.pack", "damaged_pack"),
        ("objects/pack/*.idx", "damaged_index"),
        ("objects/[0-9a-f]?/*", "damaged_object"),
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_told(
    made: Histories, worktree: Worktree, pattern: str, kind: str
) -> None:
    set_pin(made.path, "a", made.oids[0], Disk())
    if "pack" in pattern:
        git(made.path, "repack", "-adq")
    path = next(Path(made.path).glob(pattern), Path(made.path, pattern))
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    found = told(verify(made, worktree))
    assert kind in [each for each, _ in found]
    # What can be made anew; not a pack, and not "shallow", which is right if a record is lost.
    assert {each for each, said in found if "rm -r" in said} <= {"reference", "damaged_index"}


@pytest.mark.parametrize("name", ["HEAD", "config", HISTORY])
def test_nobody_is_told_to_remove_what_is_gone(
    made: Histories, worktree: Worktree, name: str
) -> None:
    Path(made.path, name).unlink()
    assert [said for _, said in told(verify(made, worktree)) if "rm -r" in said] == []


# -- objects


def tree_of(made: Histories, oid: str) -> str:
    return made.repository.commit(oid).tree


def test_a_missing_object_names_the_commit_and_the_path(
    made: Histories, worktree: Worktree
) -> None:
    oid = blob(b"4\n").oid
    os.unlink(made.repository.loose_path(oid))
    result = verify(made, worktree)
    assert told(result) == [
        (
            "missing_object",
            f"blob {oid}, which commit {made.oids[4]} (d1/f.txt) needs, is missing: it is in no "
            "file of the repository",
        )
    ]
    [problem] = result.problems
    assert (problem.commit, problem.object, problem.path) == (made.oids[4], oid, "d1/f.txt")


def test_a_damaged_commit_ends_the_chain_and_only_it_is_told(
    made: Histories, worktree: Worktree
) -> None:
    path = Path(made.repository.loose_path(made.oids[6]))
    path.chmod(0o600)
    path.write_bytes(b"x")
    result = verify(made, worktree)
    [(kind, message)] = told(result)
    assert kind == "damaged_object"
    assert message.startswith(f"commit {made.oids[6]}, which commit {made.oids[7]} needs")
    assert result.commits == 5


def test_the_same_content_missing_is_told_once(made: Histories, worktree: Worktree) -> None:
    for number in range(3):
        made.commit({f"same{number}": "same\n"}, method="patch")
    os.unlink(made.repository.loose_path(object_id("blob", b"same\n")))
    assert len(told(verify(made, worktree))) == 1


def test_a_tree_in_the_place_of_a_file_is_told(made: Histories, worktree: Worktree) -> None:
    tree = tree_of(made, made.oids[-1])
    content = b"100644 a\0" + bytes.fromhex(tree)
    root = NewObject("tree", object_id("tree", content), content)
    meta = CommitMeta(kind="edit", method="patch", time=2000, subject="s")
    commit = commit_object(meta, root.oid, made.oids[-1])
    made.repository.write([root, commit])
    claim = claim_of(commit.oid, 13, (Reached(commit.oid, 13), []))
    result = verify(made, worktree, before=claim, claim=claim, reference=commit.oid)
    assert told(result) == [
        (
            "wrong_object",
            f"commit {commit.oid} (a) needs {tree} as a blob, but that is a tree",
        )
    ]


def test_damage_to_what_nobody_needs_is_told_as_such(made: Histories, worktree: Worktree) -> None:
    item = blob(b"unused")
    made.repository.write([item])
    assert told(verify(made, worktree)) == []
    path = Path(made.repository.loose_path(item.oid))
    path.chmod(0o600)
    path.write_bytes(b"")
    assert told(verify(made, worktree)) == [
        (
            "damaged_object",
            f"object {item.oid} is damaged (no commit is known to need it): "
            f"objects/{item.oid[:2]}/{item.oid[2:]}: it is empty",
        )
    ]


def test_damage_beside_a_whole_copy_is_told_as_such(made: Histories, worktree: Worktree) -> None:
    item = blob(b"4\n")
    write_pack(made.path, [item], Disk())
    path = Path(made.repository.loose_path(item.oid))
    path.chmod(0o600)
    path.write_bytes(b"")
    [(kind, message)] = told(verify(made, worktree))
    assert kind == "damaged_object"
    assert "(another copy of it is whole)" in message


def test_a_pack_that_a_kill_left_without_its_index_is_no_problem_until_something_is_missing(
    made: Histories, worktree: Worktree
) -> None:
    item = blob(b"4\n")
    _, index = write_pack(made.path, [item], Disk())
    os.unlink(index)
    assert told(verify(made, worktree)) == []
    os.unlink(made.repository.loose_path(item.oid))
    kinds = [kind for kind, _ in told(verify(made, worktree))]
    assert kinds == ["missing_object", "missing_index"]


def test_an_index_beside_the_pack_of_another_is_told(made: Histories, worktree: Worktree) -> None:
    written = [write_pack(made.path, [blob(each)], Disk()) for each in (b"one\n", b"two\n")]
    (pack, index), (other, others_index) = written
    os.replace(other, pack)
    os.unlink(others_index)
    name = os.path.relpath(index, made.path)
    found = [message for kind, message in told(verify(made, worktree)) if kind == "damaged_index"]
    assert any(each.startswith(f"{name}: it is the index of another pack") for each in found)


@pytest.mark.parametrize("damage", ["emptied", "gone"])
def test_an_index_that_is_damaged_or_gone_is_made_anew_by_the_command_that_is_told(
    made: Histories, worktree: Worktree, damage: str
) -> None:
    git(made.path, "repack", "-adq")
    [index] = Path(made.path).glob("objects/pack/*.idx")
    index.unlink()
    if damage == "emptied":
        index.touch()
    kinds = {"damaged_index", "missing_index"}
    [said] = [message for kind, message in told(verify(made, worktree)) if kind in kinds]
    run_what_is_told(said)
    assert told(verify(made, worktree)) == []


def run_what_is_told(message: str) -> None:
    """Run the commands at a sentence's end, as a person would paste them."""
    command = re.search(r": ((?:rm -r|git index-pack) .*)", message)
    assert command is not None, message
    subprocess.run(command[1], shell=True, check=True)


# -- what was made otherwise


def on_top(made: Histories, worktree: Worktree, content: bytes) -> list[tuple[str, str]]:
    """What is told of a history with this commit on top."""
    commit = NewObject("commit", object_id("commit", content), content)
    made.repository.write([commit])
    claim = claim_of(commit.oid, 13, (Reached(commit.oid, 13), []))
    return told(verify(made, worktree, before=claim, claim=claim, reference=commit.oid))


def commit_content(made: Histories, **meta: Any) -> bytes:
    fields = {"kind": "edit", "method": "patch", "time": 2000, "subject": "s", **meta}
    return commit_object(CommitMeta(**fields), tree_of(made, made.oids[-1]), made.oids[-1]).content


def test_taking_back_an_earlier_commit_is_right(made: Histories, worktree: Worktree) -> None:
    content = commit_content(made, kind="undo", reverts=(made.oids[0], made.oids[11]))
    assert on_top(made, worktree, content) == []


def test_taking_back_what_is_no_commit_before_is_told(made: Histories, worktree: Worktree) -> None:
    content = commit_content(made, kind="undo", reverts=("ab" * 20,))
    oid = object_id("commit", content)
    assert on_top(made, worktree, content) == [
        ("reverts", f"commit {oid} takes back {'ab' * 20}, which is no commit before it")
    ]


def test_a_commit_of_somebody_else_is_told(made: Histories, worktree: Worktree) -> None:
    content = commit_content(made).replace(b"committer stetd <", b"committer me <")
    [(kind, message)] = on_top(made, worktree, content)
    assert (kind, message) == (
        "malformed",
        f"commit {object_id('commit', content)}: its header is not one that stetd writes",
    )


def test_a_trailer_of_somebody_else_is_told(made: Histories, worktree: Worktree) -> None:
    content = commit_content(made).replace(b"Stet-Kind: edit", b"Stet-Kind: forged")
    [(kind, message)] = on_top(made, worktree, content)
    assert kind == "malformed"
    assert "its kind is 'forged'" in message


def test_a_clock_that_went_back_is_a_warning(made: Histories, worktree: Worktree) -> None:
    made.commit({"a": "1"}, method="patch", time=900_000)
    made.commit({"a": "2"}, method="patch", time=900_000 - 299)
    assert verify(made, worktree).warnings == []
    made.commit({"a": "3"}, method="patch", time=100_000)
    result = verify(made, worktree)
    assert told(result) == []
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith(f"commit {made.oids[-1]} is of 1970-01-02T03:46:40Z")


# -- pins, and what git would show


def test_pins_must_point_into_the_history(made: Histories, worktree: Worktree) -> None:
    set_pin(made.path, "first", made.oids[0], Disk())
    set_pin(made.path, "last", made.oids[-1], Disk())
    assert told(verify(made, worktree)) == []
    set_pin(made.path, "nowhere", "ab" * 20, Disk())
    Path(made.path, "refs/pins/torn").write_bytes(b"")
    assert [kind for kind, _ in told(verify(made, worktree))] == ["pin", "pin"]


def test_a_reference_that_gc_can_not_follow_is_told(made: Histories, worktree: Worktree) -> None:
    refs = Path(made.path, "refs")
    (refs / "heads/mine").write_text(made.oids[3] + "\n")
    assert told(verify(made, worktree)) == []
    (refs / "heads/mine").write_text("ab" * 20 + "\n")
    (refs / "tags").mkdir(exist_ok=True)
    (refs / "tags/torn").write_bytes(b"")
    found = told(verify(made, worktree))
    assert [kind for kind, _ in found] == ["reference", "reference"]
    assert [message.split()[0] for _, message in found] == ["refs/heads/mine", "refs/tags/torn"]


def test_a_commit_graph_is_not_vouched_for(made: Histories, worktree: Worktree) -> None:
    git(made.path, "commit-graph", "write", "--reachable")
    result = verify(made, worktree)
    assert told(result) == []
    [warning] = result.warnings
    assert "objects/info/commit-graph" in warning


@pytest.mark.parametrize("name", ["info/grafts", "objects/info/alternates", "shallow"])
def test_what_makes_git_show_another_history_is_told(
    made: Histories, worktree: Worktree, name: str
) -> None:
    Path(made.path, name).parent.mkdir(exist_ok=True)
    Path(made.path, name).write_text("")
    [(kind, message)] = told(verify(made, worktree))
    assert kind == "replaced"
    if name != "shallow":  # without it, git can't read a history whose journal was lost
        run_what_is_told(message)
        assert told(verify(made, worktree)) == []


def test_an_empty_tree_is_an_object_like_others(tmp_path: Path, worktree: Worktree) -> None:
    (tmp_path / "x").mkdir()
    histories = Histories(tmp_path / "x")
    histories.commit({"a": "1"}, method="patch")
    histories.commit({"a": None}, method="patch")
    assert told(verify(histories, worktree)) == []
    os.unlink(histories.repository.loose_path(EMPTY_TREE))
    assert [kind for kind, _ in told(verify(histories, worktree))] == ["missing_object"]
    histories.repository.close()


def test_damaged_databases_are_warned_of(made: Histories, worktree: Worktree) -> None:
    index = Path(HistoryIndex.path_for(made.path))
    answers = Path(made.path).parents[1] / "requests.sqlite3"
    index.parent.mkdir(exist_ok=True)
    for path in (index, answers):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE t (a)")
            db.executemany("INSERT INTO t VALUES (?)", [("x" * 900,)] * 40)
            db.commit()
    assert verify(made, worktree).warnings == []
    with index.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xff" * 4096)
    answers.write_bytes(b"none" * 1000)
    found = verify(made, worktree)
    assert found.ok
    assert [each.partition(" is damaged: ")[0] for each in found.warnings] == [
        str(index),
        str(answers),
    ]


def test_a_name_that_was_altered_in_the_index_is_warned_of(
    made: Histories, worktree: Worktree
) -> None:
    """Its pages still have the right form, but a search by this name misses the row."""
    index = Path(HistoryIndex.path_for(made.path))
    index.parent.mkdir(exist_ok=True)
    index.unlink(missing_ok=True)
    with closing(sqlite3.connect(index)) as db:
        db.execute("CREATE TABLE t (a)")
        db.execute("CREATE INDEX t_a ON t (a)")
        db.executemany("INSERT INTO t VALUES (?)", [("conv-1",), ("conv-2",)])
        db.commit()
    content = index.read_bytes()
    assert content.count(b"conv-2") == 2
    index.write_bytes(content.replace(b"conv-2", b"conv-3", 1))
    found = verify(made, worktree)
    assert found.ok
    assert [each.partition(" is damaged: ")[0] for each in found.warnings] == [str(index)]
