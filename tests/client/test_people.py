"""What people type, and slips of theirs: the way in, help, commits and times in words."""

from __future__ import annotations

import datetime
import json
import os
import queue
import select
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import stet
from client.live import Installation, installation
from client.test_taking_back_commands import on_terminal
from stet.cli import doctor, doctor_places
from stet.cli.arguments import COMMANDS, GROUPS, WITH_SUBCOMMANDS, parse, parse_bare
from stet.cli.asking import commit_named as named
from stet.cli.asking import notice_if_silent
from stet.cli.doctor_places import disk_command
from stet.cli.history import parse_time
from stet.cli.parser import Parser
from stet.cli.usage import Arguments, UsageError

FILE = "one\ntwo\nthree\n"

WORDS = [name for name in COMMANDS if " " not in name]


@pytest.fixture(scope="module")
def ws() -> Iterator[Installation]:
    with installation() as own:
        own.stet("init")
        with stet.connect(own.workspace, session="b", agent="bot", endpoint=own.endpoint()) as s:
            s.patch("gone by now.txt", [stet.overwrite(FILE)])
            s.apply_patch("*** Begin Patch\n*** Delete File: gone by now.txt\n*** End Patch\n")
        with stet.connect(own.workspace, session="c", agent="bot", endpoint=own.endpoint()) as s:
            s.patch("a.txt", [stet.overwrite(FILE)])
            s.patch("a.txt", [stet.replace("two", "2")])
            s.patch("a.txt", [stet.replace("three", "3")])
        yield own


def test_commands_with_commands_of_their_own_are_known() -> None:
    own = [name for name, each in Parser().parsers.items() if each._subparsers is not None]
    assert sorted(own) == sorted(WITH_SUBCOMMANDS)


def test_every_command_is_in_one_group_and_has_two_examples() -> None:
    named_ = [name for names in GROUPS.values() for name in names]

    assert sorted(named_) == sorted(name for name in WORDS if name != "overview")
    assert {name for name, each in COMMANDS.items() if each.examples} == set(named_)


@pytest.mark.parametrize("example", [e for each in COMMANDS.values() for e in each.examples])
def test_examples_are_what_the_parser_takes(example: str) -> None:

    words = shlex.split(example.partition("  #")[0].partition(" | ")[0].partition(" < ")[0])
    assert parse(words).run


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("flags", [[], ["--json"], ["--no-pager", "--json"]], ids=" ".join)
def test_a_command_typed_alone_is_what_the_parser_takes_it_for(name: str, flags: list[str]) -> None:
    alone = parse_bare([name, *flags])

    assert alone is None or alone == Parser(name).parse_args([name, *flags], Arguments())
    assert alone is not None or name not in ("overview", "status", "log", "diff", "undo")


def test_stet_alone_says_where_one_is(ws: Installation) -> None:
    said = ws.stet().stdout.splitlines()

    assert len(said) == 5
    assert said[0].split() == ["workspace", ws.workspace]
    assert "unrestricted" in said[1]
    assert "3 edits by bot/c in 1 file" in said[2]
    assert said[2].endswith(f", {ws.json('log')['commits'][0]['time']}")
    assert not ws.stet("--dates", "relative").stdout.splitlines()[2].endswith("Z")


def test_stet_alone_counts_a_long_burst_as_oops_does(ws: Installation) -> None:
    long = ws.another("long")
    edits = [stet.calls.patch("a.txt", [stet.append_eof("x\n")]) for _ in range(60)]
    with stet.connect(long.workspace, session="c", agent="bot", endpoint=ws.endpoint()) as s:
        s.perform_all(edits)
    assert "60 edits by bot/c in 1 file" in long.stet().stdout
    assert long.stet("oops", "--preview").stdout.startswith("The last burst, 60 edits by bot/c")


def test_stet_alone_where_agents_may_not_edit_says_how_to_let_them(ws: Installation) -> None:
    said = ws.stet("-C", "/").stdout

    assert "stet init, in a project's directory." in said


def test_nobody_is_told_to_allow_the_home_directory() -> None:
    with installation() as own:
        home = os.path.join(own.base, "home")
        os.mkdir(home)
        os.mkdir(project := os.path.join(home, "project"))
        for directory in (home, "/"):
            said = own.stet("log", "-C", directory, HOME=home).stderr
            assert said.endswith("can allow a project's directory with: stet init DIR\n")
        os.mkdir(beside := os.path.join(own.base, "hom"))
        for directory in (project, beside):
            said = own.stet("log", "-C", directory, HOME=home).stderr
            assert said.endswith(f"can allow it with: stet init {directory}\n")
        assert own.stet("init", project, HOME=home).returncode == 0


def test_allowing_a_directory_of_a_workspace_says_that_it_has_its_own_history(
    ws: Installation, tmp_path: Path
) -> None:
    outer = tmp_path / "outer"
    inner = outer / "in ner"
    innermost = inner / "most"
    innermost.mkdir(parents=True)
    assert "--forget" not in ws.stet("init", str(outer)).stdout
    for directory, around in ((inner, outer), (innermost, inner)):
        forget = f"stet workspaces --forget '{directory}'"
        said = ws.stet("init", str(directory)).stdout.splitlines()[-1]
        assert said.startswith(f"  inside {around}, ")
        assert said.endswith(forget)
    for directory in (innermost, inner, outer):
        forget = f"stet workspaces --forget '{directory}'"
        assert ws.stet(*shlex.split(forget)[1:]).returncode == 0


@pytest.mark.parametrize("words", [["help"], ["--help"], ["help", "undo"], ["undo", "--help"]])
def test_help_is_shown(ws: Installation, words: list[str]) -> None:
    done = ws.stet(*words)

    assert done.returncode == 0
    assert "undo" in done.stdout


def test_help_of_a_command_of_a_command_is_shown(ws: Installation) -> None:
    assert ws.stet("help", "clip", "list").stdout.startswith("usage: stet clip list ")
    assert (
        "there is no command 'clip lst'. Did you mean: stet clip"
        in ws.stet("help", "clip", "lst").stderr
    )


@pytest.mark.parametrize(
    ("words", "usage"),
    [(["log", "--snce", "1d"], "stet log"), (["clip", "list", "--bogus"], "stet clip list")],
)
def test_an_unknown_option_is_told_with_the_options_of_its_command(
    ws: Installation, words: list[str], usage: str
) -> None:
    said = ws.stet(*words).stderr

    assert said.startswith(f"usage: {usage} ")
    assert f"\n{usage}: error: unrecognized arguments: --" in said
    assert said.endswith(f"\nTry: {usage} --help\n")
    assert ("--snce. Did you mean: --since?" in said) == ("--snce" in words)


@pytest.mark.parametrize("words", [["log", "--\x1b[2J\x9b"], ["tools", "\x1b[2J\x9b"]])
def test_a_usage_error_spells_out_what_a_terminal_would_obey(
    ws: Installation, words: list[str]
) -> None:
    assert "\\x1b[2J\\x9b" in (said := ws.stet(*words).stderr)
    assert "\x1b" not in said


def test_an_unknown_option_in_front_is_told(ws: Installation) -> None:
    said = ws.stet("--json", "--bogus").stderr
    assert "there is no command '--bogus'. A command's options stand behind it" in said


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["-C"], "stet"),
        (["-C", "/nowhere"], "stet"),
        (["clip"], "stet clip"),
        (["clip", "lst"], "stet clip"),
        (["restore", "a.txt"], "stet restore"),
        (["mode", "foo"], "stet mode"),
        (["undo", "--last", "many"], "stet undo"),
        (["connect", "emacs"], "stet connect"),
        (["report", "-o", "/nowhere/at/all.html"], "stet report"),
        (["log", "--since", "the flood"], "stet log"),
        (["log", "--until", "nan"], "stet log"),
    ],
)
def test_wrong_usage_ends_with_the_help_that_there_is(
    ws: Installation, words: list[str], usage: str
) -> None:
    done = ws.stet(*words)

    assert done.returncode == 2
    assert done.stderr.endswith(f"\nTry: {usage} --help\n")
    assert ws.stet(*usage.split()[1:], "--help").returncode == 0


def test_a_directory_that_is_not_there_is_told(ws: Installation, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = ws.stet("-C", str(gone), "log")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"stet: -C: {gone} is not a directory\n")


def test_the_command_that_helps_can_be_typed_as_it_stands(ws: Installation, tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    said = ws.stet("log", "-C", str(tmp_path / "with space")).stderr
    assert said.endswith(f"stet init '{tmp_path}/with space'\n")


@pytest.mark.parametrize("leaving", ["nothing", "a link"])
def test_a_workspace_that_was_moved_away_is_told(
    ws: Installation, tmp_path: Path, leaving: str
) -> None:
    (tmp_path / "there").mkdir()
    ws.stet("init", str(tmp_path / "there"))
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    if leaving == "a link":
        (tmp_path / "there").symlink_to("elsewhere")

    assert "  its directory is not there any more" in ws.stet("workspaces").stdout.splitlines()
    mend = f"to mend: move it back, or: stet workspaces --forget {tmp_path / 'there'}"
    assert mend in ws.stet("doctor").stdout
    assert ws.stet("workspaces", "--forget", str(tmp_path / "there")).returncode == 0
    assert "All is well." in ws.stet("doctor").stdout


def test_a_refused_command_is_not_its_own_help(ws: Installation) -> None:
    assert ws.stet("init", "/").stderr.endswith("Try: stet init --help\n")


def test_options_of_all_commands_may_stand_in_front() -> None:
    before = parse(["-C", "/tmp", "--json", "log", "a.py"])
    behind = parse(["log", "a.py", "-C", "/tmp", "--json"])
    assert before == behind
    assert parse(["-C", "/tmp", "clip", "list"]).directory == "/tmp"


def test_options_in_front_of_a_hook_do_not_keep_it_from_running(ws: Installation) -> None:
    behind = ws.stet("hook", "claude-code", stdin="{}")
    before = ws.stet("-C", "/", "--json", "hook", "claude-code", stdin="{}")

    assert (before.returncode, before.stdout) == (0, "")
    assert before.stderr == behind.stderr


def test_what_follows_two_dashes_belongs_to_the_command() -> None:
    assert parse(["log", "--text", "diff", "--", "a.py"]).path == "a.py"
    assert parse(["undo", "-m", "diff", "--", "4f3c"]).commits == ["4f3c"]
    limited = parse(["log", "-3", "--", "-4"])
    assert (limited.limit, limited.path) == (3, "-4")
    shown = parse(["-C", "/tmp", "diff", "HEAD", "--", "a.py"])
    assert (shown.commits, shown.paths) == (["HEAD"], ["a.py"])


@pytest.mark.parametrize(
    ("word", "steps"), [("@", 0), ("HEAD", 0), ("HEAD^", 1), ("@~2", 2), ("HEAD^^", 2)]
)
def test_commits_are_named_as_in_git(ws: Installation, word: str, steps: int) -> None:
    ids = [each["commit"] for each in ws.json("log")["commits"]]

    assert ws.json("show", word)["commit"] == ids[steps]
    assert ws.json("show", f"{ids[0][:8]}~{steps}")["commit"] == ids[steps]


@pytest.mark.parametrize("word", ["HEAD^", "@~1", "{}~1"])
def test_every_command_that_takes_a_commit_takes_such_names(ws: Installation, word: str) -> None:
    newest, before = (each["commit"] for each in ws.json("log")["commits"][:2])
    word = word.format(newest[:8])

    for command in ("blame", "read"):
        at = ws.json(command, "a.txt", "--at", before)
        assert ws.json(command, "a.txt", "--at", word) == at
    assert ws.json("pin", "named", word)["commit"] == before
    assert ws.json("pin", "--delete", "named")["commit"] == before
    exported = ws.json("export", f"{word}..@", "--format", "jsonl")
    assert exported == ws.json("export", f"{before}..", "--format", "jsonl")


def test_what_is_too_far_back_is_an_unknown_commit(ws: Installation) -> None:
    newest = ws.json("log")["commits"][0]["commit"]
    person = ws.endpoint(control=True)
    with (
        stet.connect(ws.workspace, control=True, endpoint=person) as s,
        pytest.raises(stet.UnknownCommit),
    ):
        s.show(named(s, f"{newest[:8]}~9"))


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("30m", 1800), ("2 hours ago", 7200), ("3 days", 259200), ("1w", 604800), ("now", 0)],
)
def test_times_in_words(word: str, seconds: float) -> None:
    assert parse_time(word) == pytest.approx(time.time() - seconds, abs=5)


def test_yesterday_is_a_day_before_today() -> None:
    today, yesterday = parse_time("today"), parse_time("yesterday")
    assert isinstance(today, float)
    assert isinstance(yesterday, float)
    assert 82800 <= today - yesterday <= 90000


def test_a_time_without_an_offset_is_of_the_clock_here() -> None:
    day = parse_time("2026-11-01")
    assert day == datetime.datetime(2026, 11, 1).timestamp()
    assert parse_time("2026-11-01 06:30") == day + 6.5 * 3600
    assert parse_time("2026-11-01T06:30:00Z") == "2026-11-01T06:30:00Z"
    assert parse_time("1700000000.5") == 1700000000.5
    assert parse_time("20261101") == day


@pytest.mark.parametrize("day", ["monday", "last Sunday", "friday"])
def test_a_day_of_the_week_is_the_last_one(day: str) -> None:
    found = parse_time(day)
    assert isinstance(found, float)
    assert time.strftime("%A %H:%M", time.localtime(found)) == f"{day[-6:].title()} 00:00"
    assert 0 < time.time() - found < 8.1 * 86400


@pytest.mark.parametrize(
    "word", ["", "nan", "inf", "1e3", "-5", "soon", "3 dec", "2026-13-01", "9" * 30]
)
def test_what_is_no_time_is_wrong_usage(word: str) -> None:
    with pytest.raises(UsageError, match="is no time; write 30m, 2 hours ago, yesterday"):
        parse_time(word)


@pytest.mark.parametrize("command", ["undo", "redo", "rollback", "show", "diff", "pin p"])
def test_a_file_in_place_of_a_commit_is_told_apart(ws: Installation, command: str) -> None:
    for words in ("a.txt", "gone by now.txt"):
        done = ws.stet(*command.split(), words)

        assert done.returncode == 2
        assert f"stet undo --last 1 --path {shlex.quote(words)};" in done.stderr
    assert "there is no such commit" in ws.stet(*command.split(), "nowhere.txt").stderr


def test_a_pin_of_the_name_of_a_file_is_a_commit(ws: Installation) -> None:
    ws.json("pin", "a.txt", "HEAD")
    assert ws.json("show", "a.txt") == ws.json("show", "HEAD")
    assert ws.json("undo", "a.txt", "--preview")["undone"] == [ws.json("show", "a.txt")["commit"]]
    ws.stet("pin", "--delete", "a.txt")


def test_no_history_of_a_file_says_whether_there_is_one(ws: Installation) -> None:
    where = f"there is no such file in {ws.workspace}, either"
    assert where in ws.stet("log", "nowhere.txt").stderr


def test_a_file_that_the_filters_leave_out_is_not_said_to_be_unchanged(ws: Installation) -> None:
    said = ws.stet("log", "a.txt", "--session", "nobody").stderr
    assert said == "stet: no commit was found that changed 'a.txt'\n"


def test_what_can_not_be_exported_is_told(ws: Installation) -> None:
    none = "no commit was found that changed 'nowhere.txt'; there is no such file in "
    assert none in ws.stet("export", "nowhere.txt").stderr
    said = ws.stet("report", "-o", "../page.html", "nowhere.txt")
    assert said.stdout.endswith("page.html: 0 commits\n")
    assert none in said.stderr


def test_a_long_log_is_one_however_many_answers_it_takes(ws: Installation) -> None:
    lines = ws.stet("log", "--oneline").stdout
    assert ws.stet("log", "--oneline", "-n", "5000").stdout == lines
    assert ws.stet("log", "-n", "0").stderr.startswith("stet: --limit must be at least 1.\n")


def test_an_empty_log_says_so_on_a_terminal(ws: Installation) -> None:
    assert b"No commit; stet without a command says what is next." in on_terminal(
        ws, b"", "log", "--agent", "nobody"
    )
    assert on_terminal(ws, b"", "diff", PAGER="echo") == b""


def test_nobody_is_asked_who_does_not_see_the_question(ws: Installation) -> None:
    script = f"{sys.executable} -m stet.cli undo > said"
    assert on_terminal(ws, b"", program=["sh", "-c", script]) == b""
    assert ws.text("said").startswith("Undone:\n")
    assert b"there is no terminal to ask on" in on_terminal(
        ws, b"", program=["sh", "-c", f"{sys.executable} -m stet.cli forget a.txt > said"]
    )
    ws.stet("redo")


def test_the_list_of_commands_fits_on_a_terminal() -> None:
    assert max(map(len, Parser().format_help().split("\n"))) <= 80


def test_undo_alone_asks_on_a_terminal(ws: Installation) -> None:
    assert b"Undo 1 edit by bot/c in 1 file? [y/N]" in on_terminal(ws, b"n\n", "undo")
    assert ws.text("a.txt") == "one\n2\n3\n"
    assert ws.stet("undo", "--yes").returncode == 0
    assert ws.text("a.txt") == "one\n2\nthree\n"
    ws.stet("redo")


def test_stop_ends_the_daemon_and_the_next_command_starts_it() -> None:
    with installation() as own:
        own.stet("init")
        outside = os.path.join(own.base, "elsewhere")  # no workspace
        os.mkdir(outside)
        own.write("a.txt", "a\n")
        own.patch("a.txt", "a", "b")
        assert own.stet("stop", cwd=outside).returncode == 0
        assert own.pid() is None  # a copy of the state directory that is made now is a backup
        assert own.stet("status").returncode == 0


def test_no_daemon_is_started_to_be_stopped() -> None:
    with installation() as own:
        assert own.stet("stop").returncode == 3


def test_a_daemon_that_listens_elsewhere_is_named_at_once(ws: Installation) -> None:
    began = time.monotonic()
    done = ws.stet("status", STET_RUNTIME_DIR=ws.base + "/other")

    assert done.returncode == 3
    assert f"(process {ws.pid()}) uses the state directory" in done.stderr
    assert f"STET_RUNTIME_DIR={ws.base}/run stet stop" in done.stderr
    assert time.monotonic() - began < 20  # it took thirty


def test_doctor_names_a_daemon_with_another_history(ws: Installation) -> None:
    told = json.loads(ws.stet("doctor", "--json", STET_STATE_DIR=ws.base + "/other").stdout)
    (wrong,) = [each for each in told["findings"] if not each["ok"]]
    assert f"but its history is {ws.base}/state, not {ws.base}/other" in wrong["detail"]
    assert wrong["mend"] == f"export STET_STATE_DIR={ws.base}/state"


def test_what_frees_space_mounts_a_read_only_disk_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(os.statvfs("/"))
    found[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))
    assert "mount -o remount,rw '" in disk_command("/")


@pytest.mark.parametrize(
    ("blocks", "command"), [(200_000, "du -x --inodes '/"), (10, "du -xah '/")]
)
def test_what_frees_space_finds_many_files_where_no_more_can_be_made(
    monkeypatch: pytest.MonkeyPatch, blocks: int, command: str
) -> None:
    """``stet gc`` would need some itself. XFS has few left, too, where only space is wanting."""
    found = os.statvfs_result((4096, 4096, 250_000, blocks, blocks, 600, 20, 20, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    mend = doctor_places.space("/").mend
    assert mend is not None
    assert mend.startswith(command)


def test_doctor_mounts_a_read_only_workspace(
    ws: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.stet("status")
    found = list(os.statvfs("/"))
    found[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))
    finding = doctor._workspace(ws.endpoint(control=True), ws.workspace)
    assert (finding.ok, finding.check) == (False, "workspace")
    assert "mount -o remount,rw '" in (finding.mend or "")


def test_doctor_says_that_the_state_directory_can_not_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor_places.state(str(tmp_path / "a/b")).ok
    monkeypatch.setattr(os, "access", lambda *_: False)  # as on a read-only file system
    found = doctor_places.state(str(tmp_path / "a/b"))
    assert (found.ok, found.detail) == (
        False,
        f"{tmp_path}/a/b can't be made: {tmp_path} can't be written",
    )


def test_doctor_says_that_nobody_can_write_in_the_workspace(
    ws: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.stet("status")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    finding = doctor._workspace(ws.endpoint(control=True), ws.workspace)
    assert finding.detail == (
        f"{ws.workspace} is allowed, but its permissions do not let you write in it"
    )
    assert finding.mend == f"chmod u+rwx '{ws.workspace}'"


def test_doctor_does_not_say_to_allow_the_home_directory(ws: Installation) -> None:
    ws.stet("status")
    for directory in (ws.base, "/"):
        told = ws.stet("doctor", "-C", directory, "--json", HOME=ws.base).stdout
        (wrong,) = [each for each in json.loads(told)["findings"] if not each["ok"]]
        assert wrong["mend"] == "cd to a project's directory, then: stet init"
    told = ws.stet("doctor", "-C", ws.base, HOME="/nobody").stdout
    assert "to mend: stet init\n" in told


def test_a_daemon_that_listens_elsewhere_is_not_told_to_be_killed(ws: Installation) -> None:
    other = {"STET_RUNTIME_DIR": ws.base + "/other"}
    ws.stet("status")
    stop, doctor = ws.stet("stop", **other), ws.stet("doctor", "--json", **other)

    assert stop.returncode == 3
    assert f"STET_RUNTIME_DIR={ws.base}/run stet stop" in stop.stderr
    (wrong,) = [each for each in json.loads(doctor.stdout)["findings"] if not each["ok"]]
    assert wrong["check"] == "daemon"
    assert wrong["mend"] == f"export STET_RUNTIME_DIR={ws.base}/run"
    assert ws.stet("status").returncode == 0


def test_a_path_with_an_apostrophe_is_quoted_in_a_command_to_type(ws: Installation) -> None:
    state = f"{ws.base}/it's"
    told = ws.stet("service", "logs", STET_STATE_DIR=state).stderr

    command = told.splitlines()[0].rpartition(": ")[2]
    assert shlex.split(command) == ["tail", "-n", "100", f"{state}/stetd.log"]


def test_errors_speak_of_commands(ws: Installation) -> None:
    done = ws.stet("approve", "ffff")

    assert done.returncode == 1
    assert "upgrade_" not in done.stderr
    assert "stet requests" in done.stderr or "stet approve" in done.stderr


def test_a_preview_does_not_say_that_it_was_done(ws: Installation) -> None:
    done = ws.stet("restore", "a.txt", "--at", "HEAD^", "--preview")

    assert done.stdout.startswith("Would restore a.txt as it was after ")


def test_sessions_say_when_a_grant_ends(ws: Installation) -> None:
    ws.stet("mode", "restricted", "--session", "c")
    ws.stet("mode", "unrestricted", "--session", "c", "--for", "1h")
    (session,) = [each for each in ws.json("sessions")["sessions"] if each["session"] == "c"]

    assert session["until"].endswith("Z")
    assert f"unrestricted until {session['until']}" in ws.stet("sessions").stdout
    ws.stet("mode", "unrestricted", "--session", "c")


def test_a_session_whose_mode_is_looked_at_or_set_stays_its_agents(ws: Installation) -> None:
    ws.stet("clip", "set", "c", stdin="x", STET_SESSION="d", STET_AGENT="bot")
    ws.stet("mode", "--session", "d")
    ws.stet("mode", "unrestricted", "--session", "d")

    (session,) = [each for each in ws.json("sessions")["sessions"] if each["session"] == "d"]
    assert session["agent"] == "bot"


def test_files_are_looked_for_where_a_command_acts(ws: Installation) -> None:
    ws.write("sub/in.json", '[{"operation": "append_eof", "newText": "more\\n"}]')
    ws.write("sub/b.txt", "b\n")
    assert ws.stet("-C", "sub", "patch", "--path", "b.txt", "in.json").stderr == ""
    assert ws.text("sub/b.txt") == "b\nmore\n"
    assert ws.stet("-C", "sub", "clip", "set", "b", "b.txt", STET_SESSION="e").stderr == ""
    assert "b.txt is a path and no commit. To" in ws.stet("-C", "sub", "undo", "b.txt").stderr
    assert ws.stet("-C", "sub", "patch", "--path", "./-c.txt", "in.json").stderr == ""
    assert "stet log ./-c.txt" in ws.stet("-C", "sub", "undo", "--", "-c.txt").stderr
    ws.write("sub/a..b", "")
    said = ws.stet("-C", "sub", "export", "a..b").stderr
    assert said == "stet: no commit was found that changed 'a..b'\n"
    assert ws.stet("undo").returncode == 0


def test_json_is_utf_8_in_any_locale(ws: Installation) -> None:
    made = ws.stet("clip", "set", "\u00e9\U0001f600", stdin="x", STET_SESSION="f")
    assert made.returncode == 0
    listed = ws.json("clip", "list", STET_SESSION="f", PYTHONIOENCODING="ascii")
    assert [each["name"] for each in listed["clipboards"]] == ["\u00e9\U0001f600"]


def test_what_is_a_text_is_told_to_programs_as_one(ws: Installation) -> None:
    assert ws.json("help", "undo") == ws.stet("help", "undo").stdout
    assert ws.json("completion", "bash") == ws.stet("completion", "bash").stdout


def test_the_version_is_told_to_programs(ws: Installation) -> None:
    assert ws.json("--version") == {"stet": stet.__version__}


def test_a_commit_is_shown_without_its_diff(ws: Installation) -> None:
    whole, stat = ws.stet("show", "HEAD").stdout, ws.stet("show", "HEAD", "--stat").stdout

    assert "@@" in whole
    assert "@@" not in stat
    assert whole.startswith(stat.rstrip("\n"))


def test_doctor_ends_with_a_verdict(ws: Installation) -> None:
    done = ws.stet("doctor")
    last = done.stdout.splitlines()[-1]

    assert last == "All is well." if done.returncode == 0 else " to mend" in last


@contextmanager
def daemon_stopped(ws: Installation) -> Iterator[int]:
    """Stop the daemon with SIGSTOP, and let it go on at the end; gives its pid."""
    pid = ws.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_whoever_waits_for_a_daemon_that_hangs_is_told(ws: Installation) -> None:
    with daemon_stopped(ws):
        waiting = ws.start("status")
        assert waiting.stderr is not None
        assert select.select([waiting.stderr], [], [], 60)[0]
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert out.startswith(b"stetd ")
    assert err == (
        b"stet: no answer from the daemon for 5 s. It is waited for; Ctrl-C ends that, and stet "
        b"doctor says what to do.\n"
    )


def test_the_notice_of_a_silent_daemon_is_written_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.put))
    with notice_if_silent(0.0, "wait."):
        said = written.get(timeout=30)
    assert said == "stet: no answer from the daemon for 0 s. It is waited for; wait.\n"
    assert written.empty()


def test_doctor_says_soon_that_a_daemon_hangs_and_then_what_to_do(ws: Installation) -> None:
    with daemon_stopped(ws) as pid:
        waiting = ws.start("doctor")
        assert waiting.stderr is not None
        assert select.select([waiting.stderr], [], [], 60)[0]
        assert waiting.poll() is None  # what to do is said later
        out, err = waiting.communicate(timeout=60)
    assert err == (
        b"stet: no answer from the daemon for 2 s. It is waited for; after 20 s this says what to "
        b"do.\n"
    )
    assert f"to mend: kill -9 {pid}; stet status".encode() in out
