"""What only ``apply_patch`` has: its text, how its hunks find their places, how it composes.

    envelope    the wrappers around a patch, and its lines
    grammar     lines to operations; hunk_reading: lines to hunks
    operations  what a patch says, as values
    seeking     where a run of lines stands, by rung
    hunks       which place each hunk of an update takes; forms: a hunk as it may be looked for;
                blocks: whether a place lies in the block that an @@ line opens
    placed      what becomes of a hunk that is looked for, as values
    writing     what a hunk at its place changes
    updating    an update's hunks on one text
    composing   operations in order, on files as the ones before left them
    refusing    sentences for what is wrong

The dialect itself is ``dialects/apply_patch``.
"""
