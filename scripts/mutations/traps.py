"""Places where a tolerant engine edits something else: copies, near copies, what is gone.

In a trap the file is changed, not the text. Where two places fit equally well, or where what
was meant is no longer there, any edit is a guess and counts as wrong, also one that happens to
land well.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from mutations.drafts import KEPT, Draft, Hunk, Line
from mutations.mistakes import Mistake, other_word, runs


def _place(draft: Draft, rng: random.Random) -> int:
    """A line before which lines can be put: right behind or before the hunk, or elsewhere."""
    taken = [(hunk.first + 1, hunk.first + len(hunk.old)) for hunk in (draft.true, *draft.others)]
    free = [
        index
        for index in range(len(draft.file) + 1)
        if all(not first <= index < end for first, end in taken)
    ]
    near = [draft.true.first, draft.true.first + len(draft.true.old)]
    return rng.choice(near) if rng.random() < 0.3 else rng.choice(free)


def _with_copy(
    draft: Draft, rng: random.Random, change: Callable[[list[str]], Sequence[str]]
) -> Draft | None:
    """A changed copy of what the hunk replaces, elsewhere in the file, between two other lines."""
    old = draft.true.old
    copy = list(change(list(old)))
    assert any(text.strip() for text in copy), "BUG: a hunk of blank lines"
    return draft.with_lines_put(_place(draft, rng), ["# a copy", *copy, "# ends here"])


def copied(draft: Draft, rng: random.Random) -> Draft | None:
    made = _with_copy(draft, rng, lambda old: old)
    return made and replace(made, possible=False)


def copied_and(mistake: Mistake) -> Mistake:
    """The block stands twice, and the text is spoilt: both places fit alike."""

    def make(draft: Draft, rng: random.Random) -> Draft | None:
        made = copied(draft, rng)
        return None if made is None else mistake(made, rng)

    return make


def _deeper(old: list[str]) -> list[str]:
    return ["    " + text if text.strip() else text for text in old]


def copied_deeper(draft: Draft, rng: random.Random) -> Draft | None:
    return _with_copy(draft, rng, _deeper)


def copied_deeper_and_not_indented(draft: Draft, rng: random.Random) -> Draft | None:
    """The text is less indented than either of two places."""
    made = copied_deeper(draft, rng)
    if made is None:
        return None
    lines = [line.text for line in made.sent if line.text.strip()]
    if any(not text.startswith("    ") for text in lines):
        return None
    return replace(made.change_sent(lambda text: text[4:]), possible=False)


def copied_with_trailing_space(draft: Draft, rng: random.Random) -> Draft | None:
    return _with_copy(draft, rng, lambda old: [text + "  " for text in old])


def copied_in_typography(draft: Draft, rng: random.Random) -> Draft | None:
    def curled(old: list[str]) -> list[str]:
        return [text.replace('"', "\u201d").replace("'", "\u2019") for text in old]

    if curled(draft.true.old) == draft.true.old:
        return None
    return _with_copy(draft, rng, curled)


# -- near copies


def _near(draft: Draft, rng: random.Random, at: int | None = None) -> list[str] | None:
    """The old lines with one word changed, in line ``at`` of them or any."""
    old = draft.true.old
    filled = [index for index, text in enumerate(old) if text.strip()]
    index = rng.choice(filled) if at is None else at
    changed = other_word(draft, old[index], rng)
    if changed == old[index]:
        return None
    return [*old[:index], changed, *(old[index + 1 :] if index != -1 else [])]


def near_copy(draft: Draft, rng: random.Random) -> Draft | None:
    near = _near(draft, rng)
    return None if near is None else _with_copy(draft, rng, lambda _: near)


def near_copy_and(mistake: Mistake) -> Mistake:
    """Two passages differ by one word, and the text is spoilt otherwise."""

    def make(draft: Draft, rng: random.Random) -> Draft | None:
        made = near_copy(draft, rng)
        return None if made is None else mistake(made, rng)

    return make


def near_copy_and_neither(draft: Draft, rng: random.Random) -> Draft | None:
    """Two passages differ by their first (or last) line, and the text has a third one there."""
    at = rng.choice([0, -1])
    old = draft.true.old
    line = draft.sent[at]
    if line.tag != KEPT or not line.text.strip() or len(old) < 2:
        return None
    near, third = _near(draft, rng, at), _near(draft, rng, at)
    if near is None or third is None or third[at] in (near[at], old[at]):
        return None
    made = _with_copy(draft, rng, lambda _: near)
    if made is None:
        return None
    lines = list(made.sent)
    lines[at] = Line(KEPT, third[at])
    return made.sending(lines, possible=False)


def _gone(draft: Draft, left: Sequence[str], rng: random.Random) -> Draft | None:
    """What was meant is no longer in the file; ``left`` stands there, or elsewhere.

    None where it is still there, with other indentation.
    """
    span = draft.span
    elsewhere = rng.random() < 0.5
    stays = [] if elsewhere else list(left)
    difference = len(stays) - len(span)
    others = tuple(
        replace(hunk, first=hunk.first + difference) if hunk.first > span.start else hunk
        for hunk in draft.others
    )
    file = (*draft.file[: span.start], *stays, *draft.file[span.stop :])
    made = replace(
        draft,
        file=file,
        ends=("\n",) * len(file),
        true=Hunk(span.start, ()),
        others=others,
        possible=False,
    )
    if _still_stands(file, draft.true.old):
        return None
    if not elsewhere:
        return made
    return made.with_lines_put(rng.choice([0, len(file)]), ["", *left, ""])


def _still_stands(file: Sequence[str], old: Sequence[str]) -> bool:
    """Whether the old lines stand there but for indentation and blank lines around them."""
    core = "\n".join(text.strip() for text in old).strip("\n")
    return bool(runs([text.strip() for text in file], core.split("\n")))


def sibling_left(at: int) -> Mistake:
    """What was meant is gone; a passage is left that differs by a word in its edge line."""

    def make(draft: Draft, rng: random.Random) -> Draft | None:
        line = draft.sent[at]
        if line.tag != KEPT or not line.text.strip() or len(draft.true.old) < 2:
            return None
        near = _near(draft, rng, at)
        return None if near is None else _gone(draft, near, rng)

    return make


def remainder_left(at: int) -> Mistake:
    """What was meant is gone; all of it but its edge line stands beside any other line.

    ``trim_edges`` takes this for an edge line that was made up, if no word of it stands in the
    file. Nothing but the line itself could tell, so this is taken on trust.
    """

    def make(draft: Draft, rng: random.Random) -> Draft | None:
        line = draft.sent[at]
        if line.tag != KEPT or not line.text.strip() or len(draft.true.old) < 2:
            return None
        other = rng.choice([text for text in draft.file if text.strip()])
        left = list(draft.true.old)
        left[at] = other
        return _gone(draft, left, rng)

    return make


def already_applied(draft: Draft, _: random.Random) -> Draft | None:
    """The call was made before: the new text stands there."""
    if not draft.true.new or draft.others:
        return None
    span = draft.span
    file = (*draft.file[: span.start], *draft.true.new, *draft.file[span.stop :])
    return replace(
        draft,
        file=file,
        ends=("\n",) * len(file),
        true=Hunk(span.start, ()),
        possible=False,
    )


def changed_since(draft: Draft, rng: random.Random) -> Draft | None:
    """Somebody has put a line among those that the edit keeps, or taken one of them away."""
    kept = [i for i, line in enumerate(draft.true.lines[1:-1], 1) if line.tag == KEPT]
    if not kept or draft.others:
        return None
    at = rng.choice(kept)
    lines = list(draft.true.lines)
    lines[at : at + 1] = rng.choice([[], [lines[at], Line(KEPT, "# put in by somebody")]])
    true = Hunk(draft.true.first, tuple(lines))
    span = draft.span
    file = (*draft.file[: span.start], *true.old, *draft.file[span.stop :])
    if _still_stands(file, draft.true.old):
        return None
    return replace(draft, file=file, ends=("\n",) * len(file), true=true)
