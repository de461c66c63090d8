"""Which files are protected: patterns, and every spelling of a name that they cover."""

from __future__ import annotations

import pytest

from stetd.history.protecting import DEFAULT_PATTERNS, Protection


@pytest.mark.parametrize(
    "path",
    [
        ".vscode/tasks.json",
        ".cursor/hooks.json",
        ".github/hooks/stet.json",
        "app/.zed/settings.json",
        ".qwen/settings.json",
        "app/opencode.json",
        "opencode.jsonc",
        ".opencode/plugin/own.js",
        "app/.opencode/plugins/deep/own.ts",
        ".opencode/plugins",  # a link to others
        "packages/app/.vscode/tasks.json",
        ".VSCode/Tasks.JSON",
        ".vscode./tasks.json ",
        ".vs\u200ccode/tasks.json",
        ".vscode/tasks.json::$DATA",
        "\uff0evscode/tasks.json",
        ".mcp.json",
        "deep/down/.MCP.json",
        ".envrc",
        "a/.ENVRC",
        ".claude/settings.local.json",
    ],
)
def test_covered_by_default(path: str) -> None:
    assert Protection(DEFAULT_PATTERNS, "refuse").covers(path)
    assert not Protection(DEFAULT_PATTERNS, "allow").covers(path)


@pytest.mark.parametrize(
    "path",
    [".vscode/extensions.json", "tasks.json", "mcp.json", ".env", ".claude/notes.md", "x.envrc"],
)
def test_not_covered_by_default(path: str) -> None:
    assert not Protection(DEFAULT_PATTERNS, "refuse").covers(path)


@pytest.mark.parametrize(
    ("patterns", "path", "covered"),
    [
        ([".Husky/"], ".husky/pre-commit", True),
        ([".Husky/"], ".husky", False),
        (["/Makefile"], "makefile", True),
        (["/Makefile"], "sub/Makefile", False),
        (["*.sh", "!safe.sh"], "safe.sh", False),
        (["*.sh", "!safe.sh"], "other.sh", True),
        (["[[:upper:]]x"], "Ax", True),
        ([], "anything", False),
    ],
)
def test_patterns_of_ones_own(patterns: list[str], path: str, covered: bool) -> None:
    assert Protection(patterns, "flag").covers(path) == covered


@pytest.mark.parametrize(
    ("patterns", "path", "covered"),
    [
        (["**/.vscode/tasks.json"], "sub/.vscode", True),
        (["**/.vscode/tasks.json"], ".VSCode/other", False),
        (["**/.vscode/tasks.json"], ".VSCode", True),
        (["**/.vscode/tasks.json"], "tasks", False),
        ([".husky/"], "sub/.husky", True),
        (["a/b/*.json"], "a", True),
        (["a/b/*.json"], "a/b", True),
        (["a/b/*.json"], "sub/a", False),
        (["/Makefile", "*.sh", "!a/b"], "a", False),
        (["*.sh"], "x.sh", True),
    ],
)
def test_links_that_files_may_get_such_a_name_through(
    patterns: list[str], path: str, covered: bool
) -> None:
    assert Protection(patterns, "flag").covers(path, link=True) == covered
