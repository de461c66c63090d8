"""The clients: where each keeps its configuration, and what is written there. Pure.

What is said here is each client's own documentation, looked up in November 2026:

    Claude Code   "Connect Claude Code to tools via MCP", "Hooks reference", "Claude Code
                  settings", code.claude.com/docs, 2026-10. Three files: servers are in
                  .mcp.json or .claude.json, hooks in settings.json. Plain JSON.
    Codex         "Model Context Protocol", "Hooks", "Configuration reference",
                  developers.openai.com/codex, 2026-11. TOML; hooks in hooks.json, whose root takes
                  nothing but "hooks" and "description". A server gets few variables of the
                  environment, unless env_vars names them.
    Gemini CLI    "MCP servers with Gemini CLI", "Hooks reference", "Gemini CLI configuration",
                  geminicli.com/docs, 2026-10. JSON with comments; times of hooks in milliseconds;
                  $NAME is replaced in every string.
    Cursor        "Model Context Protocol (MCP)", "Hooks", cursor.com/docs, checked 2026-10-22.
                  hooks.json needs "version": 1; handlers are not grouped; times in seconds.
    VS Code       "MCP configuration reference", "Agent hooks in Visual Studio Code (Preview)",
                  code.visualstudio.com/docs, 2026-10-14. JSON with comments; a file of hooks of
                  one's own; matchers are not looked at.
    Zed           "Model Context Protocol", zed.dev/docs/ai/mcp, at commit 04ebba46. JSON with
                  comments; no hooks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Scope = Literal["user", "project"]
SCOPES: tuple[Scope, ...] = ("user", "project")
#: Which file, by the directory of the project (None: the user's own) and the environment.
Places = Callable[[str | None, Mapping[str, str]], str]

#: Seconds that a client waits for a hook, which itself takes 2 before and 5 after a tool at most.
HOOK_TIMEOUT_S = 15


@dataclass(frozen=True)
class Hooks:
    """A client's hooks: in which file, for which events, in which form."""

    place: Places
    events: tuple[str, ...]
    matcher: str | None = None
    grouped: bool = True
    typed: bool = True
    per_second: int = 1
    defaults: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    def value(self, command: str) -> dict[str, Any]:
        """The element for an event."""
        handler: dict[str, Any] = {"type": "command"} if self.typed else {}
        handler |= {"command": command, "timeout": HOOK_TIMEOUT_S * self.per_second}
        matcher = {"matcher": self.matcher} if self.matcher else {}
        return {**matcher, "hooks": [handler]} if self.grouped else {**matcher, **handler}


@dataclass(frozen=True)
class Client:
    """A client: its name on the command line and in the history, and how it is told of a server.

    ``project_variable``: what the client itself replaces by the project's directory; the others
    start a server there. ``expands``: it replaces ``$`` in strings. ``forwards``: it starts a
    server with few variables, unless ``env_vars`` names more.
    """

    name: str
    title: str
    place: Places
    servers: str
    marks: Mapping[str, Any] = field(default_factory=dict)
    toml: bool = False
    strict: bool = False
    expands: bool = True
    forwards: bool = False
    project_variable: str | None = None
    hooks: Hooks | None = None
    hints: tuple[str, ...] = ()

    def server(
        self, command: list[str], variables: Mapping[str, str], forwarded: list[str]
    ) -> dict[str, Any]:
        """The entry of an MCP server that gets these variables, and the client's own of those."""
        value = {**self.marks, "command": command[0], "args": command[1:]}
        if variables:
            value["env"] = dict(variables)
        if self.forwards and forwarded:
            value["env_vars"] = forwarded
        return value


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _config_home(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_CONFIG_HOME", "")
    return base if os.path.isabs(base) else os.path.join(_home(environ), ".config")


def _place(
    project_name: str,
    user_name: str,
    base: Callable[[Mapping[str, str]], str] = _home,
    moved: tuple[str, str] | None = None,
) -> Places:
    """A file in the project or in the user's own directory.

    ``moved``: a variable that names another directory for the user's own, and the file's name
    there.
    """

    def place(project: str | None, environ: Mapping[str, str]) -> str:
        if project is not None:
            return os.path.join(project, project_name)
        if moved is not None and environ.get(moved[0]):
            return os.path.abspath(os.path.join(environ[moved[0]], moved[1]))
        return os.path.join(base(environ), user_name)

    return place


CLAUDE_CODE = Client(
    "claude-code",
    "Claude Code",
    _place(".mcp.json", ".claude.json", moved=("CLAUDE_CONFIG_DIR", ".claude.json")),
    "mcpServers",
    marks={"type": "stdio"},
    strict=True,
    hooks=Hooks(
        _place(
            ".claude/settings.json",
            ".claude/settings.json",
            moved=("CLAUDE_CONFIG_DIR", "settings.json"),
        ),
        ("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        "Edit|Write|MultiEdit|NotebookEdit|Bash",
        strict=True,
    ),
    hints=(
        'So that it is not asked each time, in settings.json: "permissions": '
        '{"allow": ["mcp__stet"]}',
        'So that it edits with stet only, not with its own tools: "permissions": '
        '{"deny": ["Edit", "Write", "NotebookEdit"]}',
        "Start Claude Code again; /mcp there shows the server.",
    ),
)

CODEX = Client(
    "codex",
    "Codex",
    _place(".codex/config.toml", ".codex/config.toml", moved=("CODEX_HOME", "config.toml")),
    "mcp_servers",
    toml=True,
    expands=False,
    forwards=True,
    hooks=Hooks(
        _place(".codex/hooks.json", ".codex/hooks.json", moved=("CODEX_HOME", "hooks.json")),
        ("PreToolUse", "PostToolUse"),
        "Bash|apply_patch",
        strict=True,
    ),
    hints=(
        "Codex keeps its own apply_patch. To let it take stet's: stet apply-patch stands in for "
        "that command (README.md, apply_patch).",
        "Start Codex again; /mcp there shows the server. Hooks run after you have trusted them in "
        "/hooks; a project's files are read when the project is trusted.",
    ),
)

GEMINI = Client(
    "gemini",
    "Gemini CLI",
    _place(".gemini/settings.json", ".gemini/settings.json"),
    "mcpServers",
    hooks=Hooks(
        _place(".gemini/settings.json", ".gemini/settings.json"),
        ("BeforeTool", "AfterTool"),
        "write_file|replace|run_shell_command",
        per_second=1000,
    ),
    hints=(
        'So that it is not asked each time: "trust": true in the entry.',
        'So that it edits with stet only: "tools": {"exclude": ["replace", "write_file"]}',
        "Start Gemini CLI again; /mcp there shows the server.",
    ),
)

CURSOR = Client(
    "cursor",
    "Cursor",
    _place(".cursor/mcp.json", ".cursor/mcp.json"),
    "mcpServers",
    project_variable="${workspaceFolder}",
    hooks=Hooks(
        _place(".cursor/hooks.json", ".cursor/hooks.json"),
        ("preToolUse", "postToolUse", "postToolUseFailure"),
        "Write|Edit|StrReplace|EditNotebook|Delete|Shell",
        grouped=False,
        typed=False,
        defaults={"version": 1},
    ),
    hints=("In Cursor's settings, under MCP, switch the server on and choose its tools.",),
)

VSCODE = Client(
    "vscode",
    "VS Code",
    _place(".vscode/mcp.json", "Code/User/mcp.json", _config_home),
    "servers",
    marks={"type": "stdio"},
    project_variable="${workspaceFolder}",
    hooks=Hooks(
        _place(".github/hooks/stet.json", ".copilot/hooks/stet.json"),
        ("PreToolUse", "PostToolUse"),
        grouped=False,
    ),
    hints=(
        'In VS Code, "MCP: List Servers" starts it; the tools of a chat are chosen by its '
        "tools button, where its own editing can be switched off.",
        "VS Code also runs the hooks in Claude Code's settings.json: connect one of the two.",
    ),
)

ZED = Client(
    "zed",
    "Zed",
    _place(".zed/settings.json", "zed/settings.json", _config_home),
    "context_servers",
    marks={"source": "custom"},
    expands=False,
    hints=(
        'So that it edits with stet only: a profile in "agent" with "edit_file": false under '
        '"tools", and "enable_all_context_servers": true.',
        "The settings of the agent panel show the server, with a green dot when it runs.",
    ),
)

CLIENTS: Mapping[str, Client] = {
    client.name: client for client in (CLAUDE_CODE, CODEX, GEMINI, CURSOR, VSCODE, ZED)
}
