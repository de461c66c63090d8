"""What the historian proposes is published only onto the files that it was made from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.running_daemon import Refusal, Site, running

BEFORE = [f"line {n}\n" for n in range(30)]


@pytest.fixture
def site() -> Iterator[Site]:
    """A second passes between an undo that was planned and its answer."""
    with running(STET_FAILPOINT="historian.proposed:*@sleep") as daemon:
        yield daemon.site("w")


def saved_by_a_person(site: Site) -> None:
    site.write("a.txt", (site.root / "a.txt").read_text() + "by a person\n")


def edited_by_another(site: Site) -> None:
    patches = [{"operation": "append_eof", "newText": "by a person\n"}]
    site.another("conv-2").call("patch", path="a.txt", patches=patches)


@pytest.mark.parametrize("change", [saved_by_a_person, edited_by_another])
def test_a_file_that_changed_meanwhile_is_merged_with_again(
    site: Site, change: Callable[[Site], None]
) -> None:
    site.write("a.txt", "".join(BEFORE))
    site.replace("a.txt", "line 3\n", "changed\n")
    undone: list[dict[str, Any]] = []
    undoing = threading.Thread(target=lambda: undone.append(site.agent.call("undo")))
    undoing.start()
    time.sleep(0.5)
    change(site)
    undoing.join()
    assert undone[0]["commit"]
    assert (site.root / "a.txt").read_text() == "".join([*BEFORE, "by a person\n"])
    # What is in the history is what was published, and no more than the edit was taken back.
    shown = site.person.call("show", commit=undone[0]["commit"])
    assert [line for line in shown["diff"].splitlines() if line[:1] in "+-"][2:] == [
        "-changed",
        "+line 3",
    ]


def test_what_took_a_files_place_meanwhile_is_a_conflict_as_if_it_had_been_there(
    site: Site,
) -> None:
    site.write("a.txt", "".join(BEFORE))
    site.replace("a.txt", "line 3\n", "changed\n")
    refused: list[Refusal] = []
    undoing = threading.Thread(target=lambda: refused.append(site.agent.refusal("undo")))
    undoing.start()
    time.sleep(0.5)
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").mkdir()
    undoing.join()
    assert refused[0].kind == "conflict"
    assert refused[0].message == site.agent.refusal("undo").message
