"""What fuzzing has found, as tests that need no fuzzer."""

from __future__ import annotations

import json

import pytest

from stet.wire.failures import Refused
from stet.wire.framing import Encoding
from stet.wire.messages import encode_error
from stetd.editing.dialects import DIALECTS
from stetd.editing.matching.locating import explained_miss
from stetd.editing.refusals import Subject
from stetd.editing.text import Document
from stetd.editing.tools.inputs import PatchInput
from stetd.editing.tools.validation import validated
from tree_world import Tree, TreeWorld


def test_a_refusal_that_repeats_half_a_surrogate_pair_can_be_sent() -> None:
    """Such halves come in JSON within JSON, where nothing on the wire refuses them."""
    patches = json.dumps([{"operation": {"\ud800": 1}, "\udc80": 2}])
    with pytest.raises(Refused) as caught:
        validated(PatchInput, {"path": "a.txt", "patches": patches}, noun="patch")
    assert "received an object with \\ud800." in caught.value.message
    data = {"failures": caught.value.failures}
    for encoding in (Encoding.JSON, Encoding.MSGPACK):
        assert encode_error(encoding, 1, -32602, caught.value.message, data)


def test_surroundings_that_are_not_utf_8_are_shown_so_that_the_reply_can_be_sent() -> None:
    world = TreeWorld(Tree({"a.txt": b"caf\xe9\none\n"}))
    change = {"search": "one", "replace": "two"}
    plan = DIALECTS["patch_file"]({"path": "a.txt", "changes": [change], "context": 1}, world)
    assert "1| caf\ufffd\n" in plan.message
    assert b"caf\xe9\ntwo\n" == plan.files[0].after


def test_bytes_that_are_not_utf_8_elsewhere_are_not_in_the_way_of_a_text() -> None:
    """A dialect may have refused a text that stands there, where it may not stand."""
    document = Document.from_bytes(b"caf\xe9\none\n")
    miss = explained_miss(Subject("hunk", 0, "a.txt"), document, "one\n", "", explain=True)
    assert "old_text_not_found" == miss.kind


def test_a_passage_that_is_found_by_likeness_can_be_removed() -> None:
    world = TreeWorld(Tree({"a.txt": b"caf\xc3\xa9 au lait\none\n"}))
    change = {"search": "cafe a lait\n", "replace": "", "fuzzy": 0.8}
    plan = DIALECTS["patch_file"]({"path": "a.txt", "changes": [change]}, world)
    assert b"one\n" == plan.files[0].after
