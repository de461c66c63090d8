"""The rules of docs/dialects.md by which the two engines may differ, by trait.

A rule may refuse what Codex does, with one of its ``kinds``, or do what Codex refuses or does
otherwise. Traits that are not here explain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """``text``: the rule, and what Codex does instead."""

    text: str
    kinds: frozenset[str] = frozenset()


def _rule(text: str, *kinds: str) -> Rule:
    return Rule(text, frozenset(kinds))


#: Not traits of a patch: what ours is called with, to see the difference vanish.
OPTIONS: dict[str, tuple[dict[str, object], Rule]] = {
    "ambiguous: first": (
        {"ambiguous": "first"},
        _rule(
            "a pass with several places is refused (Codex: the first place)",
            "old_text_not_unique",
            "context_not_found",
            "overlapping_edits",
        ),
    ),
    "overwrite: true": (
        {"overwrite": True},
        _rule(
            "an Add of a file that exists is already_exists (Codex: overwrites)", "already_exists"
        ),
    ),
}

ALL_OR_NOTHING = "all operations are one transaction (Codex: refused, but files had changed)"

RULES: dict[str, Rule] = {
    # the envelope
    "shell_line": _rule("a shell line is tolerated (Codex: refused as an argument)"),
    "markdown_fence": _rule("one pair of fences is tolerated (Codex: refused)"),
    "environment_id": _rule("an Environment ID line is ignored"),
    "blank_lines_between": _rule("blank lines between operations are ignored (Codex: refused)"),
    # operations
    "heredoc_body": _rule("Add takes a heredoc body (Codex: refused)"),
    "add_over_existing": _rule("an existing file is already_exists", "already_exists"),
    "move_after_hunks": _rule("Move to may stand after the hunks (Codex: refused)"),
    "move_without_hunks": _rule("a move without hunks is a pure rename (Codex: refused)"),
    "move_onto_itself": _rule("moving a file onto itself is an update (Codex: the file is gone)"),
    "move_onto_existing": _rule(
        "an existing target is already_exists (Codex: overwrites)", "already_exists"
    ),
    "executable": _rule("mode and executable bit move along (Codex: lost in a move)"),
    "no_change": _rule("0: a call that changes nothing is refused (Codex: success)", "no_change"),
    # text
    "no_final_newline": _rule("the final newline stays as it was (Codex: always adds one)"),
    "two_kinds_of_terminators": _rule(
        "0: new text takes the terminator of the surrounding lines (Codex: the file's first)"
    ),
    "lone_cr": _rule("0: lines keep their own terminators, lone CR too (Codex: one line)"),
    "bom": _rule("0: a BOM is ignored in matching (Codex: part of the first line)"),
    "latin_1_elsewhere": _rule("0: bytes that are not UTF-8 are carried through (Codex: refused)"),
    # places
    "stacked_headers": _rule("stacked @@ lines narrow step by step (Codex: refused)"),
    "description": _rule("an @@ text that stands nowhere is a description (Codex: refused)"),
    "git_range": _rule("Git's line numbers are understood (Codex: looked for as text)"),
    "git_names": _rule("Git's --- and +++ lines are understood (Codex: taken for changes)"),
    "header_before_cursor": _rule(
        "what stands only before the cursor is taken, and reported (Codex: refused, or the "
        "next line like it)",
        "old_text_not_unique",
        "old_text_not_found",
    ),
    "added_under_header": _rule(
        "only additions go after the @@ line (Codex: at the end of the file)", "old_text_not_unique"
    ),
    "bare_blank_beside_added": _rule(
        "bare empty lines of a hunk without other old lines are dropped (Codex: inserts elsewhere)"
    ),
    "bare_blank_lines": _rule(
        "bare empty lines of a hunk without other old lines are dropped (Codex: inserts elsewhere)"
    ),
    "blank_lines_at_end": _rule(
        "only additions go to the end of the file (Codex: before a last blank line)"
    ),
    "blank_lines_after_end": _rule("End of File: trailing blank lines are forgiven"),
    "blank_context_at_end": _rule("End of File: trailing blank lines are forgiven"),
    "out_of_order": _rule(
        "what stands only before the cursor is taken, and reported (Codex: refused)",
        "old_text_not_unique",
        "overlapping_edits",
    ),
    "shared_context": _rule(
        "what stands only before the cursor is taken when hunks do not overlap (Codex: refused, "
        "or further on)",
        "old_text_not_unique",
        "overlapping_edits",
    ),
    # near misses
    "other_indentation": _rule(
        "added lines get the same shift as the context (Codex: written as sent)",
        "old_text_not_found",
        "old_text_not_unique",
    ),
    "one_line_indented": _rule(
        "added lines get the same shift as the context, refused where there is none",
        "old_text_not_found",
        "old_text_not_unique",
    ),
    "wide_typography": _rule("0: the table has primes, ellipsis, NFC and NFD (Codex: refused)"),
    "blank_edges": _rule(
        "bare empty lines at the edges are dropped when the hunk does not match with them "
        "(Codex: refused)",
        "old_text_not_unique",
    ),
    "trailing_space_in_text": _rule("a tolerant place beside a stricter one is refused"),
    "trailing_space_in_file": _rule("a tolerant place beside a stricter one is refused"),
}
