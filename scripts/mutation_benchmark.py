"""Hunks of real packages, spoilt on purpose, in every dialect; see scripts/mutations.

Exit status 0 if no answer was wrong, else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from mutations.catalogue import ALL
from mutations.judging import Verdict, cases, judge, without
from mutations.tables import Figures, as_json, as_markdown, as_text
from stetd.editing.matching.rungs import Rung

#: Hunks a mistake; in four dialects some ten thousand cases.
DRAWS = 30


def measure(draws: int, seed: int, mistakes: list[str], tell: Callable[[str], object]) -> Figures:
    """Judge every case, and what each right answer hangs on."""
    figures = Figures(seed)
    for mistake in mistakes:
        tell(mistake)
        for case in cases(draws, seed, [mistake]):
            judged = judge(case)
            rung = judged.answer.rung
            alone = False
            if judged.verdict is Verdict.RIGHT and rung != Rung.EXACT.value:
                with without(Rung(rung)):
                    alone = judge(case).verdict is not Verdict.RIGHT
            figures.add(judged, alone=alone)
    return figures


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/mutation_benchmark")
    parser.add_argument("--draws", type=int, default=DRAWS, help="hunks for each mistake")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mistake", action="append", choices=list(ALL), help="only this one")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", dest="show", const=as_json)
    form.add_argument("--markdown", action="store_const", dest="show", const=as_markdown)
    parser.set_defaults(show=as_text)
    options = parser.parse_args()
    shows_progress = sys.stderr.isatty()

    def tell(mistake: str) -> None:
        if shows_progress:
            print(f"\r\x1b[K{mistake}", end="", file=sys.stderr, flush=True)

    figures = measure(options.draws, options.seed, options.mistake or list(ALL), tell)
    if shows_progress:
        print("\r\x1b[K", end="", file=sys.stderr)
    print(options.show(figures))
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
