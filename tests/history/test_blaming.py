"""Who wrote each line: against a model in which every line remembers who wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from stetd.history.blaming import FileVersion, Piece, Run, Step, blame, joined_runs, split_by_hunks
from stetd.history.line_diffs import Hunk


def hunks_between(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [Hunk(a, b - a, c, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


@dataclass
class Change:
    """One commit of the model: the lines of the files it changed, and how it came to them."""

    files: dict[str, list[str] | None]
    moves: dict[str, str] = field(default_factory=dict)  # new path to old
    reverts: list[int] = field(default_factory=list)


class Model:
    """Versions in memory; a commit's number is its place in the list, from 1."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def lines(self, version: FileVersion) -> list[str] | None:
        for change in reversed(self.changes[: version.n]):
            if version.path in change.files:
                return change.files[version.path]
        return None

    def made(self, version: FileVersion) -> FileVersion | None:
        for n in range(version.n, 0, -1):
            if self.changes[n - 1].files.get(version.path) is not None:
                return FileVersion(n, version.path)
        return None

    def step(self, version: FileVersion) -> Step:
        n = version.n
        change = self.changes[n - 1]
        before: FileVersion | None = FileVersion(
            n - 1, change.moves.get(version.path, version.path)
        )
        assert before is not None
        old, new = self.lines(before), self.lines(FileVersion(n, version.path)) or []
        if old is None:
            before = None
        sources = [
            FileVersion(taken - 1, path)
            for taken in change.reverts
            for path in self.changes[taken - 1].files
            if self.lines(FileVersion(taken - 1, path)) is not None
        ]
        return Step(hunks_between(old or [], new), before, sources)

    def compare(self, old: FileVersion, new: FileVersion) -> list[Hunk]:
        return hunks_between(self.lines(old) or [], self.lines(new) or [])

    def blame(self, path: str) -> list[Run]:
        lines = self.lines(FileVersion(len(self.changes), path)) or []
        return blame(
            [Piece(0, 0, len(lines))] if lines else [], FileVersion(len(self.changes), path), self
        )


def test_a_line_typed_again_belongs_to_who_typed_it_again() -> None:
    model = Model()
    model.changes.append(Change({"f": ["a", "b"]}))
    model.changes.append(Change({"f": ["a"]}))
    model.changes.append(Change({"f": ["a", "b"]}))
    assert [Run(0, 1, 1), Run(1, 1, 3)] == model.blame("f")


def test_redo_gives_lines_to_the_edit_and_not_to_the_redo() -> None:
    model = Model()
    model.changes.append(Change({"f": ["a"]}))
    model.changes.append(Change({"f": ["a", "b"]}))
    model.changes.append(Change({"f": ["a"]}, reverts=[2]))
    model.changes.append(Change({"f": ["a", "b"]}, reverts=[3]))
    assert [Run(0, 1, 1), Run(1, 1, 2)] == model.blame("f")


def test_what_an_undo_wrote_and_nobody_before_is_its_own() -> None:
    model = Model()
    model.changes.append(Change({"f": ["a", "b"]}))
    model.changes.append(Change({"f": ["a"]}))
    model.changes.append(Change({"f": ["a", "b", "merged"]}, reverts=[2]))
    assert [Run(0, 2, 1), Run(2, 1, 3)] == model.blame("f")


def test_a_file_without_history_belongs_to_nobody() -> None:
    assert [Run(0, 3, None)] == blame([Piece(0, 0, 3)], FileVersion(0, "f"), Model())


def test_a_file_created_anew_at_a_path_does_not_inherit() -> None:
    model = Model()
    model.changes.append(Change({"f": ["a"]}))
    model.changes.append(Change({"f": None}))
    model.changes.append(Change({"f": ["a"]}))
    assert [Run(0, 1, 3)] == model.blame("f")


def test_copies_of_a_line_are_split_each_by_itself() -> None:
    """Two lines may come from one: what was brought back, and what was there before."""
    pieces = [Piece(0, 0, 2), Piece(2, 0, 1)]
    kept, added = split_by_hunks(pieces, [Hunk(0, 0, 0, 1)])
    assert ([Piece(1, 0, 1)], [Piece(0, 0, 1), Piece(2, 0, 1)]) == (kept, added)


lines = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(lines, lines)
def test_split_keeps_what_is_equal_on_both_sides(old: list[str], new: list[str]) -> None:
    hunks = hunks_between(old, new)
    pieces = [Piece(100 + at, at, 1) for at in range(len(new))]
    kept, added = split_by_hunks(pieces, hunks)
    changed = {h.new_start + i for h in hunks for i in range(h.new_lines)}
    assert changed == {piece.its_line for piece in added}
    for piece in kept:
        assert old[piece.its_line] == new[piece.line - 100]
    whole = split_by_hunks([Piece(0, 0, len(new))] if new else [], hunks)
    for one, many in zip(whole, (kept, added), strict=True):
        flat = [(p.line + i, p.its_line + i) for p in one for i in range(p.length)]
        assert flat == [(p.line - 100, p.its_line) for p in many]


operation = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 30), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("undo"), st.integers(0, 30), st.just(0), st.just(0)),
    st.tuples(st.just("move"), st.integers(0, 30), st.just(0), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 30), st.just(0), st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(operation, max_size=14))
def test_each_line_belongs_to_whoever_wrote_it_first(
    operations: list[tuple[str, int, int, int]],
) -> None:
    """Texts are unique and name their author, so the model needs no algorithm at all."""
    model = Model()
    model.changes.append(Change({"f": ["1.0", "1.1", "1.2", "1.3"]}))
    path = "f"
    for kind, where, removed, added in operations:
        n = len(model.changes) + 1
        now = model.lines(FileVersion(n - 1, path))
        if kind == "undo":
            # The newest commit not undone is taken back, so no merge is needed.
            undone: set[int] = set()
            for number in range(n - 1, 0, -1):
                if number not in undone:
                    undone |= set(model.changes[number - 1].reverts)
            standing = [
                m for m in range(2, n) if m not in undone and not model.changes[m - 1].reverts
            ]
            if not standing:
                continue
            taken = standing[-1]
            change = model.changes[taken - 1]
            files = {p: model.lines(FileVersion(taken - 1, p)) for p in change.files}
            moves = {old: new for new, old in change.moves.items()}
            model.changes.append(Change(files, moves, [taken]))
            path = next((old for old in moves), path)
        elif kind == "delete" and now is not None:
            model.changes.append(Change({path: None}))
        elif kind == "move" and now is not None:
            target = f"{path}'" if where % 2 else "g"
            if target != path and model.lines(FileVersion(n - 1, target)) is None:
                model.changes.append(Change({path: None, target: list(now)}, {target: path}))
                path = target
        elif kind == "edit":
            text = list(now or [])
            at = where % (len(text) + 1)
            text[at : at + removed] = [f"{n}.{i}" for i in range(added)]
            model.changes.append(Change({path: text}))
    for name in {p for change in model.changes for p in change.files}:
        found = model.lines(FileVersion(len(model.changes), name))
        if found is None:
            continue
        owners = [int(line.split(".")[0]) for line in found]
        expected = joined_runs([Run(at, 1, owner) for at, owner in enumerate(owners)])
        assert expected == model.blame(name)
