"""What a page of an export costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from stetd.historian.index.history_index import CommitFilter
from stetd.historian.queries import export
from stetd.historian.queries.export import exported
from stetd.history.commits import CommitMeta
from stetd.parameters import Export
from stetd.state.read_view import ReadView
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree
from storage.histories import Histories


@pytest.fixture
def view(tmp_path: Path) -> Iterator[ReadView]:
    histories = Histories(tmp_path)
    for n in range(501):
        histories.commit({"a": f"{n}\n"})
    worktree = Worktree(str(tmp_path), Disk())
    yield ReadView(worktree, histories.path, histories.oids[-1], "", 1 << 20)
    worktree.close()


def test_a_page_of_json_lines_does_not_look_at_all_commits_again(
    view: ReadView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stet report` over 5,000 commits computed for 14 s, four times that over 10,000."""
    looked_at: list[CommitMeta] = []
    matches = CommitFilter.matches

    def counting(self: CommitFilter, meta: CommitMeta) -> bool:
        looked_at.append(meta)
        return matches(self, meta)

    monkeypatch.setattr(CommitFilter, "matches", counting)
    commits, pages, cursor = 0, 0, None
    while cursor is not None or not pages:
        page = exported(view, Export(format="jsonl", limit=100, cursor=cursor))
        commits, pages, cursor = commits + page.commits, pages + 1, page.cursor
    assert (commits, pages) == (501, 6)
    assert len(looked_at) <= commits + pages


def test_a_page_of_patches_has_many_commits_since_each_page_walks_them_all(view: ReadView) -> None:
    page = exported(view, Export())
    assert (page.commits, page.cursor) == (501, None)


@pytest.mark.parametrize("format_", ["mbox", "jsonl"])
def test_a_page_that_takes_long_ends(
    view: ReadView, format_: Literal["mbox", "jsonl"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5,000 edits of a file of 5 MB a client would wait for minutes, and give up."""
    asked = Export(format=format_, from_="HEAD~3")
    whole = exported(view, asked)
    monkeypatch.setattr(export, "_PAGE_S", -1.0)
    pages = [exported(view, asked)]
    while pages[-1].cursor is not None:
        pages.append(exported(view, replace(asked, cursor=pages[-1].cursor)))
    assert [page.commits for page in pages] == [1, 1, 1]
    assert "".join(page.content for page in pages) == whole.content
