"""Pages of the log, without a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stetd import history_reading
from stetd.params import Log
from stetd.reading import Place
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree
from storage.histories import Histories


@pytest.fixture
def worktree(tmp_path: Path) -> Iterator[Worktree]:
    opened = Worktree(str(tmp_path), Disk())
    yield opened
    opened.close()


def test_a_page_ends_when_its_commits_name_very_many_files_and_tells_each_whole(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_reading, "_MOST_FILES", 5)
    histories = Histories(tmp_path)
    for number, files in enumerate([1, 9, 2, 2, 2, 7]):
        histories.commit({f"{n}": f"{number}\n" for n in range(files)})
    place = Place(worktree, histories.path, histories.oids[-1], "", 1 << 20)
    pages = []
    cursor = None
    while True:
        page = history_reading.log(place, Log(cursor=cursor))
        pages.append([(each.commit, len(each.files)) for each in page.commits])
        cursor = page.cursor
        if cursor is None:
            break
    told = dict(zip(histories.oids, [1, 9, 2, 2, 2, 7], strict=True))
    newest_first = [(oid, told[oid]) for oid in reversed(histories.oids)]
    assert [newest_first[:1], newest_first[1:4], newest_first[4:5], newest_first[5:]] == pages
