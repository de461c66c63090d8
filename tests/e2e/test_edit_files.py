"""Reading and patching files: which bytes, modes, links and names stand afterwards."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Site, eventually, running


def oid(content: bytes) -> str:
    """The blob id that Git gives a content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


def mode(site: Site, path: str) -> int:
    return stat.S_IMODE((site.root / path).lstat().st_mode)


def names(site: Site) -> list[str]:
    return sorted(str(path.relative_to(site.root)) for path in site.root.rglob("*"))


# -- read


def test_read_tells_text_id_mode_lines_and_terminators(site: Site) -> None:
    site.write("a.txt", "one\ntwo\nthree", mode=0o640)
    assert {
        "text": "one\ntwo\nthree",
        "oid": oid(b"one\ntwo\nthree"),
        "mode": "640",
        "lines": 3,
        "eol": "lf",
        "bom": False,
    } == site.agent.call("read", path="a.txt")


@pytest.mark.parametrize(
    ("content", "eol", "lines"),
    [
        (b"", "none", 0),
        (b"no terminator", "none", 1),
        (b"a\nb\n", "lf", 2),
        (b"a\r\nb\r\n", "crlf", 2),
        (b"a\rb\r", "cr", 2),
        (b"a\nb\r\n", "mixed", 2),
        ("a\u2028b\x0bc\x85d\n".encode(), "lf", 1),
        (b"\xef\xbb\xbfcaf\xe9\n", "lf", 1),
    ],
)
def test_read_names_terminators_and_the_bom(
    site: Site, content: bytes, eol: str, lines: int
) -> None:
    site.write("a.txt", content)
    result = site.agent.call("read", path="a.txt")
    assert (eol, lines, oid(content)) == (result["eol"], result["lines"], result["oid"])
    assert content.removeprefix(b"\xef\xbb\xbf").decode(errors="replace") == result["text"]
    assert content.startswith(b"\xef\xbb\xbf") is result["bom"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ({"start": 2}, "two\nthree\n"),
        ({"end": 1}, "one\n"),
        ({"start": 2, "end": 2}, "two\n"),
        ({"start": 3, "end": 99}, "three\n"),
    ],
)
def test_read_gives_a_range_of_lines(site: Site, lines: dict[str, int], text: str) -> None:
    site.write("a.txt", "one\ntwo\nthree\n")
    result = site.agent.call("read", path="a.txt", **lines)
    assert (text, 3) == (result["text"], result["lines"])


def test_read_at_a_commit_gives_the_file_as_it_was(site: Site) -> None:
    site.write("a.txt", "one\n", mode=0o755)
    first = site.replace("a.txt", "one", "two")
    site.replace("a.txt", "two", "three")
    for at, text in [(first["outside"], "one\n"), (first["commit"], "two\n"), ("HEAD", "three\n")]:
        result = site.agent.call("read", path="a.txt", at=at)
        assert (text, "755") == (result["text"], result["mode"])


# -- patch: bytes


def test_a_patch_changes_what_it_names_and_no_other_byte(site: Site) -> None:
    site.write("a.py", b"def f():\r\n\treturn 1  \r\n\xff\xfe caf\xe9\r\nlast")
    result = site.replace("a.py", "return 1", "return 2", message="because")
    assert site.bytes_of("a.py") == b"def f():\r\n\treturn 2  \r\n\xff\xfe caf\xe9\r\nlast"
    assert result["message"] == "<patches_applied>all</patches_applied>"
    assert result["edits"] == [
        {"index": 0, "path": "a.py", "line": 2, "end_line": 2, "rung": "exact"}
    ]
    assert [
        {
            "path": "a.py",
            "status": "M",
            "before": oid(b"def f():\r\n\treturn 1  \r\n\xff\xfe caf\xe9\r\nlast"),
            "after": oid(site.bytes_of("a.py")),
            "added": 1,
            "removed": 1,
        }
    ] == result["files"]
    assert (result["warnings"], result["clipboards"], result["replayed"]) == ([], [], False)


# -- patch: new files


@pytest.mark.parametrize(
    "name", ["spaced name.txt", "ünï.txt", "a\\b.txt", "-x", "~", "*", "$HOME"]
)
def test_unusual_names_are_names(site: Site, name: str) -> None:
    site.overwrite(name, "1\n")
    site.replace(name, "1", "2")
    assert site.bytes_of(name) == b"2\n"
    assert [name] == names(site)
    assert name in site.git("-c", "core.quotePath=false", "ls-tree", "--name-only", "-z", "history")


# -- modes, links


def test_a_dangling_symlink_inside_the_workspace_makes_its_target(site: Site) -> None:
    (site.root / "link").symlink_to("made/by/link.txt")
    result = site.overwrite("link", "x\n")
    assert [change["path"] for change in result["files"]] == ["made/by/link.txt"]
    assert (site.root / "link").is_symlink()
    assert site.bytes_of("made/by/link.txt") == b"x\n"


def test_a_hard_link_is_broken_with_a_warning(site: Site) -> None:
    file = site.write("a.txt", "one\n")
    store = site.root.parent / f"{site.root.name}-store"
    os.link(file, store)
    result = site.replace("a.txt", "one", "two")
    assert (site.bytes_of("a.txt"), store.read_bytes()) == (b"two\n", b"one\n")
    [warning] = result["warnings"]
    assert "a.txt had 2 hard links; this name now has a file of its own" in warning
    assert warning in result["message"]


# -- previews and conditions


def test_a_preview_tells_all_and_changes_nothing(site: Site) -> None:
    site.write("a.txt", "one\n")
    before = site.picture()
    patches = [{"operation": "replace", "oldText": "one", "newText": "two", "toClipboard": "c"}]
    call: dict[str, Any] = {"path": "a.txt", "patches": patches}
    preview = site.agent.call("patch", preview=True, request_id="r", **call)
    made = site.agent.call("patch", preview=True, path="new/b.txt", patches=[
        {"operation": "append_eof", "newText": "x\n"}
    ])  # fmt: skip
    assert before == site.picture()
    assert (preview["commit"], preview["outside"]) == (None, None)
    assert [change["status"] for change in made["files"]] == ["A"]
    done = site.agent.call("patch", request_id="r", **call)
    assert done["replayed"] is False
    for same in ("files", "edits", "diff", "message", "clipboards", "warnings"):
        assert preview[same] == done[same]
    patches[0] |= {"oldText": "two", "newText": "three"}
    again = site.agent.call("patch", preview=True, request_id="r", **call)
    assert (again["replayed"], "+three" in again["diff"]) == (False, True)


def test_if_match_lets_a_call_pass_that_knows_the_file(site: Site) -> None:
    site.write("a.txt", "one\n")
    known = site.agent.call("read", path="a.txt")["oid"]
    done = site.replace("a.txt", "one", "two", if_match=known)
    after = done["files"][0]["after"]
    site.replace("a.txt", "two", "three", if_match={"a.txt": after, "not/there": None})
    refusal = site.agent.refusal(
        "patch", path="a.txt", patches=[{"operation": "append_eof", "newText": "x"}], if_match=after
    )
    assert refusal.kind == "stale"
    site.overwrite("new.txt", "x\n", if_match={"new.txt": None})
    assert (site.bytes_of("a.txt"), site.bytes_of("new.txt")) == (b"three\n", b"x\n")


# -- what others do to the files


def test_a_touch_that_changes_no_byte_is_no_outside_edit(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.replace("a.txt", "one", "two")
    site.write("a.txt", "two\n")
    assert site.replace("a.txt", "two", "three")["outside"] is None


def test_a_file_deleted_or_turned_into_a_directory_outside_is_recorded(site: Site) -> None:
    site.overwrite("a", "file\n")
    (site.root / "a").unlink()
    result = site.overwrite("a", "anew\n")
    assert result["files"][0]["status"] == "A"
    shown = site.agent.call("show", commit=result["outside"])
    assert [(change["path"], change["status"]) for change in shown["files"]] == [("a", "D")]
    (site.root / "a").unlink()
    result = site.overwrite("a/b", "below\n")
    assert site.bytes_of("a/b") == b"below\n"
    shown = site.agent.call("show", commit=result["outside"])
    assert [(change["path"], change["status"]) for change in shown["files"]] == [("a", "D")]
    (site.root / "a/b").unlink()
    (site.root / "a").rmdir()
    site.overwrite("a", "file again\n")
    assert site.git("ls-tree", "-r", "--name-only", "history").split() == ["a"]


@pytest.fixture(scope="module")
def patient() -> Iterator[DaemonProcess]:
    """A daemon that looks at replaced files for the last time when it stops."""
    with running({"grace_s": 600}) as daemon:
        yield daemon


def logged(site: Site) -> list[dict[str, Any]]:
    """The log, once the daemon has looked."""
    site.restart()
    return site.log()


def test_a_late_write_to_the_replaced_file_is_in_the_history(site: Site) -> None:
    with site.write("a.txt", "one\n").open("ab", buffering=0) as held:
        site.replace("a.txt", "one", "two")
        held.write(b"late\n")
    assert eventually(lambda: len(site.log()) >= 4)
    stands, late, *_ = log = site.log()
    assert [each["kind"] for each in log] == ["outside", "outside", "edit", "outside"]
    assert site.git("show", f"{late['commit']}:a.txt") == "one\nlate\n"
    assert site.git("show", f"{stands['commit']}:a.txt") == "two\n"
    assert site.bytes_of("a.txt") == b"two\n"
    assert site.replace("a.txt", "two", "three")["outside"] is None


@pytest.mark.parametrize(("old", "new"), [("a", "a/b"), ("a/b", "a")])
def test_a_late_write_hides_nothing_that_has_taken_the_name(
    patient: DaemonProcess, old: str, new: str
) -> None:
    site = patient.site(f"taken-{len(old)}")
    file = site.write(old, "one\n")
    with file.open("ab", buffering=0) as held:
        site.replace(old, "one", "two")
        file.unlink()
        if "/" in old:
            file.parent.rmdir()
        site.overwrite(new, "new\n")
        held.write(b"late\n")
    assert site.git("show", f"{logged(site)[1]['commit']}:{old}") == "one\nlate\n"
    assert site.git("ls-tree", "-r", "--name-only", "history").split() == [new]
    assert site.git("show", f"history:{new}") == "new\n"


def test_a_late_write_is_recorded_where_the_path_leads_out_of_the_workspace_by_now(
    patient: DaemonProcess,
) -> None:
    site = patient.site("out")
    file = site.write("d/a", "one\n")
    with file.open("ab", buffering=0) as held:
        site.replace("d/a", "one", "two")
        file.parent.rename(site.root / "e")
        file.parent.symlink_to("/")
        held.write(b"late\n")
    assert site.git("show", f"{logged(site)[1]['commit']}:d/a") == "one\nlate\n"
    assert site.git("show", "history:d/a") == "two\n"
