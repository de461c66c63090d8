"""Paths that may not be read or written, and files that are not as ``if_match`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from e2e.bad_input.case import Case, append, patch, replace
from stet.wire.failures import Kind

OUTSIDE = [
    "../outside.txt",
    "/etc/passwd",
    "dir/../../outside.txt",
    "dir-link/../../outside.txt",
    "passwd",
    "up-link",
    "out-link/passwd",
    "out-link/new.txt",
]
PROTECTED = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/config",
    "vendored/.git/HEAD",
    "new/.git/hooks/x",
    "git~1/config",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    ".g\u200cit/config",
    "git-link",
    "dir/../.git/config",
    ".git",
    ".stet-0123456789abcdef.tmp",
]
NOT_FILES = {
    "dir": "a directory",
    "dir-link": "a directory",
    ".": "a directory",
    "pipe": "a named pipe",
    "socket": "a socket",
    "a.py/x": "a.py is not a directory",
    "loop": "symbolic links",
}
BAD_NAMES = {
    "a\x00b": "control characters",
    "a\nb": "control characters",
    "dir/\x1b[31m": "control characters",
    "n" * 256: "255",
    "new/../x": "'..' after a directory that does not exist",
    "d/" * 256 + "x": "255 names one below the other are the most.",
    "d/" * 2_100 + "x": "4095 bytes",
    "a/" * 200_000 + "x": "4095 bytes",
    "dir/../" * 1_000 + "x": "4095 bytes",
    ("é" * 100 + "/") * 21 + "x": "4095 bytes",
}


def path_cases(method: str, params: Callable[[str], dict[str, Any]]) -> Iterator[Case]:
    """Every bad path in a method that takes one."""
    for path in OUTSIDE:
        yield Case(
            Kind.PATH_OUTSIDE_WORKSPACE,
            f"{method} {path}",
            method,
            params(path),
            lambda world, path=path: [  # type: ignore[misc]
                f"{path}: this path leads outside the workspace {world.site.root}. Use a path "
                "inside the workspace, relative to it."
            ],
        )
    yield Case(
        Kind.PATH_OUTSIDE_WORKSPACE,
        f"{method} sibling with the same beginning",
        method,
        lambda world: params(f"{world.site.root}-evil/x.txt"),
        ["leads outside the workspace"],
    )
    for path in PROTECTED:
        yield Case(Kind.PATH_PROTECTED, f"{method} {path!a}", method, params(path), [path])
    for path, what in NOT_FILES.items():
        yield Case(Kind.NOT_A_FILE, f"{method} {path}", method, params(path), [what])
    for path, what in BAD_NAMES.items():
        name = f"{method} path {path[:10]!a} {len(path)}"
        yield Case(Kind.INVALID_PARAMS, name, method, params(path), [what])


PATH_CASES = [
    *path_cases("patch", lambda path: patch(append(), path=path)),
    Case(
        Kind.FILE_TOO_LARGE,
        "patch",
        "patch",
        patch(append(), path="big.txt"),
        ["big.txt: this file has 20,001 bytes, 20,000 is the most"],
        failures=[{"kind": "file_too_large", "path": "big.txt"}],
    ),
    Case(
        Kind.FILE_TOO_LARGE,
        "read",
        "read",
        {"path": "big.txt"},
        ["big.txt: this file has 20,001 bytes, 20,000 is the most"],
        failures=[{"kind": "file_too_large", "path": "big.txt"}],
    ),
    Case(
        Kind.FILE_NOT_FOUND,
        "read",
        "read",
        {"path": "no/such.txt"},
        ["no/such.txt: there is no such file"],
        failures=[{"kind": "file_not_found", "path": "no/such.txt"}],
    ),
    Case(
        Kind.FILE_NOT_FOUND,
        "read at a commit",
        "read",
        {"path": "latin.txt", "at": "HEAD"},
        ["latin.txt: the history has no such file at", "files that edits have touched"],
    ),
    Case(
        Kind.NOT_TEXT,
        "read",
        "read",
        {"path": "nul.bin"},
        ["nul.bin: this file is binary (a NUL byte at offset 4)"],
    ),
]

NOWHERE = "0" * 40
STALE_CASES = [
    Case(
        Kind.STALE,
        "text",
        "patch",
        patch(replace("return 1"), if_match=NOWHERE),
        [f"a.py: if_match expects blob {NOWHERE}, but there is blob ", "Read the file again"],
        failures=[{"kind": "stale", "path": "a.py"}],
    ),
    Case(
        Kind.STALE,
        "must not exist",
        "patch",
        patch(replace("return 1"), if_match={"a.py": None}),
        ["a.py: if_match expects no file, but there is blob "],
    ),
    Case(
        Kind.STALE,
        "must exist",
        "patch",
        patch(append(), path="new.txt", if_match=NOWHERE),
        [f"new.txt: if_match expects blob {NOWHERE}, but there is no file"],
    ),
    Case(
        Kind.STALE,
        "empty",
        "patch",
        patch(append(), path="new.txt", if_match=""),
        ["new.txt: if_match expects blob '', but there is no file"],
    ),
    Case(
        Kind.STALE,
        "map about another file too",
        "patch",
        patch(replace("return 1"), if_match={"a.py": NOWHERE, "twice.txt": NOWHERE}),
        ["a.py: if_match expects", "twice.txt: if_match expects"],
        failures=[{"path": "a.py"}, {"path": "twice.txt"}],
    ),
    Case(
        Kind.STALE,
        "undo",
        "undo",
        {"if_match": {"other.txt": NOWHERE}},
        ["other.txt: if_match expects"],
    ),
    Case(
        Kind.STALE,
        "preview",
        "patch",
        patch(replace("return 1"), if_match=NOWHERE, preview=True),
        ["a.py: if_match expects"],
    ),
    Case(
        Kind.INVALID_PARAMS,
        "if_match text for a method of several files",
        "undo",
        {"if_match": NOWHERE},
        ["if_match", 'send a map from path to blob id: {"src/a.py": "<oid>"}'],
    ),
    Case(
        Kind.PATH_PROTECTED,
        "if_match",
        "patch",
        patch(replace("return 1"), if_match={".git/config": None}),
        [".git/config"],
    ),
]
