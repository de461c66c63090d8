"""Transactions that mix the four dialects: one order, one commit, or nothing at all."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.running_daemon import Site, envelope

Call = dict[str, Any]


def call(method: str, **params: Any) -> Call:
    return {"method": method, "params": params}


def patch(path: str, *patches: dict[str, Any], **more: Any) -> Call:
    return call("patch", path=path, patches=list(patches), **more)


def replace(old: str, new: str = "", **more: Any) -> dict[str, Any]:
    return {"operation": "replace", "oldText": old, "newText": new, **more}


def append(text: str = "", **more: Any) -> dict[str, Any]:
    return {"operation": "append_eof", "newText": text, **more}


def change(path: str, search: str, new: str, **more: Any) -> Call:
    return call("patch_file", path=path, changes=[{"search": search, "replace": new}], **more)


def block(path: str, find: str, new: str, **more: Any) -> Call:
    lines = [f"===SKIPPY_PATCH_START:{path}===", "===FIND===", find, "===REPLACE===", new]
    return call("patch_block", text="\n".join([*lines, "===SKIPPY_PATCH_END==="]), **more)


def codex(*lines: str, **more: Any) -> Call:
    return call("apply_patch", input=envelope(*lines), **more)


def move(old: str, new: str) -> Call:
    return codex(f"*** Update File: {old}", f"*** Move to: {new}")


def texts(site: Site) -> dict[str, str]:
    """Path to content of all files."""
    return {
        str(path.relative_to(site.root)): path.read_bytes().decode()
        for path in sorted(site.root.rglob("*"))
        if path.is_file()
    }


def transaction(site: Site, *calls: Call, **more: Any) -> dict[str, Any]:
    return site.agent.call("transaction", calls=list(calls), **more)


GOES = {"deleted": codex("*** Delete File: x.sh"), "moved": move("x.sh", "kept.sh")}


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("twice", [False, True])
def test_a_file_made_where_one_went_has_the_bits_that_it_gets_alone(
    site: Site, goes: str, twice: bool
) -> None:
    site.write("x.sh", "one\n", mode=0o755)
    calls = [GOES[goes], patch("x.sh", append("new\n"))]
    transaction(site, *calls, *([patch("x.sh", append("more\n"))] if twice else []))
    assert 0o644 == (site.root / "x.sh").stat().st_mode & 0o777
    site.agent.call("undo")
    assert {"x.sh": "one\n"} == texts(site)
    assert 0o755 == (site.root / "x.sh").stat().st_mode & 0o777


@pytest.mark.parametrize("alone", [True, False])
def test_a_file_added_where_a_patch_moved_one_away_is_a_new_one(site: Site, alone: bool) -> None:
    site.write("x.sh", "one\n", mode=0o755)
    lines = ["*** Update File: x.sh", "*** Move to: kept.sh", "*** Add File: x.sh", "+new"]
    if alone:
        site.agent.call("apply_patch", **codex(*lines)["params"])
    else:
        transaction(site, codex(*lines), patch("x.sh", append("more\n")))
    modes = [(site.root / name).stat().st_mode & 0o777 for name in ("x.sh", "kept.sh")]
    assert [0o644, 0o755] == modes


def test_a_file_that_a_call_made_keeps_its_bits_where_another_call_moves_it(site: Site) -> None:
    site.write("x.sh", "one\n", mode=0o755)
    there = ["*** Delete File: x.sh", "*** Update File: new.txt", "*** Move to: x.sh"]
    transaction(site, codex("*** Add File: new.txt", "+two"), codex(*there))
    assert 0o644 == (site.root / "x.sh").stat().st_mode & 0o777


def test_a_file_in_the_place_of_a_link_that_a_call_has_moved_is_no_link(site: Site) -> None:
    (site.root / "link").symlink_to("a.txt")
    again = codex("*** Delete File: moved", "*** Add File: moved", "+text")
    site.agent.call("transaction", calls=[move("link", "moved"), again])
    assert not (site.root / "moved").is_symlink()
    assert {"moved": "text\n"} == texts(site)


def test_a_file_added_where_a_call_moved_one_on_is_not_the_one_that_was_moved(site: Site) -> None:
    site.write("a.txt", "one\n")
    on = codex("*** Update File: b.txt", "*** Move to: c.txt", "*** Add File: b.txt", "+two")
    told = site.agent.call("transaction", calls=[move("a.txt", "b.txt"), on])
    files = {each["path"]: each.get("old_path") for each in told["files"]}
    assert {"b.txt": None, "c.txt": "a.txt"} == files


def test_a_link_that_one_call_moves_and_another_moves_on_has_its_old_path(site: Site) -> None:
    (site.root / "a").symlink_to("one.txt")
    told = site.agent.call("transaction", calls=[move("a", "b"), move("b", "c")])
    assert [("c", "a")] == [(each["path"], each.get("old_path")) for each in told["files"]]


def moves(*pairs: str) -> list[str]:
    """Lines of a patch that moves a file for each pair of names, like ``a>b``."""
    both = [pair.split(">") for pair in pairs]
    return [
        line for old, new in both for line in (f"*** Update File: {old}", f"*** Move to: {new}")
    ]


MOVED = {
    "over another, and on": (
        [codex("*** Delete File: b", *moves("a>b")), move("b", "c")],
        [("b", "D", None), ("c", "R", "a")],
    ),
    "another comes to its place": (
        [move("a", "c"), codex("*** Delete File: c", *moves("b>c"))],
        [("a", "D", None), ("c", "R", "b")],
    ),
    "swapped with another": (
        [move("a", "c"), codex(*moves("b>n", "c>b", "n>c"))],
        [("a", "D", None), ("b", "M", None), ("c", "A", None)],
    ),
}


@pytest.mark.parametrize("moved", MOVED)
def test_a_move_that_several_calls_make_has_the_old_path_of_that_file(
    site: Site, moved: str
) -> None:
    site.write("a", "one\n")
    site.write("b", "two\n")
    calls, told = MOVED[moved]
    files = transaction(site, *calls)["files"]
    assert told == sorted((each["path"], each["status"], each.get("old_path")) for each in files)


def test_a_link_that_a_patch_moves_to_the_place_of_another_is_a_link(site: Site) -> None:
    (site.root / "a").symlink_to("one.txt")
    (site.root / "b").symlink_to("two.txt")
    both = ["*** Delete File: b", "*** Update File: a", "*** Move to: b"]
    site.agent.call("transaction", calls=[codex(*both)])
    assert "one.txt" == os.readlink(site.root / "b")
    assert ["b"] == sorted(os.listdir(site.root))


def test_a_file_that_a_patch_deletes_and_adds_is_replaced_and_keeps_its_bits(site: Site) -> None:
    site.write("x.sh", "one\n", mode=0o755)
    both = codex("*** Delete File: x.sh", "*** Add File: x.sh", "+new")
    site.agent.call("apply_patch", **both["params"])
    assert 0o755 == (site.root / "x.sh").stat().st_mode & 0o777


DIRECTORY = {
    "patch": patch("x.sh/new.txt", append("new\n")),
    "apply_patch": codex("*** Add File: x.sh/new.txt", "+new"),
    "moved there": move("a.txt", "x.sh/a.txt"),
}


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("comes", DIRECTORY)
def test_a_directory_where_a_file_went_takes_a_call_of_its_own(
    site: Site, goes: str, comes: str
) -> None:
    site.write("x.sh", "one\n")
    site.write("a.txt", "a\n")
    before = site.picture()
    refusal = site.agent.refusal("transaction", calls=[GOES[goes], DIRECTORY[comes]])
    assert ("not_a_file", 1) == (refusal.kind, refusal.failures[0]["call"])
    assert "a call of its own, afterwards" in refusal.message
    assert before == site.picture()
    for each in (GOES[goes], DIRECTORY[comes]):
        site.agent.call(each["method"], **each["params"])


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("comes", ["apply_patch", "moved there"])
def test_nor_does_one_patch_make_a_directory_of_a_file(site: Site, goes: str, comes: str) -> None:
    site.write("x.sh", "one\n")
    site.write("a.txt", "a\n")
    before = site.picture()
    lines = [
        line
        for each in (GOES[goes], DIRECTORY[comes])
        for line in each["params"]["input"].split("\n")[1:-1]
    ]
    refusal = site.agent.refusal("apply_patch", **codex(*lines)["params"])
    assert "not_a_file" == refusal.kind
    assert "in two calls, one after the other" in refusal.message
    assert before == site.picture()


def test_two_calls_are_not_offered_where_a_directory_would_stay(site: Site) -> None:
    site.write("x.sh/only.txt", "one\n")
    lines = ["*** Delete File: x.sh/only.txt", "*** Add File: x.sh", "+new"]
    refusal = site.agent.refusal("apply_patch", **codex(*lines)["params"])
    assert "this is a directory" in refusal.message
    assert "two calls" not in refusal.message
    site.agent.call("apply_patch", **codex(lines[0])["params"])
    again = site.agent.refusal("apply_patch", **codex(*lines[1:])["params"])
    assert "this is a directory" in again.message


def test_it_is_said_in_a_directory_of_the_workspace_too(site: Site) -> None:
    site.write("sub/x.sh", "one\n")
    client = site.daemon.agent()
    hello = {"protocol": 1, "workspace": str(site.root / "sub"), "agent": "x", "session": "sub"}
    client.call("hello", **hello)
    for path in ("x.sh/new.txt", f"{site.root}/sub/x.sh/new.txt"):
        lines = ["*** Delete File: x.sh", f"*** Add File: {path}", "+new"]
        refusal = client.refusal("apply_patch", **codex(*lines)["params"])
        assert "in two calls, one after the other" in refusal.message


def test_each_dialect_sees_what_the_ones_before_it_made_of_the_file(site: Site) -> None:
    site.write("a.txt", "one\ntwo\n")
    result = transaction(
        site,
        patch("a.txt", replace("one", "patched")),
        change("a.txt", "patched", "changed"),
        block("a.txt", "changed", "blocked"),
        codex("*** Update File: a.txt", "@@", "-blocked", "+applied", " two"),
        patch("a.txt", replace("applied", "done")),
        message="through all of them",
    )
    assert {"a.txt": "done\ntwo\n"} == texts(site)
    assert [0, 1, 2, 3, 4] == [edit["call"] for edit in result["edits"]]
    assert [("a.txt", "M", 1, 1)] == [
        (f["path"], f["status"], f["added"], f["removed"]) for f in result["files"]
    ]
    edit, outside = site.log()
    assert ("edit", "transaction", "outside") == (edit["kind"], edit["method"], outside["kind"])
    assert result["commit"] == edit["commit"]
    assert "transaction: 5 calls, 1 file" in edit["message"]
    assert "through all of them" in edit["message"]
    for number in range(1, 6):
        assert f"call {number}: " in result["message"]
    assert site.fsck() == ""


def test_a_function_is_cut_in_one_dialect_and_pasted_into_what_another_created(site: Site) -> None:
    site.write("a.py", "def f():\n    return 1\n\nx = 2\n")
    transaction(
        site,
        patch("a.py", replace("def f():\n    return 1\n\n", toClipboard="f")),
        codex("*** Add File: lib/b.py", "+class B:", "+    y = 3", "+"),
        patch("lib/b.py", append(fromClipboard="f", reindent={"strip": "", "add": "    "})),
        change("lib/b.py", "return 1", "return 10"),
        block("a.py", "x = 2", "x = f()"),
    )
    assert {
        "a.py": "x = f()\n",
        "lib/b.py": "class B:\n    y = 3\n\n    def f():\n        return 10\n\n",
    } == texts(site)
    assert "def f():\n    return 1\n\n" == site.agent.call("clipboard_get", name="f")["text"]
    site.agent.call("undo")
    assert {"a.py": "def f():\n    return 1\n\nx = 2\n"} == texts(site)


def test_a_moved_file_is_edited_at_its_new_path(site: Site) -> None:
    site.write("old/a.sh", "echo one\n", mode=0o755)
    result = transaction(
        site,
        move("old/a.sh", "new/b.sh"),
        patch("new/b.sh", replace("one", "two")),
        change("new/b.sh", "two", "three"),
        block("new/b.sh", "echo three", "echo four"),
    )
    assert {"new/b.sh": "echo four\n"} == texts(site)
    assert 0o755 == (site.root / "new/b.sh").stat().st_mode & 0o777
    [moved] = [file for file in result["files"] if file["path"] == "new/b.sh"]
    assert ("R", "old/a.sh") == (moved["status"], moved["old_path"])
    site.agent.call("undo")
    assert {"old/a.sh": "echo one\n"} == texts(site)
    assert 0o755 == (site.root / "old/a.sh").stat().st_mode & 0o777


def test_the_old_path_of_a_move_is_gone_for_later_calls(site: Site) -> None:
    site.write("a.txt", "one\n")
    before = site.picture()
    for late in (
        patch("a.txt", replace("one", "two")),
        change("a.txt", "one", "two"),
        block("a.txt", "one", "two"),
        codex("*** Update File: a.txt", "@@", "-one", "+two"),
        codex("*** Delete File: a.txt"),
    ):
        refusal = site.agent.refusal("transaction", calls=[move("a.txt", "b.txt"), late])
        assert "file_not_found" == refusal.kind
        assert [(1, "a.txt")] == [(f["call"], f["path"]) for f in refusal.failures]
        assert refusal.message.startswith("call 2: ")
    assert before == site.picture()


def test_a_deleted_file_can_be_created_anew_but_not_edited(site: Site) -> None:
    site.write("a.txt", "one\n")
    before = site.picture()
    delete = codex("*** Delete File: a.txt")
    refusal = site.agent.refusal(
        "transaction", calls=[delete, patch("a.txt", replace("one", "two"))]
    )
    assert ("file_not_found", 1) == (refusal.kind, refusal.failures[0]["call"])
    assert before == site.picture()
    transaction(site, delete, patch("a.txt", append("anew\n")), change("a.txt", "anew", "again"))
    assert {"a.txt": "again\n"} == texts(site)


def test_a_file_that_an_earlier_call_created_exists_for_add(site: Site) -> None:
    calls = [patch("n.txt", append("one\n")), codex("*** Add File: n.txt", "+two")]
    refusal = site.agent.refusal("transaction", calls=calls)
    assert ("already_exists", 1) == (refusal.kind, refusal.failures[0]["call"])
    assert {} == texts(site)
    calls[1]["params"]["overwrite"] = True
    transaction(site, *calls)
    assert {"n.txt": "two\n"} == texts(site)


def test_files_change_places_over_three_calls(site: Site) -> None:
    site.write("a", "A\n")
    site.write("b", "B\n", mode=0o700)
    transaction(site, move("a", "c"), move("b", "a"), move("c", "b"))
    assert {"a": "B\n", "b": "A\n"} == texts(site)
    assert 0o700 == (site.root / "a").stat().st_mode & 0o777


def test_what_comes_and_goes_within_the_whole_leaves_no_trace(site: Site) -> None:
    site.write("a.txt", "one\n")
    result = transaction(
        site,
        codex("*** Add File: passing/n.txt", "+x"),
        change("a.txt", "one", "two"),
        codex("*** Delete File: passing/n.txt"),
    )
    assert {"a.txt": "two\n"} == texts(site)
    assert not (site.root / "passing").exists()
    assert ["a.txt"] == [file["path"] for file in result["files"]]


CANCELLED = {
    "changed back": [change("a.txt", "one", "two"), block("a.txt", "two", "one")],
    "made and deleted": [codex("*** Add File: n.txt", "+x"), codex("*** Delete File: n.txt")],
}


@pytest.mark.parametrize("cancelled", CANCELLED)
@pytest.mark.parametrize("preview", [False, True])
def test_calls_that_cancel_each_other_out_are_refused_as_no_change(
    site: Site, cancelled: str, preview: bool
) -> None:
    site.write("a.txt", "one\n")
    before = site.picture()
    calls = CANCELLED[cancelled]
    refusal = site.agent.refusal("transaction", calls=calls, preview=preview, request_id="r")
    assert "no_change" == refusal.kind
    assert ["no_change"] == [failure["kind"] for failure in refusal.failures]
    assert before == site.picture()


def test_calls_that_leave_only_a_clipboard_make_no_commit(site: Site) -> None:
    site.write("a.txt", "one\n")
    cut = patch("a.txt", replace("one", toClipboard="c"))
    back = patch("a.txt", {"operation": "prepend_bof", "fromClipboard": "c"})
    assert transaction(site, cut, back)["commit"] is None
    assert "one" == site.agent.call("clipboard_get", name="c")["text"]


LAST = {
    "patch": (patch("a.txt", replace("absent")), "old_text_not_found"),
    "patch_file": (change("a.txt", "absent", "x"), "old_text_not_found"),
    "patch_block": (block("a.txt", "absent", "x"), "old_text_not_found"),
    "apply_patch": (
        codex("*** Update File: a.txt", "@@", "-absent", "+x"),
        "old_text_not_found",
    ),
    "unparsable block": (call("patch_block", text="no block"), "parse_error"),
    "unparsable patch": (call("apply_patch", input="no patch"), "parse_error"),
    "twice": (patch("a.txt", replace("two")), "old_text_not_unique"),
    "occurrence": (
        call(
            "patch_file",
            path="a.txt",
            changes=[{"search": "two", "replace": "x", "occurrence": 3}],
        ),
        "occurrence_out_of_range",
    ),
    "params": (call("apply_patch", nonsense="x"), "invalid_params"),
    "outside": (codex("*** Add File: ../x", "+x"), "path_outside_workspace"),
    "protected": (codex("*** Add File: .git/hooks/x", "+x"), "path_protected"),
    "stale": (change("a.txt", "1", "2", if_match="0" * 40), "stale"),
    "clipboard": (patch("a.txt", append(fromClipboard="none")), "missing_clipboard"),
}


@pytest.mark.parametrize(("last", "kind"), LAST.values(), ids=LAST)
def test_a_failure_in_the_last_call_leaves_all_untouched_and_names_it(
    site: Site, last: Call, kind: str
) -> None:
    site.write("a.txt", "one\ntwo\ntwo\n")
    site.write("d.bin", b"\x00\xff", mode=0o600)
    site.agent.call("clipboard_set", name="c", text="kept")
    before = site.picture()
    good = [
        patch("a.txt", replace("one", "1", toClipboard="c")),
        codex("*** Add File: n/new.txt", "+x", "*** Delete File: d.bin"),
        block("n/new.txt", "x", "y"),
        change("n/new.txt", "y", "z"),
        move("n/new.txt", "m/moved.txt"),
    ]
    refusal = site.agent.refusal("transaction", calls=[*good, last], request_id="r")
    assert kind == refusal.kind
    assert {5} == {failure["call"] for failure in refusal.failures}
    assert refusal.message.startswith("call 6: ")
    assert before == site.picture()
    # A refused call is not recorded: the same id may be used for what is right.
    transaction(site, *good, request_id="r")
    assert {"a.txt": "1\ntwo\ntwo\n", "m/moved.txt": "z\n"} == texts(site)


def test_a_preview_shows_the_whole_and_changes_nothing(site: Site) -> None:
    site.write("a.txt", "one\n")
    before = site.picture()
    calls = [
        patch("a.txt", replace("one", "two", toClipboard="c")),
        block("a.txt", "two", "three"),
        codex("*** Update File: a.txt", "*** Move to: b.txt", "@@", "-three", "+four"),
        patch("b.txt", append(fromClipboard="c")),
    ]
    shown = transaction(site, *calls, preview=True)
    assert shown["commit"] is None
    assert "+four" in shown["diff"]
    assert before == site.picture()
    done = transaction(site, *calls)
    assert {"b.txt": "four\none"} == texts(site)
    assert (shown["diff"], shown["files"]) == (done["diff"], done["files"])


def test_an_inner_if_match_is_about_what_its_call_sees(site: Site) -> None:
    site.write("a.txt", "one\n")
    one = site.agent.call("read", path="a.txt")["oid"]
    calls = [
        codex(
            "*** Update File: a.txt",
            "*** Move to: b.txt",
            if_match={"a.txt": one, "b.txt": None},
        ),
        change("b.txt", "one", "two", if_match=one),
        block("b.txt", "two", "three", if_match={"b.txt": one}),
    ]
    refusal = site.agent.refusal("transaction", calls=calls)
    assert ("stale", [2]) == (refusal.kind, [f["call"] for f in refusal.failures])
    assert {"a.txt": "one\n"} == texts(site)
    transaction(site, *calls[:2])
    assert {"b.txt": "two\n"} == texts(site)


def test_a_patch_over_several_files_takes_a_map_as_if_match_and_no_single_id(site: Site) -> None:
    site.write("a.txt", "one\n")
    for inner in (codex("*** Delete File: a.txt"), block("a.txt", "one", "two")):
        refusal = site.agent.refusal(inner["method"], **inner["params"], if_match="0" * 40)
        assert ("invalid_params", True) == (refusal.kind, "map from path" in refusal.message)
    assert {"a.txt": "one\n"} == texts(site)


# -- request_id and the structure of patch_block


def structure(path: str, count: int, **more: Any) -> dict[str, Any]:
    applied = f"Applied {count} changes"
    return {"filepath": path, "result": applied, "error": None, "exitCode": 0, **more}


def test_a_retry_gets_the_same_structure_of_patch_block(own_site: Site) -> None:
    own_site.write("a.txt", "one\n")
    own_site.write("b.txt", "one\n")
    single = block("a.txt", "one", "two")["params"]
    several = block("a.txt", "two", "three")["params"]
    several["text"] += "\n" + block("b.txt", "one", "two")["params"]["text"]
    first = own_site.agent.call("patch_block", **single, request_id="1")
    second = own_site.agent.call("patch_block", **several, request_id="2")
    assert structure("a.txt", 1) == first["result"]
    assert [structure("a.txt", 1), structure("b.txt", 1)] == second["result"]
    for again_after in (None, own_site.crash, own_site.restart):
        if again_after is not None:
            again_after()
        again = own_site.agent.call("patch_block", **single, request_id="1")
        assert {**first, "replayed": True} == again
        again = own_site.agent.call("patch_block", **several, request_id="2")
        assert {**second, "replayed": True} == again
    assert {"a.txt": "three\n", "b.txt": "two\n"} == texts(own_site)


def test_a_retry_of_a_transaction_gets_all_structures_with_their_calls(site: Site) -> None:
    site.write("a.txt", "one\n")
    calls = [
        patch("a.txt", replace("one", "two")),
        block("a.txt", "two", "three"),
        codex("*** Add File: b.txt", "+x"),
        block("b.txt", "x", "y"),
    ]
    first = transaction(site, *calls, request_id="r")
    assert [structure("a.txt", 1, call=1), structure("b.txt", 1, call=3)] == first["result"]
    assert {**first, "replayed": True} == transaction(site, *calls, request_id="r")
    assert {"a.txt": "three\n", "b.txt": "y\n"} == texts(site)


def test_other_dialects_answer_without_that_structure(site: Site) -> None:
    site.write("a.txt", "one\n")
    for inner in (
        patch("a.txt", replace("one", "two")),
        change("a.txt", "two", "three"),
        codex("*** Update File: a.txt", "@@", "-three", "+four"),
    ):
        assert "result" not in site.agent.call(inner["method"], **inner["params"])
    assert "result" not in transaction(site, patch("a.txt", replace("four", "five")))


def test_a_refused_patch_block_carries_the_structure_also_within_a_transaction(site: Site) -> None:
    site.write("a.txt", "one\n")
    bad = block("a.txt", "absent", "x")
    alone = site.agent.refusal("patch_block", **bad["params"])
    assert ("a.txt", 1) == (alone.data["result"]["filepath"], alone.data["result"]["exitCode"])
    assert alone.data["result"]["error"]
    within = site.agent.refusal("transaction", calls=[patch("a.txt", append("x")), bad])
    assert ("a.txt", 1) == (within.data["result"]["filepath"], within.data["result"]["exitCode"])


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([], "a list of 1 to"),
        ("patch", "a list of 1 to"),
        (None, "a list of 1 to"),
        ([{"method": "patch"}], "call 1: each call is an object with method and params"),
        ([{"method": {}, "params": {}}], "call 1: each call is an object with method and params"),
        ([{"method": "undo", "params": {}}], "call 1: 'undo' can't be part of a transaction"),
        ([{"method": "transaction", "params": {}}], "can't be part of a transaction"),
        ([patch("a.py", append("x"), message="why")], "give this to the transaction"),
        ([patch("a.py", append("x"), request_id="r")], "give this to the transaction"),
    ],
)
def test_what_is_no_list_of_calls_is_refused(site: Site, calls: Any, said: str) -> None:
    before = site.picture()
    refusal = site.agent.refusal("transaction", calls=calls)
    assert refusal.kind == "invalid_params"
    assert said in refusal.message
    assert before == site.picture()


def test_many_files_in_one_call(site: Site) -> None:
    names = [f"d{n % 7}/f{n}.txt" for n in range(400)]
    for name in names:
        site.write(name, "one\n")
    text = "".join(block(name, "one", "1")["params"]["text"] + "\n" for name in names)
    result = site.agent.call("patch_block", text=text)
    assert [structure(name, 1) for name in names] == result["result"]
    assert {"1\n"} == set(texts(site).values())


@pytest.mark.parametrize("style", ["mcp", "anthropic"])
def test_every_tool_that_models_are_told_of_is_a_method(site: Site, style: str) -> None:
    for tool in site.agent.call("tools", style=style)["tools"]:
        refusal = site.agent.refusal(tool["name"], nonsense=1)
        assert "invalid_params" == refusal.kind


def test_what_a_strict_schema_lets_be_null_is_read_as_left_out(site: Site) -> None:
    site.write("a.txt", "one\n")
    given: dict[str, dict[str, Any]] = {
        "read": {"path": "a.txt"},
        "patch": {"path": "a.txt", "patches": [replace("one", "two")]},
        "patch_file": change("a.txt", "two", "three")["params"],
        "patch_block": block("a.txt", "three", "four")["params"],
        "apply_patch": codex("*** Update File: a.txt", "@@", "-four", "+five")["params"],
        "undo": {},
        "log": {},
        "show": {"commit": "HEAD"},
        "diff": {},
        "request_mode_upgrade": {},
    }
    tools = site.agent.call("tools", style="openai")["tools"]
    assert set(given) == {tool["function"]["name"] for tool in tools}
    for tool in tools:
        name, schema = tool["function"]["name"], tool["function"]["parameters"]
        own = {key: given[name].get(key) for key in schema["properties"]}
        site.agent.call(name, **own)
    assert {"a.txt": "four\n"} == texts(site)


def test_what_cannot_be_parsed_is_named_with_its_line(site: Site) -> None:
    text = block("a.txt", "one", "1")["params"]["text"].replace("===REPLACE===\n", "")
    added = "*** Begin Patch\n*** Add File: a\n+x\nno line\n*** End Patch"
    for method, params in (("patch_block", {"text": text}), ("apply_patch", {"input": added})):
        refusal = site.agent.refusal(method, **params)
        assert ("parse_error", refusal.failures[0]["line"]) == (refusal.kind, refusal.data["line"])
        assert refusal.message.startswith(f"line {refusal.data['line']} of ")


def test_a_call_deletes_the_file_that_the_call_before_it_has_made_in_a_new_directory(
    site: Site,
) -> None:
    site.write("a.txt", "new\n")
    calls = [codex("*** Add File: made/a.txt", "+new"), codex("*** Delete File: made/a.txt")]
    # Sent at once, so that they are planned together, before the directory is there.
    frames = (
        site.agent.frame("apply_patch", number, each["params"])
        for number, each in enumerate(calls, 1000)
    )
    site.agent.send_bytes(b"".join(frames))
    for _ in calls:
        site.agent.result_of(site.agent.receive())
    assert {"a.txt": "new\n"} == texts(site)
