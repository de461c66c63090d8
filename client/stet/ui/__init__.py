"""``stet ui``: the history to look at, and to take back from, in a terminal.

Needs the extra ``stetd[ui]`` (textual). Nothing else in the client loads it.
"""
