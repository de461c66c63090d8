"""stetd: the daemon that applies agents' edits as transactions over a shadow Git repository."""
