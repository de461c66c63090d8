"""log, show and diff: what the history says, in pages and filtered."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Refusal, Site, running

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def ids(result: dict[str, Any]) -> list[str]:
    return [commit["commit"] for commit in result["commits"]]


@pytest.fixture(scope="module")
def told(shared_daemon: DaemonProcess) -> Site:
    """A history of two agents and a person; the ids of its commits by their messages."""
    site = shared_daemon.site("told")
    site.write("src/a.py", "one\ntwo\n")
    site.replace("src/a.py", "one", "first", message="Say first.\n\nIt reads better.")
    other = site.another("conv-2", agent="other-agent")
    other.call(
        "patch", path="docs/x.md", patches={"operation": "append_eof", "newText": "# needle\n"}
    )
    site.write("src/a.py", "first\ntwo\nby hand\n")
    site.replace("src/a.py", "two", "second", request_id="the-id")
    site.agent.call("undo", message="changed my mind")
    return site


def by_subject(site: Site) -> dict[str, str]:
    return {each["message"].split("\n")[0]: each["commit"] for each in site.log()}


def test_log_tells_newest_first_who_did_what_and_why(told: Site) -> None:
    commits = told.log()
    assert [each["kind"] for each in commits] == [
        "undo",
        "edit",
        "outside",
        "edit",
        "edit",
        "outside",
    ]
    undo, second, outside, docs, first, seen = commits
    assert [each["parent"] for each in commits] == [
        *(each["commit"] for each in commits[1:]),
        None,
    ]
    assert first["message"] == "patch src/a.py: 1 edit\n\nSay first.\n\nIt reads better."
    assert (first["agent"], first["session"], first["method"]) == ("tester", "conv-1", "patch")
    assert (docs["agent"], docs["session"]) == ("other-agent", "conv-2")
    assert second["request"] == "the-id"
    assert undo["reverts"] == [second["commit"]]
    assert second["reverted_by"] == undo["commit"]
    assert undo["reverted_by"] is None
    assert undo["method"] == "undo"
    assert undo["message"].endswith("\n\nchanged my mind")
    assert set(first["peer"]) == {"pid", "command"}
    assert (outside["agent"], outside["peer"]) == (None, None)
    assert [change["path"] for change in docs["files"]] == ["docs/x.md"]
    assert [(each["status"], each["added"], each["removed"]) for each in second["files"]] == [
        ("M", 1, 1)
    ]
    assert [each["status"] for each in seen["files"]] == ["A"]
    for each in commits:
        assert TIME.fullmatch(each["time"])
        assert re.fullmatch(r"[0-9a-f]{40}", each["commit"])


def test_log_of_a_path_however_it_is_spelled(told: Site) -> None:
    for path in (".", "./", str(told.root), f"{told.root}/", "src/.."):
        assert len(told.log(path=path)) == 6
    for path in ("src", "src/", f"{told.root}/src", "src/a.py", f"{told.root}/src/a.py"):
        assert len(told.log(path=path)) == 5


def test_the_log_of_an_empty_history_is_empty(site: Site) -> None:
    assert site.person.call("log") == {"commits": [], "cursor": None}
    assert site.person.call("diff") == {"diff": "", "files": []}


def test_show_gives_the_commit_with_its_diff(told: Site) -> None:
    first = by_subject(told)["patch docs/x.md: 1 edit"]
    names = [first, first[:7], first.upper(), "HEAD~3"]
    for name in names:
        shown = told.agent.call("show", commit=name)
        diff = shown.pop("diff")
        assert [shown] == [each for each in told.log() if each["commit"] == first]
        assert diff == (
            "diff --git a/docs/x.md b/docs/x.md\n"
            "new file mode 100644\n"
            f"index 0000000..{shown['files'][0]['after'][:7]}\n"
            "--- /dev/null\n"
            "+++ b/docs/x.md\n"
            "@@ -0,0 +1 @@\n"
            "+# needle\n"
        )


def test_diff_between_commits_is_what_git_says(told: Site) -> None:
    result = told.person.call("diff", **{"from": "HEAD~5", "to": "HEAD~1"})
    assert [(each["path"], each["status"]) for each in result["files"]] == [
        ("docs/x.md", "A"),
        ("src/a.py", "M"),
    ]
    assert result["diff"] == told.git("diff", "history~5", "history~1")


def test_diff_can_be_limited_to_paths(told: Site) -> None:
    for paths in (["docs"], ["docs/x.md"], [f"{told.root}/docs"]):
        result = told.person.call("diff", **{"from": "HEAD~5", "to": "HEAD~1", "paths": paths})
        assert [each["path"] for each in result["files"]] == ["docs/x.md"]
    both = told.person.call("diff", **{"from": "HEAD~5", "to": "HEAD~1", "paths": ["."]})
    assert len(both["files"]) == 2


def test_diff_backwards_takes_away(told: Site) -> None:
    result = told.person.call("diff", **{"from": "HEAD~1", "to": "HEAD~5", "paths": ["docs"]})
    assert [each["status"] for each in result["files"]] == ["D"]


def test_diff_tells_renames_as_git_does(site: Site) -> None:
    lines = "".join(f"line {number}\n" for number in range(20))
    site.overwrite("same.txt", "the same\nand more\n")
    site.overwrite("alike.txt", lines)
    site.overwrite("ends.txt", lines.replace("line", "row"))
    before = site.overwrite("other.txt", "nothing in common\n")["commit"]
    site.agent.move("alike.txt", "b/alike.md", "@@", "-line 3", "+new")
    site.agent.move("same.txt", "b/x", "@@", "-the same", "+changed")
    site.agent.move("b/x", "b/same.md", "@@", "-changed", "+the same")
    site.agent.delete("other.txt")
    site.overwrite("fresh.txt", "of another kind\n")
    site.agent.delete("ends.txt")
    site.overwrite("with crlf.txt", lines.replace("line", "row").replace("\n", "\r\n"))
    result = site.person.call("diff", **{"from": before, "to": "HEAD"})
    assert [(f["path"], f["status"], f.get("old_path")) for f in result["files"]] == [
        ("b/alike.md", "R", "alike.txt"),
        ("b/same.md", "R", "same.txt"),
        ("fresh.txt", "A", None),
        ("other.txt", "D", None),
        ("with crlf.txt", "R", "ends.txt"),
    ]
    told = site.git("diff", "-M", "--no-color", before, "history")
    assert [line for line in result["diff"].splitlines() if not line.startswith("similar")] == [
        line for line in told.splitlines() if not line.startswith("similar")
    ]
    one = site.person.call("diff", **{"from": before, "to": "HEAD", "paths": ["same.txt"]})
    assert [each["path"] for each in one["files"]] == ["b/same.md"]

    assert site.person.call("diff", **{"from": before}) == result
    (site.root / "b/alike.md").rename(site.root / "c.md")  # as the history knows no c.md
    site.write("b/same.md", "the same\nand more\nby hand\n")
    now = site.person.call("diff", **{"from": before})
    assert [(f["path"], f["status"], f.get("old_path")) for f in now["files"]] == [
        ("alike.txt", "D", None),
        ("b/same.md", "R", "same.txt"),
        *((f["path"], f["status"], f.get("old_path")) for f in result["files"][2:]),
    ]
    assert "rename to b/same.md\nindex " in now["diff"]
    assert "+by hand\n" in now["diff"]


def test_diff_against_the_workspace_shows_what_was_done_since(site: Site) -> None:
    site.write("untouched.txt", "never edited by an agent\n")
    first = site.overwrite("a.txt", "one\n")["commit"]
    site.overwrite("b.txt", "two\n")
    assert site.person.call("diff")["files"] == []
    site.write("a.txt", "by hand\n")
    (site.root / "b.txt").unlink()
    result = site.person.call("diff")
    assert [(each["path"], each["status"]) for each in result["files"]] == [
        ("a.txt", "M"),
        ("b.txt", "D"),
    ]
    assert "-one\n+by hand\n" in result["diff"]
    since_first = site.person.call("diff", **{"from": first})
    assert [each["path"] for each in since_first["files"]] == ["a.txt"]


def test_diff_against_the_workspace_shows_files_that_were_made_since(site: Site) -> None:
    first = site.overwrite("m.txt", "one\n")["commit"]
    site.overwrite("a.txt", "two\n")
    site.agent.move("m.txt", "z.sh")
    (site.root / "z.sh").chmod(0o755)
    site.write("untouched.txt", "never edited by an agent\n")
    result = site.person.call("diff", **{"from": first})
    told = [(each["status"], each["path"], each["added"]) for each in result["files"]]
    assert told == [("A", "a.txt", 1), ("R", "z.sh", 0)]
    assert "new mode 100755\nsimilarity index 100%\nrename from m.txt" in result["diff"]
    assert [
        each["path"]
        for each in site.person.call("diff", paths=["a.txt"], **{"from": first})["files"]
    ] == ["a.txt"]
    assert site.person.call("diff")["files"][0]["status"] == "M"


def test_diff_of_paths_against_the_workspace_reads_no_other_file() -> None:
    with running({"max_file_bytes": 4096}) as daemon:
        site = daemon.site("w")
        for path in ("src/a.txt", "b.txt"):
            site.agent.overwrite(path, "one\n")
            site.write(path, "two\n")
        result = site.person.call("diff", paths=["src"])
        assert [change["path"] for change in result["files"]] == ["src/a.txt"]
        site.write("b.txt", "x" * 5000)
        assert site.person.call("diff", paths=["src"]) == result
        assert site.person.refusal("diff").kind == "file_too_large"


def test_diff_against_the_workspace_sees_modes_and_kinds(site: Site) -> None:
    site.overwrite("a.sh", "one\n")
    (site.root / "a.sh").chmod(0o755)
    assert "old mode 100644\nnew mode 100755\n" in site.person.call("diff")["diff"]
    (site.root / "a.sh").unlink()
    (site.root / "a.sh").mkdir()
    assert [each["status"] for each in site.person.call("diff")["files"]] == ["D"]


def test_git_applies_the_diff_of_a_file_whose_place_a_link_took(site: Site, tmp_path: Path) -> None:
    site.overwrite("a.txt", "one\nb.txt")
    (tmp_path / "a.txt").write_text("one\nb.txt")
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("b.txt")
    diffs = [site.person.call("diff")["diff"]]
    site.person.call("snapshot")
    restored = site.person.call("restore", path="a.txt", at="HEAD~1")
    diffs += [site.person.call("diff", **{"from": "HEAD~2", "to": "HEAD~1"})["diff"]]
    for diff in diffs:
        apply(tmp_path, diff)
        assert os.readlink(tmp_path / "a.txt") == "b.txt"
        apply(tmp_path, restored["diff"])
        assert (tmp_path / "a.txt").read_text() == "one\nb.txt"
    shown = site.person.call("show", commit=restored["commit"])
    assert (shown["diff"], shown["files"]) == (restored["diff"], restored["files"])


def apply(directory: Path, diff: str) -> None:
    subprocess.run(["git", "apply", "-"], cwd=directory, input=diff.encode(), check=True)


def test_diff_against_the_workspace_does_not_follow_a_directory_that_became_a_link(
    site: Site,
) -> None:
    site.overwrite("dir/a.txt", "one\n")
    (site.root / "dir").rename(site.root / "moved")
    (site.root / "dir").symlink_to("moved")
    result = site.person.call("diff")
    assert [(each["path"], each["status"]) for each in result["files"]] == [("dir/a.txt", "D")]


def test_git_applies_the_diff_between_any_two_commits(site: Site, tmp_path: Path) -> None:
    """Of files that are made, edited, moved, deleted and taken back at random."""
    chance = random.Random(19)
    trees = dict[str, dict[str, str]]()

    def keep(commit: str) -> None:
        found = (path for path in site.root.rglob("*") if path.is_file())
        trees[commit] = {str(path.relative_to(site.root)): path.read_text() for path in found}

    for number in range(40):
        files = sorted(str(p.relative_to(site.root)) for p in site.root.rglob("*") if p.is_file())
        free = [name for name in ("a", "b", "d/c", "d/e", "f") if name not in files]
        what = chance.choice(["make", "edit", "move", "move", "delete", "undo"])
        if what == "undo" and number:
            with contextlib.suppress(Refusal):  # nothing is left, or a later edit is in the way
                keep(site.agent.call("undo")["commit"])
        elif what == "edit" and files:
            patches = {"operation": "append_eof", "newText": f"more {number}\n"}
            keep(site.agent.call("patch", path=chance.choice(files), patches=patches)["commit"])
        elif what == "move" and files and free:
            keep(site.agent.move(chance.choice(files), chance.choice(free))["commit"])
        elif what == "delete" and files:
            keep(site.agent.delete(chance.choice(files))["commit"])
        elif free:
            keep(site.overwrite(chance.choice(free), f"one\n{number}\n" * 3)["commit"])

    moved = 0
    for one, other in chance.sample(list(itertools.permutations(trees, 2)), 40):
        result = site.person.call("diff", **{"from": one, "to": other})
        moved += any(file["status"] == "R" for file in result["files"])
        place = tmp_path / f"{one[:8]}-{other[:8]}"
        place.mkdir()
        for path, text in trees[one].items():
            (place / path).parent.mkdir(exist_ok=True)
            (place / path).write_text(text)
        if result["diff"]:
            command = ["git", "apply", "-"]
            subprocess.run(command, input=result["diff"], text=True, cwd=place, check=True)
        left = {str(p.relative_to(place)): p.read_text() for p in place.rglob("*") if p.is_file()}
        assert left == trees[other], result["diff"]
    assert moved > 5


def test_a_file_whose_place_a_link_took_is_read_as_it_was(site: Site) -> None:
    for path in ("a.txt", "b.txt", "c.txt"):
        site.overwrite(path, f"{path}\n")
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("b.txt")
    (site.root / "link").symlink_to("c.txt")
    site.person.call("snapshot")
    for path, at, own in (
        ("a.txt", "HEAD~1", "a.txt"),
        ("a.txt", "HEAD", "b.txt"),
        ("link", "HEAD~1", "c.txt"),
        ("link", "HEAD", "c.txt"),
    ):
        assert site.person.call("read", path=path, at=at)["text"] == f"{own}\n"
        blame = site.person.call("blame", path=path, at=at)
        assert (blame["path"], blame["lines"][0]["text"]) == (own, f"{own}\n")


def test_a_link_whose_target_the_history_has_not_is_read_itself(site: Site) -> None:
    site.overwrite("a.txt", "a\n")
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("nowhere.txt")
    site.person.call("snapshot")
    [newest, *_] = site.log(path="a.txt")
    assert site.person.call("read", path="a.txt", at=newest["commit"])["text"] == "nowhere.txt"
    assert site.person.call("blame", path="a.txt", at=newest["commit"])["path"] == "a.txt"
    assert site.person.refusal("read", path="nowhere.txt", at="HEAD").kind == "file_not_found"


def test_a_file_below_a_directory_whose_place_a_link_took_is_read_as_it_was(site: Site) -> None:
    site.overwrite("lib/a.txt", "one\n")
    (site.root / "lib").rename(site.root / "moved")
    (site.root / "lib").symlink_to("moved")
    site.person.call("snapshot")
    for at, own in (("HEAD~1", "lib/a.txt"), ("HEAD", "moved/a.txt")):
        assert site.person.call("read", path="lib/a.txt", at=at)["text"] == "one\n"
        assert site.person.call("blame", path="lib/a.txt", at=at)["path"] == own
    assert site.person.call("read", path="lib/../lib/a.txt", at="HEAD")["text"] == "one\n"


def test_a_path_means_the_link_that_stands_there_too(site: Site) -> None:
    site.overwrite("other.txt", "o\n")
    first = site.overwrite("a.txt", "a\n")["commit"]
    tool = {"tool": "Bash", "use": "1"}
    site.agent.call("observe", phase="before", **tool)
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("other.txt")
    linked = site.agent.call("observe", phase="after", **tool)["commit"]
    logged = site.ids(path="a.txt")
    assert logged[:2] == [linked, first]
    assert logged == site.ids()  # and what it leads to
    pages = [site.log(path="a.txt", limit=1, cursor=each) for each in logged[:-1]]
    assert [page[0]["commit"] for page in pages] == logged[1:]
    changed = site.person.call("diff", **{"from": first, "to": "HEAD"}, paths=["a.txt"])["files"]
    assert [each["path"] for each in changed] == ["a.txt"]
    exported = site.person.call("export", paths=["a.txt"], format="jsonl")["content"]
    assert linked in exported
    for method, params in (("undo", {"last": 1}), ("rollback", {"to": first})):
        result = site.person.call(method, **params, paths=["a.txt"], preview=True)
        assert result["undone"] == [linked]
