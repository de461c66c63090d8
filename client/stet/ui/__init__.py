"""``stet ui``: the history to look at, and to take back from, in a terminal.

    timeline   the edits, grouped by session and burst; the left side
    details    the diff of an edit, or who wrote a file; the right side
    dialogs    what is asked: a confirmation, a line of text, a request for write access
    app        keys, searches, live updates, and the calls to the daemon

Needs the extra ``stetd[ui]`` (textual). Nothing else in the client loads it.
"""
