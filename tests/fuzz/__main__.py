"""Fuzzing: ``python -m fuzz [TARGET ..] --seconds N``, in the directory of the tests.

The target ``socket`` is a real daemon that is sent spoilt requests (:mod:`fuzz.socket_fuzz`); it
needs no atheris, and begins from ``--seed``, which is printed. All others need atheris:

Each target gets its share of the time in a process of its own, guided by coverage of ``stet`` and
``stetd``. Inputs that were of use are kept under --corpus DIR for the next run (default: nowhere).
A finding ends its target: it is shown, and kept as a file that

    python -m fuzz TARGET --reproduce FILE

runs again, which needs no atheris. Exit status: 0 nothing found, 1 found something, 2 usage, or
atheris is missing.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

#: An input that takes longer counts as a hang, in seconds.
_HANG_S = 10
_LONGEST_INPUT = 2_000
_MEMORY_MB = 2_048
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")

_SOCKET = "socket"

_MISSING = """\
atheris is not installed in this environment, and only the coverage-guided fuzzing needs it.
Install it with: .venv/bin/python -m pip install --group fuzz
The bounded fuzz tests run without it: scripts/test --fast tests/fuzz
"""


def main() -> int:
    """Do what the command line says; the exit status."""
    options = _options()
    if options.one:
        _fuzz(options.one, Path(options.corpus), options.seconds)
    targets = import_module("fuzz.targets").TARGETS
    known = [*targets, _SOCKET]
    unknown = sorted(set(options.targets) - set(known))
    if unknown:
        print(
            f"no such target: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr
        )
        return 2
    names = options.targets or known
    share = max(1, options.seconds // len(names))
    if names == [_SOCKET] and not options.reproduce:
        return 0 if _fuzz_socket(share, options.seed) else 1
    if options.reproduce:
        data = Path(options.reproduce).read_bytes()
        for name in names:
            targets[name].run(data)
            print(f"{name}: as documented")
        return 0
    if not _has_atheris():
        print(_MISSING, file=sys.stderr, end="")
        return 2
    with tempfile.TemporaryDirectory(prefix="stet-fuzz-") as scratch:
        base = Path(options.corpus or scratch)
        sound = [
            _fuzz_socket(share, options.seed)
            if name == _SOCKET
            else _run(name, base, share, findings=Path.cwd())
            for name in names
        ]
    return 0 if all(sound) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz with atheris.")
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="in all (default: 60)")
    parser.add_argument("--corpus", help="directory in which useful inputs are kept")
    parser.add_argument("--reproduce", metavar="FILE", help="run one input, without atheris")
    parser.add_argument("--seed", type=int, help="what socket begins from (default: any)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def _fuzz_socket(seconds: int, seed: int | None) -> bool:
    """Fuzz a daemon of its own; whether nothing was found."""
    found = import_module("fuzz.socket_fuzz").fuzz(
        seconds, random.randrange(10**6) if seed is None else seed
    )
    print(f"{'FAILED' if found.problems else 'ok':8}{_SOCKET}: {found.line()}", flush=True)
    for problem in found.problems:
        print(problem[:8_000], flush=True)
    return not found.problems


def _has_atheris() -> bool:
    try:
        import_module("atheris")
    except ImportError:
        return False
    return True


def _run(name: str, base: Path, seconds: int, findings: Path) -> bool:
    """One target in a process of its own; whether nothing was found."""
    corpus = base / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fuzz", "--one", name, "--corpus", str(corpus)]
    done = subprocess.run(
        [*command, "--seconds", str(seconds)],
        env={**os.environ, "STET_FUZZ_FINDINGS": str(findings)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    runs = _RUNS.search(done.stdout)
    if done.returncode == 0 and runs:
        print(f"ok      {name}: {int(runs[1]):,} inputs in {seconds} s", flush=True)
        return True
    print(f"FAILED  {name}\n{done.stdout[-8_000:]}", flush=True)
    return False


def _fuzz(name: str, corpus: Path, seconds: int) -> None:
    """Fuzz one target in this process; never returns."""
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["stet", "stetd"]):
        target = import_module("fuzz.targets").TARGETS[name]
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    prefix = Path(os.environ["STET_FUZZ_FINDINGS"]) / f"{name}-"
    settings = {
        "max_total_time": seconds,
        "timeout": _HANG_S,
        "max_len": _LONGEST_INPUT,
        "rss_limit_mb": _MEMORY_MB,
        "print_final_stats": 1,
        "artifact_prefix": prefix,
    }
    flags = [f"-{flag}={value}" for flag, value in settings.items()]
    atheris.Setup([name, *flags, str(corpus)], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
