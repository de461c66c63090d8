"""``stet connect``: stet in the configuration of the agents' clients, and out of it again.

Nothing but the files is kept about what was written. An entry is known by its name and its
command; where the file without the entries is a backup's bytes, nothing else has changed.
"""
