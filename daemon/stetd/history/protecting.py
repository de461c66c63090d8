"""Which files agents may not change, or not unnoticed: those that programs run later. Pure.

The patterns are those of a ``.gitignore`` in the workspace's root (:mod:`stetd.history.ignoring`);
names are compared as the most tolerant file system would: letter case, characters that are ignored,
dots and spaces at the end make no difference. ``.git`` and the like are not decided here: nobody
writes there (:mod:`stetd.editing.paths`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from stetd.editing.paths import folded_path
from stetd.history.ignoring import IgnoreFile, is_ignored, is_left_out

Action = Literal["refuse", "flag", "allow"]

#: Files that an editor, a shell or an agent's own tool reads on its own when a project is opened,
#: and that can name commands. Few on purpose: what is in the way of ordinary work is switched off.
DEFAULT_PATTERNS = (
    "**/.vscode/tasks.json",
    "**/.vscode/settings.json",
    "**/.vscode/mcp.json",
    ".mcp.json",
    "**/.cursor/mcp.json",
    "**/.cursor/hooks.json",
    "**/.claude/settings.json",
    "**/.claude/settings.local.json",
    "**/.codex/config.toml",
    "**/.codex/hooks.json",
    "**/.gemini/settings.json",
    "**/.qwen/settings.json",
    "**/opencode.json",
    "**/opencode.jsonc",
    "**/.opencode/plugin",
    "**/.opencode/plugins",
    "**/.github/hooks/*.json",
    "**/.zed/settings.json",
    ".envrc",
)


class Protection:
    """The patterns, and what is done with an edit that they cover."""

    def __init__(self, patterns: Sequence[str], action: Action) -> None:
        self.action = action
        lines = [
            unicodedata.normalize("NFKC", pattern).casefold().replace("[:upper:]", "[:lower:]")
            for pattern in patterns
        ]
        self._file = IgnoreFile("\n".join(lines).encode(), "")
        above = [each for line in lines for each in _directories_of(line)]
        self._directories = IgnoreFile("\n".join(above).encode(), "")

    def covers(self, path: str, *, link: bool = False) -> bool:
        """Whether a file of the workspace is protected, or a directory above it.

        A ``link`` also is if files may get protected names through it.
        """
        if self.action == "allow" or not self._file:
            return False
        path = folded_path(path)
        above = link and is_ignored(path, [self._directories], directory=False)
        return above or is_left_out(path, {"": self._file}.get)


def _directories_of(pattern: str) -> Iterator[str]:
    """Patterns of the directories above the files of a pattern."""
    if pattern.startswith(("!", "#")):
        return
    anchor = "/" if "/" in pattern.rstrip("/") else ""
    parts = pattern.strip("/").split("/")
    named = len(parts) if pattern.endswith("/") else len(parts) - 1
    for count in range(1, named + 1):
        if parts[count - 1] != "**":
            yield anchor + "/".join(parts[:count])
