"""What is left out is what plain git leaves out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stetd.history.ignoring import IgnoreFile, is_ignored

GIT = {
    "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ignoring")
    subprocess.run(["git", "init", "-q", str(root)], check=True, env=GIT)
    (root / ".git/info/exclude").write_text("")
    for name in ("a", "b", "c", "a b"):
        for inner in ("a", "b", "c"):
            folder = root / name / inner
            folder.mkdir(parents=True)
            for file in ("a.c", "b.o", "ab", "]", "a\\", "x ", "#x", "!x"):
                (folder / file).write_text("")
    for file in ("a.c", "b.o", "ab", "x", "#x", "!x", "x ", "0"):
        (root / file).write_text("")
    return root


def by_git(root: Path, ignores: dict[str, bytes]) -> set[str]:
    """Every file that git leaves out."""
    for path, content in ignores.items():
        (root / path).write_bytes(content)
    try:
        command = ["git", "-C", str(root), "ls-files", "-o", "-i", "--exclude-standard", "-z"]
        out = subprocess.run(command, check=True, capture_output=True, env=GIT).stdout
    finally:
        for path in ignores:
            (root / path).unlink()
    return {path.decode() for path in out.split(b"\0") if path}


def by_us(root: Path, ignores: dict[str, bytes]) -> set[str]:
    found: set[str] = set()

    def look(folder: str, files: list[IgnoreFile], inside: bool) -> None:
        content = ignores.get(f"{folder}.gitignore")
        if content is not None:
            files = [*files, IgnoreFile(content, folder)]
        names = os.listdir(root / folder) + ([".gitignore"] if content is not None else [])
        for name in set(names) - {".git"}:
            path = folder + name
            directory = (root / path).is_dir()
            ignored = inside or is_ignored(path, files, directory=directory)
            if directory:
                look(path + "/", files, ignored)
            elif ignored:
                found.add(path)

    look("", [], False)
    return found


@pytest.mark.parametrize(
    "content",
    [
        b"*.o", b"a/", b"/a", b"a/b", b"a/b/", b"**/b", b"a/**", b"a/**/a.c", b"*\n!a.c",
        b"*\n!*/\n!a.c", b"[ab].?", b"[!a]b", b"[]]", b"[^]]", b"[[:digit:]]", b"[[:nothing:]]",
        b"\\#x", b"\\!x", b"#x", b"!x", b"x ", b"x\\ ", b"x  \r\na", b"a\\\\", b"a\\", b"[a-",
        b"[z-a]", b"/", b"//a", b"**", b"***", b"a**b", b"a/***/b", b"/**/b", b"**/", b"a b/",
        b"\xef\xbb\xbfab", b"a/*", b"a/*/b.o", b"[a-c]/?/*.[co]", b"*/b", b"?", b"a\n!a/b", b"",
        b"\n\n", b"/*\n!/a\n/a/*\n!/a/b", b"[/]", b"a[/]b", b"a?b", b"[\\]]", b"[\\a-c]b", b"./a",
        b"a/./b", b"*b", b"b*", b"**b", b"x\t", b"[a-]b", b"[-a]b", b"[!-a]b", b"a//b",
        b"a**/a.c", b"a**/b/a.c", b"a/b**", b"a**/", b"a**/b**/ab", b"a*b**/ab", b"b.o\n!/**",
        b"a\\/b", b"a\\/**\\/ab", b"a/**/\\*", b"[b-a]", b"[[:x[:alpha:]]", b"[[:]", b"[[::]]",
        b"b\0.o", b"b.o \0", b"a[\0]b", b"\0",
    ],
)  # fmt: skip
def test_a_pattern_means_what_it_means_to_git(root: Path, content: bytes) -> None:
    ignores = {".gitignore": content}
    assert by_us(root, ignores) == by_git(root, ignores)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    texts=st.dictionaries(
        st.sampled_from([".gitignore", "a/.gitignore", "a/b/.gitignore", "b/.gitignore"]),
        st.lists(
            st.lists(st.sampled_from([*"abc*?/!.o[]- \\#x^:", "**/", "\\/"]), max_size=6).map(
                "".join
            ),
            min_size=1,
            max_size=4,
        ).map(lambda lines: "\n".join(lines).encode()),
        max_size=3,
    )
)
@example(texts={".gitignore": b"*", "a/.gitignore": b"!a.c"})
@example(texts={".gitignore": b"b", "a/.gitignore": b"!b\n!/b/ab"})
@example(texts={"a/.gitignore": b"/b", "b/.gitignore": b"a/b.o"})
def test_nested_files_mean_what_they_mean_to_git(root: Path, texts: dict[str, bytes]) -> None:
    assert by_us(root, texts) == by_git(root, texts)


def test_a_pattern_of_many_stars_is_matched_in_reasonable_time() -> None:
    file = IgnoreFile(b"a*a*a*a*a*a*a*a*b\n**/x/**/x/**/x/**/y", "")
    assert file.verdict("a" * 200, directory=False) is None
