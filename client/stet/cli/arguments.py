"""The commands of ``stet``, their options, and which function carries each one out.

Names and options are CONTRACT.md 6's. Every command takes ``--json``, ``--no-pager`` and
``-C DIR``. Nothing here talks to the daemon.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import cast

from stet.cli.help import EXAMPLES, check_command, examples, ordered, overview
from stet.cli.usage import CLIENTS, SHELLS, columns, duration
from stet.version import __version__


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with ``run`` in them: a module of this package and its function that carries
    the command out. Ends the process with 2 on wrong usage.
    """
    own, paths = _split(argv)
    if {"--version", "--json"} <= {*own}:
        print(f'{{"stet": "{__version__}"}}')
        raise SystemExit(0)
    own = ordered(own)
    whole = parser(None if own[0].startswith("-") else own[0])
    if not own[0].startswith("-"):
        check_command(own[0], [*whole.known, "overview"])
    arguments = whole.parse_args(own)
    if paths:
        arguments.paths = paths
    return arguments


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and after the ``--`` of diff, which argparse would merge."""
    if "--" in argv and "diff" in argv[: argv.index("--")]:
        at = argv.index("--")
        return list(argv[:at]), list(argv[at + 1 :])
    return list(argv), []


class _Parser(argparse.ArgumentParser):
    """The parser of all commands, whose help has them in groups."""

    def __init__(self, only: str | None) -> None:
        super().__init__(prog="stet", allow_abbrev=False, formatter_class=_Formatter)
        self.add_argument("--version", action="version", version=f"stet {__version__}")
        self.commands = _Commands(self, only)

    @property
    def known(self) -> list[str]:
        """The names of the commands."""
        return [name for name in self.commands.told if name != "overview"]

    def format_help(self) -> str:
        """All commands by what one wants to do."""
        return overview(self.commands.told)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)


class _Commands:
    """The subcommands of one parser, each with the options that all have."""

    def __init__(self, parser: argparse.ArgumentParser, only: str | None = None) -> None:
        self._only = only
        self._parsers = parser.add_subparsers(
            metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
        )
        #: What each command does, and the parsers by name.
        self.told: dict[str, str] = {}
        self.parsers: dict[str, argparse.ArgumentParser] = {}

    def add(self, name: str, what: str, run: str) -> argparse.ArgumentParser:
        # No abbreviations: a script's --pre would mean something else once --prefix exists.
        command = self._add(name, what)
        command.set_defaults(run=run, prog=command.prog)
        _add_common(command)
        return command

    def group(self, name: str, what: str) -> _Commands:
        return _Commands(self._add(name, what))

    def _add(self, name: str, what: str) -> argparse.ArgumentParser:
        self.told[name] = what
        if self._only not in (None, name):
            return cast("argparse.ArgumentParser", _Unasked())
        command: argparse.ArgumentParser = self._parsers.add_parser(
            name,
            help=what,
            description=f"{what[:1].upper()}{what[1:]}.",
            epilog=examples(name) if name in EXAMPLES else None,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.parsers[name] = command
        return command


class _Unasked:
    """In place of a command that is not asked for. Making all takes as long as most commands do."""

    def __getattr__(self, _: str) -> Callable[..., _Unasked]:
        return lambda *_, **__: self


def parser(only: str | None = None) -> _Parser:
    """The parser of all commands, or with all names and ``only`` that command's options."""
    whole = _Parser(only)
    commands = whole.commands
    commands.add("overview", "say where you are", "overview.overview")
    named = commands.add("help", "say what a command does, or which there are", "overview.help_")
    named.add_argument("command", nargs="?", metavar="COMMAND")
    _add_editing(commands)
    _add_history(commands)
    _add_taking_back(commands)
    _add_auditing(commands)
    _add_upkeep(commands)
    _add_administration(commands)
    return whole


def _add_editing(commands: _Commands) -> None:
    patch = commands.add("patch", "apply patches to a file", "editing.patch")
    patch.add_argument(
        "file", nargs="?", default="-", help="JSON: the call's params, or with --path the patches"
    )
    patch.add_argument("--path", help="the file to patch")
    _add_writing(patch)
    _add_identity(patch)

    changes = commands.add("patch-file", "search and replace in a file", "editing.patch_file")
    changes.add_argument(
        "file", nargs="?", default="-", help="JSON: the call's params, or with --path the changes"
    )
    changes.add_argument("--path", help="the file to change")
    _add_writing(changes)
    _add_identity(changes)

    block = commands.add("patch-block", "apply FIND/REPLACE blocks", "editing.patch_block")
    block.add_argument("file", nargs="?", default="-", help="the text with the blocks")
    block.add_argument("--path", help="refuse blocks that name another file")
    _add_writing(block)
    _add_identity(block)

    codex = commands.add("apply-patch", "apply a patch in Codex's format", "editing.apply_patch")
    codex.add_argument(
        "file", nargs="?", default="-", help="a file with the patch, or the patch itself"
    )
    codex.add_argument(
        "--overwrite", action="store_true", help='let "Add File" replace a file that exists'
    )
    codex.add_argument(
        "--ambiguous", choices=["first"], help="take the first of several places, as Codex does"
    )
    _add_writing(codex)
    _add_identity(codex)

    read = commands.add("read", "print a file", "editing.read")
    read.add_argument("path", metavar="PATH")
    read.add_argument("--at", metavar="COMMIT", help="as it was right after this commit")
    read.add_argument("--start", type=int, metavar="LINE", help="first line, counted from 1")
    read.add_argument("--end", type=int, metavar="LINE", help="last line")
    _add_identity(read)

    clip = commands.group("clip", "list, show, set or remove clipboards of a session")
    shown = clip.add("show", "print a clipboard's text", "editing.clip_show")
    removed = clip.add("rm", "remove a clipboard", "editing.clip_rm")
    stored = clip.add("set", "put a file's text into a clipboard", "editing.clip_set")
    for command in (shown, removed, stored):
        command.add_argument("name", metavar="NAME")
        _add_identity(command)
    stored.add_argument("file", nargs="?", default="-", help="standard input if left out")
    _add_identity(clip.add("list", "print names and sizes", "editing.clip_list"))


def _add_history(commands: _Commands) -> None:
    log = commands.add("log", "print what was done, newest first", "history.log")
    log.add_argument("path", nargs="?", metavar="PATH")
    log.add_argument("--session", metavar="S", help="of this session only")
    log.add_argument("--agent", metavar="A", help="of this agent only")
    log.add_argument("--method", metavar="M", help="by this method only, such as patch")
    log.add_argument("--kind", metavar="K", help="of this kind only, such as edit or outside")
    log.add_argument("--since", metavar="TIME", help="RFC 3339, seconds since 1970, or 30m, 2h, 3d")
    log.add_argument("--until", metavar="TIME", help="likewise")
    log.add_argument("--text", help="only what added or removed this, or says it in its message")
    log.add_argument("-n", "--limit", type=int, metavar="N", help="so many commits at most")
    log.add_argument("--cursor", help="go on where a page ended")
    log.add_argument("-p", "--patch", action="store_true", help="with the diff of each")
    log.add_argument("--stat", action="store_true", help="with each file's lines")
    log.add_argument("--oneline", action="store_true", help="id and subject")
    log.add_argument("--graph", action="store_true", help="draw which commit took back which")
    log.add_argument("--all", action="store_true", help="also files seen for the first time")

    show = commands.add("show", "print one commit with its diff", "history.show")
    show.add_argument("commit", nargs="?", default="HEAD", metavar="COMMIT")
    show.add_argument("--stat", action="store_true", help="without the diff")
    show.add_argument("--word", action="store_true", help="the diff by words instead of lines")

    blamed = commands.add("blame", "print who wrote each line of a file", "blame.blame")
    blamed.add_argument("path", metavar="PATH")
    blamed.add_argument("--at", metavar="COMMIT", help="as it was right after this commit")

    diff = commands.add(
        "diff", "print what differs between commits, or a commit and the workspace", "history.diff"
    )
    diff.usage = "stet diff [options] [A [B]] [-- PATH..]"
    diff.add_argument("commits", nargs="*", metavar="COMMIT")
    diff.add_argument("--word", action="store_true", help="by words instead of lines")
    diff.set_defaults(paths=[])

    commands.add("ui", "look at the history, search it, take edits back", "ui.ui")

    seen = commands.add("watch", "follow edits as they happen, until Ctrl-C", "watch.watch")
    seen.add_argument("--session", metavar="S", help="of this session only")
    seen.add_argument("--agent", metavar="A", help="of this agent only")
    seen.add_argument(
        "--lines", type=int, default=12, metavar="N", help="of each diff (default 12, 0: none)"
    )


def _add_taking_back(commands: _Commands) -> None:
    last = commands.add("oops", "undo the last burst of agent edits, after asking", "oops.oops")
    last.add_argument("--session", metavar="S", help="of this session, not of the newest edit's")
    last.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_writing(last)

    undo = commands.add("undo", "take edits back, around later edits", "taking_back.undo")
    undo.add_argument("commits", nargs="*", metavar="COMMIT")
    undo.add_argument("--last", type=int, metavar="N", help="the N newest not undone (default 1)")
    undo.add_argument("--request", metavar="ID", help="the call with this request id")
    undo.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_filters(undo)
    _add_writing(undo)

    redo = commands.add("redo", "take undos back: the newest, or these", "taking_back.redo")
    redo.add_argument("commits", nargs="*", metavar="COMMIT", help="an undo or a rollback")
    _add_writing(redo)

    rollback = commands.add(
        "rollback", "take back all that agents did after a commit", "taking_back.rollback"
    )
    rollback.add_argument("to", metavar="COMMIT", help="the last one that stays")
    _add_filters(rollback)
    rollback.add_argument(
        "--include-outside", action="store_true", help="edits made outside stet as well"
    )
    _add_writing(rollback)

    restore = commands.add(
        "restore", "make a file what it was right after a commit", "taking_back.restore"
    )
    restore.add_argument("path", metavar="PATH")
    restore.add_argument("--at", required=True, metavar="COMMIT")
    _add_writing(restore)


def _add_filters(command: argparse.ArgumentParser) -> None:
    command.add_argument("--session", metavar="S", help="of this session only")
    command.add_argument("--agent", metavar="A", help="of this agent only")
    command.add_argument(
        "--path",
        dest="paths",
        action="append",
        metavar="P",
        help="only edits that touched this file or directory (repeatable)",
    )


def _add_auditing(commands: _Commands) -> None:
    verify = commands.add("verify", "check that the history is whole", "auditing.verify")
    verify.add_argument(
        "--expect", metavar="COMMIT", help="an id noted earlier, which must still be in the history"
    )

    export = commands.add(
        "export", "print edits as patches for git am, or otherwise", "exporting.export"
    )
    export.usage = "stet export [options] [A..B] [PATH..]"
    export.add_argument("what", nargs="*", metavar="A..B | PATH", help="commits after A up to B")
    export.add_argument("--format", choices=["mbox", "diff", "jsonl"], default="mbox")
    export.add_argument("--session", metavar="S", help="of this session only")
    export.add_argument("--agent", metavar="A", help="of this agent only")
    export.add_argument("--method", metavar="M", help="by this method only, such as patch")
    export.add_argument("--since", metavar="TIME", help="RFC 3339, seconds, or 30m, 2h, 3d")
    export.add_argument("--until", metavar="TIME", help="likewise")
    export.add_argument(
        "--no-outside",
        dest="outside",
        action="store_false",
        help="what others did in between becomes part of the commits after it",
    )
    export.add_argument("-o", "--output", metavar="FILE", help="write to a file")

    page = commands.add(
        "report", "write a page with the edits, to look at or hand on", "report.report"
    )
    page.add_argument("paths", nargs="*", metavar="PATH", help="of these files only")
    page.add_argument("--session", metavar="S", help="of this session only")
    page.add_argument("--agent", metavar="A", help="of this agent only")
    page.add_argument("--since", metavar="TIME", help="RFC 3339, seconds, or 30m, 2h, 3d")
    page.add_argument("--until", metavar="TIME", help="likewise")
    page.add_argument("-o", "--output", metavar="FILE", default="stet-report.html")

    pin = commands.add("pin", "name a commit, or list the names", "auditing.pin")
    pin.add_argument("name", nargs="?", metavar="NAME")
    pin.add_argument("commit", nargs="?", metavar="COMMIT", help="default HEAD")
    pin.add_argument("--move", action="store_true", help="let a name in use name another commit")
    pin.add_argument("--list", action="store_true", help="print the names (so does no name)")
    pin.add_argument("--delete", metavar="NAME", help="forget a name")


def _add_upkeep(commands: _Commands) -> None:
    taken = commands.add("snapshot", "commit the whole workspace", "upkeep.snapshot")
    taken.add_argument("-m", "--message", metavar="WHY", help="why; goes into the commit")
    taken.add_argument("--skip-large", action="store_true", help="leave out files over the limit")
    forget = commands.add(
        "forget", "rewrite the history without what stood at a path", "upkeep.forget"
    )
    forget.add_argument("path", metavar="PATH")
    forget.add_argument(
        "--contents", action="store_true", help="and what stood there, wherever else it stood"
    )
    forget.add_argument(
        "--clipboards", action="store_true", help="remove clipboards that hold some of it"
    )
    forget.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_writing(forget)
    commands.add("gc", "pack the history tightly, drop what nothing needs", "upkeep.gc")


def _add_administration(commands: _Commands) -> None:
    init = commands.add("init", "allow agents to edit a directory", "administration.init")
    init.add_argument("root", nargs="?", default=".", metavar="DIR")

    _add_granting(commands)
    commands.add("status", "print the daemon's health", "administration.status")
    commands.add("stop", "stop the daemon; calls in work are finished first", "overview.stop")
    listing = commands.add(
        "workspaces", "print the allowed workspaces", "administration.workspaces"
    )
    listing.add_argument("--forget", metavar="DIR", help="allow no more edits below DIR")
    tools = commands.add("tools", "print the tool definitions for a model", "administration.tools")
    tools.add_argument("--style", choices=["mcp", "openai", "anthropic"], default="mcp")
    tools.add_argument(
        "--api", choices=["chat", "responses"], help="which of OpenAI's interfaces (default chat)"
    )
    tools.add_argument(
        "--custom", action="store_true", help="openai: apply_patch as a custom tool with a grammar"
    )
    shell = commands.add(
        "completion", "print a script that completes stet at TAB", "completion.completion"
    )
    shell.add_argument("shell", choices=SHELLS, metavar="SHELL")
    _add_configuration(commands)
    _add_serving(commands)
    _add_connecting(commands)
    _add_hook(commands)
    commands.add("doctor", "check the installation, say what to mend", "doctor.doctor")
    _add_service(commands)


def _add_serving(commands: _Commands) -> None:
    served = commands.add("mcp", "serve MCP on standard input and output", "mcp.mcp")
    served.add_argument(
        "--workspace", default=".", metavar="DIR", help="edit below DIR (default: here)"
    )
    served.add_argument(
        "--tools", metavar="NAMES", help="the tools that edit: patch,apply_patch (default: all)"
    )
    served.add_argument(
        "--session", metavar="S", help="default $STET_SESSION, else the client's conversation"
    )
    served.add_argument("--agent", metavar="A", help="default $STET_AGENT, else the client's name")
    served.add_argument(
        "--structured",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="results as data beside the text, for programs (no)",
    )


def _add_hook(commands: _Commands) -> None:
    """Only for the help: :func:`stet.cli.main` carries it out before any of this is loaded."""
    hook = commands.add(
        "hook", "record what a client's own tools edit; the client calls it", "hook"
    )
    hook.add_argument("client", metavar="CLIENT", help="claude-code, codex, gemini, cursor, ..")
    hook.add_argument("--before", metavar="SECONDS", help="at most so long before a tool (2)")
    hook.add_argument("--after", metavar="SECONDS", help="and afterwards (5)")
    hook.add_argument("--no-start", action="store_true", help="start no daemon if none answers")


def _add_connecting(commands: _Commands) -> None:
    made = commands.add(
        "connect", "print or write the configuration for an agent's client", "connecting.connect"
    )
    ended = commands.add(
        "disconnect", "take stet out of a client's configuration", "connecting.disconnect"
    )
    for command in (made, ended):
        command.add_argument("client", choices=CLIENTS, metavar="CLIENT", help=", ".join(CLIENTS))
        command.add_argument(
            "--scope",
            choices=["user", "project"],
            default="user",
            help="for all your projects (default), or in this one's directory",
        )
    made.add_argument("--write", action="store_true", help="write it, and keep what is there")
    made.add_argument(
        "--workspace", metavar="DIR", help="edit below DIR (default: where the client works)"
    )
    made.add_argument(
        "--hooks", action="store_true", help="record what the client's own tools edit, too"
    )
    made.add_argument(
        "--allow-edits",
        action="store_true",
        help="have the client not ask before stet edits; it never asks before stet reads",
    )
    made.add_argument(
        "--tools", metavar="NAMES", help="the tools that edit: patch,apply_patch (default: all)"
    )


def _add_service(commands: _Commands) -> None:
    group = commands.group("service", "run the daemon as a user service of systemd")
    install = group.add("install", "install or update the service, and start it", "service.install")
    install.add_argument(
        "--hardened",
        action=argparse.BooleanOptionalAction,
        help="in namespaces of its own (docs/operation.md has the cost); default: as it is",
    )
    removed = group.add("uninstall", "stop and remove the service", "service.uninstall")
    removed.add_argument(
        "--purge-history", action="store_true", help="remove the history as well, after asking"
    )
    removed.add_argument("-y", "--yes", action="store_true", help="do not ask")
    group.add("status", "print what systemd knows of the service; starts nothing", "service.status")
    logs = group.add("logs", "print the service's log", "service.logs")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    logs.add_argument("-n", "--lines", type=int, default=100, metavar="N", help="default 100")


def _add_granting(commands: _Commands) -> None:
    mode = commands.add("mode", "print or set who may write", "granting.mode")
    mode.add_argument("mode", nargs="?", choices=["restricted", "unrestricted"])
    mode.add_argument("--session", metavar="S", help="of this session, not of the workspace")

    listed = commands.add("sessions", "print the sessions, or end one", "sessions.sessions")
    listed.add_argument("--all", action="store_true", help="of all workspaces")
    listed.add_argument(
        "--end",
        metavar="SESSION",
        help="drop its clipboards, mode, grants and request; what it did stays",
    )

    waiting = commands.add("requests", "print who asks for write access", "granting.requests")
    waiting.add_argument("--all", action="store_true", help="also what was decided lately")

    approve = commands.add("approve", "give a session write access", "granting.approve")
    deny = commands.add("deny", "leave a session restricted, and tell it so", "granting.deny")
    for command in (approve, deny):
        command.add_argument("request", metavar="REQUEST", help="its id, or a unique beginning")
        command.add_argument("--note", metavar="TEXT", help="what to tell the agent")
    for command in (mode, approve):
        command.add_argument(
            "--for",
            dest="for_",
            type=duration,
            metavar="TIME",
            help="until it ends by itself: 90s, 30m, 2h, 1d",
        )


def _add_configuration(commands: _Commands) -> None:
    group = commands.group("config", "the daemon's options, and where each one comes from")
    group.add("show", "print every option, its value and where it comes from", "config.show")
    group.add("path", "print where the configuration file is looked for", "config.path")
    checked = group.add("check", "print what is wrong with a configuration file", "config.check")
    checked.add_argument("file", nargs="?", metavar="FILE", help="default: your own")
    group.add("reload", "let the daemon read it again", "config.reload")


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.add_argument("--no-pager", action="store_true", help="do not page long output")
    command.add_argument(
        "--dates",
        choices=["relative", "iso"],
        help="how times are told (default: relative on a terminal)",
    )
    command.add_argument(
        "-C", dest="directory", default=".", metavar="DIR", help="act as if started in DIR"
    )


def _add_writing(command: argparse.ArgumentParser) -> None:
    command.add_argument("--preview", action="store_true", help="show it, and change nothing")
    command.add_argument("-m", "--message", metavar="WHY", help="why; goes into the commit")


def _add_identity(command: argparse.ArgumentParser) -> None:
    command.add_argument("--session", metavar="S", help='default $STET_SESSION, else "cli"')
    command.add_argument("--agent", metavar="A", help='default $STET_AGENT, else "cli"')
