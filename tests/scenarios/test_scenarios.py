"""Every scenario, as a pure plan, in process, and over the socket in both encodings."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.scenario import Malformed, dialects, folders, load
from scenarios.ways import PurePlan, Way, check
from stetd.editing.dialects import DIALECTS

ALL = [folder for dialect in dialects() for folder in folders(dialect)]
WAYS = ("pure", "in_process", "json_socket", "msgpack_socket")
#: How many scenarios a dialect has at least.
LEAST = {"apply_patch": 60, "patch": 40, "patch_block": 25, "patch_file": 30}


@pytest.fixture
def pure() -> PurePlan:
    return PurePlan()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("folder", ALL, ids=[f"{each.parent.name}/{each.name}" for each in ALL])
def test_scenario(folder: Path, way: str, request: pytest.FixtureRequest) -> None:
    scenario = load(folder)
    if way == "pure" and scenario.dialect not in DIALECTS:
        pytest.skip("a transaction has no plan of its own")
    driver: Way = request.getfixturevalue(way)
    check(driver.run(scenario))


@pytest.mark.parametrize("dialect", sorted({*LEAST, *dialects()}))
def test_there_are_enough_scenarios_and_none_has_anothers_number(dialect: str) -> None:
    numbers = [folder.name.partition("_")[0] for folder in folders(dialect)]
    assert sorted(set(numbers)) == sorted(numbers)
    assert len(numbers) >= LEAST.get(dialect, 0)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"call.json": '{"path": "a"}'}, "it needs either error.json, or after and reply.json"),
        (
            {"call.json": '{"path": "a"}', "after/a": "", "error.json": "{}"},
            "it needs either error.json, or after and reply.json",
        ),
        ({"call.json": '{"path": "a"}', "after/a": "", "note.txt": ""}, "unknown members"),
        ({"after/a": ""}, "there is no call"),
        ({"call.json": '{"path": "a"}', "reply.json": '{"mesage": ""}'}, "unknown members"),
        ({"call.json": '{"path": "a"}', "error.json": '{"kind": "no_change"}'}, "needs kind and"),
        ({"call.txt": "a", "after/a": ""}, "call.txt is for dialects that are text"),
        ({"call.json": "{", "after/a": ""}, "call.json"),
    ],
)
def test_a_folder_that_is_no_scenario_is_an_error(
    files: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "patch" / "001_something"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(Malformed, match=complaint):
        load(folder)
