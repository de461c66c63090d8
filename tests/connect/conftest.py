"""A person for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.person import Person, make_person


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    return make_person(tmp_path, monkeypatch)
