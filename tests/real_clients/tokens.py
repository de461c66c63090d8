"""What a client's model is charged for stet's tools and their results, in tokens of o200k.

    python -m real_clients.tokens [CLIENT ..]      (PYTHONPATH=tests)

One conversation a client: a read, a patch, a log, and a patch that is refused. What is counted is
what the client puts into the request to its model: each tool's definition, and each result.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.running_daemon import DaemonProcess, running
from real_clients.clients import CLIENTS, Home, RealClient, installed, run
from real_clients.scripted_model import ScriptedModel, Use
from stetd.editing.tokens import load_encoding

TEXT = """\
def greet(name):
    print("hello " + name)


if __name__ == "__main__":
    greet("you")
"""
TOOLS = [
    *("patch", "patch_file", "patch_block", "apply_patch"),
    *("read", "undo", "log", "show", "diff", "request_mode_upgrade"),
]
#: How a model finds the tools that are not offered at once.
_SEARCHES = {
    "claude-code": Use(
        "ToolSearch",
        {"query": "select:" + ",".join(f"mcp__stet__{tool}" for tool in TOOLS), "max_results": 20},
    )
}


def main(names: list[str]) -> None:
    """Print a table for each client."""
    for client in [CLIENTS[name] for name in names or CLIENTS]:
        if installed(client) is None:
            print(f"{client.name}: not installed")
            continue
        print(f"{client.name}: {measured(client)}")


def measured(client: RealClient) -> dict[str, int]:
    """Tokens of definitions and results."""
    with running() as daemon, tempfile.TemporaryDirectory() as base, ScriptedModel() as model:
        return _measured(client, daemon, Path(base), model)


def _measured(
    client: RealClient, daemon: DaemonProcess, base: Path, model: ScriptedModel
) -> dict[str, int]:
    home = Home.made(base / "home", daemon.environment)
    workspace = base / "ws"
    workspace.mkdir()
    (workspace / "hello.py").write_text(TEXT)
    client.configure(home.path, model)
    for words in (["init"], ["connect", client.name, "--write", *client.connect]):
        subprocess.run(
            [sys.executable, "-m", "stet.cli", *words],
            cwd=workspace, env=home.environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    steps = [
        client.use("read", path="hello.py"),
        client.replace("hello.py", '"hello " + name', 'f"hello, {name}"'),
        client.use("log"),
        client.replace("hello.py", "greet(nome)", "x"),
    ]
    searching = [search] if (search := client.search or _SEARCHES.get(client.name)) else []
    model.steps = [*searching, *steps]
    said = run(client, home, workspace, model)
    results = said.shown[len(searching) :]
    assert len(results) == len(steps), said
    count = load_encoding().encode
    definitions = {}
    at_once = 0
    for tool in TOOLS:
        found = model.find(client.tool.format(tool))
        definitions[tool] = len(count(json.dumps(found.definition))) if found else 0
        first = {(each.namespace, each.name) for each in model.conversation[0].tools}
        if found and (found.namespace, found.name) in first:
            at_once += definitions[tool]
    told = dict(
        zip(("read", "patch", "log", "refusal"), map(len, map(count, results)), strict=True)
    )
    return {
        "offered at once": at_once,
        "all definitions": sum(definitions.values()),
        **definitions,
        **{f"result of {name}": tokens for name, tokens in told.items()},
    }


if __name__ == "__main__":
    main(sys.argv[1:])
