"""Patches and messages, judged by git: it applies every patch, and reads back every message."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stetd.history.commits import CommitMeta
from stetd.history.git_patch import FileState, file_patch
from stetd.history.mailbox import message
from stetd.history.objects import object_id

PIECES = st.sampled_from(
    [b"a\n", b"b\n", b"c", b"\r\n", b"x\r", b"\0", b"\xff\n", b"\xc3\xa9", b"-- \n", b"@@ ", b"\n"]
)
CONTENT = st.lists(PIECES, max_size=12).map(b"".join)
NAMES = st.text(
    st.characters(blacklist_characters="\0/", blacklist_categories=["Cs"]), min_size=1, max_size=12
).filter(lambda name: name not in (".", "..") and name.lower() != ".git")
MODES = st.sampled_from([0o100644, 0o100755])
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def state(content: bytes, mode: int = 0o100644) -> FileState:
    return FileState(mode, object_id("blob", content), content)


def put(folder: str, name: str, file: FileState) -> None:
    path = Path(folder, name)
    path.write_bytes(file.data)
    path.chmod(file.mode & 0o777)


@given(
    before=st.none() | st.builds(state, CONTENT, MODES),
    after=st.none() | st.builds(state, CONTENT, MODES),
    old=NAMES, new=NAMES, moved=st.booleans(), utf8=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
@example(before=state(b""), after=None, old="a b", new="a b", moved=False, utf8=False)
@example(before=None, after=state(b""), old='q"\\\t', new="x", moved=False, utf8=False)
@example(before=state(b"\0" * 60), after=state(b"\0" * 61), old="a", new="b", moved=True, utf8=True)
@example(before=state(b"x"), after=state(b"x", 0o100755), old="a", new="b", moved=True, utf8=True)
def test_git_applies_every_patch_and_takes_it_back(
    before: FileState | None, after: FileState | None, old: str, new: str, moved: bool, utf8: bool
) -> None:
    moved = moved and before is not None and after is not None and old != new
    source, target = (old, new) if moved else (old, old)
    patch = file_patch(target, before, after, old_path=source if moved else None, utf8=utf8)
    if before == after and not moved:
        assert patch == b""
        return
    if utf8:
        patch.decode()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True, env=CLEAN)
        if before is not None:
            put(folder, source, before)

        def apply(*options: str) -> dict[str, tuple[bytes, int]]:
            subprocess.run(
                ["git", "apply", "--whitespace=nowarn", *options, "-"],
                input=patch, cwd=folder, check=True, capture_output=True, env=CLEAN,
            )  # fmt: skip
            files = (path for path in Path(folder).iterdir() if path.name != ".git")
            return {path.name: (path.read_bytes(), path.stat().st_mode & 0o100) for path in files}

        def there(name: str, file: FileState | None) -> dict[str, tuple[bytes, int]]:
            return {} if file is None else {name: (file.data, file.mode & 0o100)}

        assert apply() == there(target, after)
        assert apply("-R") == there(source, before)


LINES = st.sampled_from(
    [
        *("x", "", " indented", "é", "\u2028", "=", "=3D", "\t", "a" * 200),
        *("From x", ">From x", "From: a <b@c>", "Subject: y", "[PATCH] z"),
        *("---", "--- a", "--- ", "diff --git a/x b/x", "Index: x"),
    ]
)


@given(
    why=st.lists(LINES, max_size=6).map("\n".join),
    body=st.lists(PIECES, max_size=8).map(b"".join),
    agent=st.text(max_size=70),
    time=st.integers(0, 2_000_000_000),
)
# git mailinfo reads past the name where a quotation mark or a parenthesis is not closed.
@example(why="", body=b"\r\n", agent="000(" + "\x80" * 7 + "\U00010000" * 4, time=0)
@example(why="x", body=b"", agent='000"' + "\x80" * 9 + "0\U00010000\U00010000", time=0)
@settings(max_examples=60, deadline=None)
def test_git_reads_back_every_message(why: str, body: bytes, agent: str, time: int) -> None:
    patch = b"diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+" + body + b"\n"
    meta = CommitMeta(kind="edit", time=time, subject="patch x: 1 edit", why=why, agent=agent)
    mail = message("a" * 40, meta, patch, context=False, version="1")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["git", "mailsplit", f"-o{folder}"], input=mail.encode(), check=True, env=CLEAN,
            capture_output=True,
        )  # fmt: skip
        assert sorted(os.listdir(folder)) == ["0001"]
        told = subprocess.run(
            ["git", "mailinfo", "--encoding=UTF-8", "msg", "patch"], cwd=folder, check=True,
            input=Path(folder, "0001").read_bytes(), env=CLEAN, capture_output=True,
        ).stdout.decode()  # fmt: skip
        fields = dict(line.split(": ", 1) for line in told.split("\n") if ": " in line)
        assert Path(folder, "patch").read_bytes() == b"---\n\n" + patch + b"-- \nstet 1\n\n"
        said = Path(folder, "msg").read_bytes().decode()
    assert (fields["Subject"], fields["Email"][-13:]) == ("patch x: 1 edit", "@stet.invalid")
    assert len(fields["Author"].encode()) > 2
    assert '"' not in fields["Author"]
    lines = said.partition("Stet-Kind: edit\n")[0].split("\n")
    expected = why.strip("\n").split("\n")
    assert [line.strip() for line in lines if line.strip()] == [
        line.strip() for line in expected if line.strip()
    ]


@pytest.mark.parametrize("name", ["a b", "ü", 'a"b', "a\\b", "a\nb", "a\tb", "-- a", "a => b"])
def test_a_file_becomes_a_link_in_two_steps(name: str) -> None:
    link = FileState(0o120000, object_id("blob", b"target"), b"target")
    patch = file_patch(name, state(b"x\n"), link)
    assert patch.count(b"diff --git ") == 2
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True, env=CLEAN)
        put(folder, name, state(b"x\n"))
        subprocess.run(["git", "apply", "-"], input=patch, cwd=folder, check=True, env=CLEAN)
        assert os.readlink(Path(folder, name)) == "target"
