"""How a file that the history does not keep is listed: named, and without counts."""

from __future__ import annotations

from stet.terminal.log_lines import counts, file_line
from stet.wire.results import FileChange

KEPT = FileChange("a.txt", "M", "1" * 40, "2" * 40, 2, 1)
EXCLUDED = FileChange(".env", "M", None, None, 0, 0, excluded=True)


def test_an_excluded_file_is_named_and_marked() -> None:
    assert "".join(span.text for span in file_line(EXCLUDED)) == "M .env  excluded"
    assert "".join(span.text for span in file_line(KEPT)) == "M a.txt  +2 -1"


def test_counts_are_those_of_the_others() -> None:
    assert [span.text for span in counts([EXCLUDED])] == ["excluded"]
    assert [span.text for span in counts([EXCLUDED, KEPT])] == ["+2", " ", "-1"]
    assert list(counts([])) == []
