"""Compares ``apply_patch`` with Codex's own, over generated patches on real files.

    .venv/bin/python scripts/codex_differential.py [BINARY] [--patches N] [--seed S] [--first N]
                                                            [--show NUMBER]

BINARY is Codex's native program, as the npm package ``@openai/codex`` brings it (below
``vendor/*/bin/codex`` of the package for the platform); it is started under the name
``apply_patch``. Install it anywhere but into this checkout. No part of CI.

Each patch is carried out by both, and all files are compared byte for byte. A difference is
explained by drawing the patch again without one of its traits: where both then agree, that trait
was the cause, and there must be a rule of docs/dialects.md behind it (``differential.rules``).
What is not explained, and what ours did that was not meant, is listed; then the exit status is 1.

The same patches are then carried out with ``ambiguous: "first"``, which is Codex's way with
several places. ``--show`` tells all about one patch. Without BINARY ours is asked alone, and
compared with what was meant.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections import Counter
from collections.abc import Sequence

from differential.cases import Tree
from differential.engines import Codex, ours
from differential.explaining import Compared, Verdict, compare, judge, rule_of
from differential.rules import ALL_OR_NOTHING, RULES

_WRONG = (Verdict.WRONG_TEXT, Verdict.WRONG_BYTES, Verdict.HALF)


def main() -> int:
    """Run, print, and say whether all is explained and nothing wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("binary", nargs="?", help="Codex's native program; without: ours alone")
    parser.add_argument("--patches", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="one patch, in full")
    given = parser.parse_args()
    os.umask(0o022)  # so that new files have the same permissions everywhere
    codex = Codex(given.binary) if given.binary else ours
    try:
        if given.show is not None:
            _show(compare(f"{given.seed}:{given.show}", codex))
            return 0
        seeds = [f"{given.seed}:{given.first + number}" for number in range(given.patches)]
        strict = [compare(seed, codex) for seed in seeds]
        first = [compare(seed, codex, ambiguous="first") for seed in seeds if given.binary]
    finally:
        if isinstance(codex, Codex):
            codex.close()
    if given.binary:
        _table("as it is", strict)
        _table('with ambiguous: "first"', first)
    _verdicts(strict, alone=not given.binary)
    return _faults(strict, first)


def _faults(strict: Sequence[Compared], first: Sequence[Compared]) -> int:
    """List what is wrong or not explained; 1 if there is any."""
    wrong = [each for each in strict if judge(each.case, each.ours) in _WRONG]
    unexplained = [each for each in [*strict, *first] if not each.same and not each.causes]
    for each in wrong:
        print(f"WRONG: {each.case.seed} {sorted(each.case.traits)}")
    for each in unexplained:
        print(f"UNEXPLAINED: {each.case.seed} {sorted(each.case.traits)} {each.ours.reason[:200]}")
    return 1 if wrong or unexplained else 0


def _table(title: str, all_compared: Sequence[Compared]) -> None:
    same = [each for each in all_compared if each.same]
    both = sum(each.ours.done for each in same)
    print(f"\n{title}")
    _line(len(all_compared), "patches")
    _line(len(same), f"the same ({both} carried out, {len(same) - both} refused by both)")
    plain = [each for each in all_compared if not each.case.traits & RULES.keys()]
    _line(len(plain), f"of them plain, {sum(each.same for each in plain)} of these the same")
    different = [each for each in all_compared if not each.same]
    explained = [each for each in different if each.causes]
    _line(
        len(different),
        f"differences, {sum(len(each.causes) > 1 for each in explained)} of them by several rules",
    )
    rules = Counter(cause for each in explained for cause in each.causes)
    for cause, count in rules.most_common():
        _line(count, f"  {_told(cause)}")
    _line(len(different) - len(explained), "unexplained")


def _told(cause: str) -> str:
    return cause if cause == ALL_OR_NOTHING else rule_of(cause).text


def _line(count: int, what: str) -> None:
    print(f"{count:6}  {what}")


def _verdicts(all_compared: Sequence[Compared], *, alone: bool) -> None:
    mine = Counter(judge(each.case, each.ours) for each in all_compared)
    theirs = Counter(judge(each.case, each.theirs) for each in all_compared)
    print(f"\n{'against what was meant':<56} {'ours':>6}" + ("" if alone else f" {'Codex':>7}"))
    for verdict in Verdict:
        other = "" if alone else f" {theirs[verdict]:>7}"
        print(f"  {verdict.value:<54} {mine[verdict]:>6}{other}")
    otherwise = (each for each in all_compared if judge(each.case, each.ours) is Verdict.OTHERWISE)
    for doubt, count in Counter(each.case.doubt for each in otherwise).most_common():
        print(f"{count:>10}  {doubt}")


def _show(found: Compared) -> None:
    case = found.case
    print(case.patch, end="\n\n")
    print("traits:", *sorted(case.traits), *([f"({case.doubt})"] if case.doubt else []))
    print("same" if found.same else f"differ: {' + '.join(map(_told, found.causes))}")
    for name, outcome in (("ours", found.ours), ("Codex", found.theirs)):
        print(f"\n{name}: {judge(case, outcome).value}: {outcome.reason}")
        _differences(case.meant if outcome.done else case.before, outcome.tree)


def _differences(expected: Tree, found: Tree) -> None:
    for path in sorted({*expected, *found}):
        old, new = expected.get(path), found.get(path)
        if old != new:
            print(f"  {path}: mode {old and oct(old[1])}, {new and oct(new[1])}")
            was, now = ([repr(line) for line in _data(each).split(b"\n")] for each in (old, new))
            for line in difflib.unified_diff(was, now, "expected", "found", lineterm="", n=2):
                print("   ", line)


def _data(entry: tuple[bytes, int] | None) -> bytes:
    return entry[0] if entry else b""


if __name__ == "__main__":
    sys.exit(main())
