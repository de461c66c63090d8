"""How many calls share one sync of the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from recovery.scenarios import Json, at_once, opened
from stetd.engine import writer
from stetd.storage.journal import Journal

CALLS = 5


def syncs_of_calls_at_once(base: Path) -> int:
    """How many syncs calls need that wait together."""

    def edit(number: int) -> tuple[str, Json]:
        patches = [{"operation": "append_eof", "newText": "x\n"}]
        return "patch", {"path": f"{number}.txt", "patches": patches}

    async def main() -> int:
        async with opened(str(base)) as agent:
            before = len(counted)
            await at_once(agent, [edit(number) for number in range(CALLS)])
            found = len(counted) - before
            texts = [(base / "ws" / f"{number}.txt").read_text() for number in range(CALLS)]
            assert ["a\nx\n"] * CALLS == texts
            return found

    def counting(journal: Journal) -> None:
        counted.append(None)
        sync(journal)

    counted: list[None] = []
    sync = Journal.sync
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "sync", counting)
        return asyncio.run(main())


@pytest.mark.parametrize(
    ("sync_s", "longest", "expected"), [(0.0, 60.0, CALLS), (30.0, 60.0, 1), (30.0, 0.0, CALLS)]
)
def test_calls_share_a_sync_that_takes_long(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sync_s: float,
    longest: float,
    expected: int,
) -> None:
    """A turn has time for a single call here, unless syncs take long."""
    (tmp_path / "ws").mkdir()
    for number in range(CALLS):
        (tmp_path / "ws" / f"{number}.txt").write_text("a\n")
    monkeypatch.setattr(writer, "TURN_S", 0.0)
    monkeypatch.setattr(writer, "LONGEST_TURN_S", longest)
    monkeypatch.setattr(Journal, "sync_s", sync_s)
    assert syncs_of_calls_at_once(tmp_path) == expected
