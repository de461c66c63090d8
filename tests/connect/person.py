"""A person with a home of his own, who connects clients; nothing of the real home is seen."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stet.cli import main
from stet.service.spawn import own_program

PROGRAM = list(own_program("stet"))

#: Where the MCP server of each client is configured, and under which key.
SERVER_FILES = {
    ("claude-code", "user"): (".claude.json", "mcpServers"),
    ("claude-code", "project"): ("project/.mcp.json", "mcpServers"),
    ("codex", "user"): (".codex/config.toml", "mcp_servers"),
    ("codex", "project"): ("project/.codex/config.toml", "mcp_servers"),
    ("gemini", "user"): (".gemini/settings.json", "mcpServers"),
    ("gemini", "project"): ("project/.gemini/settings.json", "mcpServers"),
    ("cursor", "user"): (".cursor/mcp.json", "mcpServers"),
    ("cursor", "project"): ("project/.cursor/mcp.json", "mcpServers"),
    ("vscode", "user"): (".config/Code/User/mcp.json", "servers"),
    ("vscode", "project"): ("project/.vscode/mcp.json", "servers"),
    ("zed", "user"): (".config/zed/settings.json", "context_servers"),
    ("zed", "project"): ("project/.zed/settings.json", "context_servers"),
    ("opencode", "user"): (".config/opencode/opencode.json", "mcp"),
    ("opencode", "project"): ("project/opencode.json", "mcp"),
    ("qwen-code", "user"): (".qwen/settings.json", "mcpServers"),
    ("qwen-code", "project"): ("project/.qwen/settings.json", "mcpServers"),
}

#: Where its hooks are.
HOOK_FILES = {
    ("claude-code", "user"): ".claude/settings.json",
    ("claude-code", "project"): "project/.claude/settings.json",
    ("codex", "user"): ".codex/hooks.json",
    ("codex", "project"): "project/.codex/hooks.json",
    ("gemini", "user"): ".gemini/settings.json",
    ("gemini", "project"): "project/.gemini/settings.json",
    ("cursor", "user"): ".cursor/hooks.json",
    ("cursor", "project"): "project/.cursor/hooks.json",
    ("vscode", "user"): ".copilot/hooks/stet.json",
    ("vscode", "project"): "project/.github/hooks/stet.json",
    ("qwen-code", "user"): ".qwen/settings.json",
    ("qwen-code", "project"): "project/.qwen/settings.json",
}


@dataclass
class Person:
    """What commands say, and what is in the home."""

    home: Path
    complaints: list[str] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.home / "project"

    def run(self, *arguments: str, status: int = 0) -> str:
        """A command in the project; its output."""
        return self.run_as_printed(*arguments, "-C", str(self.project), status=status)

    def run_as_printed(self, *arguments: str, status: int = 0) -> str:
        """A command in the directory at hand; its output."""
        written, err = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = main(arguments)
        self.complaints.append(err.getvalue())
        said = written.getvalue().decode()
        assert status == found, said + err.getvalue()
        return said

    def json(self, *arguments: str, status: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", status=status))

    def refused(self, *arguments: str) -> str:
        """What is said of a command that is refused, and has changed nothing."""
        before = self.tree()
        self.run(*arguments, status=1)
        assert before == self.tree()
        return self.complaints[-1]

    def write(self, path: str, data: bytes, mode: int = 0o644) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode)
        return file

    def read(self, path: str) -> bytes:
        return (self.home / path).read_bytes()

    def tree(self) -> dict[str, tuple[int, bytes | str | None]]:
        """Everything in the home: modes, contents, where links lead."""
        found: dict[str, tuple[int, bytes | str | None]] = {}
        for path in sorted(self.home.rglob("*")):
            mode = path.lstat().st_mode
            content: bytes | str | None = None
            if stat.S_ISLNK(mode):
                content = os.readlink(path)
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            found[str(path.relative_to(self.home))] = (mode, content)
        return found


def make_person(directory: Path, patch: pytest.MonkeyPatch) -> Person:
    """Somebody whose home is this directory, and who has a project."""
    for name in list(os.environ):
        if name.startswith(("STET_", "XDG_", "CLAUDE_", "CODEX_", "GEMINI_", "QWEN_")):
            patch.delenv(name)
    patch.setenv("HOME", str(directory))
    patch.setenv("PATH", os.defpath)  # where no client is, for stet doctor to ask
    (directory / "project").mkdir()
    return Person(directory)
