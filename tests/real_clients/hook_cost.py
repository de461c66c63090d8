"""What hooks cost a client for each use of a tool, beside the start of a bare interpreter.

    python -m real_clients.hook_cost [CLIENT]      (PYTHONPATH=tests; Claude Code)

The hook alone: p50 of 100 processes, before and after a tool. The client end to end: conversations
of many shell commands, with and without hooks; what the hooks add, shared among the commands.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from real_clients.clients import CLIENTS
from real_clients.scripted_model import Use
from real_clients.world import World, world_of

TIMES = 100
#: Commands of a conversation.
COMMANDS = 30


def main(name: str = "claude-code") -> None:
    """Print the figures."""
    client = CLIENTS[name]
    with world_of(client) as world:
        world.connect()
        bare = p50(lambda: subprocess.run([sys.executable, "-S", "-c", "pass"], check=True))
        print(f"a bare interpreter's start (python -S), p50 of {TIMES}: {bare * 1000:.1f} ms")
        for event in ("PreToolUse", "PostToolUse"):
            seconds = p50(lambda event=event: hook(world, event))  # type: ignore[misc]
            print(f"stet hook, {event}: {seconds * 1000:.1f} ms, {seconds / bare:.1f} times")
    taken: dict[str, float] = {}
    for hooks in ("", "--hooks", "", "--hooks"):
        with world_of(client) as world:
            world.stet("init")
            world.stet("connect", client.name, "--write", *([hooks] if hooks else []))
            steps: list[Use] = [client.shell(f"echo {n} > f{n}") for n in range(COMMANDS)]
            began = time.monotonic()
            world.converse(*steps)
            seconds = time.monotonic() - began
            taken[hooks] = min(taken.get(hooks, seconds), seconds)
    each = (taken["--hooks"] - taken[""]) / COMMANDS
    print(
        f"{client.name}, {COMMANDS} shell commands: {taken['']:.2f} s without hooks, "
        f"{taken['--hooks']:.2f} s with them: {each * 1000:.0f} ms a command"
    )


def p50(run: Callable[[], object]) -> float:
    """The median of many times, in seconds."""
    times = []
    for _ in range(TIMES):
        began = time.monotonic()
        run()
        times.append(time.monotonic() - began)
    return statistics.median(times)


def hook(world: World, event: str) -> None:
    """One hook, as Claude Code starts it."""
    payload = {
        "session_id": "s",
        "cwd": str(world.workspace),
        "hook_event_name": event,
        "tool_name": "Write",
        "tool_input": {"file_path": str(world.workspace / "a.txt")},
        "tool_use_id": f"t-{time.monotonic_ns()}",
    }
    subprocess.run(
        [sys.executable, "-P", "-m", "stet.cli", "hook", world.client.name],
        input=json.dumps(payload).encode(),
        env=world.home.environment,
        check=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
