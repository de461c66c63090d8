"""``apply_patch`` through a real daemon: what only the disk and the history can show."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from e2e.running_daemon import Refusal, Site

Call = dict[str, Any]


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def move(source: str, target: str) -> list[str]:
    return [f"*** Update File: {source}", f"*** Move to: {target}"]


def apply(site: Site, *lines: str, **more: Any) -> dict[str, Any]:
    return site.agent.call("apply_patch", input=patch(*lines), **more)


def call(*lines: str) -> Call:
    return {"method": "apply_patch", "params": {"input": patch(*lines)}}


def overwriting(path: str, text: str) -> Call:
    patches = [{"operation": "overwrite", "newText": text}]
    return {"method": "patch", "params": {"path": path, "patches": patches}}


def mode(site: Site, path: str) -> int:
    return stat.S_IMODE((site.root / path).lstat().st_mode)


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o755, 0o700])
def test_the_mode_moves_along_and_comes_back(site: Site, bits: int) -> None:
    site.write("a.sh", "one\n", mode=bits)
    result = apply(site, *move("a.sh", "d/b.sh"), "-one", "+two")
    assert [("d/b.sh", "R", "a.sh")] == [
        (file["path"], file["status"], file["old_path"]) for file in result["files"]
    ]
    assert bits == mode(site, "d/b.sh")
    site.agent.call("undo")
    assert b"one\n" == site.bytes_of("a.sh")
    assert bits == mode(site, "a.sh")
    assert not (site.root / "d").exists()
    assert site.fsck() == ""


def test_two_files_change_places_with_their_modes_and_back(site: Site) -> None:
    site.write("a", "a\n", mode=0o755)
    site.write("b", "b\n", mode=0o644)
    apply(site, *move("a", "t"), *move("b", "a"), *move("t", "b"))
    assert [(b"b\n", 0o644), (b"a\n", 0o755)] == [
        (site.bytes_of(path), mode(site, path)) for path in ("a", "b")
    ]
    site.agent.call("undo")
    assert [(b"a\n", 0o755), (b"b\n", 0o644)] == [
        (site.bytes_of(path), mode(site, path)) for path in ("a", "b")
    ]


def test_files_of_one_content_change_places_by_their_modes_alone(site: Site) -> None:
    site.write("a", "same\n", mode=0o755)
    site.write("b", "same\n", mode=0o644)
    result = apply(site, *move("a", "t"), *move("b", "a"), *move("t", "b"))
    assert [0o644, 0o755] == [mode(site, "a"), mode(site, "b")]
    assert ["M", "M"] == [file["status"] for file in result["files"]]


def test_a_deleted_link_is_gone_and_comes_back(site: Site) -> None:
    site.write("a.txt", "a\n")
    (site.root / "l.txt").symlink_to("a.txt")
    apply(site, "*** Delete File: l.txt")
    assert not os.path.lexists(site.root / "l.txt")
    assert b"a\n" == site.bytes_of("a.txt")
    site.agent.call("undo")
    assert "a.txt" == os.readlink(site.root / "l.txt")


def test_a_link_is_moved_as_a_link_and_back(site: Site) -> None:
    site.write("a.txt", "a\n")
    (site.root / "l.txt").symlink_to("a.txt")
    apply(site, *move("l.txt", "m.txt"))
    assert "a.txt" == os.readlink(site.root / "m.txt")
    assert not os.path.lexists(site.root / "l.txt")
    site.agent.call("undo")
    assert "a.txt" == os.readlink(site.root / "l.txt")
    assert not os.path.lexists(site.root / "m.txt")


def test_a_file_takes_the_place_of_a_link_and_gives_it_back(site: Site) -> None:
    site.write("a.txt", "a\n")
    (site.root / "l.txt").symlink_to("a.txt")
    apply(site, "*** Delete File: l.txt", "*** Add File: l.txt", "+a file")
    assert not (site.root / "l.txt").is_symlink()
    assert b"a file\n" == site.bytes_of("l.txt")
    assert b"a\n" == site.bytes_of("a.txt")
    site.agent.call("undo")
    assert "a.txt" == os.readlink(site.root / "l.txt")


def test_a_link_out_of_the_workspace_can_be_deleted_but_not_edited(site: Site) -> None:
    (site.root / "out").symlink_to("/etc/hostname")
    with pytest.raises(Refusal) as refused:
        apply(site, "*** Update File: out", "@@", "+x")
    assert "path_outside_workspace" == refused.value.data["kind"]
    apply(site, "*** Delete File: out")
    assert not os.path.lexists(site.root / "out")


def test_later_calls_of_a_transaction_see_links_as_earlier_ones_leave_them(site: Site) -> None:
    site.write("a.txt", "a\n")
    (site.root / "l.txt").symlink_to("a.txt")
    (site.root / "k.txt").symlink_to("a.txt")
    calls = [
        call(*move("l.txt", "d/m.txt")),
        call("*** Delete File: k.txt"),
        overwriting("k.txt", "k\n"),
        call("*** Add File: d/a.txt", "+below"),
        overwriting("d/m.txt", "through the link\n"),
    ]
    site.agent.call("transaction", calls=calls)
    assert "a.txt" == os.readlink(site.root / "d/m.txt")
    assert b"through the link\n" == site.bytes_of("d/a.txt")
    assert not (site.root / "k.txt").is_symlink()
    assert [b"a\n", b"k\n"] == [site.bytes_of("a.txt"), site.bytes_of("k.txt")]


def test_pipelined_calls_see_links_as_the_ones_before_them_leave_them(site: Site) -> None:
    site.write("a.txt", "a\n")
    (site.root / "k.txt").symlink_to("a.txt")
    first = call("*** Delete File: k.txt")
    second = overwriting("k.txt", "k\n")
    numbers = [site.agent.send(each["method"], **each["params"]) for each in (first, second)]
    for number in numbers:
        reply = site.agent.receive()
        assert number == reply.id
        assert site.agent.result_of(reply)["commit"]
    assert not (site.root / "k.txt").is_symlink()
    assert [b"a\n", b"k\n"] == [site.bytes_of("a.txt"), site.bytes_of("k.txt")]


def test_a_transaction_can_not_make_a_file_below_a_file(site: Site) -> None:
    site.write("x.txt", "x\n")
    calls = [overwriting("d", "a file\n"), overwriting("d/e", "below it\n")]
    with pytest.raises(Refusal) as refused:
        site.agent.call("transaction", calls=calls)
    assert "not_a_file" == refused.value.data["kind"]
    assert not os.path.lexists(site.root / "d")


def test_a_move_over_three_calls_is_one_rename_of_what_was_there(site: Site) -> None:
    site.write("a.sh", "one\n", mode=0o755)
    result = site.agent.call(
        "transaction",
        calls=[
            call(*move("a.sh", "b.sh")),
            call(*move("b.sh", "c.sh")),
            call(*move("c.sh", "d.sh")),
        ],
    )
    [file] = result["files"]
    assert ("d.sh", "R", "a.sh") == (file["path"], file["status"], file["old_path"])
    assert 0o755 == mode(site, "d.sh")


def test_what_an_earlier_call_made_and_a_later_one_moves_is_new(site: Site) -> None:
    result = site.agent.call(
        "transaction", calls=[call("*** Add File: a", "+x"), call(*move("a", "b"))]
    )
    [file] = result["files"]
    assert ("b", "A") == (file["path"], file["status"])


def test_paths_are_relative_to_the_directory_of_the_session(site: Site) -> None:
    site.write("sub/a.txt", "one\n")
    client = site.daemon.agent()
    hello = {"protocol": 1, "workspace": str(site.root / "sub"), "agent": "x", "session": "sub"}
    client.call("hello", **hello)
    result = client.call("apply_patch", input=patch("*** Update File: a.txt", "-one", "+two"))
    expected = f"Success. Updated the following files:\nM {site.root}/sub/a.txt"
    assert expected == result["message"]


@pytest.mark.parametrize("quoted", ['"new dir/a.txt"', "'a.txt'", "`a.txt`"])
def test_no_file_is_made_under_a_name_in_quotes(site: Site, quoted: str) -> None:
    site.write("old.txt", "one\n")
    before = site.picture()
    for lines in ([f"*** Add File: {quoted}", "+new"], move("old.txt", quoted)):
        refusal = site.agent.refusal("apply_patch", input=patch(*lines))
        assert "parse_error" == refusal.kind
        assert f': {quoted[1:-1]}", without quotation marks' in refusal.message
    assert before == site.picture()


@pytest.mark.parametrize("name", ["~/a.txt", "file:///w/a.txt", "d/~/a.txt", '"a.txt"', "'d/a'"])
def test_no_file_is_made_under_a_name_that_is_meant_for_a_shell(site: Site, name: str) -> None:
    before = site.picture()
    writes = {"patches": [{"operation": "overwrite", "newText": "x"}]}
    refusals = [site.agent.refusal("patch", path=name, **writes)]
    if "a.txt" in name and '"' not in name:  # quotation marks have an error of the grammar
        refusals.append(site.agent.refusal("apply_patch", input=patch(f"*** Add File: {name}")))
    assert all("a path is taken as it is" in each.message for each in refusals)
    assert {"invalid_params"} == {each.kind for each in refusals}
    assert before == site.picture()


def test_a_file_with_such_a_name_can_be_moved_to_a_better_one(site: Site) -> None:
    site.write('"a.txt"', "one\n")
    apply(site, *move('"a.txt"', "a.txt"), "@@", "-one", "+two")
    assert b"two\n" == site.bytes_of("a.txt")


@pytest.mark.parametrize("made", [False, True])
def test_nothing_is_moved_or_added_to_the_name_of_a_directory(site: Site, *, made: bool) -> None:
    site.write("a.txt", "one\n")
    if made:
        (site.root / "lib").mkdir()
    before = site.picture()
    for lines in (move("a.txt", "lib/"), ["*** Add File: lib/", "+new"]):
        refusal = site.agent.refusal("apply_patch", input=patch(*lines))
        assert "not_a_file" == refusal.kind
        assert made or "name the file in it" in refusal.message
    refusal = site.agent.refusal("transaction", calls=[overwriting("lib/", "new\n")])
    assert "not_a_file" == refusal.kind
    assert before == site.picture()


@pytest.mark.parametrize("name", [".gitmodules", "sub/.GitIgnore"])
def test_a_link_is_not_moved_to_a_name_of_which_git_would_complain(site: Site, name: str) -> None:
    (site.root / "link").symlink_to("elsewhere")
    before = site.picture()
    moved = site.agent.refusal("apply_patch", input=patch(*move("link", name)))
    assert moved.kind == "invalid_params"
    assert site.picture() == before
    assert site.fsck() == ""
