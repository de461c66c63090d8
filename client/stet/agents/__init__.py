"""``stet connect``: stet in the configuration of the agents' clients, and out of it again.

    clients        which clients there are, where their files are, what is written into them
    entries        the entries themselves: made for this installation, and recognised again
    json_entries   entries put into JSON text and taken out; jsonc keeps all else as it is
    toml_entries   the same in TOML text, with tomlkit
    config_file    one file: read, backed up, replaced in one step
    carrying_out   a connection made or ended, over all files of a client, or none

Nothing but the files is kept about what was written. An entry is known by its name and its
command; where the file without the entries is a backup's bytes, nothing else has changed.
"""
