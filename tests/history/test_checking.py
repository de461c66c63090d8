"""Commits and trees that stetd writes pass, and others don't, each with what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stet.wire.results import Peer
from stetd.history.checking import check_commit, check_tree
from stetd.history.commits import CommitMeta, commit_object
from stetd.history.objects import EMPTY_TREE, object_id

KIND = b"Stet-Kind: edit\n"
BLOB = object_id("blob", b"x")
PARENT = "1" * 40


def stored(**meta: object) -> bytes:
    told = {"kind": "edit", "method": "patch", "time": 5, "subject": "a subject", **meta}
    return commit_object(CommitMeta(**told), EMPTY_TREE, PARENT).content  # type: ignore[arg-type]


def faults(content: bytes) -> list[str]:
    found = check_commit(content)
    assert found is not None
    return found.faults


WORDS = st.text(max_size=40)


@given(
    subject=WORDS, why=WORDS, agent=WORDS, session=WORDS, request=WORDS, command=WORDS,
    path=st.text(min_size=1), mode=st.integers(0, 0o777), directory=WORDS,
)  # fmt: skip
def test_whatever_stetd_writes_passes(
    subject: str, why: str, agent: str, session: str, request: str, command: str, path: str,
    mode: int, directory: str,
) -> None:  # fmt: skip
    content = stored(
        subject=subject, why=why, agent=agent, session=session, request=request,
        peer=Peer(1, command), permissions=((path, mode),), directories=(directory,),
        version="0.1.0",
    )  # fmt: skip
    found = check_commit(content)
    assert found is not None
    assert (found.tree, found.parent, found.time) == (EMPTY_TREE, PARENT, 5)
    assert found.faults == []


def test_a_commit_may_change_several_files_of_each_sort() -> None:
    two = ("a", "b")
    content = stored(
        flagged=two, permissions=(("a", 0o600), ("b", 0o600)), directories=two, forgotten=two,
        regraded=(("a", 0o600, 0o644), ("b", 0o600, 0o644)), moves=(("a", "c"), ("b", "d")),
        excluded=(("A", "e"), ("D", "f")),
    )  # fmt: skip
    assert faults(content) == []


def test_what_a_commit_takes_back_is_given() -> None:
    content = stored(kind="undo", method="undo", reverts=("a" * 40, "b" * 40))
    found = check_commit(content)
    assert found is not None
    assert (found.reverts, found.faults) == (("a" * 40, "b" * 40), [])


@pytest.mark.parametrize(
    ("meta", "fault"),
    [
        ({"kind": "nonsense"}, "its kind is 'nonsense'"),
        ({"method": None}, "it says no method"),
        ({"kind": "undo"}, "it is of kind undo and takes nothing back"),
        ({"reverts": ("a" * 40,)}, "it is of kind edit and says that it takes commits back"),
        (
            {"kind": "restore", "reverts": ("a" * 40,)},
            "it is of kind restore and says that it takes commits back",
        ),
        ({"kind": "undo", "reverts": ("a" * 39,)}, f"its Stet-Reverts is '{'a' * 39}'"),
    ],
)
def test_what_does_not_agree_is_told(meta: dict[str, object], fault: str) -> None:
    assert faults(stored(**meta)) == [fault]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (KIND, b"", ["it says no kind"]),
        (KIND, KIND + KIND, ["it says Stet-Kind 2 times"]),
        (KIND, KIND + b"nonsense\n", ["among its trailers stands 'nonsense'"]),
        (b" 5 +0000\ncomm", b" 4 +0000\ncomm", ["author and committer have different times"]),
        (b"\n" + KIND, b"", ["it has no trailers", "it says no kind"]),
    ],
)
def test_what_others_write_is_told(old: bytes, new: bytes, expected: list[str]) -> None:
    content = stored()
    assert content.count(old) == 1
    assert faults(content.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"committer stetd <", b"committer somebody <"),
        (b"parent " + PARENT.encode(), b"parent " + PARENT.encode() + b"\nparent " + b"2" * 40),
        (b"+0000\n\n", b"+0000\ngpgsig x\n\n"),
        (b"+0000", b"+0100"),
    ],
)
def test_a_header_that_stetd_does_not_write_is_told_and_followed(old: bytes, new: bytes) -> None:
    found = check_commit(stored().replace(old, new))
    assert found is not None
    assert (found.parent, found.time) == (PARENT, 5)
    assert found.faults == ["its header is not one that stetd writes"]


@pytest.mark.parametrize("content", [b"", b"tree x\n", stored().replace(b"tree 4", b"tree Z")])
def test_what_is_no_commit_at_all_is_none(content: bytes) -> None:
    assert check_commit(content) is None


def entry(mode: bytes, name: bytes, oid: str = BLOB) -> bytes:
    return mode + b" " + name + b"\0" + bytes.fromhex(oid)


def test_a_tree_is_given_by_name() -> None:
    content = (
        entry(b"100644", b"a.b")
        + entry(b"40000", b"a", EMPTY_TREE)
        + entry(b"120000", "ü".encode())
    )
    entries, found = check_tree(content)
    assert entries == {
        b"a.b": (b"100644", bytes.fromhex(BLOB)),
        b"a": (b"40000", bytes.fromhex(EMPTY_TREE)),
        "ü".encode(): (b"120000", bytes.fromhex(BLOB)),
    }
    assert found == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (entry(b"100644", b"b") + entry(b"100644", b"a"), "'a' is not in its place"),
        (entry(b"100644", b"a") + entry(b"100644", b"a"), "'a' is not in its place"),
        (entry(b"40000", b"a") + entry(b"100644", b"a.b"), "'a.b' is not in its place"),
        (entry(b"100644", b"a") + entry(b"40000", b"a"), "'a' is not in its place"),
        (entry(b"160000", b"a"), "'a' has a mode that stetd does not write"),
        (entry(b"040000", b"a"), "'a' has a mode that stetd does not write"),
        (entry(b"100644", b".."), "'..' is no name for a file"),
        (entry(b"100644", b".Git"), "'.Git' is no name for a file"),
        (entry(b"100644", b"a/b"), "'a/b' is no name for a file"),
        (entry(b"100644", b"\xff"), "'\N{REPLACEMENT CHARACTER}' is no name for a file"),
        (entry(b"100644", b"a")[:-1], "it ends within an entry"),
        (b"100644", "it ends within an entry"),
    ],
)
def test_a_tree_that_stetd_does_not_write_is_told(content: bytes, fault: str) -> None:
    assert check_tree(content)[1] == [fault]
