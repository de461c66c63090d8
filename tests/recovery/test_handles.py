"""However calls end, their directory handles are given back."""

from __future__ import annotations

from collections.abc import Callable

from recovery.crashes import Place
from recovery.scenarios import FIRST_FILES


def test_no_handle_is_left_open_by_any_outcome(new_place: Callable[..., Place]) -> None:
    place = new_place(FIRST_FILES)
    place.configure(grace_s=0, max_clipboard_bytes=3)
    assert place.run("many_outcomes") == 0
    kinds = {line["answer"].get("refused", "done") for line in place.lines("acks")}
    assert {"done", "old_text_not_found", "stale", "path_protected", "input_too_large"} <= kinds
    handles = place.lines("handles")
    assert len(set(handles)) == 1, handles
