"""What an undo says of the commits that it takes back, and the modes that files come back with."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from stetd.historian.undo.reverting import Permissions, listed
from stetd.history.commits import CommitMeta
from stetd.history.file_undoing import Version
from stetd.history.objects import LINK
from stetd.storage.worktree import OnDisk
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


def test_a_link_comes_back_as_one_though_the_file_in_its_place_got_other_permissions() -> None:
    permissions = Permissions()
    changed = CommitMeta(kind="edit", time=0, subject="", regraded=(("a", 0o600, 0o644),))
    permissions.take_back(changed, lambda path: path)
    found = OnDisk(b"a file", stat.S_IFREG | 0o644, 1, 6, (0, 0), 0, 0, "")
    mode = permissions.mode_of("a", Version(b"target", LINK), found)
    assert mode == stat.S_IFLNK | 0o777
