"""``fuzzy`` of ``patch_file``: right or refused, reported, and fast."""

from __future__ import annotations

import pytest

from memory_world import MemoryWorld
from stet.wire.failures import Refused
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan


def plan(data: str, search: str, replace: str, fuzzy: float, *more: dict[str, object]) -> Plan:
    changes = [{"search": search, "replace": replace, "fuzzy": fuzzy}, *more]
    return DIALECTS["patch_file"](
        {"path": "a", "changes": changes}, MemoryWorld({"a": data.encode()})
    )


def patched(data: str, search: str, replace: str, fuzzy: float) -> str:
    after = plan(data, search, replace, fuzzy).files[0].after
    assert after is not None
    return after.decode()


def refused(data: str, search: str, replace: str, fuzzy: float) -> Refused:
    with pytest.raises(Refused) as caught:
        plan(data, search, replace, fuzzy)
    return caught.value


BLOCKS = "".join(
    f"def handle_{name}(request):\n    check(request, '{name}')\n    return {number}\n\n"
    for number, name in enumerate(["open", "close", "delete", "rename", "archive"])
)


def test_a_misspelt_block_is_found_among_others_of_the_same_form() -> None:
    made = plan(
        BLOCKS,
        "def handle_arcive(request):\n    check(request, 'archiv')\n    return 4\n",
        "def handle_archive(request):\n    check(request, 'archive')\n    return 44\n",
        0.8,
    )
    assert BLOCKS.replace("return 4", "return 44") == (made.files[0].after or b"").decode()
    (report,) = made.edits
    assert ("fuzzy", 17, 19) == (report.rung, report.line, report.end_line)
    assert report.score is not None
    assert 0.9 < report.score < 1
    assert f"fuzzy match, score {report.score:.2f}" in made.message


def test_a_block_that_is_not_there_does_not_become_its_neighbour() -> None:
    found = refused(
        BLOCKS,
        "def handle_update(request):\n    check(request, 'update')\n    return 9\n",
        "def handle_update(request):\n    check(request, 'update')\n    return 99\n",
        0.7,
    )
    assert found.kind in ("old_text_not_unique", "old_text_not_found")


def test_a_shifted_window_of_the_same_place_is_no_second_place() -> None:
    data = "alpha()\nbeta()\ngamma()\ndelta()\nepsilon()\n"
    made = patched(data, "betta()\ngamma()\ndellta()\n", "beta()\nGAMMA()\ndelta()\n", 0.8)
    assert "alpha()\nbeta()\nGAMMA()\ndelta()\nepsilon()\n" == made


def test_a_shifted_window_that_fits_as_well_is_one() -> None:
    data = "push(1)\npush(1)\npush(1)\npop()\n"
    found = refused(data, "pusch(1)\npusch(1)\n", "push(2)\n", 0.7)
    assert "old_text_not_unique" == found.kind
    assert [1, 2] == found.failures[0].candidates


def test_a_line_left_out_of_the_text_makes_it_refused() -> None:
    """The window would end a line early, and the last line would be left behind."""
    data = "start()\nconfigure(everything)\nfinish_all_of_it()\n"
    found = refused(data, "strat()\nfinish_all_of_it()\n", "begin()\n", 0.5)
    assert "old_text_not_found" == found.kind


def test_an_insertion_is_made_only_beside_lines_that_are_alike() -> None:
    data = "first_call(argument)\nqqq\nlast_call(argument)\n"
    old = "first_call(argument)\nzqz\nlast_call(argument)\n"
    new = "first_call(argument)\nzqz\nmore()\nlast_call(argument)\n"
    assert "old_text_not_found" == refused(data, old, new, 0.8).kind


def test_a_blank_line_resembles_blank_lines_only() -> None:
    data = "first_call(argument)\nx\nlast_call(argument)\n"
    old = "first_call(argumnet)\n\nlast_call(argument)\n"
    assert "old_text_not_found" == refused(data, old, "y\n", 0.5).kind


def test_new_lines_get_the_indentation_of_the_place_or_the_change_is_refused() -> None:
    data = "\tif a:\n\t\tcall_the_thing(a)\n"
    made = patched(
        data, "if a:\n    call_the_thin(a)\n", "if a:\n    call_the_thing(a)\n    log(a)\n", 0.8
    )
    assert "\tif a:\n\t\tcall_the_thing(a)\n\t\tlog(a)\n" == made
    uneven = "  if a:\n        call_the_thing(a)\n"
    found = refused(uneven, "if a:\n    call_the_thin(a)\n", "if a:\n    log(a)\n", 0.8)
    assert "indentation or line ends of the new text do not fit" in found.message


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("    check(load('a.json'), 1)\n", "    result = load()\n    assert result == 1\n"),
        ("    assert reslt == 1\n", "    assert result == 1\n    assert result is not None\n"),
    ],
    ids=["replaced", "added"],
)
def test_an_edit_that_is_sent_again_changes_no_other_place(search: str, replace: str) -> None:
    """The place is gone, and the most alike is another one, or the one that has the lines."""
    data = (
        "def test_load():\n    result = load()\n    assert result == 1\n"
        "    assert result is not None\n\n"
        "def test_save():\n    check(save('a.json'), 2)\n"
    )
    found = refused(data, search, replace, 0.7)
    assert "old_text_not_found" == found.kind
    assert "the new text stands in the file already" in found.message


@pytest.mark.parametrize(
    ("data", "search", "replace"),
    [
        ("value = first\nother = 2\n", "value = firsst\n", "value = third"),
        ("other = 2\rvalue = first\n", "value = firsst", ""),
    ],
    ids=["the end left out", "of one terminator"],
)
def test_two_lines_do_not_become_one(data: str, search: str, replace: str) -> None:
    assert "old_text_not_found" == refused(data, search, replace, 0.7).kind


def test_a_byte_order_mark_is_not_doubled() -> None:
    bom = "\ufeff"
    made = patched(f"{bom}value = first\n", "value = firsst\n", f"{bom}value = third\n", 0.7)
    assert f"{bom}value = third\n" == made


def test_terminators_and_the_missing_final_newline_are_kept() -> None:
    data = "one = compute()\r\ntwo = compute()"
    made = patched(data, "one = comptue()\ntwo = compute()\n", "one = 1\ntwo = compute()\n", 0.7)
    assert "one = 1\r\ntwo = compute()" == made


def test_white_space_alone_resembles_nothing() -> None:
    assert "old_text_not_found" == refused("a\n\nb\n", " \n\n\n", "x", 0.5).kind


def test_bytes_that_are_not_utf_8_are_not_replaced() -> None:
    world = MemoryWorld({"a": b"name = 'caf\xe9 noir'\n"})
    change = {"search": "name = 'cafe noir'", "replace": "name = 'x'", "fuzzy": 0.8}
    with pytest.raises(Refused) as caught:
        DIALECTS["patch_file"]({"path": "a", "changes": [change]}, world)
    assert "not_text" == caught.value.kind


@pytest.mark.parametrize(
    "data",
    [
        "".join(f"    value_{n} = compute({n}, other[{n % 97}])\n" for n in range(100_000)),
        "    return None\n" * 100_000,
        "".join(f"{n * 7919:x}\n" for n in range(100_000)),
    ],
    ids=["alike", "equal", "different"],
)
def test_a_file_of_100_000_lines_is_answered(data: str) -> None:
    """By comparing every pair of lines it would take hours, and pytest's timeout would end it."""
    for search in ("    valeu_5000 = conpute(5000)\n", "    returm Nome\n" * 50):
        with pytest.raises(Refused):
            plan(data, search, "x\n", 0.75)
