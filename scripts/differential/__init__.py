"""Generated patches, carried out by ``apply_patch`` here and by Codex's: where do they differ, why?

    dice        random choices that can be taken away one by one
    mistakes    how what a model sends differs from what the file has
    hunks       hunks over the lines of a file, and how they are sent
    files       real files, made more awkward
    cases       whole patches over a few files, with what they are meant to do
    engines     the two that carry them out
    rules       the rules by which the two may differ
    explaining  which trait of a patch makes the two differ, and the rule that says so

``scripts/codex_differential.py`` runs it. No part of CI: it needs the Codex binary.
"""
