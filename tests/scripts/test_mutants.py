"""Each mutant still has a place in the sources, and rigs to be tried on."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def test_the_text_that_a_mutant_changes_stands_once_and_its_rigs_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts"))
    mutants = importlib.import_module("mutants").MUTANTS
    places = {
        mutant.name: (CHECKOUT / "daemon/stetd" / mutant.file).read_text().count(mutant.old)
        for mutant in mutants
    }
    assert places == {mutant.name: 1 for mutant in mutants}
    rigs = {rig.partition("::")[0] for mutant in mutants for rig in mutant.rigs}
    assert {rig for rig in rigs if not (CHECKOUT / rig).exists()} == set()
