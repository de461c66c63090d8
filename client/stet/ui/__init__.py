"""``stet ui``: shows the history in a terminal, and takes edits back.

Needs the extra ``stetd[ui]`` (textual). Nothing else in the client loads it.
"""
