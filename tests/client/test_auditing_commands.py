"""``stet verify``, ``pin`` and ``export`` against a real daemon."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.live import Installation, installation


@pytest.fixture
def live() -> Iterator[Installation]:
    with installation() as found:
        found.write("a.txt", "one\ntwo\n")
        assert found.stet("init").returncode == 0
        found.patch("a.txt", "one", "1")
        found.patch("a.txt", "two", "2", STET_SESSION="other", STET_AGENT="somebody")
        yield found


def shadow(live: Installation) -> Path:
    [workspace] = live.json("workspaces")["workspaces"]
    return Path(workspace["shadow"])


def test_a_whole_history_is_said_to_be(live: Installation) -> None:
    head = live.json("show")["commit"]
    run = live.stet("verify")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [
        "The history is whole: 3 commits and 9 objects.",
        f"Its newest commit is {head}. Note it elsewhere; stet verify --expect ID then tells "
        "whether it is still there.",
    ]
    assert live.stet("verify", "--expect", head).returncode == 0
    live.write("a.txt", "by hand\n")
    assert live.stet("verify").stdout.endswith("1 file was changed outside since.\n")


def test_damage_is_told_with_what_to_do(live: Installation) -> None:
    head = live.json("show")["commit"]
    path = shadow(live) / "objects" / head[:2] / head[2:]
    path.unlink()
    run = live.stet("verify")
    assert run.returncode == 1
    lines = run.stdout.splitlines()
    assert lines[0] == "1 problem among 0 commits and 8 objects:"
    assert lines[1].startswith(f"  commit {head}, which the journal needs, is missing")
    assert f"  {shadow(live)}" in lines
    found = live.stet("verify", "--json")
    assert found.returncode == 1
    assert '"kind":"missing_object"' in found.stdout


def test_what_was_expected_and_is_not_there(live: Installation) -> None:
    run = live.stet("verify", "--expect", "ab" * 20)
    assert run.returncode == 1
    assert f"does not have commit {'ab' * 20}" in run.stdout
    wrong = live.stet("verify", "--expect", "HEAD")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("stet: --expect is the id of a commit, or at least 12 digits")


def test_pins_are_set_listed_used_and_deleted(live: Installation) -> None:
    head = live.json("show")["commit"]
    assert live.stet("pin").stdout == ""
    assert live.json("pin", "here")["commit"] == head
    run = live.stet("pin", "before", "HEAD~1")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("before  ")
    lines = live.stet("pin", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["before", "here"]
    assert live.json("show", "here")["commit"] == head
    assert live.stet("diff", "before", "here").stdout.endswith("-two\n+2\n")
    assert live.stet("pin", "here", "before").returncode == 1
    assert live.stet("pin", "here", "before", "--move").returncode == 0
    assert live.stet("pin", "--delete", "here").stdout.startswith("Pin here is deleted")
    assert [pin["name"] for pin in live.json("pin")["pins"]] == ["before"]
    assert live.stet("pin", "x", "--list").returncode == 2
    assert live.stet("pin", "HEAD").returncode == 1


def test_an_export_applies_in_ones_own_repository(live: Installation, tmp_path: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    identity = ["-c", "user.name=p", "-c", "user.email=p@example.org"]

    def git(*arguments: str, data: str = "") -> str:
        command = ["git", *identity, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=clean, input=data, capture_output=True, text=True, check=True
        ).stdout

    git("init", "-q")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    git("add", "a.txt")
    git("commit", "-q", "-m", "base")
    target = tmp_path / "edits.mbox"
    run = live.stet("export", "-o", str(target))
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == f"{target}: 2 commits\n"
    assert live.stet("export").stdout == target.read_text()
    git("am", "-q", str(target))
    assert (tmp_path / "a.txt").read_text() == "1\n2\n"
    assert git("log", "--format=%an", "-2").split() == ["somebody", "cli"]
    assert live.stet("export", "--session", "other", "a.txt").stdout.count("Subject: ") == 1
    assert live.stet("export", "HEAD~1..HEAD").stdout.count("Subject: ") == 1
    assert live.stet("export", "HEAD~1..", "none").stdout == ""
    assert live.stet("export", "--format", "diff").stdout.endswith("-one\n-two\n+1\n+2\n")
    assert live.stet("export", "--format", "jsonl").stdout.count("\n") == 2
    assert live.json("export", "--agent", "somebody")["commits"] == 1
    assert live.stet("export", "nonsense..HEAD").returncode == 1


def test_a_dash_is_standard_output(live: Installation) -> None:
    run = live.stet("export", "-o", "-")
    assert (run.stdout, run.stderr) == (live.stet("export").stdout, "")
    assert live.stet("report", "-o", "-").stdout.startswith("<!doctype html>")
    assert not os.path.exists(os.path.join(live.workspace, "-"))


def test_an_export_that_fails_leaves_the_file_as_it_was(live: Installation, tmp_path: Path) -> None:
    target = tmp_path / "edits.mbox"
    target.write_text("before")
    assert live.stet("export", "nonsense..", "-o", str(target)).returncode == 1
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["edits.mbox"]
    assert live.stet("export", "-o", str(tmp_path / "none" / "x")).returncode == 2
    assert live.stet("export", "--json", "-o", str(target)).returncode == 2


def test_an_export_replaces_neither_a_link_nor_a_pipe(live: Installation, tmp_path: Path) -> None:
    link, pipe, other = tmp_path / "link", tmp_path / "pipe", tmp_path / "edits.part"
    link.symlink_to("edits")
    other.write_text("somebody's\n")
    assert live.stet("export", "-o", str(link)).returncode == 0
    assert link.is_symlink()
    exported = (tmp_path / "edits").read_text()
    assert exported.startswith("From ")
    (tmp_path / "edits").chmod(0o600)
    assert live.stet("export", "-o", str(link)).returncode == 0
    assert (tmp_path / "edits").stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert live.stet("export", "-o", str(pipe)).returncode == 0
        assert reader.communicate()[0] == exported
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "edits", other, link, pipe]
