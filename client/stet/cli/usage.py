"""What a command may say about its own command line or input."""

from __future__ import annotations


class UsageError(Exception):
    """The command line, or what was read as input, makes no sense: exit status 2."""
