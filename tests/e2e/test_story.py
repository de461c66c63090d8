"""A session as a person would see it, on real source files, from hello to the last undo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import BOTH, DaemonProcess, Site
from stet.wire.framing import Encoding

SOURCE = Path(json.__file__).parent
HAND = b"# Read by a person.\n"


@pytest.fixture(params=BOTH, ids=str)
def tree(own_daemon: DaemonProcess, request: pytest.FixtureRequest) -> Site:
    """The standard library's json package, as a workspace."""
    site = own_daemon.site("project", encoding=request.param)
    shutil.copytree(SOURCE, site.root / "json", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def function_of(text: str, name: str) -> str:
    """The source of a function at the top level, up to the next statement there."""
    start = text.index(f"def {name}(")
    end = start + 1
    while (end := text.index("\n", end) + 1) < len(text):
        if text[end] not in " \n":
            break
    return text[start:end]


def test_a_function_moves_while_a_person_edits_and_the_cut_is_taken_back(tree: Site) -> None:
    scanner, decoder = "json/scanner.py", "json/decoder.py"
    original = {path: tree.bytes_of(path) for path in (scanner, decoder)}
    everything = {path: path.read_bytes() for path in tree.root.rglob("*.py")}

    # The agent reads, and cuts a function; what it read must still stand there.
    read = tree.agent.call("read", path=scanner)
    function = function_of(read["text"], "py_make_scanner")
    cut = tree.agent.call(
        "patch",
        path=scanner,
        patches=[{"operation": "replace", "oldText": function, "newText": "", "toClipboard": "f"}],
        if_match=read["oid"],
        message="It belongs to the decoder.",
        request_id="cut",
    )
    assert tree.bytes_of(scanner) == original[scanner].replace(function.encode(), b"")

    # A person writes a comment; the agent pastes into a class, in another file.
    tree.write(scanner, HAND + tree.bytes_of(scanner))
    pasted = tree.agent.call(
        "patch",
        path=decoder,
        patches=[
            {"operation": "append_eof", "newText": "\n\nclass Scanner:\n"},
            {"operation": "append_eof", "fromClipboard": "f", "reindent": {"add": "    "}},
        ],
        request_id="paste",
    )
    indented = "".join(
        f"    {line}" if line.strip() else line for line in function.splitlines(keepends=True)
    )
    assert tree.bytes_of(decoder) == (
        original[decoder] + b"\n\nclass Scanner:\n" + indented.encode()
    )

    # Another agent edits the file that was cut from, so the comment is recorded first.
    other = tree.another("conv-2", agent="other")
    edit = other.call(
        "patch",
        path=scanner,
        patches={"operation": "append_eof", "newText": "# end of scanner\n"},
    )
    by_hand = tree.person.call("show", commit=edit["outside"])
    assert "\n+# Read by a person.\n" in by_hand["diff"]

    # The machine is restarted. The session goes on where it was.
    tree.restart()
    assert tree.agent.call("clipboard_get", name="f")["text"] == function
    again = tree.agent.call(
        "patch",
        path=decoder,
        patches=[
            {"operation": "append_eof", "newText": "\n\nclass Scanner:\n"},
            {"operation": "append_eof", "fromClipboard": "f", "reindent": {"add": "    "}},
        ],
        request_id="paste",
    )
    assert again == {**pasted, "replayed": True}

    # The person takes the cut back, around the comment and the other agent's line.
    preview = tree.person.call("undo", commits=[cut["commit"]], preview=True)
    undo = tree.person.call("undo", commits=[cut["commit"]])
    assert preview["diff"] == undo["diff"]
    assert tree.bytes_of(scanner) == HAND + original[scanner] + b"# end of scanner\n"
    others = {path: path.read_bytes() for path in everything if path.name not in undo_names(undo)}
    changed = {path.name for path, content in others.items() if content != everything[path]}
    assert changed == {"decoder.py"}

    check_the_history(tree, [undo["commit"], edit["commit"], pasted["commit"], cut["commit"]])


def undo_names(undo: dict[str, Any]) -> set[str]:
    return {Path(change["path"]).name for change in undo["files"]}


def check_the_history(tree: Site, edits: list[str]) -> None:
    log = tree.log()
    assert [each["commit"] for each in log if each["kind"] != "outside"] == edits
    assert [(each["kind"], each["agent"], each["session"]) for each in log] == [
        ("undo", "tester", None),
        ("edit", "other", "conv-2"),
        ("outside", None, None),
        ("edit", "tester", "conv-1"),
        ("outside", None, None),
        ("edit", "tester", "conv-1"),
        ("outside", None, None),
    ]
    assert log[5]["reverted_by"] == edits[0]
    assert log[5]["message"].endswith("It belongs to the decoder.")
    for each in log:
        shown = tree.git("show", "--format=", each["commit"])
        assert tree.person.call("show", commit=each["commit"])["diff"] == shown
    assert tree.person.call("diff") == {"diff": "", "files": []}
    assert tree.fsck() == ""


def test_the_same_story_reads_the_same_in_both_encodings(own_daemon: DaemonProcess) -> None:
    replies = []
    for encoding in (Encoding.JSON, Encoding.MSGPACK):
        site = own_daemon.site(f"in-{encoding}", encoding=encoding)
        site.write("a.txt", "one\n\u2028é\n")
        calls: list[tuple[str, dict[str, Any]]] = [
            ("read", {"path": "a.txt"}),
            ("clipboard_set", {"name": "ü", "text": "\x00\x7f"}),
            ("clipboard_list", {}),
            ("clipboard_get", {"name": "ü"}),
            ("mode_get", {}),
            ("tools", {"style": "openai"}),
        ]
        replies.append([site.agent.call(method, **params) for method, params in calls])
    assert replies[0] == replies[1]
