"""The historian: a process that follows the journal, keeps Git and the index, and is asked."""
