"""Help for people: commands by what one wants to do, with examples, and "did you mean"."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

#: What one wants to do, and the commands for it.
GROUPS: dict[str, tuple[str, ...]] = {
    "Look": ("log", "show", "diff", "blame", "watch", "ui", "report", "read", "status"),
    "Take back": ("oops", "undo", "redo", "rollback", "restore"),
    "Who may write": (
        "init", "workspaces", "mode", "sessions", "requests", "approve", "deny",
    ),
    "Agents' clients": ("connect", "disconnect", "mcp", "hook", "tools"),
    "Audit": ("verify", "export", "pin", "snapshot", "forget", "gc"),
    "Service": ("service", "stop", "doctor", "config"),
    "Edit, as an agent": ("patch", "patch-file", "patch-block", "apply-patch", "clip"),
    "Shell": ("help", "completion"),
}  # fmt: skip

#: Two for each command; without "stet".
EXAMPLES: dict[str, tuple[str, str]] = {
    "log": ("log --since 2h --graph", "log src/a.py --agent codex"),
    "show": ("show", "show 4f3c2a1b"),
    "diff": ("diff 4f3c2a1b --word", "diff HEAD~3 HEAD -- src"),
    "blame": ("blame src/a.py", "blame src/a.py --at 4f3c2a1b"),
    "watch": ("watch", "watch --agent codex --lines 0"),
    "ui": ("ui", "ui -C ~/project"),
    "report": ("report -o edits.html", "report --session conv-1 --since 1d"),
    "read": ("read src/a.py", "read src/a.py --at 4f3c2a1b --start 10 --end 20"),
    "status": ("status", "status --json"),
    "oops": ("oops", "oops --session conv-1 --yes"),
    "undo": ("undo 4f3c2a1b", "undo --last 3 --agent codex --preview"),
    "redo": ("redo", "redo 9c2d11e0"),
    "rollback": ("rollback 4f3c2a1b --preview", "rollback 4f3c2a1b --session conv-1"),
    "restore": ("restore src/a.py --at 4f3c2a1b", "restore src/a.py --at HEAD~5 --preview"),
    "init": ("init", "init ~/project"),
    "workspaces": ("workspaces", "workspaces --forget ~/project"),
    "mode": ("mode restricted", "mode unrestricted --for 2h"),
    "sessions": ("sessions", "sessions --end conv-1"),
    "requests": ("requests", "requests --all"),
    "approve": ("approve 4f3c --for 30m", 'approve 4f3c --note "only below tests/"'),
    "deny": ("deny 4f3c", 'deny 4f3c --note "not today"'),
    "connect": ("connect claude-code --write --hooks", "connect codex"),
    "disconnect": ("disconnect claude-code", "disconnect codex --scope project"),
    "mcp": ("mcp", "mcp --workspace ~/project --tools patch"),
    "hook": ("hook claude-code", "hook codex --before 1 --after 2"),
    "tools": ("tools --style anthropic", "tools --style openai --api responses"),
    "verify": ("verify", "verify --expect 4f3c2a1b9d0e"),
    "export": ("export --session conv-1 -o edits.mbox", "export --format diff 4f3c..HEAD"),
    "pin": ("pin before-refactoring", "pin --list"),
    "snapshot": ('snapshot -m "before the agents"', "snapshot --skip-large"),
    "forget": ("forget .env --preview", "forget .env --contents"),
    "gc": ("gc", "gc --json"),
    "service": ("service install", "service logs -f"),
    "stop": ("stop", "stop --json"),
    "doctor": ("doctor", "doctor --json"),
    "config": ("config show", "config check"),
    "patch": ("patch edit.json --path src/a.py", "patch --path src/a.py --preview < edit.json"),
    "patch-file": ("patch-file edit.json --path src/a.py", "patch-file call.json"),
    "patch-block": ("patch-block answer.txt", "patch-block answer.txt --preview"),
    "apply-patch": ("apply-patch fix.patch", "apply-patch --preview < fix.patch"),
    "clip": ("clip list", "clip show moved --session conv-1"),
    "help": ("help", "help undo"),
    "completion": ('completion bash  # eval "$(stet completion bash)"', "completion fish | source"),
}

#: Commands that have commands of their own.
HAVE_COMMANDS = ("clip", "service", "config")
#: What may stand in front of the command, and whether a value follows it.
_EVERYWHERE = {"-C": True, "--json": False, "--no-pager": False, "--dates": True}


def overview(told: dict[str, str]) -> str:
    """All commands in their groups; ``told``: what each does."""
    lines = ["See what agents did to your files, and take any of it back.", ""]
    for title, names in GROUPS.items():
        lines.append(title)
        lines += [f"  {name:<13}{told[name]}" for name in names]
        lines.append("")
    lines += [
        "stet alone says where you are. stet help COMMAND tells more about a command.",
        "Every command takes -C DIR (act as if started there), --json, --no-pager and --dates.",
    ]
    return "\n".join(lines) + "\n"


def examples(name: str) -> str:
    """What stands below the help of a command."""
    return "examples:\n" + "".join(f"  stet {each}\n" for each in EXAMPLES[name])


def ordered(argv: Sequence[str]) -> list[str]:
    """The words with what stands in front of the command behind it, where argparse wants it."""
    words, front = list(argv), list[str]()
    while words and words[0].partition("=")[0] in _EVERYWHERE:
        front.append(words.pop(0))
        if _EVERYWHERE[front[-1].partition("=")[0]] and "=" not in front[-1] and words:
            front.append(words.pop(0))
    if not words:
        words = ["overview"]  # stet alone
    at = 2 if words[0] in HAVE_COMMANDS and len(words) > 1 else 1
    return [*words[:at], *front, *words[at:]]


def check_command(word: str, known: Sequence[str]) -> None:
    """End the process with 2 if there is no such command, and say which is meant."""
    if word in known:
        return
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    hint = f" Did you mean: stet {near[0]}?" if near else ""
    print(f"stet: there is no command {word!r}.{hint} stet help lists them.", file=sys.stderr)
    raise SystemExit(2)


def help_of(parsers: dict[str, argparse.ArgumentParser], whole: str, name: str | None) -> str:
    """The help of a command, or of all."""
    if name is None:
        return whole
    check_command(name, list(parsers))
    return parsers[name].format_help()
