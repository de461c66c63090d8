"""``apply_patch`` through a real daemon: what only the disk and the history can show."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from e2e.running_daemon import Refusal, Site, envelope

Call = dict[str, Any]


def move(source: str, target: str) -> list[str]:
    return [f"*** Update File: {source}", f"*** Move to: {target}"]


REPLACED = ["*** Delete File: l.txt", "*** Add File: l.txt", "+a file"]


def apply(site: Site, *lines: str, **more: Any) -> dict[str, Any]:
    return site.agent.call("apply_patch", input=envelope(*lines), **more)


def call(*lines: str) -> Call:
    return {"method": "apply_patch", "params": {"input": envelope(*lines)}}


def overwriting(path: str, text: str) -> Call:
    patches = [{"operation": "overwrite", "newText": text}]
    return {"method": "patch", "params": {"path": path, "patches": patches}}


def mode(site: Site, path: str) -> int:
    return stat.S_IMODE((site.root / path).lstat().st_mode)


@pytest.mark.parametrize("lines", [move("l.txt", "m.txt"), REPLACED], ids=["moved", "replaced"])
def test_a_link_that_is_moved_or_replaced_by_a_file_comes_back(
    site: Site, lines: list[str]
) -> None:
    site.write("a.txt", "a\n")
    (site.root / "l.txt").symlink_to("a.txt")
    apply(site, *lines)
    assert not (site.root / "l.txt").is_symlink()
    site.agent.call("undo")
    assert "a.txt" == os.readlink(site.root / "l.txt")
    assert ["a.txt", "l.txt"] == sorted(path.name for path in site.root.iterdir())


def test_files_of_one_content_change_places_by_their_modes_alone(site: Site) -> None:
    site.write("a", "same\n", mode=0o755)
    site.write("b", "same\n", mode=0o644)
    result = apply(site, *move("a", "t"), *move("b", "a"), *move("t", "b"))
    assert [0o644, 0o755] == [mode(site, "a"), mode(site, "b")]
    assert ["M", "M"] == [file["status"] for file in result["files"]]


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


def test_moves_over_several_calls_are_one_rename_of_what_was_there_and_else_a_new_file(
    site: Site,
) -> None:
    site.write("a.sh", "one\n", mode=0o755)
    moves = [call(*move(old, new)) for old, new in (("a.sh", "b.sh"), ("b.sh", "c.sh"))]
    [file] = site.agent.call("transaction", calls=moves)["files"]
    assert ("c.sh", "R", "a.sh") == (file["path"], file["status"], file["old_path"])
    assert 0o755 == mode(site, "c.sh")
    added = [call("*** Add File: a", "+x"), call(*move("a", "b"))]
    [file] = site.agent.call("transaction", calls=added)["files"]
    assert ("b", "A") == (file["path"], file["status"])


@pytest.mark.parametrize("quoted", ['"new dir/a.txt"', "'a.txt'", "`a.txt`"])
def test_no_file_is_made_under_a_name_in_quotes(site: Site, quoted: str) -> None:
    site.write("old.txt", "one\n")
    before = site.picture()
    for lines in ([f"*** Add File: {quoted}", "+new"], move("old.txt", quoted)):
        refusal = site.agent.refusal("apply_patch", input=envelope(*lines))
        assert "parse_error" == refusal.kind
        assert f': {quoted[1:-1]}", without quotation marks' in refusal.message
    assert before == site.picture()


@pytest.mark.parametrize(
    "name",
    [
        *("~/a.txt", "file:///w/a.txt", "d/~/a.txt", '"a.txt"', "'d/a'"),
        *("C:/w/a.txt", "c:\\w\\a.txt", ".\\a.txt", "..\\w\\a.txt"),
    ],
)
def test_no_file_is_made_under_a_name_that_is_meant_for_a_shell(site: Site, name: str) -> None:
    before = site.picture()
    writes = {"patches": [{"operation": "overwrite", "newText": "x"}]}
    refusals = [site.agent.refusal("patch", path=name, **writes)]
    if "a.txt" in name and '"' not in name:  # quotation marks have an error of the grammar
        refusals.append(site.agent.refusal("apply_patch", input=envelope(f"*** Add File: {name}")))
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
        refusal = site.agent.refusal("apply_patch", input=envelope(*lines))
        assert "not_a_file" == refusal.kind
        assert made or "name the file in it" in refusal.message
    refusal = site.agent.refusal("transaction", calls=[overwriting("lib/", "new\n")])
    assert "not_a_file" == refusal.kind
    assert before == site.picture()


@pytest.mark.parametrize("name", [".gitmodules", "sub/.GitIgnore"])
def test_a_link_is_not_moved_to_a_name_of_which_git_would_complain(site: Site, name: str) -> None:
    (site.root / "link").symlink_to("elsewhere")
    before = site.picture()
    moved = site.agent.refusal("apply_patch", input=envelope(*move("link", name)))
    assert moved.kind == "invalid_params"
    assert site.picture() == before
    assert site.fsck() == ""


_BLOCK = "===SKIPPY_PATCH_START:a ===\n===FIND===\nx\n===REPLACE===\ny\n===SKIPPY_PATCH_END==="


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("apply_patch", {"input": envelope("*** Update File: a ", "-x", "+y")}),
        ("apply_patch", {"input": envelope("*** Delete File: a ")}),
        ("apply_patch", {"input": envelope("*** Add File: a ", "+y"), "overwrite": True}),
        ("patch_block", {"text": _BLOCK}),
    ],
)
def test_another_file_is_not_taken_for_one_whose_name_ends_with_a_blank(
    site: Site, method: str, params: Call
) -> None:
    site.write("a", "x\n")
    other = site.write("a ", "x\n")
    refusal = site.agent.refusal(method, **params)
    assert refusal.kind == "invalid_params"
    assert 'there is a file "a "' in refusal.message
    assert site.bytes_of("a") == b"x\n"
    other.unlink()
    assert [file["path"] for file in site.agent.call(method, **params)["files"]] == ["a"]


def test_blanks_that_no_name_can_have_are_left_out(site: Site) -> None:
    site.write("a", "x\n")
    site.agent.call("apply_patch", input=envelope("*** Update File: a\t", "-x", "+y"))
    assert site.bytes_of("a") == b"y\n"
