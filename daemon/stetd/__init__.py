"""stetd: the daemon that applies agents' edits as transactions over a shadow Git repository."""

__version__ = "0.1.0"
