"""``stet connect``: stet in the configuration of the agents' clients, and out of it again.

No record is kept of what was written, except the files. An entry is recognised by its name and its
command. If the file without the entries equals a backup, nothing else has changed.
"""
