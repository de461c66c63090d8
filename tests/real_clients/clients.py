"""The agents' own clients as npm has them: installed, configured for a scripted model, run once.

    python -m real_clients.clients [CLIENT ..]     installs them (PYTHONPATH=tests)

Each runs in a home of its own, with a key that is none, and talks to 127.0.0.1 only: what it tries
to reach elsewhere meets a proxy that refuses. What is said here of a client was seen with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from real_clients.scripted_model import ScriptedModel, Use

#: Where clients are kept between runs; ignored by Git.
CACHE = Path(__file__).resolve().parents[2] / ".run" / "clients"
PATIENCE_S = 150.0

Configure = Callable[[Path, ScriptedModel], None]


@dataclass(frozen=True)
class RealClient:
    """A client: what it is called here, where it is from, how it is started with one prompt.

    ``tool``: the name its model calls a tool of stet's by. ``write`` and ``shell``: its own tools,
    as its model calls them: a new file with this text, a command. ``model``: settings for a
    scripted model, for the home and the environment.
    """

    name: str
    package: str
    version: str
    program: str
    arguments: tuple[str, ...]
    tool: str
    write: Callable[[Path, str], Use]
    shell: Callable[[str], Use]
    configure: Configure = lambda _home, _model: None
    environment: Callable[[ScriptedModel], Mapping[str, str]] = lambda _model: {}
    #: What keeps the client's hooks from running unless a person has said so; here nobody can.
    trusting_hooks: tuple[str, ...] = ()
    connect: tuple[str, ...] = ("--hooks", "--allow-edits")
    #: A first step that finds stet's tools, where the client does not offer them at once.
    search: Use | None = None

    def use(self, tool: str, **given: object) -> Use:
        """A call of one of stet's tools."""
        return Use(self.tool.format(tool), dict(given))

    def replace(self, path: str, old: str, new: str) -> Use:
        """A call of stet's ``patch``."""
        patch = {"operation": "replace", "oldText": old, "newText": new}
        return self.use("patch", path=path, patches=[patch])


@dataclass
class Home:
    """Where a client lives for a test: its own home, and the daemon's places."""

    path: Path
    environment: dict[str, str]

    @classmethod
    def made(cls, path: Path, daemon: Mapping[str, str]) -> Home:
        """An empty one. ``daemon``: variables that say where the daemon's things are."""
        temporary = path.parent / "tmp"
        for each in (path, temporary):
            each.mkdir()
        passed = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        nowhere = "http://127.0.0.1:9"
        return cls(
            path,
            {
                **passed,
                **{name: value for name, value in daemon.items() if name.startswith("STET_")},
                "HOME": str(path),
                # Codex makes no programs of its sandbox in a home below this.
                "TMPDIR": str(temporary),
                "TERM": "xterm-256color",
                "HTTP_PROXY": nowhere,
                "HTTPS_PROXY": nowhere,
                "NO_PROXY": "127.0.0.1,localhost",
            },
        )


@dataclass
class Said:
    """What came of one run of a client."""

    status: int
    output: str
    errors: str
    shown: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = "\n".join(f"[{number}] {text}" for number, text in enumerate(self.shown))
        return f"exit status {self.status}\n{self.output}\n{self.errors}\nshown:\n{shown}"


def run(client: RealClient, home: Home, directory: Path, model: ScriptedModel, *more: str) -> Said:
    """One conversation with one prompt, to its end."""
    program = installed(client)
    assert program is not None, f"{client.name} is not installed"
    environment = {**home.environment, **client.environment(model)}
    done = subprocess.run(
        [*program, client.arguments[0], *more, *client.arguments[1:], "Do it."],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Said(
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
        model.results,
    )


# -- installing


def installed(client: RealClient, version: str | None = None) -> list[str] | None:
    """The command of a client that is installed; None if it is not."""
    place = _place(client, version or _version(client))
    found = sorted(place.glob(f"node_modules/{client.program}"))
    if not found:
        return None
    return ["node", str(found[0])] if found[0].suffix in (".js", ".mjs") else [str(found[0])]


def install(client: RealClient) -> None:
    """Install a client with npm, unless that was done before. Raises CalledProcessError.

    Nothing that a package wants to run while it is installed is run.
    """
    version = _version(client)
    place = _place(client, version)
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone(place):
        if installed(client, version) and version != "latest":
            return
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(
            ["npm", "install", "--prefix", str(place), *options, f"{client.package}@{version}"],
            check=True,
            stdin=subprocess.DEVNULL,
        )


def _version(client: RealClient) -> str:
    return "latest" if os.environ.get("STET_TEST_NEWEST_CLIENTS") else client.version


def _place(client: RealClient, version: str) -> Path:
    return CACHE / f"{client.name}-{version}"


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    with open(f"{place}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- the clients


def _write_claude(path: Path, text: str) -> Use:
    return Use("Write", {"file_path": str(path), "content": text})


CLAUDE_CODE = RealClient(
    "claude-code",
    "@anthropic-ai/claude-code",
    "2.1.332",
    "@anthropic-ai/claude-code-*/claude",
    (
        *("-p", "--model", "claude-sonnet-5"),
        *("--allowedTools", "Write,Edit,Bash,Monitor,Agent,ToolSearch", "--"),
    ),
    "mcp__stet__{}",
    _write_claude,
    lambda command: Use("Bash", {"command": command, "description": "run it"}),
    environment=lambda model: {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
)


def _configure_codex(home: Path, model: ScriptedModel) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        'model_provider = "scripted"\nmodel = "gpt-5.5"\ncheck_for_update_on_startup = false\n\n'
        '[model_providers.scripted]\nname = "scripted"\nwire_api = "responses"\n'
        f'base_url = "{model.url}/v1"\nenv_key = "SCRIPTED_KEY"\n'
    )


CODEX = RealClient(
    "codex",
    "@openai/codex",
    "0.171.0",
    "@openai/codex-*/vendor/*/bin/codex",
    ("exec", "--skip-git-repo-check", "-s", "workspace-write"),
    "mcp__stet__{}",
    lambda path, text: Use(
        "apply_patch",
        f"*** Begin Patch\n*** Add File: {path.name}\n+{text.rstrip()}\n*** End Patch\n",
    ),
    lambda command: Use("exec_command", {"cmd": command}),
    configure=_configure_codex,
    environment=lambda _model: {"SCRIPTED_KEY": "none"},
    trusting_hooks=("--dangerously-bypass-hook-trust",),
    search=Use("tool_search", {"query": "stet edit a file, read, undo, log", "limit": 20}),
)


def _configure_gemini(home: Path, _model: ScriptedModel) -> None:
    settings = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(settings, indent=2))


GEMINI = RealClient(
    "gemini",
    "@google/gemini-cli",
    "0.61.0",
    "@google/gemini-cli/bundle/gemini.js",
    ("-y", "-m", "gemini-2.5-pro", "-p"),
    "mcp_stet_{}",
    lambda path, text: Use("write_file", {"file_path": str(path), "content": text}),
    lambda command: Use("run_shell_command", {"command": command, "description": "run it"}),
    configure=_configure_gemini,
    environment=lambda model: {
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_API_KEY": "none",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
)


def _configure_opencode(home: Path, model: ScriptedModel) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
        "models": {"m": {"name": "m"}},
    }
    settings = {"model": "scripted/m", "autoupdate": False, "provider": {"scripted": provider}}
    path = home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings, indent=2))


OPENCODE = RealClient(
    "opencode",
    "opencode-ai",
    "1.18.33",
    "opencode-linux-x64/bin/opencode",
    ("run",),
    "stet_{}",
    lambda path, text: Use("write", {"filePath": str(path), "content": text}),
    lambda command: Use("bash", {"command": command, "description": "run it"}),
    configure=_configure_opencode,
    # It wants a package of its own before it begins, and here nobody has it.
    environment=lambda _model: {"npm_config_fetch_retries": "0"},
    connect=("--hooks",),
)


def _configure_qwen(home: Path, _model: ScriptedModel) -> None:
    settings = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    path = home / ".qwen" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(settings, indent=2))


QWEN_CODE = RealClient(
    "qwen-code",
    "@qwen-code/qwen-code",
    "0.24.4",
    "@qwen-code/qwen-code/cli.js",
    ("--approval-mode=yolo", "-p"),
    "mcp__stet__{}",
    lambda path, text: Use("write_file", {"file_path": str(path), "content": text}),
    lambda command: Use(
        "run_shell_command", {"command": command, "description": "run it", "is_background": False}
    ),
    configure=_configure_qwen,
    environment=lambda model: {
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_MODEL": "m",
        # It asks the proxy for 127.0.0.1, too.
        "HTTP_PROXY": "",
        "HTTPS_PROXY": "",
    },
    search=Use("tool_search", {"query": "select:mcp__stet__patch,mcp__stet__read,mcp__stet__undo"}),
)

CLIENTS = {client.name: client for client in (CLAUDE_CODE, CODEX, GEMINI, OPENCODE, QWEN_CODE)}


if __name__ == "__main__":
    for each in sys.argv[1:] or CLIENTS:
        install(CLIENTS[each])
