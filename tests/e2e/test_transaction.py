"""Several calls as one: all or nothing, each seeing the ones before it, one commit."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.running_daemon import Site


def patch(path: str, *patches: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"method": "patch", "params": {"path": path, "patches": list(patches), **more}}


def replace(old: str, new: str = "", **more: Any) -> dict[str, Any]:
    return {"operation": "replace", "oldText": old, "newText": new, **more}


def append(text: str = "", **more: Any) -> dict[str, Any]:
    return {"operation": "append_eof", "newText": text, **more}


def test_a_function_moves_between_files_in_one_commit(site: Site) -> None:
    site.write("a.py", "def f():\n    return 1\n\nx = 2\n")
    site.write("b.py", "y = 3\n")
    result = site.agent.call(
        "transaction",
        calls=[
            patch("a.py", replace("def f():\n    return 1\n\n", toClipboard="f")),
            patch("b.py", append(fromClipboard="f")),
        ],
        message="f belongs to b",
    )
    assert site.bytes_of("a.py") == b"x = 2\n"
    assert site.bytes_of("b.py") == b"y = 3\ndef f():\n    return 1\n\n"
    commits = site.log()
    assert ["edit", "outside"] == [commit["kind"] for commit in commits]
    assert commits[0]["commit"] == result["commit"]
    assert commits[0]["method"] == "transaction"
    assert [("a.py", 0), ("b.py", 1)] == [(e["path"], e["call"]) for e in result["edits"]]
    assert site.fsck() == ""


def test_a_later_call_sees_what_an_earlier_one_wrote(site: Site) -> None:
    site.write("a.py", "one\n")
    calls = [patch("a.py", replace("one", "two")), patch("a.py", replace("two", "three"))]
    result = site.agent.call("transaction", calls=calls)
    assert site.bytes_of("a.py") == b"three\n"
    [file] = result["files"]
    assert (file["added"], file["removed"]) == (1, 1)


def test_a_file_created_by_one_call_is_edited_by_the_next(site: Site) -> None:
    calls = [patch("new/dir/n.txt", append("alpha\n")), patch("new/dir/n.txt", append("beta\n"))]
    result = site.agent.call("transaction", calls=calls)
    assert site.bytes_of("new/dir/n.txt") == b"alpha\nbeta\n"
    assert [file["status"] for file in result["files"]] == ["A"]


def test_a_failing_call_leaves_everything_as_it_was(site: Site) -> None:
    site.write("a.py", "keep\n")
    before = site.picture()
    refusal = site.agent.refusal(
        "transaction",
        calls=[
            patch("a.py", replace("keep", "lost", toClipboard="c")),
            patch("sub/new.py", append("x")),
            patch("a.py", replace("not there", "x")),
        ],
    )
    assert refusal.kind == "old_text_not_found"
    assert [(f["call"], f["path"]) for f in refusal.failures] == [(2, "a.py")]
    assert refusal.message.startswith("call 3: ")
    assert before == site.picture()


def test_the_whole_is_undone_at_once(site: Site) -> None:
    site.write("a.py", "one\n")
    calls = [patch("a.py", replace("one", "two")), patch("d/b.py", append("new\n"))]
    site.agent.call("transaction", calls=calls)
    site.agent.call("undo")
    assert site.bytes_of("a.py") == b"one\n"
    assert not (site.root / "d").exists()


def test_an_inner_if_match_is_about_what_its_call_sees(site: Site) -> None:
    site.write("a.py", "one\n")
    first = site.agent.call("read", path="a.py")["oid"]
    calls = [
        patch("a.py", replace("one", "two"), if_match=first),
        patch("a.py", replace("two", "three"), if_match=first),
    ]
    refusal = site.agent.refusal("transaction", calls=calls)
    assert refusal.kind == "stale"
    assert refusal.failures[0]["call"] == 1
    assert site.bytes_of("a.py") == b"one\n"


def test_a_preview_shows_the_whole_and_changes_nothing(site: Site) -> None:
    site.write("a.py", "one\n")
    before = site.picture()
    calls = [patch("a.py", replace("one", "two")), patch("a.py", replace("two", "three"))]
    result = site.agent.call("transaction", calls=calls, preview=True)
    assert result["commit"] is None
    assert "+three" in result["diff"]
    assert before == site.picture()


def test_a_retry_gets_the_first_answer(site: Site) -> None:
    calls = [patch("n.txt", append("once\n"))]
    first = site.agent.call("transaction", calls=calls, request_id="r1")
    again = site.agent.call("transaction", calls=calls, request_id="r1")
    assert again == {**first, "replayed": True}
    assert site.bytes_of("n.txt") == b"once\n"


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
