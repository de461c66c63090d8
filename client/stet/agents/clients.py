"""The clients: the files of each one's configuration, and what stet writes there. Pure.

By their own documentation, read in October and November 2026, and by tests/real_clients.

    Claude Code   code.claude.com/docs
    Codex         developers.openai.com/codex. The root of hooks.json takes nothing but "hooks" and
                  "description"
    Gemini CLI    geminicli.com/docs
    Cursor        cursor.com/docs
    VS Code       code.visualstudio.com/docs. Matchers are not compared
    Zed           zed.dev/docs/ai/mcp, at commit 04ebba46
    opencode      what others call hooks is a JavaScript module below plugin/
    Qwen Code     without a terminal there is no SessionStart
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from stet.service.socket_path import config_home

Scope = Literal["user", "project"]
SCOPES: tuple[Scope, ...] = ("user", "project")
#: The variables that say where a client's files are.
HOMES = (
    "HOME",
    "XDG_CONFIG_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "QWEN_HOME",
)

#: Seconds that a client waits for a hook, which itself takes 2 before and 5 after a tool at most.
HOOK_TIMEOUT_S = 15


def _home(environ: Mapping[str, str]) -> str:
    return os.path.abspath(environ.get("HOME") or os.path.expanduser("~"))


class Place(NamedTuple):
    """A file in the project or in the user's own directory, where it has the same name unless
    ``user_name`` is given. ``moved``: a variable that names the user's own directory itself.
    """

    project_name: str
    user_name: str | None = None
    base: Callable[[Mapping[str, str]], str] = _home
    moved: str | None = None

    def path(self, project: str | None, environ: Mapping[str, str]) -> str:
        """Its path; ``project``: the project's directory, None: for the user."""
        if project is not None:
            return os.path.join(project, self.project_name)
        own = self.project_name if self.user_name is None else self.user_name
        if self.moved is not None and environ.get(self.moved):
            return os.path.abspath(os.path.join(environ[self.moved], os.path.basename(own)))
        return os.path.join(self.base(environ), own)


class Hooks(msgspec.Struct, frozen=True):
    """A client's hooks: their file, events and form.

    ``matcher``: the tools for which ``events`` are reported. ``other_events`` are not about a tool:
    a conversation begins (:mod:`stet.agents.joining`), or a turn ends.
    """

    place: Place
    events: tuple[str, ...]
    matcher: str | None = None
    other_events: tuple[str, ...] = ()
    grouped: bool = True
    typed: bool = True
    per_second: int = 1
    defaults: Mapping[str, Any] = {}

    def entries(self, command: str) -> dict[tuple[str, ...], Any]:
        """What the file must have: each member with its path."""
        handler: dict[str, Any] = {"type": "command"} if self.typed else {}
        handler |= {"command": command, "timeout": HOOK_TIMEOUT_S * self.per_second}
        group = {"hooks": [handler]} if self.grouped else handler
        matched = {"matcher": self.matcher, **group} if self.matcher else group
        return {
            **{(key,): value for key, value in self.defaults.items()},
            **{("hooks", event): [matched] for event in self.events},
            **{("hooks", event): [group] for event in self.other_events},
        }


class OwnFile(msgspec.Struct, frozen=True):
    """A file that is stet's alone. ``text``: makes its content from the hook's command and from
    whether editing tools are allowed without asking. ``for_hooks``: it is only for hooks.
    ``in_projects``: the client reads such a file of a project, too.
    """

    place: Place
    text: Callable[[str, bool], str]
    for_hooks: bool = False
    in_projects: bool = True


#: In the first line of each such file.
OWN_MARK = "written by stet connect"
#: The MCP tools that change nothing.
READING = ("read", "log", "show", "diff")
#: The list of tools that Claude Code and Qwen Code call without asking; its words for the tools
#: that change nothing, and the word for all of stet's tools.
ALLOWED = ("permissions", "allow")
READING_WORDS = tuple(f"mcp__stet__{tool}" for tool in READING)
EDITING_WORD = "mcp__stet"


class Client(msgspec.Struct, frozen=True):
    """A client: its name on the command line and in the history, and the form of its configuration.

    ``servers``: the key of its MCP servers. ``fixed``: members that each server's entry has.
    ``mcp_name``: its name in MCP's ``initialize``. ``expands``: it replaces ``$`` in strings.
    ``forwards``: it starts a server with few variables, unless ``env_vars`` names more.
    ``one_list``: a server's command is one list, and its variables are its ``environment``.
    ``project_variable``: the text that the client replaces by the project's directory; other
    clients start a server there. ``allowed``: the file with the list ALLOWED. ``boundary``: which
    of its own rules hold for stet's edits, unless it asks, as its settings say. ``asks``: what it
    asks before it reads a project's configuration.
    """

    name: str
    title: str
    place: Place
    servers: str
    mcp_name: str
    boundary: str = ""
    fixed: Mapping[str, Any] = {}
    toml: bool = False
    strict: bool = False
    expands: bool = True
    forwards: bool = False
    one_list: bool = False
    project_variable: str | None = None
    hooks: Hooks | None = None
    allowed: Place | None = None
    own_files: tuple[OwnFile, ...] = ()
    asks: str = ""
    hints: tuple[str, ...] = ()

    @property
    def has_hooks(self) -> bool:
        """Whether its own tools' edits can be recorded."""
        return self.hooks is not None or any(each.for_hooks for each in self.own_files)

    def server(
        self, command: list[str], variables: Mapping[str, str], forwarded: list[str]
    ) -> dict[str, Any]:
        """The entry of an MCP server with these variables, in the client's form."""
        value: dict[str, Any] = {**self.fixed}
        if self.one_list:
            value["command"] = command
        else:
            value |= {"command": command[0], "args": command[1:]}
        if variables:
            value["environment" if self.one_list else "env"] = dict(variables)
        if self.forwards and forwarded:
            value["env_vars"] = forwarded
        return value


_CLAUDE_SETTINGS = Place(".claude/settings.json", moved="CLAUDE_CONFIG_DIR")


def _gemini_policy(_command: str, edits: bool) -> str:
    """Rules of Gemini CLI's policy engine. In plan mode the rule for edits does not hold."""
    names = ", ".join(f'"mcp_stet_{tool}"' for tool in READING)
    rule = '[[rule]]\ntoolName = {}\ndecision = "allow"\npriority = 100\n'
    text = f"# {OWN_MARK}; stet disconnect removes it\n" + rule.format(f"[{names}]")
    modes = 'modes = ["default", "autoEdit", "yolo"]\n'
    return text + ("\n" + rule.format('"mcp_stet_*"') + modes if edits else "")


def _opencode_plugin(command: str, _edits: bool) -> str:
    path = os.path.join(os.path.dirname(__file__), "opencode_plugin.js")
    with open(path, encoding="utf-8") as file:
        head, _, code = file.read().partition("\n")
    return f"{head} {OWN_MARK}; stet disconnect removes it\n" + code.replace(
        "STET_HOOK_COMMAND", json.dumps(shlex.split(command))
    )


CLAUDE_CODE = Client(
    "claude-code",
    "Claude Code",
    Place(".mcp.json", ".claude.json", moved="CLAUDE_CONFIG_DIR"),
    "mcpServers",
    "claude-code",
    fixed={"type": "stdio"},
    strict=True,
    hooks=Hooks(
        _CLAUDE_SETTINGS,
        ("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        "Edit|Write|MultiEdit|NotebookEdit|Bash|PowerShell|Monitor",
        ("SessionStart", "Stop"),
    ),
    allowed=_CLAUDE_SETTINGS,
    boundary="Claude Code asks before stet edits, unless you allow it (--allow-edits), and refuses "
    "it in plan mode; its sandbox for commands does not hold stet's daemon back.",
    asks="Claude Code asks once whether the server in .mcp.json may be used, and reads hooks and "
    "permissions of a project only after you have said that you trust its directory.",
    hints=(
        'So that it edits with stet only, not with its own tools, in settings.json: "permissions": '
        '{"deny": ["Edit", "Write", "NotebookEdit"]}',
        "Start Claude Code again; /mcp there shows the server.",
    ),
)

CODEX = Client(
    "codex",
    "Codex",
    Place(".codex/config.toml", moved="CODEX_HOME"),
    "mcp_servers",
    "codex-mcp-client",
    toml=True,
    strict=True,
    expands=False,
    forwards=True,
    hooks=Hooks(
        Place(".codex/hooks.json", moved="CODEX_HOME"),
        ("PreToolUse", "PostToolUse"),
        "Bash|apply_patch",
        ("Stop",),
    ),
    boundary="Codex's sandbox does not hold stet's daemon back, so stet refuses to edit while that "
    "sandbox is read-only. Codex does not ask before stet edits, not even where it asks before "
    'its own edits (the policy "untrusted"); to be asked: approval_mode = "prompt" in '
    "[mcp_servers.stet.tools.patch] and the like.",
    asks="Codex reads a project's .codex only when the project is trusted.",
    hints=("Start Codex again; /mcp there shows the server.",),
)


def _gemini_home(environ: Mapping[str, str]) -> str:
    return os.path.abspath(environ.get("GEMINI_CLI_HOME") or _home(environ))


_GEMINI_SETTINGS = Place(".gemini/settings.json", base=_gemini_home)
GEMINI = Client(
    "gemini",
    "Gemini CLI",
    _GEMINI_SETTINGS,
    "mcpServers",
    "gemini-cli-mcp-client",
    hooks=Hooks(
        _GEMINI_SETTINGS,
        ("BeforeTool", "AfterTool"),
        "write_file|replace|run_shell_command",
        ("SessionStart",),
        per_second=1000,
    ),
    own_files=(
        OwnFile(
            Place(".gemini/policies/stet.toml", base=_gemini_home),
            _gemini_policy,
            in_projects=False,
        ),
    ),
    boundary="Gemini CLI asks before stet edits, unless you allow it (--allow-edits), and does not "
    "offer stet's edits in plan mode; its sandbox does not hold stet's daemon back.",
    asks="Gemini CLI reads a project's .gemini only when its directory is trusted, and no policies "
    "there: so it asks before each of stet's tools.",
    hints=(
        'So that it edits with stet only, in settings.json: "tools": {"exclude": ["replace", '
        '"write_file"]}',
        "Start Gemini CLI again; /mcp there shows the server.",
    ),
)

CURSOR = Client(
    "cursor",
    "Cursor",
    Place(".cursor/mcp.json"),
    "mcpServers",
    "cursor-vscode",
    project_variable="${workspaceFolder}",
    hooks=Hooks(
        Place(".cursor/hooks.json"),
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
    Place(".vscode/mcp.json", "Code/User/mcp.json", config_home),
    "servers",
    "Visual Studio Code",
    fixed={"type": "stdio"},
    project_variable="${workspaceFolder}",
    hooks=Hooks(
        Place(".github/hooks/stet.json", ".copilot/hooks/stet.json"),
        ("PreToolUse", "PostToolUse"),
        grouped=False,
    ),
    asks="VS Code asks whether you trust a project's server before it starts it.",
    hints=(
        'In VS Code, "MCP: List Servers" starts it; the tools of a chat are chosen by its '
        "tools button, where its own editing can be switched off.",
        "VS Code also runs the hooks in Claude Code's settings.json: connect one of the two.",
    ),
)

ZED = Client(
    "zed",
    "Zed",
    Place(".zed/settings.json", "zed/settings.json", config_home),
    "context_servers",
    "Zed",
    fixed={"source": "custom"},
    expands=False,
    hints=(
        'So that it edits with stet only: a profile in "agent" with "edit_file": false under '
        '"tools", and "enable_all_context_servers": true.',
        "The settings of the agent panel show the server, with a green dot when it runs.",
    ),
)

OPENCODE = Client(
    "opencode",
    "opencode",
    Place("opencode.json", "opencode/opencode.json", config_home),
    "mcp",
    "opencode",
    fixed={"type": "local", "enabled": True},
    expands=False,
    one_list=True,
    own_files=(
        OwnFile(
            Place(".opencode/plugin/stet.js", "opencode/plugin/stet.js", config_home),
            _opencode_plugin,
            for_hooks=True,
        ),
    ),
    boundary="opencode does not ask before stet edits, not even in its plan mode; to be asked: "
    '"permission": {"stet_*": "ask"} in opencode.json.',
    asks="opencode reads a project's opencode.json and plugins unasked.",
    hints=(
        'So that it edits with stet only, in opencode.json: "tools": {"edit": false, '
        '"write": false}',
        "Start opencode again; opencode mcp list shows the server.",
    ),
)

_QWEN_SETTINGS = Place(".qwen/settings.json", moved="QWEN_HOME")
QWEN_CODE = Client(
    "qwen-code",
    "Qwen Code",
    _QWEN_SETTINGS,
    "mcpServers",
    "qwen-cli-mcp-client-stet",
    hooks=Hooks(
        _QWEN_SETTINGS,
        ("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        "edit|write_file|notebook_edit|run_shell_command|monitor",
        # With a prompt on the command line it sends no SessionStart.
        ("SessionStart", "UserPromptSubmit", "Stop"),
        per_second=1000,
    ),
    allowed=_QWEN_SETTINGS,
    boundary="Qwen Code asks before stet edits, unless you allow it (--allow-edits); then it does "
    "not ask in plan mode either. Its sandbox does not hold stet's daemon back.",
    asks="Qwen Code reads a project's .qwen unasked, unless security.folderTrust is enabled.",
    hints=(
        'So that it edits with stet only, in settings.json: "permissions": {"deny": ["edit", '
        '"write_file", "notebook_edit"]}',
        "Start Qwen Code again; /mcp there shows the server.",
    ),
)

_ALL = (CLAUDE_CODE, CODEX, GEMINI, CURSOR, VSCODE, ZED, OPENCODE, QWEN_CODE)
CLIENTS: Mapping[str, Client] = {client.name: client for client in _ALL}
