"""What an undo says of the commits that it takes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from stetd.historian.undo.undo import listed
from storage.histories import Histories


@pytest.mark.parametrize(("count", "last"), [(50, "subject 50"), (51, "and 1 more")])
def test_the_first_commits_are_named_and_the_others_counted(
    tmp_path: Path, count: int, last: str
) -> None:
    histories = Histories(tmp_path)
    oids = [histories.commit({"a": f"{number}\n"}) for number in range(count)]
    lines = listed("Undone", [histories.repository.commit(oid) for oid in oids]).splitlines()
    assert lines[0] == "Undone:"
    assert len(lines) == 1 + count
    assert lines[-1].endswith(last)
