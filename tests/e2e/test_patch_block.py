"""``patch_block`` through a daemon: its result in replies, records and transactions."""

from __future__ import annotations

from typing import Any

from e2e.running_daemon import Site


def block(path: str, find: str, replace: str) -> str:
    return (
        f"===SKIPPY_PATCH_START:{path}===\n===FIND===\n{find}\n===REPLACE===\n{replace}\n"
        "===SKIPPY_PATCH_END===\n"
    )


def applied(path: str, **more: Any) -> dict[str, Any]:
    return {
        "filepath": path,
        "result": "Applied 1 changes",
        "error": None,
        "exitCode": 0,
        **more,
    }


def test_several_files_are_one_commit_that_can_be_undone(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.write("b.txt", "two\n")
    text = block("a.txt", "one", "1") + block(f"{site.root}/b.txt", "two", "2")
    result = site.agent.call("patch_block", text=text, message="digits")
    assert [applied("a.txt"), applied(f"{site.root}/b.txt")] == result["result"]
    commits = site.log()
    assert ["edit", "outside"] == [commit["kind"] for commit in commits]
    assert "patch_block" == commits[0]["method"]
    assert {"a.txt", "b.txt"} == {file["path"] for file in commits[0]["files"]}
    undone = site.agent.call("undo")
    assert (b"one\n", b"two\n") == (site.bytes_of("a.txt"), site.bytes_of("b.txt"))
    assert "result" not in undone


def test_a_retried_call_gets_the_same_result_also_after_a_restart(own_site: Site) -> None:
    own_site.write("a.txt", "one\n")
    own_site.write("b.txt", "two\n")
    calls = [block("a.txt", "one", "1"), block("a.txt", "1", "one") + block("b.txt", "two", "2")]
    for number, text in enumerate(calls):
        first = own_site.agent.call("patch_block", text=text, request_id=f"r{number}")
        again = own_site.agent.call("patch_block", text=text, request_id=f"r{number}")
        assert {**first, "replayed": True} == again
    own_site.daemon.kill()
    own_site.daemon.start()
    own_site.connect()
    again = own_site.agent.call("patch_block", text=calls[1], request_id="r1")
    assert [applied("a.txt"), applied("b.txt")] == again["result"]
    assert again["replayed"]
    assert (b"one\n", b"2\n") == (own_site.bytes_of("a.txt"), own_site.bytes_of("b.txt"))


def test_in_a_transaction_the_results_are_listed_with_their_calls(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.write("b.txt", "two\n")
    patch = {"path": "a.txt", "patches": {"operation": "append_eof", "newText": "more\n"}}
    calls = [
        {"method": "patch", "params": patch},
        {"method": "patch_block", "params": {"text": block("a.txt", "more", "less")}},
        {
            "method": "patch_block",
            "params": {"text": block("a.txt", "less", "none") + block("b.txt", "two", "2")},
        },
    ]
    result = site.agent.call("transaction", calls=calls)
    expected = [applied("a.txt", call=1), applied("a.txt", call=2), applied("b.txt", call=2)]
    assert expected == result["result"]
    assert b"one\nnone\n" == site.bytes_of("a.txt")
    assert "result" not in site.agent.call("transaction", calls=calls[:1])


def test_a_refused_call_of_a_transaction_brings_its_result(site: Site) -> None:
    site.write("a.txt", "one\n")
    calls = [
        {"method": "patch_block", "params": {"text": block("a.txt", "one", "1")}},
        {"method": "patch_block", "params": {"text": block("a.txt", "zwei", "2")}},
    ]
    refusal = site.agent.refusal("transaction", calls=calls)
    assert ("old_text_not_found", 1) == (refusal.kind, refusal.failures[0]["call"])
    assert ("a.txt", 1) == (refusal.data["result"]["filepath"], refusal.data["result"]["exitCode"])
    assert b"one\n" == site.bytes_of("a.txt")


def test_what_cannot_be_parsed_is_named_with_its_line(site: Site) -> None:
    for method, params in (
        ("patch_block", {"text": block("a.txt", "one", "1").replace("===REPLACE===\n", "")}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: a\n+x\nno line\n*** End Patch"}),
    ):
        refusal = site.agent.refusal(method, **params)
        assert ("parse_error", refusal.failures[0]["line"]) == (refusal.kind, refusal.data["line"])
        assert refusal.message.startswith(f"line {refusal.data['line']} of ")


def test_a_map_of_blob_ids_guards_every_file(site: Site) -> None:
    site.write("a.txt", "one\n")
    oid = site.agent.call("read", path="a.txt")["oid"]
    site.write("a.txt", "one\nmore\n")
    text = block("a.txt", "one", "1")
    refusal = site.agent.refusal("patch_block", text=text, if_match={"a.txt": oid})
    assert "stale" == refusal.kind
    assert b"one\nmore\n" == site.bytes_of("a.txt")


def test_many_files_in_one_call(site: Site) -> None:
    names = [f"d{n % 7}/f{n}.txt" for n in range(400)]
    for name in names:
        site.write(name, "one\n")
    text = "".join(block(name, "one", "1") for name in names)
    result = site.agent.call("patch_block", text=text)
    assert [applied(name) for name in names] == result["result"]
    assert {b"1\n"} == {site.bytes_of(name) for name in names}
