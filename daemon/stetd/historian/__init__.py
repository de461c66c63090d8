"""The historian: a process that follows the journal, keeps Git and the index, and is asked.

messages    what the engine and the historian say to each other
client      the engine's end; imports neither pygit2 nor sqlite3
process     the historian's end: its main loop
following   from the journal's records to Git's objects
questions   what it can be asked about the history
"""
