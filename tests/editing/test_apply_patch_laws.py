"""Laws of ``apply_patch``, tried on generated files and patches."""

from __future__ import annotations

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from patch_calls import after, patch, planned, refused, updated
from stet.wire.failures import Refused
from stetd.editing.apply_patch.grammar import parse
from stetd.editing.text import Document
from tree_world import Tree

# -- the parser

PIECES = st.sampled_from(
    [
        "*** Begin Patch",
        "*** End Patch",
        "*** Add File: a.txt",
        "*** Add File:",
        "*** Delete File: b.txt",
        "*** Update File: a.txt",
        "*** Move to: c.txt",
        "*** Move to: ",
        "*** End of File",
        "*** Environment ID: x",
        "*** Rename File: x",
        "***",
        "@@",
        "@@ one",
        "@@one@@",
        "@@ -1,2 +1,2 @@ one",
        "@@ -1 +1,0 @@",
        "@@@ -1 -1 +1 @@@",
        "--- a/a.txt",
        "+++ b/a.txt",
        "diff --git a/a.txt b/a.txt",
        "index 0123abc..456def",
        "\\ No newline at end of file",
        "<<EOF",
        "<<'EOF'",
        "EOF",
        "```",
        "```diff",
        "apply_patch <<EOF",
        " one",
        "-one",
        "+one",
        "+",
        " ",
        "-",
        "",
        "\t",
        "one",
        " *** Add File: x",
        "+a\rb",
        "\x0c",
        "\ufeff",
    ]
)
TEXTS = st.lists(
    st.tuples(PIECES | st.text(max_size=8), st.sampled_from(["\n", "\r\n", "\r", " "]))
)


def joined(lines: list[tuple[str, str]]) -> str:
    return "".join(text + end for text, end in lines)


@settings(max_examples=600)
@given(TEXTS, st.booleans())
@example([("*** Begin Patch", "\n"), ("*** Update File: a.txt", "\n"), ("+x", "\n")], True)
@example([(" *** Update File: a.txt", "\n"), (" *** End Patch", "\n")], False)
def test_any_text_gives_operations_or_a_line_that_is_wrong(
    lines: list[tuple[str, str]], framed: bool
) -> None:
    text = joined(lines)
    if framed:
        text = f"*** Begin Patch\n{text}\n*** End Patch\n"
    error = None
    try:
        assert parse(text)
    except Refused as refusal:
        [error] = refusal.failures
    if error is not None:
        assert error.kind == "parse_error"
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
        assert "expected " in error.message
        assert "received " in error.message


@settings(max_examples=300)
@given(TEXTS)
def test_any_patch_is_planned_or_refused(lines: list[tuple[str, str]]) -> None:
    tree = Tree({"a.txt": b"one\ntwo\n\none\n"}, links={"b.txt": "a.txt"})
    try:
        plan = planned(tree, f"*** Begin Patch\n{joined(lines)}\n*** End Patch\n")
    except Refused:
        return
    assert plan.files
    tree.after(plan)


# -- hunks

LINES = st.sampled_from(["a", "b", "  a", "c d", "", "e"])
FILES = st.lists(LINES, min_size=1, max_size=14)


def hunks_of(old: list[str], flags: list[int], new: list[list[str]], context: int) -> list[str]:
    """The hunks that drop the lines flagged 1 and put ``new[i]`` before line i."""
    changed = [i for i in range(len(old) + 1) if new[i] or (i < len(old) and flags[i])]
    hunks: list[str] = []
    covered = -1
    for at in changed:
        start = max(0, at - context)
        if start > covered:
            hunks.append("@@")
            covered = start
        while covered < min(len(old), at + context + 1):
            hunks += (f"+{line}" for line in new[covered])
            hunks.append(("-" if flags[covered] else " ") + old[covered])
            covered += 1
        if at == len(old):
            hunks += (f"+{line}" for line in new[at])
            covered = at + 1
    return hunks


@settings(max_examples=600)
@given(st.data(), FILES, st.integers(0, 3), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_a_hunk_that_is_exact_is_applied_right_or_refused(
    data: st.DataObject, old: list[str], context: int, end: str, ended: bool
) -> None:
    flags = data.draw(st.lists(st.sampled_from([0, 0, 1]), min_size=len(old), max_size=len(old)))
    new: list[list[str]] = data.draw(
        st.lists(
            st.lists(LINES, max_size=2) | st.just([]), min_size=len(old) + 1, max_size=len(old) + 1
        )
    )
    before = end.join(old) + (end if ended else "")
    assume(any(flags) or any(new))
    assume(end in before)  # else nothing tells how lines end
    expected: list[str] = []
    for i, line in enumerate(old):
        expected += [*new[i], *([] if flags[i] else [line])]
    expected += new[len(old)]
    hunks = hunks_of(old, flags, new, context)
    assume(Document.from_bytes(before.encode()).lines == old)
    try:
        found = updated(before.encode(), *hunks)
    except Refused:
        return
    assert Document.from_bytes(found).lines == expected
    last_stays = not flags[-1] and not new[-1]
    if expected:
        assert found.endswith(end.encode()) == (ended or not last_stays)
    assert found.count(b"\r\n") == (found.count(b"\n") if end == "\r\n" else 0)


@given(FILES, st.integers(0, 13), st.sampled_from(["\n", "\r\n"]))
def test_a_patch_in_crlf_does_what_the_same_one_does_in_lf(
    old: list[str], at: int, end: str
) -> None:
    assume(at < len(old))
    before = {"a.txt": (end.join(old) + end).encode()}
    text = patch("*** Update File: a.txt", "@@", *(f" {line}" for line in old[:at]), "-" + old[at])
    outcomes = []
    for each in (text, text.replace("\n", "\r\n")):
        try:
            outcomes.append(after(before, each))
        except Refused as refusal:
            outcomes.append({"refused": refusal.kind.encode()})
    assert outcomes[0] == outcomes[1]


# -- composition

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, st.sampled_from(["x", "y"])),
        st.tuples(st.just("delete"), NAMES, st.just("")),
        st.tuples(st.just("move"), NAMES, NAMES),
        st.tuples(st.just("append"), NAMES, st.sampled_from(["x", "y"])),
    ),
    min_size=1,
    max_size=6,
)


def step_lines(step: tuple[str, str, str]) -> list[str]:
    kind, name, other = step
    return {
        "add": [f"*** Add File: {name}", f"+{other}"],
        "delete": [f"*** Delete File: {name}"],
        "move": [f"*** Update File: {name}", f"*** Move to: {other}"],
        "append": [f"*** Update File: {name}", "@@", f"+{other}"],
    }[kind]


@settings(max_examples=400)
@given(STEPS)
def test_operations_in_one_patch_do_what_they_do_one_after_the_other(
    steps: list[tuple[str, str, str]],
) -> None:
    tree = one_by_one = Tree({"a": b"1\n", "b": b"2\n"}, modes={"a": 0o755, "b": 0o600})
    text = patch(*(line for step in steps for line in step_lines(step)))
    for step in steps:
        try:
            one_by_one = one_by_one.after(planned(one_by_one, patch(*step_lines(step))))
        except Refused as refusal:
            if refusal.kind != "no_change":
                assert refused(tree, text).failures
                return
    if (one_by_one.files, one_by_one.modes) == (tree.files, tree.modes):
        assert refused(tree, text).kind == "no_change"
        return
    together = tree.after(planned(tree, text))
    assert one_by_one.files == together.files
    if not any(kind == "delete" for kind, _, _ in steps):  # what is then added replaces the file
        assert one_by_one.modes == together.modes
