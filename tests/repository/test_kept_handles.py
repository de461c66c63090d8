"""Handles on histories that are kept between questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from stetd.repository.shadow_repo import create_repository
from stetd.repository.stored_objects import KeptHandles
from stetd.storage.disk import Disk


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made = [str(tmp_path / f"{n}") for n in range(6)]
    for path in made:
        create_repository(path, Disk())
    return made


def test_a_handle_is_used_again_and_by_one_at_a_time(paths: list[str]) -> None:
    kept = KeptHandles()
    with kept.opened(paths[0]) as first, kept.opened(paths[0]) as second:
        assert first is not second
    with kept.opened(paths[0]) as again:
        assert again in (first, second)


def test_what_was_opened_before_is_dropped_also_while_it_is_used(paths: list[str]) -> None:
    kept = KeptHandles()
    with kept.opened(paths[0]) as before:
        kept.drop(paths[0])
    with kept.opened(paths[0]) as after:
        assert after is not before


def test_of_few_histories_some_are_kept_and_none_that_has_failed(paths: list[str]) -> None:
    kept = KeptHandles()
    handles = []
    for path in paths:
        with kept.opened(path) as handle:
            handles.append(handle)
    with kept.opened(paths[-1]) as again:
        assert again is handles[-1]
    with kept.opened(paths[0]) as again:
        assert again is not handles[0]
    with pytest.raises(KeyError), kept.opened(paths[0]) as failed:
        raise KeyError
    with kept.opened(paths[0]) as again:
        assert again is not failed
