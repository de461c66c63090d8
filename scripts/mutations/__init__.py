"""The mutation benchmark: real hunks, spoilt as models spoil them, and what becomes of each.

A *hunk* is a few lines of a real module and an edit of them. It is spoilt on one side (the text
that is sent, or the file) in one of many ways; what the file must be afterwards is known byte
for byte, or that nothing may be changed. Every answer is right, refused, or wrong.

    sources    the files that hunks are taken from
    drafts     a hunk with its file, and how one is drawn
    mistakes   what models get wrong about a text, and what a file looks like instead
    traps      places where a tolerant engine edits something else
    catalogue  all of them by name
    sending    a spoilt hunk as a call of each dialect
    judging    right, refused or wrong; which rung answered, and what it earned
    tables     the figures for people, for the README, and for programs
"""
