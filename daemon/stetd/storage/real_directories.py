"""Opening a directory by its real path: a link anywhere in it is not followed but refused."""

from __future__ import annotations

import os

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def open_real(directory: str, below: str = "/") -> int:
    """A handle (O_PATH) on an absolute directory, opened name by name from ``below`` on.

    Raises OSError; NotADirectoryError also for a link.
    """
    fd = os.open(below, _STEP)
    try:
        for name in filter(None, directory.split("/")):
            inner = os.open(name, _STEP | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


def nearest_real(directory: str) -> str:
    """The absolute directory itself if it can be opened so, else the nearest above it that can."""
    while True:
        try:
            os.close(open_real(directory))
        except OSError:
            if directory == "/":
                raise
            directory = os.path.dirname(directory)
        else:
            return directory
