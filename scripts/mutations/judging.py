"""Right, refused or wrong, judged on the whole bytes of the file; and what rungs earn.

*Right* is the file as the edit meant it, byte for byte. *Refused* leaves it alone. All else is
*wrong*. One thing is no case at all and is left out: a spoilt text that happens to stand in the
file character for character (terminators aside), once. Then it is exact, and the answer must be
exactly the replacement of that text, which is checked; what somebody may have meant besides,
nobody can tell.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from mutations.catalogue import ALL
from mutations.drafts import ADDED, GONE, KEPT, Draft, Line, drawn
from mutations.mistakes import runs
from mutations.sending import IN_LINES, Answer, ask, can_send, dialects, texts
from mutations.sources import sources
from stetd.editing.matching import ladder as matching
from stetd.editing.matching import rungs
from stetd.editing.matching.rungs import Found, Run, Rung
from stetd.editing.text import Document, with_newlines
from stetd.editing.typography import folded_text


class Verdict(StrEnum):
    """What an answer was."""

    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class Case:
    """A spoilt hunk, sent in one dialect. ``seed`` makes it again."""

    mistake: str
    seed: str
    dialect: str
    draft: Draft


@dataclass(frozen=True)
class Judged:
    """A case and what became of it."""

    case: Case
    answer: Answer
    verdict: Verdict


def cases(draws: int, seed: int, mistakes: Sequence[str] = tuple(ALL)) -> Iterator[Case]:
    """``draws`` hunks for every mistake, each in every dialect that can say it."""
    files = sources()
    for mistake in mistakes:
        for number in range(draws):
            name = f"{seed}:{mistake}:{number}"
            rng = random.Random(name)
            draft = None
            for _ in range(60):  # not every hunk can be spoilt in every way
                draft = ALL[mistake](drawn(rng.choice(files), rng), rng)
                if draft is not None:
                    break
            if draft is None:
                continue
            for dialect in dialects():
                if can_send(draft, dialect):
                    yield Case(mistake, name, dialect, draft)


def judge(case: Case) -> Judged:
    """Send a case and judge the answer."""
    draft, dialect = case.draft, case.dialect
    answer = ask(draft, dialect)
    if answer.after is None:
        return Judged(case, answer, Verdict.REFUSED)
    in_lines = dialect in IN_LINES
    # The order of several hunks tells more: of two places one may lie before an earlier hunk.
    possible = draft.possible or (in_lines and bool(draft.others))
    if possible and answer.after == draft.after(ends_last_line=in_lines):
        return Judged(case, answer, Verdict.RIGHT)
    literal = is_literal(draft, dialect, answer.after) or fits_elsewhere(draft, answer.after)
    return Judged(case, answer, Verdict.LEFT_OUT if literal else Verdict.WRONG)


def is_literal(draft: Draft, dialect: str, after: bytes) -> bool:
    """Whether the sent text stands in the file once, and ``after`` is its plain replacement."""
    before = with_newlines(draft.before().decode("utf-8", "surrogateescape"))
    base = with_newlines(draft.without_hunk().decode("utf-8", "surrogateescape"))
    got = with_newlines(after.decode("utf-8", "surrogateescape"))
    if dialect in IN_LINES:
        return _is_literal_in_lines(draft, before, base, got)
    sent = texts(draft, draft.sent)
    old, new = with_newlines(sent.old), with_newlines(sent.new)
    if old not in before and before.endswith(old[:-1]) and old.endswith("\n"):
        # The final newline that the file's last line lacks is forgiven, and stays lacking.
        old, new = old[:-1], new.removesuffix("\n")
    if before.find(old) < 0 or before.find(old) != before.rfind(old) or old not in base:
        return False
    return got == base.replace(old, new)


def fits_elsewhere(draft: Draft, after: bytes) -> bool:
    """Whether the sent lines stand in another place, once, but for typography and trailing space.

    So they do when a text is shifted to where another copy of it stands. That place they fit
    better than the one that they were taken from; there they must be replaced.
    """

    def cut(lines: Sequence[str]) -> list[str]:
        return folded_text("\n".join(line.rstrip() for line in lines)).split("\n")

    def split(data: bytes) -> list[str]:
        return cut(with_newlines(data.decode("utf-8", "surrogateescape")).split("\n"))

    old = cut([line.text for line in draft.sent if line.tag != ADDED])
    if runs(split(draft.before()), old) == [draft.true.first]:
        return False
    sent = [Line(line.tag, cut([line.text])[0]) for line in draft.sent]
    return _is_replacement(sent, split(draft.before()), split(draft.without_hunk()), split(after))


def _is_literal_in_lines(draft: Draft, before: str, base: str, got: str) -> bool:
    """The same for dialects that speak in lines, and drop blank ones at the edges of a hunk."""
    # After an earlier hunk the text may stand once, and before it as well.
    once = not draft.others
    return any(
        _is_replacement(sent, before.split("\n"), base.split("\n"), got.split("\n"), once=once)
        for sent in _without_blank_edges(draft.sent)
    )


def _is_replacement(
    sent: Sequence[Line],
    before: Sequence[str],
    base: Sequence[str],
    got: Sequence[str],
    *,
    once: bool = True,
) -> bool:
    old = [line.text for line in sent if line.tag != ADDED]
    new = [line.text for line in sent if line.tag != GONE]
    places = runs(base, old)
    if once and not len(places) == len(runs(before, old)) == 1:
        return False
    return any(list(got) == [*base[:at], *new, *base[at + len(old) :]] for at in places)


def _without_blank_edges(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """The hunk, and what is left when some of the blank lines at its edges are dropped."""
    blank = [line.tag == KEPT and not line.text for line in lines]
    first = blank.index(False)
    last = blank[::-1].index(False)
    for head in range(first + 1):
        for tail in range(last + 1):
            yield lines[head : len(lines) - tail]


# -- what a rung earns


@contextmanager
def without(rung: Rung) -> Iterator[None]:
    """The ladder without one rung, in every dialect, for as long as the context lasts."""
    ladder, whole_lines = matching._LADDER, matching._WHOLE_LINES
    trim_edges, climb = matching._trim_edges, rungs.climb
    matching._LADDER = tuple(step for step in ladder if step[0] is not rung)
    matching._WHOLE_LINES = tuple(step for step in whole_lines if step[0] is not rung)
    if rung is Rung.TRIM_EDGES:
        matching._trim_edges = lambda *_: None

    def climb_without(document: Document, run: Run, first: int = 0) -> Iterator[Found]:
        return (found for found in climb(document, run, first) if found.rung is not rung)

    rungs.climb = climb_without
    try:
        yield
    finally:
        matching._LADDER, matching._WHOLE_LINES = ladder, whole_lines
        matching._trim_edges = trim_edges
        rungs.climb = climb


def shown(judged: Judged) -> dict[str, object]:
    """A case for a person to look into."""
    draft = judged.case.draft
    sent = texts(replace(draft, sent_end="\n"), draft.sent)
    return {
        "mistake": judged.case.mistake,
        "seed": judged.case.seed,
        "dialect": judged.case.dialect,
        "rung": judged.answer.rung,
        "old": sent.old,
        "new": sent.new,
    }
