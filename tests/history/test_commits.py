"""Commits are read back as they were written, whatever a caller puts into them."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stet.wire.results import Peer
from stetd.history.commits import CommitMeta, commit_object, parse_commit, rfc3339
from stetd.history.objects import EMPTY_TREE, NewObject
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.storage.disk import Disk

FULL = CommitMeta(
    kind="edit",
    time=1_700_000_000,
    subject="patch a.py: 2 edits",
    why="because\n\nof this: and that\n\nStet-Kind: undo",
    method="patch",
    agent="my-agent",
    session="conv-1",
    subagent="general-purpose a3041",
    request="r-1",
    peer=Peer(4711, "python3 -m agent"),
    reverts=("a" * 40, "b" * 40),
    permissions=(("a file.py", 0o600), ("b", 0o4755)),
    directories=("new", "new/deep"),
    moves=(("old name.py ", 'new/"name".py'), ("a -> b", "c // d")),
    version="0.1.0",
)

TEXT = st.text(max_size=60)
ANY_META = st.builds(
    CommitMeta,
    kind=st.sampled_from(["edit", "outside", "undo"]),
    time=st.integers(0, 2**33),
    subject=TEXT,
    why=TEXT,
    agent=st.none() | TEXT,
    session=st.none() | TEXT,
    subagent=st.none() | TEXT,
    request=st.none() | TEXT,
    version=st.just("0.1"),
)


def read_back(commit: NewObject) -> CommitMeta:
    return parse_commit(commit.oid, commit.content).meta


def test_everything_is_read_back() -> None:
    commit = commit_object(FULL, EMPTY_TREE, "c" * 40)
    stored = parse_commit(commit.oid, commit.content)
    assert (stored.oid, stored.tree, stored.parent) == (commit.oid, EMPTY_TREE, "c" * 40)
    assert stored.meta == FULL


def test_white_space_at_the_ends_of_a_path_is_read_back() -> None:
    name = "\u00a0"
    meta = CommitMeta(
        kind="edit",
        time=0,
        subject="patch",
        flagged=(name,),
        permissions=((" a ", 0o600), (name, 0o600)),
        regraded=((name, 0o600, 0o640),),
        directories=("dir ",),
        excluded=(("A", name),),
        forgotten=(name, "b "),
        version="0.1.0",
    )
    assert read_back(commit_object(meta, EMPTY_TREE, None)) == meta


def test_commit_without_a_parent_or_anything_optional() -> None:
    meta = CommitMeta(kind="outside", time=0, subject="first seen: a", version="0.1.0")
    stored = parse_commit("x", commit_object(meta, EMPTY_TREE, None).content)
    assert (stored.parent, stored.meta) == (None, meta)


def test_body_can_not_pass_for_trailers() -> None:
    meta = CommitMeta(
        kind="edit", time=0, subject="s", why="Stet-Agent: somebody else\nStet-Kind: outside",
        agent="me", version="0.1.0",
    )  # fmt: skip
    assert read_back(commit_object(meta, EMPTY_TREE, None)) == meta


@settings(max_examples=300, deadline=None)
@given(meta=ANY_META)
def test_what_is_read_back_stays_the_same_when_written_again(meta: CommitMeta) -> None:
    """Texts are cleaned when they are written; cleaning once is enough."""
    commit = commit_object(meta, EMPTY_TREE, None)
    again = read_back(commit)
    assert (again.kind, again.time, again.version) == (meta.kind, meta.time, "0.1")
    assert (again.agent is None) == (meta.agent is None)
    assert read_back(commit_object(again, EMPTY_TREE, None)) == again


@settings(max_examples=15, deadline=None)
@given(meta=ANY_META)
def test_git_accepts_any_commit_strictly(meta: CommitMeta) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "shadow")
        create_repository(path, Disk())
        repository = ShadowRepository(path)
        commit = commit_object(meta, EMPTY_TREE, None)
        repository.write([NewObject("tree", EMPTY_TREE, b""), commit])
        repository.set_head(commit.oid)
        assert repository.commit(commit.oid).meta == read_back(commit)
        repository.close()
        done = subprocess.run(
            ["git", "--git-dir", path, "fsck", "--strict"], capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_times_are_utc() -> None:
    assert rfc3339(1_700_000_000) == "2023-11-14T22:13:20Z"
