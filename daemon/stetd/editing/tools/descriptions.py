"""What language models read of each tool.

The first sentence has the words that a model looks for: some clients show a tool only when a search
has found it.
"""

from __future__ import annotations

#: By the tool's name. OpenAI's Chat Completions refuse more than 1,024 characters.
DESCRIPTIONS = {
    "patch": """\
Edit a text file, or create it. All patches of a call apply to the file as it was before the \
call, or none does.

replace puts newText in the place of oldText, which must stand in the file EXACTLY ONCE; \
append_eof, prepend_bof and overwrite also create a missing file.

Move or copy code with clipboards instead of writing it again; they outlast the call:
- cut: replace with newText "" and toClipboard
- copy: replace with the same name in toClipboard and fromClipboard (the file stays as it is)
- paste: any operation with fromClipboard
- move: cut, then paste, in one call or two, also to another file
- reindent while pasting: {"strip": "    ", "add": "\\t"} takes strip from each non-blank \
line, then puts add before it

Text is literal: no escapes, no wildcards, no newline added. Copy oldText from the file with \
its white space; differences in white space or typographic quotes are tolerated only where \
the place is certain. An error changes nothing and says what to send instead; undo takes a \
call back.""",
    "patch_file": """\
Edit a text file by search and replace. The changes apply in order, each to the result of the \
one before; all of them or none.

search is exact text, one line or several, copied from the file with its indentation. It must \
stand there exactly once: add lines around it until it does, or say which place is meant with \
occurrence (1 is the first) or near_line. replace takes its place; "" deletes it.

regex and fuzzy are for text that you can't copy exactly.

Moving code? The clipboards of patch do it without writing it again. An error changes nothing \
and says what to send instead; undo takes a call back.""",
    "patch_block": """\
Edit files with FIND/REPLACE blocks, text that needs no escaping, in one file or several; all \
pairs or none.

===SKIPPY_PATCH_START:src/a.py===
===FIND===
exact text, standing in the file exactly once
===REPLACE===
what takes its place; nothing deletes it
===SKIPPY_PATCH_END===

Each marker stands alone on its line, and the newline beside it belongs to it. A block takes \
any number of FIND/REPLACE pairs, a text any number of blocks. All pairs are looked for in the \
file as it was before the call. Copy FIND from the file with its indentation; it can't be \
empty. A line of content that reads like a marker gets a backslash before it: \\===FIND===

For files that don't exist yet, and for moving code, use patch. An error changes nothing and \
says what to send instead; undo takes a call back.""",
    "apply_patch": """\
Apply a patch: edit, add, move and delete files; all of it applies or none.

*** Begin Patch
*** Add File: src/new.py
+each line of a new file begins with +
*** Update File: src/a.py
*** Move to: src/b.py
@@ class A:
@@     def f(self):
 unchanged lines begin with a space
-a line to remove
+a line to put there
*** Delete File: src/old.py
*** End Patch

Move to is optional. Give about three unchanged lines before and after a change. They, with \
the removed ones, must stand in the file in one place only; otherwise put the line of the \
function or class above them after @@, several @@ lines going deeper. Hunks of a file stand \
in the order of its lines. Lines are copied from the file, not renumbered: @@ takes no line \
numbers. *** End of File after a hunk ties it to the end.

An error changes nothing and says what to send instead; undo takes a call back.""",
    "read": """\
Read a text file, or a range of its lines, as it is now or as it was after an earlier commit.""",
    "undo": """\
Undo edits of this conversation, also those made with other tools; the newest one unless told \
otherwise. Later edits stay; where they touch the same lines the undo is refused and nothing \
changes.""",
    "log": """\
List the history of edits of this workspace, newest first: what was changed, by whom and why.""",
    "show": "Show one recorded edit: who made it and why, and its diff.",
    "diff": """\
Show what differs between two recorded states of the workspace, or between one and the files \
as they are now.""",
    "request_mode_upgrade": """\
Ask the person for write access, when an edit was refused in Restricted mode. Ask once and say \
what for; reading works meanwhile. If the answer is no, don't try to write by other means.""",
}

#: The definition of a custom tool's format, syntax ``lark``.
APPLY_PATCH_LARK = r"""
start: BEGIN operation+ END

operation: ADD_FILE ADDED*
         | DELETE_FILE
         | UPDATE_FILE MOVE_TO
         | UPDATE_FILE MOVE_TO? hunks

hunks: first_hunk hunk* END_OF_FILE?
first_hunk: PLACE* UNCHANGED* change line*
hunk: PLACE+ UNCHANGED* change line*
change: REMOVED | ADDED
line: UNCHANGED | REMOVED | ADDED

BEGIN: /\*\*\* Begin Patch\n/
END: /\*\*\* End Patch\n?/
ADD_FILE: /\*\*\* Add File: [^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\n/
DELETE_FILE: /\*\*\* Delete File: [^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\n/
UPDATE_FILE: /\*\*\* Update File: [^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\n/
MOVE_TO: /\*\*\* Move to: [^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\n/
END_OF_FILE: /\*\*\* End of File\n/
PLACE: /@@( [^\r\n]+)?\n/
UNCHANGED: / [^\r\n]*\n/
REMOVED: /-[^\r\n]*\n/
ADDED: /\+[^\r\n]*\n/
"""
