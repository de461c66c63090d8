"""One zygote for all crash tests of a module, fresh directories for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from recovery.crashes import Place, Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    forker = Zygote()
    yield forker
    forker.close()


@pytest.fixture
def new_place(zygote: Zygote) -> Iterator[Callable[[Mapping[str, str]], Place]]:
    places: list[Place] = []

    def make(files: Mapping[str, str]) -> Place:
        places.append(Place(zygote, files))
        return places[-1]

    yield make
    for place in places:
        place.close()
