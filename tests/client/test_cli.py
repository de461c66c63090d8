"""The ``stet`` command against a real daemon, as a user meets it."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import stet
from client.live import Installation, installation
from client.scripted_daemon import scripted
from e2e.running_daemon import eventually
from stet.cli import doctor
from stet.cli.doctor_places import disk_command
from stet.wire.messages import Request

A = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"


@pytest.fixture
def ws(ws: Installation) -> Installation:
    """The workspace, with files in it."""
    ws.write("src/a.py", A)
    return ws


def test_a_patch_is_read_back_logged_shown_and_undone(ws: Installation) -> None:
    patches = '[{"operation": "replace", "oldText": "return 1", "newText": "return 10"}]'
    run = ws.stet("patch", "--path", "src/a.py", "-m", "the caller wants ten", stdin=patches)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("<patches_applied>all</patches_applied>\n")
    assert ws.text("src/a.py") == A.replace("return 1", "return 10")
    assert ws.stet("read", "src/a.py").stdout == A.replace("return 1", "return 10")

    log = ws.stet("log").stdout.splitlines()
    assert "cli/cli" in log[0]
    assert "patch src/a.py: 1 edit" in log[0]
    assert log[1].strip() == "the caller wants ten"
    assert log[2].strip() == "M src/a.py  +1 -1"
    assert "outside" in log[3]

    shown = ws.stet("show").stdout
    assert "    the caller wants ten\n" in shown
    assert "-    return 1\n+    return 10\n" in shown

    undone = ws.stet("undo")
    assert (undone.returncode, undone.stderr) == (0, "")
    assert undone.stdout.startswith("Undone:\n" + log[0][:8])
    assert ws.text("src/a.py") == A
    assert "(undone by " in ws.stet("log").stdout.splitlines()[2]


def test_json_prints_the_results_of_the_methods(ws: Installation) -> None:
    edit = ws.patch("src/a.py", "return 2", "return 20")
    assert edit["message"] == "<patches_applied>all</patches_applied>"
    assert [file["path"] for file in edit["files"]] == ["src/a.py"]
    log = ws.json("log")
    assert [commit["kind"] for commit in log["commits"]] == ["edit", "outside"]
    assert log["cursor"] is None
    assert ws.json("show", edit["commit"])["diff"] == edit["diff"]
    assert ws.json("diff", "HEAD~1", "HEAD")["diff"] == edit["diff"]
    assert ws.json("diff", "HEAD~1..")["diff"] == edit["diff"]
    assert ws.json("diff", "@..HEAD^")["diff"] == ws.json("diff", "HEAD", "HEAD~1")["diff"]
    assert ws.json("read", "src/a.py")["oid"] == edit["files"][0]["after"]
    assert ws.json("undo", "--preview")["undone"] == [edit["commit"]]
    assert ws.json("undo", edit["commit"])["undone"] == [edit["commit"]]
    assert ws.json("mode")["mode"] == "unrestricted"
    assert ws.json("status")["protocol"] == 1
    assert ws.workspace in [w["root"] for w in ws.json("workspaces")["workspaces"]]
    assert "patch" in [tool["name"] for tool in ws.json("tools")["tools"]]
    assert ws.json("doctor")["ok"] is True


def test_without_path_the_input_is_the_params(ws: Installation) -> None:
    params = {
        "path": "src/a.py",
        "patches": [{"operation": "replace", "oldText": "return 1", "newText": "return 11"}],
        "request_id": "once",
    }
    ws.write("params.json", json.dumps(params))
    assert ws.stet("patch", "params.json").returncode == 0
    again = ws.json("patch", "params.json")
    assert again["replayed"] is True
    assert ws.text("src/a.py") == A.replace("return 1", "return 11")


def test_a_preview_changes_nothing(ws: Installation) -> None:
    patches = '[{"operation": "replace", "oldText": "return 1", "newText": "return 10"}]'
    run = ws.stet("patch", "--path", "src/a.py", "--preview", stdin=patches)
    assert "+    return 10\n" in run.stdout
    assert run.stdout.endswith("Preview: nothing was changed.\n")
    assert ws.text("src/a.py") == A
    assert ws.json("log")["commits"] == []


def test_a_refusal_is_exit_status_1_with_the_error_on_standard_error(ws: Installation) -> None:
    patches = '[{"operation": "replace", "oldText": "return", "newText": "x"}]'
    run = ws.stet("patch", "--path", "src/a.py", stdin=patches)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("stet: ")
    as_json = ws.stet("patch", "--path", "src/a.py", "--json", stdin=patches)
    assert as_json.returncode == 1
    error = json.loads(as_json.stdout)["error"]
    assert as_json.stderr == f"stet: {error['message']}\n"
    assert error["data"]["kind"] == "old_text_not_unique"
    assert error["data"]["failures"][0]["candidates"] == [2, 6]
    assert ws.text("src/a.py") == A


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (["nonsense"], "", "there is no command 'nonsense'. stet help lists them"),
        (["undoo"], "", "there is no command 'undoo'. Did you mean: stet undo?"),
        (["version"], "", "there is no command 'version'. Did you mean: stet --version?"),
        (["clip"], "", "required: COMMAND"),
        (["patch"], "[1, 2", "standard input is not JSON"),
        (["patch"], "[]", "without --path the input must be the params"),
        (["patch", "missing.json"], "", "cannot read missing.json"),
        (["diff", "A", "B", "C"], "", "at most two commits; paths stand after --"),
        (["undo", "abcd", "--last", "2"], "", "not both"),
        (["init", "nowhere"], "", "is not a directory"),
        (["mode", "open"], "", "invalid choice: 'open'"),
    ],
)
def test_wrong_usage_is_exit_status_2(
    shared: Installation, arguments: list[str], stdin: str, complaint: str
) -> None:
    run = shared.stet(*arguments, stdin=stdin)
    assert (run.returncode, run.stdout) == (2, "")
    assert complaint in run.stderr


def test_undo_narrows_to_session_agent_and_path(ws: Installation) -> None:
    ws.write("src/b.py", A)
    ws.patch("src/a.py", "return 1", "return 10", STET_SESSION="one", STET_AGENT="x")
    ws.patch("src/b.py", "return 1", "return 10", STET_SESSION="two", STET_AGENT="y")
    assert ws.stet("undo", "--session", "one").returncode == 0
    assert (ws.text("src/a.py"), ws.text("src/b.py")) == (A, A.replace("return 1", "return 10"))
    assert ws.stet("undo", "--agent", "x").returncode == 1
    assert ws.stet("undo", "--path", "src/b.py").returncode == 0
    assert ws.text("src/b.py") == A
    assert ws.stet("undo").returncode == 1


def test_paths_are_relative_to_where_one_stands(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    assert ws.stet("read", "a.py", "--start", "2", "--end", "2", cwd="src").stdout == (
        "    return 10\n"
    )
    assert "patch src/a.py" in ws.stet("log", "a.py", cwd="src").stdout
    diff = ws.stet("diff", "HEAD~1", "HEAD", "--", "a.py", cwd="src").stdout
    assert diff.endswith("-    return 1\n+    return 10\n \n \n def b():\n")
    assert ws.stet("diff", "HEAD~1", "HEAD", "--", "b.py", cwd="src").stdout == ""
    elsewhere = ws.stet("read", "-C", "src", "a.py", "--end", "1")
    assert elsewhere.stdout == "def a():\n"


def test_clipboards_are_the_sessions(ws: Installation) -> None:
    text = "zwei\nZeilen ohne Ende"
    assert ws.stet("clip", "set", "c", stdin=text).returncode == 0
    assert ws.stet("clip", "show", "c").stdout == text
    assert ws.stet("clip", "list").stdout == "c  2 lines, 21 bytes\n"
    assert ws.stet("clip", "list", "--session", "other").stdout == ""
    assert ws.stet("clip", "rm", "c").returncode == 0
    gone = ws.stet("clip", "show", "c")
    assert (gone.returncode, gone.stdout) == (1, "")


def test_restricted_mode_stops_agents_and_not_the_person(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    assert ws.stet("mode", "restricted").stdout == "restricted\n  workspace: restricted\n"
    refused = ws.stet(
        "patch",
        "--path",
        "src/a.py",
        stdin='[{"operation": "append_eof", "newText": "x"}]',
    )
    assert refused.returncode == 1
    assert refused.stderr == (
        "stet: Patch tool is disabled in Restricted mode. "
        "Use request_mode_upgrade to request write access.\n"
        "Try: stet mode unrestricted --for 30m\n"
    )
    assert ws.stet("undo").returncode == 0
    assert ws.text("src/a.py") == A
    assert ws.stet("mode", "unrestricted").stdout.startswith("unrestricted\n")
    assert ws.stet("mode", "restricted", "--session", "one").returncode == 0
    assert ws.json("mode", "--session", "one")["session_mode"] == "restricted"
    assert ws.json("mode")["mode"] == "unrestricted"


def test_a_history_without_a_commit_is_told_as_one(ws: Installation) -> None:
    for command in ("show", "pin x", "rollback HEAD"):
        assert ws.stet(*command.split()).stderr.startswith(
            "stet: HEAD: no such commit: the history is still empty\n"
        )


def test_log_filters_and_pages(ws: Installation) -> None:
    for number in range(3):
        ws.patch(
            "src/a.py", f"return {number + 1}", f"return {number + 2}", STET_AGENT=f"a{number}"
        )
        if number == 0:
            ws.write("src/a.py", "return 2\n")
    assert [c["agent"] for c in ws.json("log", "--agent", "a1")["commits"]] == ["a1"]
    first = ws.json("log", "-n", "2")
    rest = ws.json("log", "--cursor", first["cursor"])
    everything = ws.json("log")["commits"]
    assert [c["commit"] for c in first["commits"] + rest["commits"]] == [
        c["commit"] for c in everything
    ]
    assert ws.json("log", "-2") == first
    assert ws.stet("log", "--", "-2").stderr.startswith(
        "stet: no commit was found that changed '-2'"
    )
    assert ws.json("log", "--since", "1h")["commits"] == everything
    assert ws.json("log", "--until", "1h")["commits"] == []


def test_a_log_may_be_longer_than_one_answer_of_the_daemon(ws: Installation) -> None:
    with stet.connect(ws.workspace, endpoint=ws.endpoint()) as session:
        session.perform_all([stet.calls.patch("n", [stet.overwrite(str(n))]) for n in range(1002)])
    found = ws.json("log", "-n", "1001")
    assert len({each["commit"] for each in found["commits"]}) == 1001
    assert found["cursor"] == found["commits"][-1]["commit"]
    assert len(ws.stet("log", "--oneline", "-n", "1001").stdout.splitlines()) == 1001


def test_a_terminal_gets_relative_times_and_no_escapes_from_files(ws: Installation) -> None:
    ws.write("evil", "a\x1b]0;owned\x07b\n")
    ws.patch("evil", "a\x1b", "c\x1b")
    shown = ws.on_terminal("show", NO_COLOR="1")
    assert "\x1b" not in shown
    assert "+c\\x1b]0;owned\\x07b\r\n" in shown
    assert " ago)" in shown or "just now" in shown
    few_colours = ws.on_terminal("show", TERM="xterm", COLORTERM="")
    assert "\x1b[32m+c\\x1b]0;owned\\x07b\x1b[0m\r\n" in few_colours
    many_colours = ws.on_terminal("show", TERM="xterm-256color", COLORTERM="")
    assert "c\\x1b]0;owned\\x07b" in re.sub(r"\x1b\[[0-9;]*m", "", many_colours)
    assert "\x1b]" not in few_colours + many_colours
    assert "+c\x1b]0;owned\x07b\n" in ws.stet("show").stdout


def test_streams_that_are_closed_or_full_make_no_traceback(ws: Installation) -> None:
    full = "stet: standard output: No space left on device\n"
    for line, status, says in [
        ("patch --path src/a.py <&-", 2, "stet: standard input is not JSON"),
        ("undo <&-", 1, "stet: there is no edit left to undo"),
        ("undo --preview <&- >&-", 1, "stet: there is no edit left to undo"),
        ("log --json >&-", 0, ""),
        ("read src/a.py >/dev/full", 1, full),
        ("log --json >/dev/full", 1, full),
    ]:
        done = _in_shell(ws, f"exec {sys.executable} -m stet.cli {line}")
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert done.stderr.startswith(says)
        assert "Traceback" not in done.stderr


def test_a_directory_that_is_gone_is_said(ws: Installation) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone"
    done = _in_shell(ws, f"{gone} && exec {sys.executable} -m stet.cli log")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "stet: the directory that you are in is not there any more; name another one with -C\n"
    )


def _in_shell(ws: Installation, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        cwd=ws.workspace,
        env=ws.environ,
        timeout=60,
        check=False,
    )


def _faults(own: Installation, **environ: str) -> list[dict[str, str]]:
    found = json.loads(own.stet("doctor", "--json", **environ).stdout)["findings"]
    return [each for each in found if not each["ok"]]


def _mend(own: Installation, **environ: str) -> None:
    """Run the commands that the doctor names, once each."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # stet is there
    for mend in dict.fromkeys(each["mend"] for each in _faults(own, **environ)):
        if not mend.startswith("stet "):
            subprocess.run(["sh", "-c", mend], check=True, env=own.environ | {"PATH": path})


def test_output_into_a_closed_pipe_is_no_error(ws: Installation) -> None:
    ws.write("big", "line\n" * 100_000)
    command = [sys.executable, "-m", "stet.cli", "read", "big"]
    reading = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ws.workspace,
        env=ws.environ,
    )
    assert reading.stdout is not None
    assert reading.stderr is not None
    assert reading.stdout.read(5) == b"line\n"
    reading.stdout.close()
    assert reading.stderr.read() == b""
    reading.stderr.close()
    assert reading.wait() == 0


def test_python_api_against_the_daemon(ws: Installation) -> None:
    with stet.connect(ws.workspace, "conv-1", "bot", endpoint=ws.endpoint()) as session:
        cut = session.patch(
            "src/a.py", [stet.replace("def b():\n    return 2\n", to_clipboard="c")]
        )
        assert cut.commit is not None
        session.patch("src/new.py", [stet.append_eof(from_clipboard="c")], message="moved")
        assert session.read("src/new.py").text == "def b():\n    return 2\n"
        assert [c.method for c in session.history(session="conv-1")] == ["patch", "patch"]
        with pytest.raises(stet.OldTextNotFound):
            session.patch("src/a.py", [stet.replace("def b", "def c")])
        with pytest.raises(stet.Stale):
            session.patch("src/a.py", [stet.append_eof("x")], if_match="0" * 40)
        with pytest.raises(stet.NotPermitted):
            session.workspace_list()
        assert session.undo(last=2).undone
        assert ws.text("src/a.py") == A
        assert not os.path.exists(os.path.join(ws.workspace, "src/new.py"))
        with pytest.raises(stet.NothingToUndo):
            session.undo()


def test_a_call_survives_the_death_of_the_daemon() -> None:
    with installation() as own:
        own.stet("init")
        own.write("f", "a\n")
        with stet.connect(own.workspace, "s", endpoint=own.endpoint()) as session:
            first = session.patch("f", [stet.replace("a", "b")], request_id="one")
            session.clipboard_set("c", "kept")
            own.stop(signal.SIGKILL)
            again = session.patch("f", [stet.replace("a", "b")], request_id="one")
            assert (again.commit, again.replayed) == (first.commit, True)
            assert session.clipboard_get("c").text == "kept"
            own.stop()
            session.patch("f", [stet.replace("b", "c")])
        assert own.text("f") == "c\n"


def test_two_clients_that_find_no_daemon_start_one() -> None:
    with installation() as own:
        clients = [own.start("status", "--json") for _ in range(4)]
        answers = [client.communicate(timeout=60) for client in clients]
        assert [
            (client.returncode, err) for client, (_, err) in zip(clients, answers, strict=True)
        ] == [(0, b"")] * 4
        assert len({json.loads(out)["pid"] for out, _ in answers}) == 1


def test_a_daemon_that_cannot_start_is_exit_status_3_with_its_last_words() -> None:
    with installation() as own:
        with open(os.path.join(own.base, "config.toml"), "w") as config:
            config.write("nonsense = 1\n")
        run = own.stet("status", "--json")
        assert run.returncode == 3
        assert "was started and ended at once" in run.stderr
        assert "nonsense" in run.stderr
        assert json.loads(run.stdout)["error"]["data"]["kind"] == "daemon_unreachable"
        doctor = own.stet("doctor")
        assert doctor.returncode == 1
        assert "WRONG daemon: no stet daemon answers" in doctor.stdout


def test_a_runtime_directory_open_to_others_is_refused_and_doctor_says_how_to_mend_it() -> None:
    with installation() as own:
        run = os.path.join(own.base, "run")
        os.mkdir(run)
        os.chmod(run, 0o755)
        refused = own.stet("status")
        assert refused.returncode == 3
        assert f"chmod 700 '{run}'" in refused.stderr
        assert f"chmod 700 '{run}'" in own.stet("doctor").stdout


def test_a_journal_without_its_beginning_is_refused_and_the_doctor_says_how_to_go_on() -> None:
    """A start ended with a traceback, and the doctor found the journal readable."""
    with installation() as own:
        own.stet("init")
        write = '[{"operation": "overwrite", "newText": "new"}]'
        own.json("patch", "--path", "new", stdin=write)
        own.stop()
        own.stet("status")
        own.json("patch", "--path", "newer", stdin=write)
        own.stop(signal.SIGKILL)
        journal = os.path.join(own.base, "state", "journal")
        os.unlink(min(glob.glob(f"{journal}/*.wal")))
        refused = own.stet("status")
        assert refused.returncode == 3
        assert f"{journal}: its newest checkpoint is lost" in refused.stderr
        _mend(own)
        own.stet("init")
        assert own.json("pin")["pins"][0]["name"].startswith("unrecorded-")
        assert os.listdir(f"{journal}.damaged")


def test_doctor_starts_nothing() -> None:
    with installation() as own:
        assert own.stet("doctor").returncode == 1
        assert own.pid() is None
        assert sorted(os.listdir(own.base)) == ["ws"]


def test_doctor_checks_all_for_a_user_without_a_home() -> None:
    with installation() as own:
        doctor = own.stet("doctor", HOME="/dev/null")
        assert doctor.stderr == ""
        assert "1 thing to mend.\n" in doctor.stdout  # no daemon runs


def test_doctors_mend_of_a_configuration_keeps_a_link() -> None:
    with installation() as own:
        path = Path(own.base, "config.toml")
        own.write("dotfiles/stet.toml", "notify = false\nnothing = 1\n")
        path.symlink_to(f"{own.workspace}/dotfiles/stet.toml")
        _, _, mend = own.stet("doctor").stdout.partition("to mend: sed ")
        _in_shell(own, f"sed {mend.splitlines()[0]}")
        assert path.is_symlink()
        assert path.read_text() == "notify = false\n# nothing = 1\n"


def test_doctor_asks_for_each_mend_once_if_a_file_stands_for_the_runtime_directory() -> None:
    with installation() as own:
        os.mknod(f"{own.base}/run")
        told = own.stet("doctor").stdout
        assert f"to mend: rm '{own.base}/run'\n" in told
        assert ".sock" not in told.replace("/control.sock. Start", "")


def test_doctors_mend_of_a_configuration_is_for_values_of_several_lines_too() -> None:
    with installation() as own:
        own.stet("init")
        own.stop()
        config = Path(own.base, "config.toml")
        config.write_text("exclude = [\n  1,\n  2,\n]\n")
        _mend(own)
        assert own.stet("status").returncode == 0


@pytest.mark.parametrize("spoilt", ["config.toml", "above", "above/state/journal/00000001.wal"])
def test_doctor_mends_what_a_start_would_refuse(spoilt: str) -> None:
    with installation() as own:
        elsewhere = {"STET_STATE_DIR": f"{own.base}/above/state"}
        own.write("../config.toml", "notify = false\n")
        own.stet("init", **elsewhere)
        if spoilt.endswith(".wal"):
            if os.geteuid() != 0:
                pytest.skip("needs root, to give files away")
            os.chown(f"{own.base}/{spoilt}", 65534, 65534)
        else:
            os.chmod(f"{own.base}/{spoilt}", 0o777)
        assert [each["check"] for each in _faults(own, **elsewhere)] == ["directories"]
        own.stet("stop", **elsewhere)
        assert own.stet("status", **elsewhere).returncode == 3
        _mend(own, **elsewhere)
        assert own.stet("status", **elsewhere).returncode == 0
        own.stet("stop", **elsewhere)


def test_doctor_mends_what_the_first_start_would_refuse() -> None:
    with installation() as own:
        elsewhere = {"STET_RUNTIME_DIR": f"{own.base}/above/run"}
        os.mkdir(f"{own.base}/above")
        os.chmod(f"{own.base}/above", 0o777)
        assert [each["check"] for each in _faults(own, **elsewhere)] == ["directories", "daemon"]
        _mend(own, **elsewhere)
        assert own.stet("status", **elsewhere).returncode == 0


def test_doctor_does_not_take_a_disk_that_is_not_mounted_for_a_new_history() -> None:
    with installation() as own:
        os.symlink("/nowhere/stet", f"{own.base}/state")
        (wrong, _) = _faults(own)
        assert wrong["detail"] == f"{own.base}/state is a link to /nowhere/stet, which is not there"
        assert wrong["mend"] == f"put that back, or: rm '{own.base}/state'"


@pytest.mark.parametrize("gone", ["state", "state/workspaces"])
def test_a_history_that_went_away_below_its_daemon_is_named(ws: Installation, gone: str) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    away = f"{ws.base}/away"
    os.rename(f"{ws.base}/{gone}", away)
    try:
        told = ws.stet("log").stderr
        (wrong,) = _faults(ws)
    finally:
        os.rename(away, f"{ws.base}/{gone}")
    # Whoever meets it first says so: the question, or the historian, which had commits to write.
    assert re.match(r"stet: the history (is damaged: |can't be written at present )", told)
    assert f"but {ws.base}/{gone}/" in wrong["detail"]
    assert wrong["detail"].endswith(" was moved or removed")
    assert wrong["mend"] == "put it back, or: stet stop; stet status"
    # The historian may have met it meanwhile, and says so until it has tried again.
    assert eventually(lambda: _faults(ws) == [])


def test_space_is_asked_for_only_if_it_is_why_a_history_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with installation() as own:
        own.stet("init")
        own.write("src/a.py", "return 1\n")
        own.patch("src/a.py", "return 1", "return 10")
        own.stet("log")  # the historian knows the history
        (objects,) = Path(own.base, "state", "workspaces").glob("*/objects")
        objects.rename(Path(own.base, "objects"))
        objects.touch()
        own.patch("src/a.py", "return 10", "return 1")
        assert "can't be written" in own.stet("log").stderr
        assert [each["mend"] for each in _faults(own)] == ["stet stop; stet status"]
        monkeypatch.setattr(doctor, "_NO_ROOM", (errno.ENOTDIR,))
        findings = doctor._daemon(own.endpoint(control=True), own.workspace)
        assert [each.mend for each in findings if not each.ok] == [disk_command(own.base)]
        os.remove(objects)
        Path(own.base, "objects").rename(objects)
        assert eventually(lambda: _faults(own) == [])


def test_doctor_knows_a_stale_socket_though_another_of_its_name_is_listened_on() -> None:
    with installation() as own:
        assert own.stet("status").returncode == 0
        own.stop(signal.SIGKILL)
        stale = os.path.join(own.base, "run", "agent.sock")
        moved = f"{stale}.moved"
        os.rename(stale, moved)
        with socket.socket(socket.AF_UNIX) as other:  # as in another mount namespace
            other.bind(stale)
            other.listen()
            os.unlink(stale)
            os.rename(moved, stale)
            told = own.stet("doctor").stdout
        assert f"WRONG agent.sock: {stale} is stale" in told
        assert "WRONG lock: " in told


def test_a_pager_that_cannot_be_started_is_done_without(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    shown = ws.on_terminal("show", "--dates=iso")
    assert "+    return 10" in shown
    for pager in ("stet-no-such-pager", "less '"):
        assert ws.on_terminal("show", "--dates=iso", PAGER=pager) == shown


def test_the_history_is_shown_on_a_terminal_and_where_there_is_one(ws: Installation) -> None:
    piped = ws.stet("ui")
    assert (piped.returncode, piped.stdout) == (2, "")
    assert piped.stderr == "stet: ui needs a terminal; stet log does not\n"
    said = ws.on_terminal("ui", "-C", "..", status=1)
    assert said.startswith(f"stet: {ws.base} is not an allowed workspace")
    assert "Traceback" not in said


def test_who_installed_without_the_history_browser_is_told_how_to_get_it(
    ws: Installation, tmp_path: Path
) -> None:
    (tmp_path / "textual.py").write_text("raise ModuleNotFoundError(name=__name__)\n")
    said = ws.on_terminal("ui", status=2, PYTHONPATH=str(tmp_path))
    for command in ("pip install", "uv tool install", "pipx install --force"):
        assert f"{command} '.[ui]'" in said


def test_a_terminal_gets_a_table_that_fits_it_and_a_pipe_always_the_same(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    head = ws.json("log")["commits"][0]["commit"][:8]
    narrow = ws.on_terminal("log", COLUMNS="40").splitlines()
    assert narrow[0].startswith(f"{head}  cli/cli  ")
    assert narrow[1] == "  patch src/a.py: 1 edit  +1 -1"
    wide = ws.on_terminal("log", COLUMNS="120").splitlines()
    assert wide[0].startswith("cli/cli  1 edit  ")
    assert wide[1] == f"  {head}  src/a.py  + return 10  +1 -1"
    assert ws.stet("log", COLUMNS="40").stdout == ws.stet("log", COLUMNS="120").stdout


def test_dates_are_relative_or_exact_as_one_likes(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    time = ws.json("log")["commits"][0]["time"]
    assert time in ws.stet("log").stdout
    assert time in ws.on_terminal("log", "--dates", "iso", COLUMNS="120")
    assert time not in ws.on_terminal("log", COLUMNS="120")
    assert time not in ws.stet("log", "--dates", "relative").stdout
    assert time in ws.stet("log", "--dates", "relative", "--json").stdout


def test_a_pager_that_is_quit_early_is_no_error(ws: Installation) -> None:
    ws.write("big", "".join(f"line {n}\n" for n in range(20_000)))
    ws.patch("big", "line 0\n", "")
    assert "first seen: big" in ws.on_terminal("show", "HEAD~1", PAGER="head -n 12")


@pytest.mark.parametrize("option", ["--all", "-p"])
def test_the_log_reads_the_diffs_that_are_looked_at(option: str) -> None:
    commits = [
        {"commit": f"{n:040x}", "parent": None, "time": "2026-11-22T10:00:00Z", "kind": "edit"}
        for n in range(1000)
    ]

    def answer(request: Request) -> object:
        if request.method == "log":
            return {"commits": commits, "cursor": None}
        return {**commits[0], "diff": "@@ -0,0 +1 @@\n+" + "x" * 100}

    with scripted(answer, control=True) as daemon:
        ws = Installation(os.path.dirname(daemon.endpoint.runtime), "run")
        said = ws.on_terminal("log", "-n1000", option, COLUMNS="100", PAGER="head -n 2")
    assert "00000000" in said
    assert len(daemon.requests) < 900


@pytest.mark.parametrize("line", ["--oneline", "--graph"])
def test_a_log_in_lines_has_the_files_and_the_diffs_that_are_asked_for(
    ws: Installation, line: str
) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    said = ws.stet("log", line, "--stat", "-p", "-n1").stdout.splitlines()
    assert "patch src/a.py: 1 edit" in said[0]
    assert said[1:3] == [" M src/a.py  +1 -1", "diff --git a/src/a.py b/src/a.py"]
    assert "+    return 10" in said
    assert ws.stet("log", line, "--stat", "-n1").stdout.splitlines() == said[:2]


def test_the_command_for_older_commits_goes_on_with_the_same_log(ws: Installation) -> None:
    ws.write("-b c", "x")
    for _ in range(3):
        ws.patch("src/a.py", "return 1", "return 11", STET_SESSION="it's")
        ws.patch("-b c", "x", "xy", STET_SESSION="it's")
    assert " --dates=iso " in ws.on_terminal("log", "-n1", "--dates", "iso").splitlines()[-1]
    whole = ["log", "--session=it's", "--oneline", "--", "-b c"]
    words, pages = [*whole[:-2], "-n1", *whole[-2:]], list[str]()
    while words:
        commit, *more = ws.on_terminal(*words, NO_COLOR="1").splitlines()
        pages.append(commit)
        words = shlex.split(more[0].removeprefix("older commits: stet ")) if more else []
    assert pages == ws.stet(*whole).stdout.splitlines()
    assert len(pages) == 3


def test_ctrl_c_is_for_the_pager(ws: Installation) -> None:
    ws.patch("src/a.py", "return 1", "return 10")
    pager = "sh -c 'kill -INT $PPID; sleep 1; cat'"
    assert "+    return 10" in ws.on_terminal("show", PAGER=pager)


def test_what_the_terminals_encoding_lacks_is_spelled_out(ws: Installation) -> None:
    ws.write("docs/介绍-with-a-long-name.md", "a\n")
    ws.patch("docs/介绍-with-a-long-name.md", "a\n", "b\n")
    said = ws.on_terminal("log", COLUMNS="40", PYTHONIOENCODING="ascii")
    assert "docs/\\u4ecb\\u7ecd-with" in said
    assert "\\u2026" in said


#: Ctrl-C is typed just when a module is about to be loaded.
_INTERRUPTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
module = sys.argv.pop(1)
from stet.cli import main
main()
"""


@pytest.mark.parametrize("module", ["stet.cli.arguments", "msgspec", "stet.cli.completion"])
def test_ctrl_c_while_a_command_is_loaded_prints_nothing(module: str) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, module, "completion", "bash"]
    run = subprocess.run(command, capture_output=True, check=False)
    assert (run.stderr, run.returncode) == (b"", -signal.SIGINT)


def test_names_are_utf8_whatever_the_locale(ws: Installation) -> None:
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert ws.stet("stop").returncode == 0  # so that the daemon has this locale, too
    ws.write("ä€/b.txt", "1\n")
    patches = '[{"operation": "replace", "oldText": "1", "newText": "ü"}]'
    run = ws.stet("patch", "--path", "ä€/b.txt", stdin=patches, **locale)
    assert (run.returncode, ws.text("ä€/b.txt")) == (0, "ü\n")
    assert ws.json("log", cwd="ä€", **locale)["commits"][0]["files"][0]["path"] == "ä€/b.txt"
    assert ws.stet("show", **locale).stdout.endswith("\n-1\n+\\xfc\n")  # as the terminal can
