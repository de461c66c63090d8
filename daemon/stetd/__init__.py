"""stetd: the daemon that applies agents' edits as transactions over a shadow Git repository."""

from stet.version import __version__

__all__ = ["__version__"]
