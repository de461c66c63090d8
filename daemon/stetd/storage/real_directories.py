"""Opening a directory by its real path: a link in the path is refused, not followed."""

from __future__ import annotations

import os

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def open_real(directory: str) -> int:
    """A descriptor (O_PATH) of an absolute directory, opened name by name from the root on.

    Raises OSError; for a link NotADirectoryError.
    """
    fd = os.open("/", _STEP)
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
    """The absolute directory, or the nearest one above it that :func:`open_real` can open."""
    while True:
        try:
            os.close(open_real(directory))
        except OSError:
            if directory == "/":
                raise
            directory = os.path.dirname(directory)
        else:
            return directory
