"""stetd: the daemon that applies agents' edits as transactions over a shadow Git repository."""

from stet import quick_start  # noqa: F401 - before anything loads msgspec
from stet.version import __version__

__all__ = ["__version__"]
