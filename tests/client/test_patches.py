"""The patch builders give exactly the objects of docs/dialects.md."""

from __future__ import annotations

import stet


def test_replace_with_everything() -> None:
    expected = {
        "operation": "replace",
        "oldText": "a",
        "newText": "b",
        "toClipboard": "c",
        "fromClipboard": "d",
        "reindent": {"strip": "\t", "add": "  "},
    }
    assert expected == stet.replace(
        "a", "b", to_clipboard="c", from_clipboard="d", reindent={"strip": "\t", "add": "  "}
    )


def test_replace_without_new_text_deletes() -> None:
    assert stet.replace("a") == {"operation": "replace", "oldText": "a", "newText": ""}


def test_a_clipboard_stands_instead_of_new_text() -> None:
    expected = {"operation": "replace", "oldText": "a", "fromClipboard": "c"}
    assert stet.replace("a", from_clipboard="c") == expected


def test_the_other_operations() -> None:
    assert stet.append_eof("x") == {"operation": "append_eof", "newText": "x"}
    assert stet.prepend_bof("x") == {"operation": "prepend_bof", "newText": "x"}
    assert stet.overwrite("") == {"operation": "overwrite", "newText": ""}
    assert stet.append_eof(from_clipboard="c", reindent={"add": " "}) == {
        "operation": "append_eof",
        "fromClipboard": "c",
        "reindent": {"add": " "},
    }
