"""Where paths lead by tables of mounts, as cases: what is mounted, and where the path is then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stetd.server.peer import MAX_MOUNTS, Mount, locate, parse_mounts


def table(*lines: str) -> bytes:
    """Lines of ``ID PARENT DEVICE ROOT POINT``, with the rest as the kernel has it."""
    ends = ["rw,relatime shared:1 master:2 - ext4 /dev/disk rw", "ro - tmpfs  rw"]
    return "".join(
        f"{line} {ends[number % len(ends)]}\n" for number, line in enumerate(lines)
    ).encode()


CASES = {
    "on the root's file system": (["1 0 8:1 / /"], "/h/w", "8:1 /h/w"),
    "a root that is its own parent": (["1 1 8:1 / /"], "/h/w", "8:1 /h/w"),
    "on a disk of its own": (["1 0 8:1 / /", "2 1 8:2 / /h"], "/h/w", "8:2 /w"),
    "the mount point itself": (["1 0 8:1 / /", "2 1 8:2 / /h/w"], "/h/w", "8:2 /"),
    "a subvolume": (["1 0 0:9 /@ /", "2 1 0:9 /@home /h"], "/h/w", "0:9 /@home/w"),
    "a part is mounted": (["1 0 8:1 / /", "2 1 8:1 /srv/x /h"], "/h/w/d", "8:1 /srv/x/w/d"),
    "a root that is a part": (["1 0 8:1 /sandbox /"], "/h/w", "8:1 /sandbox/h/w"),
    "a name that only begins alike": (["1 0 8:1 / /", "2 1 8:2 / /h/w"], "/h/wo", "8:1 /h/wo"),
    "mounted below": (["1 0 8:1 / /", "2 1 8:2 / /h/w/d"], "/h/w", "8:1 /h/w"),
    "covered at the same point": (
        ["1 0 8:1 / /", "3 2 0:5 / /h/w", "2 1 8:1 /h/w /h/w"], "/h/w", "0:5 /",
    ),
    "covered three times": (
        ["1 0 8:1 / /", "4 3 0:6 / /h", "2 1 8:2 / /h", "3 2 0:5 / /h"], "/h/w", "0:6 /w",
    ),
    "covered further up, later": (
        ["1 0 8:1 / /", "2 1 8:2 / /h/w", "3 1 0:5 / /h"], "/h/w", "0:5 /w",
    ),
    "a mount on what covers": (
        ["1 0 8:1 / /", "2 1 8:2 / /h/w", "3 1 0:5 / /h", "4 3 8:1 /o /h/w"], "/h/w", "8:1 /o",
    ),
    "the root is covered, after it was entered": (
        ["1 0 8:1 / /", "2 1 8:2 / /", "3 2 8:3 / /h"], "/h/w", "8:1 /h/w",
    ),
    "spaces, newlines, backslashes, commas": (
        ["1 0 8:1 / /", r"2 1 8:1 /s\040-\040t /h/a\040-\040b\011\012\134\043,c"],
        "/h/a - b\t\n\\#,c/w", "8:1 /s - t/w",
    ),
    "digits after a backslash of the name": (
        ["1 0 8:1 / /", r"2 1 8:1 /x /h/\134040"], "/h/\\040/w", "8:1 /x/w",
    ),
    "a carriage return in a name": (
        ["1 0 8:1 / /", "2 1 8:1 /x\r3\u00a01\u2028 /h/y\r"], "/h/y\r/w",
        "8:1 /x\r3\u00a01\u2028/w",
    ),
    "what is mounted was removed": (["1 0 8:1 / /", "2 1 8:1 /w//deleted /h/w"], "/h/w", None),
    "no directory is mounted": (["1 0 8:1 / /", "2 1 0:4 mnt:[40265] /h/w"], "/h/w", None),
    "the root is no mount": (["2 1 8:1 /h/w /h/w"], "/h/w", None),
    "two roots": (["1 0 8:1 / /", "3 9 8:2 / /"], "/h/w", None),
    "two on the same": (["1 0 8:1 / /", "2 1 8:2 / /h", "3 1 8:3 / /h"], "/h/w", None),
    "in a circle": (["1 0 8:1 / /", "2 3 8:2 / /h", "3 2 8:3 / /h"], "/h/w", "8:1 /h/w"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_path_leads_where_the_kernel_would_go(case: str) -> None:
    lines, path, expected = CASES[case]
    found = locate(parse_mounts(table(*lines)), os.fsencode(path))
    told = None if found is None else os.fsdecode(found[1].device + b" " + found[0])
    assert expected == told


@pytest.mark.parametrize("line", ["", "1 0 8:1 / /", "x 0 8:1 / / rw - t", "1 0 8:1 / / rw -"])
def test_lines_that_are_none_are_refused(line: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_mounts(f"{line}\n".encode())


def test_two_mounts_of_one_number_are_refused() -> None:
    with pytest.raises(ValueError, match="of one number"):
        parse_mounts(table("1 0 8:1 / /", "1 0 8:2 / /h"))


def test_the_table_of_this_process_is_understood(tmp_path: Path) -> None:
    found = locate(parse_mounts(Path("/proc/self/mountinfo").read_bytes()), os.fsencode(tmp_path))
    assert found is not None
    assert os.fsencode(tmp_path).endswith(found[0].rpartition(b"/")[2])


class Counted(list[Mount]):
    """A table that counts how many of its mounts were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Mount]:
        for mount in super().__iter__():
            self.looked_at += 1
            yield mount


STACKS = {
    "each on the one before": lambda n: f"{n} {n - 1} 8:1 /h /h",
    "each within the one before": lambda n: f"{n} {n - 1} 8:1 /{n} /{'h/' * n}h",
    "all on the first": lambda n: f"{n} 1 8:1 /{n} /h/{n}",
}


@pytest.mark.parametrize("stack", STACKS)
def test_each_mount_is_looked_at_a_few_times_however_they_are_stacked(stack: str) -> None:
    """Who makes a namespace may mount as much as it likes on the way to a workspace."""
    lines = ["1 0 8:1 / /", *(STACKS[stack](n) for n in range(2, 501))]
    stacked = Counted(parse_mounts(table(*lines)))
    assert locate(stacked, b"/h" * 600) is not None
    assert 500 <= stacked.looked_at <= 5 * 500


@pytest.mark.parametrize(("point", "size"), [("/h", MAX_MOUNTS), ("/h" * 1500, 1360)])
def test_tables_that_are_too_large_are_refused(point: str, size: int) -> None:
    lines = ["1 0 8:1 / /", *(f"{n} {n - 1} 8:1 / {point}" for n in range(2, size + 1))]
    whole = table(*lines)
    assert size == len(parse_mounts(whole))
    with pytest.raises(ValueError, match="too many mounts"):
        parse_mounts(whole + table(f"{size + 1} {size} 8:1 / {'/h' * 32000}"))
