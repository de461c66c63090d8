"""From a fresh clone to the first undone edit, as the README says it: steps and seconds.

python -m real_clients.first_minute [CLIENT ..], in tests; with a scripted model for the client.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from real_clients.clients import CLIENTS, Home, run
from real_clients.scripted_model import ScriptedModel

CHECKOUT = Path(__file__).parents[2]


def main(names: list[str]) -> None:
    """Play it for each client, and print a table."""
    print(f"{'seconds':>8}  step")
    for name in names or ["claude-code", "codex"]:
        base = Path(tempfile.mkdtemp(prefix="stet-first-"))
        try:
            _play(name, base)
        finally:
            shutil.rmtree(base)


def _play(name: str, base: Path) -> None:
    client = CLIENTS[name]
    places = {f"STET_{what.upper()}_DIR": str(base / what) for what in ("runtime", "state")}
    places["STET_CONFIG"] = str(base / "config.toml")
    for what in ("runtime", "state"):
        (base / what).mkdir(mode=0o700)
    (base / "config.toml").touch()
    project = base / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    home = Home.made(base / "home", places)
    environ = {**home.environment, "PATH": f"{base}/stet/.venv/bin:{home.environment['PATH']}"}
    total = 0.0

    def step(said: str, do: Callable[[], object]) -> None:
        nonlocal total
        begun = time.perf_counter()
        do()
        taken = time.perf_counter() - begun
        total += taken
        print(f"{taken:8.1f}  {said}", flush=True)

    def command(*words: str, env: dict[str, str]) -> Callable[[], object]:
        return lambda: subprocess.run(
            words, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )

    print(name)
    with ScriptedModel() as model:
        client.configure(home.path, model)
        search = [client.search] if client.search else []
        model.steps = [*search, client.replace("a.txt", "two", "2")]
        step("git clone", command("git", "clone", "-q", str(CHECKOUT), f"{base}/stet", env=environ))
        # The package index is the machine's own affair: its home, not the client's.
        with_index = {**os.environ, **places}
        step("scripts/run DIR", command(f"{base}/stet/scripts/run", str(project), env=with_index))
        connect = ("stet", "connect", name, "--write", *client.connect)
        step(" ".join(connect), command(*connect, env=environ))
        conversation = lambda: run(client, home, project, model, *client.trusting_hooks)  # noqa: E731
        step(f"{client.program}: one edit", conversation)
        assert "2" in (project / "a.txt").read_text(), "the edit was not made"
        step("stet log", command("stet", "log", env=environ))
        step("stet undo --yes", command("stet", "undo", "--yes", env=environ))
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n", "it was not taken back"
        command("stet", "stop", env=environ)()
    print(f"{total:8.1f}  in all: 6 steps")


if __name__ == "__main__":
    main(sys.argv[1:])
