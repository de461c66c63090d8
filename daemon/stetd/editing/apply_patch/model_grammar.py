"""The grammar of ``apply_patch`` for models that write under a grammar (DIALECTS.md 4).

It is the strict form of the dialect: a patch that it derives parses. The dialect itself
understands more (heredocs, fences, moves after hunks, Git leftovers), but a model that can
write only this is not tempted by it.

Written for OpenAI's custom tools, which take Lark's notation with less in it: terminals are
regular expressions without lookaround and lazy repetition, and are matched greedily. So every
terminal here is one whole line, and each is told from the others by its first characters.
"""

from __future__ import annotations

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
