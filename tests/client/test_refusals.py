"""What a refusal says to a person: commands, no methods, and at its end the one that helps."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stet
from client.live import Installation, installation
from stet import errors
from stet.cli import main
from stet.cli.arguments import COMMANDS
from stet.cli.history import _next_page_command
from stet.cli.usage import Arguments
from stet.session.connection import NO_ANSWER
from stet.terminal.refusals import as_typed, helpful_command
from stet.terminal.render import workspaces
from stet.wire.failures import Kind
from stet.wire.results import WorkspaceInfo
from stetd.methods import METHODS
from stetd.refusals import outcome_unknown

#: Names that people know as well: the dialects, and the tool that a model asks with.
KNOWN = {"patch_file", "patch_block", "apply_patch", "request_mode_upgrade"}
METHOD = re.compile(rf"\b({'|'.join(m for m in METHODS if '_' in m and m not in KNOWN)})\b")


@pytest.mark.parametrize("method", [m for m in sorted(METHODS) if "_" in m and m not in KNOWN])
def test_a_method_is_told_as_a_command(method: str) -> None:
    told = as_typed(f"{method}: `{method}` lists them; {method} does, too.")

    assert not METHOD.search(told)
    for command in re.findall(r"stet ([a-z]+)", told):
        assert command in COMMANDS


def test_a_methods_parameters_are_not_told_as_options(ws: Installation) -> None:
    refused = ws.stet("mode", "unrestricted", "--for", "999d")
    assert refused.stderr == ("stet: --for must be at most 31622400.\nTry: stet mode --help\n")


def test_a_name_that_is_not_utf8_is_refused_in_a_persons_words(ws: Installation) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    ws.write(name, "one\n")
    for command in (["read", name], ["log", name], ["patch", "--path", name], ["init", name]):
        refused = ws.stet(*command, stdin="[]")
        assert refused.returncode in (1, 2)
        assert "codec" not in refused.stderr
    refused = ws.stet("read", name)
    assert refused.stderr == (
        "stet: the params of read cannot be sent: 'caf\\udce9.txt' is not valid UTF-8. Names and "
        "texts must be valid Unicode, without lone surrogates; rename a file whose name is not.\n"
        "Try: stet read --help\n"
    )


def test_an_input_that_is_not_utf8_is_refused_with_the_line(ws: Installation) -> None:
    path = Path(ws.workspace, "input")
    path.write_bytes(b"*** Begin Patch\n*** Add File: caf\xe9\n+x\n*** End Patch\n")
    refused = ws.stet("apply-patch", "input")
    assert refused.stderr == "stet: input is not UTF-8 (line 2)\nTry: stet apply-patch --help\n"
    told = subprocess.run(
        [sys.executable, "-m", "stet.cli", "apply-patch"],
        input=path.read_bytes(),
        stderr=subprocess.PIPE,
        cwd=ws.workspace,
        env=ws.environ,
        check=False,
    ).stderr
    assert told.startswith(b"stet: standard input is not UTF-8 (line 2)\n")


def test_nobody_is_told_how_the_connection_is_encoded(ws: Installation) -> None:
    ws.write("huge", "x" * (17 << 20))
    refused = ws.stet("clip", "set", "c", "huge")
    assert refused.stderr.endswith(
        "split the edit into several calls. (max_frame in the daemon's configuration)\n"
        "Try: stet clip set --help\n"
    )


def test_a_parameter_that_helps_is_told_as_an_option() -> None:
    assert as_typed("Send move: true to let it") == "Send --move to let it"
    assert as_typed("or skip_large: true.") == "or --skip-large."
    assert as_typed("Read it without `at`, or") == "Read it without --at, or"
    assert as_typed("log: Expected `int` <= 1000 - at `limit`.") == "--limit must be at most 1000."
    assert as_typed("a dict {'a': true}") == "a dict {'a': true}"


def test_what_does_not_go_together_is_told_in_the_words_of_the_command(ws: Installation) -> None:
    told = ws.stet("undo", "HEAD", "--session", "x", "--path", "a.txt").stderr
    assert told.splitlines()[0] == (
        "stet: undo: COMMIT says already what to take back. Leave out --session and --path: such a "
        "choice goes with --last only."
    )
    told = ws.stet("undo", "--last", "1", "--request", "r").stderr
    assert "give one of COMMIT, --last, --request; not --last and --request." in told


def test_an_empty_name_is_told_as_an_option_and_is_no_directory(ws: Installation) -> None:
    told = ws.stet("undo", "--path", "").stderr
    assert told.startswith("stet: --path must have a length of at least 1.\n")
    assert ws.stet("log", "").stderr.startswith("stet: PATH must have a length of at least 1.\n")
    told = ws.stet("clip", "show", "").stderr
    assert told.startswith("stet: NAME must have a length of at least 1.\n")
    given = '{"path": "a", "patches": [], "request_id": ""}'  # which is no option of the command
    assert "stet: request_id must have a length of " in ws.stet("patch", stdin=given).stderr
    for words in (["init", ""], ["workspaces", "--forget", ""]):
        refused = ws.stet(*words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("stet: the name of the directory is empty; ")
    assert [each["root"] for each in ws.json("workspaces")["workspaces"]] == [ws.workspace]


@pytest.mark.parametrize("told", [NO_ANSWER, outcome_unknown().failures[0].message])
def test_nobody_is_sent_to_ask_again_with_an_id_that_the_command_has_made(told: str) -> None:
    assert "request_id" in told
    assert "request_id" not in as_typed(told)
    assert re.search(": the log shows|\\. The log shows", as_typed(told))


def test_words_of_the_language_stay() -> None:
    assert as_typed("`log` lists the log") == "stet log lists the log"
    assert as_typed("undo: what is undone") == "undo: what is undone"


@pytest.mark.parametrize("kind", [*Kind, "daemon_unreachable", "timed_out", "of_the_future"])
def test_every_kind_has_a_command_that_helps(kind: str) -> None:
    error = stet.StetError("no.", {"kind": kind})
    found = helpful_command(error, "stet undo")

    assert found is not None
    assert found.split()[1] in COMMANDS


def test_every_error_without_an_answer_leads_to_the_doctor() -> None:
    for _, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, stet.TransportError) and error is not stet.TransportError:
            assert helpful_command(error("no answer"), "stet undo") == "stet doctor"


def test_a_message_that_has_a_command_gets_no_other() -> None:
    assert (
        helpful_command(stet.UnknownCommit("no such commit; `log` lists them"), "stet show") is None
    )


def test_the_configuration_is_named_only_if_it_can_change_what_is_refused(ws: Installation) -> None:
    ws.write("long.json", '[{"operation": "overwrite", "newText": "' + "a b " * 40_000 + '"}]')
    too_large = ws.stet("patch", "--path", "new.txt", "long.json").stderr
    in_git = ws.stet("patch", "--path", ".git/x", stdin=_NEW).stderr
    protected = ws.stet("patch", "--path", ".envrc", stdin=_NEW).stderr

    assert too_large.endswith("Try: stet patch --help\n")
    assert "Git directory" in in_git
    assert in_git.endswith("Try: stet patch --help\n")
    assert protected.endswith("Try: stet config show\n")
    many = stet.InputTooLarge("3 files at most (snapshot_max_files)", {"kind": "input_too_large"})
    assert helpful_command(many, "stet snapshot") == "stet config show"


_NEW = '[{"operation": "overwrite", "newText": "x"}]'


def test_who_deletes_an_unknown_pin_is_shown_the_pins(ws: Installation) -> None:
    refused = ws.stet("-C", ws.workspace, "pin", "--delete", "nobody", cwd="..").stderr
    assert refused.endswith(f"Try: stet pin --list -C {ws.workspace}\n")
    refused = ws.stet("pin", "somebody", "beef").stderr
    assert "pin --list" not in refused


def test_what_is_to_be_watched_is_the_workspace_of_the_refused_command() -> None:
    failures = [{"kind": "contended", "message": "no", "path": "a.py"}]
    error = stet.Contended("contended", {"failures": failures, "kind": "contended"})
    assert helpful_command(error, "stet patch", "/w") == "stet watch -C /w"
    assert helpful_command(error, "stet patch", "/w x") == "stet watch -C '/w x'"


def test_a_session_is_named_so_that_the_shell_finds_it() -> None:
    error = stet.ToolDisabled("no")
    said = helpful_command(error, "stet patch", session="s x")
    assert said is not None
    assert said.endswith(" --session 's x'")


def test_the_command_for_older_commits_quotes_a_path_and_spells_it_out() -> None:
    given = Arguments(directory=".", path="a \x85")
    assert _next_page_command(given, "c") == "stet log --cursor=c -- 'a \\x85'"


def test_a_refusal_is_told_also_if_the_mode_can_not_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ws: Installation
) -> None:
    own = ws.another("mode not told")
    assert own.stet("mode", "restricted").returncode == 0
    for name, value in own.environ.items():
        monkeypatch.setenv(name, value)

    def fails(_: stet.Session) -> None:
        raise stet.ConnectionLost("the daemon is gone")

    monkeypatch.setattr(stet.Session, "mode_get", fails)
    words = ["-C", own.workspace, "patch-block", os.path.join(own.workspace, "block")]
    own.write("block", "new.txt\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n")

    assert main(words) == 1
    assert "Restricted mode" in capsys.readouterr().err


def test_the_file_is_named() -> None:
    failures = [{"kind": "old_text_not_found", "message": "no", "path": "a b.py"}]
    error = stet.OldTextNotFound("not found", {"failures": failures})
    assert helpful_command(error, "stet patch") == "stet read 'a b.py'"


@pytest.fixture(scope="module")
def ws() -> Iterator[Installation]:
    with installation() as own:
        own.stet("init")
        with stet.connect(own.workspace, session="c", agent="bot", endpoint=own.endpoint()) as s:
            s.patch("a.txt", [stet.overwrite("one\n")])
        yield own


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["show", "beef"], ""),
        (["diff", "nowhere"], ""),
        (["blame", "nowhere.txt"], ""),
        (["read", "nowhere.txt"], ""),
        (["read", "../outside"], ""),
        (["restore", "nowhere.txt", "--at", "HEAD"], ""),
        (["undo", "--last", "0"], ""),
        (["undo", "--session", "nobody"], ""),
        (["undo", "HEAD", "--last", "1"], ""),
        (["redo"], ""),
        (["rollback", "beef"], ""),
        (["approve", "beef"], ""),
        (["deny", "beef"], ""),
        (["mode", "restricted", "--for", "1h"], ""),
        (["mode", "unrestricted", "--for", "1h"], ""),
        (["sessions", "--end", "nobody", "--all"], ""),
        (["pin", "bad name"], ""),
        (["pin", "--delete", "nobody"], ""),
        (["clip", "show", "none"], ""),
        (["log", "--cursor", "nonsense"], ""),
        (["log", "--since", "nonsense"], ""),
        (["export", "beef..HEAD"], ""),
        (["forget", "nowhere.txt", "--yes"], ""),
        (["oops", "--session", "nobody"], ""),
        (["workspaces", "--forget", "/nowhere"], ""),
        (["init", "/"], ""),
        (["log", "-C", "/"], ""),
        (["patch", "--path", "a.txt"], '[{"operation": "replace", "oldText": "x"}]'),
        (["patch", "--path", "a.txt"], "nonsense"),
        (["patch-file", "--path", "a.txt"], "[]"),
        (["patch-block"], "nonsense"),
        (["apply-patch"], "nonsense"),
    ],
)
def test_a_refused_command_ends_with_the_one_that_helps(
    ws: Installation, words: list[str], stdin: str
) -> None:
    done = ws.stet(*words, stdin=stdin)
    if done.returncode == 0:
        pytest.fail(f"{words} is not refused")

    assert not METHOD.search(done.stderr)
    assert re.search(rf"\bstet ({'|'.join(COMMANDS)})\b", done.stderr.removeprefix("stet: "))


def test_programs_get_the_message_as_it_is(ws: Installation) -> None:
    done = ws.stet("mode", "unrestricted", "--for", "1h", "--json")

    assert '"mode_set: the workspace is unrestricted' in done.stdout
    assert "Try:" not in done.stderr


def test_a_command_that_helps_works_where_it_is_typed(ws: Installation, tmp_path: Path) -> None:
    ws.write("in/-a.txt", "one\n")
    patches = '[{"operation": "replace", "oldText": "none", "newText": "x"}]'

    def helping_command(cwd: str, *arguments: str) -> list[str]:
        run = ws.stet("patch", *arguments, stdin=patches, cwd=cwd)
        return shlex.split(run.stderr.splitlines()[-1].removeprefix("Try: stet "))

    for cwd, arguments in (
        (".", ["--path", "in/-a.txt"]),
        ("in", ["--path=-a.txt"]),
        (str(tmp_path), ["-C", f"{ws.workspace}/in", "--path=-a.txt"]),
    ):
        assert ws.stet(*helping_command(cwd, *arguments), cwd=cwd).stdout == "one\n"


def test_names_are_quoted_in_commands_that_are_told(ws: Installation) -> None:
    with stet.connect(ws.workspace, session="a", endpoint=ws.endpoint()) as s:
        with pytest.raises(stet.NotPermitted, match=r"stet undo --session 'b c'$"):
            s.undo(session="b c")
        with pytest.raises(stet.NotPermitted, match=r"stet rollback HEAD --session 'b c'$"):
            s.rollback("HEAD", session="b c")
        with pytest.raises(stet.NotPermitted, match=r"stet rollback HEAD --include-outside$"):
            s.rollback("HEAD", include_outside=True)
    info = WorkspaceInfo("/w", "/home/a b/w.git", "unrestricted", None, 0)
    told = str(list(workspaces([info])))
    assert "git --git-dir '/home/a b/w.git' log" in told
    assert "its directory is not there any more" in told


@pytest.mark.parametrize("restricted", [["--session", "cli"], [], ["--session", "a b"]])
@pytest.mark.parametrize("from_elsewhere", [False, True])
def test_the_command_that_lifts_a_restriction_lifts_it(
    ws: Installation, restricted: list[str], from_elsewhere: bool
) -> None:
    """Whatever is restricted, the workspace or the session, and from wherever one has edited."""
    own = ws.another(f"lifted {len(restricted)} {restricted[-1:]} {from_elsewhere}")
    assert own.stet("mode", "restricted", *restricted).returncode == 0
    place = ["-C", own.workspace] if from_elsewhere else []
    where = ws if from_elsewhere else own
    edit = [*place, "patch", "--path", "new.txt", *restricted]
    text = '[{"operation": "append_eof", "newText": "x"}]'
    assert where.stet(*edit, stdin=text).returncode == 1

    # A session that has begun in a restricted workspace is restricted, too: that takes two.
    for _ in range(2):
        refused = where.stet(*edit, stdin=text)
        if refused.returncode:
            told = shlex.split(refused.stderr.rpartition("Try: stet ")[2])
            assert where.stet(*told).returncode == 0
    assert where.stet(*edit, stdin=text).returncode == 0


def test_the_command_that_lifts_an_inner_workspace_lifts_it(ws: Installation) -> None:
    outer = ws.another("lifted inside")
    outer.write("in side/a.txt", "one\n")
    assert outer.stet("init", "in side").returncode == 0
    assert outer.stet("mode", "restricted", "-C", "in side").returncode == 0
    refused = outer.stet("patch", "--path", "in side/new.txt", stdin=_NEW)
    told = shlex.split(refused.stderr.rpartition(": stet ")[2])
    assert outer.stet(*told).returncode == 0
    assert outer.stet("patch", "--path", "in side/new.txt", stdin=_NEW).returncode == 0


def test_a_restricted_workspace_is_lifted_for_more_than_the_session_that_is_named(
    ws: Installation,
) -> None:
    own = ws.another("lifted for all")
    assert own.stet("mode", "restricted").returncode == 0
    refused = own.stet("patch", "--path", "new.txt", "--session", "s", stdin=_NEW).stderr
    assert refused.endswith("Try: stet mode unrestricted --for 30m\n")


def test_the_clipboards_that_are_listed_are_those_of_the_session(ws: Installation) -> None:
    assert ws.stet("clip", "set", "there", "--session", "a b", stdin="x").returncode == 0
    place = ["-C", ws.workspace]
    refused = ws.stet(*place, "clip", "show", "none", "--session", "a b", cwd="..")

    told = shlex.split(refused.stderr.rpartition("Try: stet ")[2])
    assert "there" in ws.stet(*told, cwd="..").stdout
