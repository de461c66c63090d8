"""Pages of the log, without a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stet.wire.results import LogResult
from stetd.historian.queries import log as history_reading
from stetd.parameters import Log
from stetd.state.read_view import ReadView
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree
from storage.histories import Histories


@pytest.fixture
def worktree(tmp_path: Path) -> Iterator[Worktree]:
    opened = Worktree(str(tmp_path), Disk())
    yield opened
    opened.close()


def pages_of(view: ReadView, text: str | None = None) -> list[LogResult]:
    pages: list[LogResult] = []
    while not pages or pages[-1].cursor is not None:
        cursor = pages[-1].cursor if pages else None
        pages.append(history_reading.log(view, Log(cursor=cursor, text=text)))
        assert len(pages) < 20, "a cursor that leads nowhere"
    return pages


def test_a_search_that_looks_into_commits_goes_on_where_it_ended(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_reading, "_MAX_SEARCHED", 3)
    histories = Histories(tmp_path)
    for number in range(10):
        histories.commit({"a": "here\n" if number in (1, 8) else f"{number}\n"})
    oids = histories.oids
    view = ReadView(worktree, histories.path, oids[-1], "", 1 << 20)
    pages = [
        ([each.commit for each in page.commits], page.cursor) for page in pages_of(view, text="he")
    ]
    # The line is added by one commit, and removed by the next.
    assert [
        ([oids[9], oids[8]], oids[7]),
        ([], oids[4]),
        ([oids[2], oids[1]], oids[1]),
        ([], None),
    ] == pages


def test_a_page_ends_when_its_commits_name_very_many_files_and_tells_each_whole(
    tmp_path: Path, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_reading, "_MAX_FILES", 5)
    histories = Histories(tmp_path)
    for number, files in enumerate([1, 9, 2, 2, 2, 7]):
        histories.commit({f"{n}": f"{number}\n" for n in range(files)})
    view = ReadView(worktree, histories.path, histories.oids[-1], "", 1 << 20)
    pages = [[(each.commit, len(each.files)) for each in page.commits] for page in pages_of(view)]
    told = dict(zip(histories.oids, [1, 9, 2, 2, 2, 7], strict=True))
    newest_first = [(oid, told[oid]) for oid in reversed(histories.oids)]
    assert [newest_first[:1], newest_first[1:4], newest_first[4:5], newest_first[5:]] == pages
