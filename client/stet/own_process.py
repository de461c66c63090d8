"""What stet's own programs do first: their standard streams, and the encoding of names."""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Open /dev/null for closed standard streams; a file or socket would get their numbers. Start
    again in Python's UTF-8 mode if the locale has another encoding: stet's names are UTF-8.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if sys.getfilesystemencoding() != "utf-8":
        # For child processes, too. What is printed keeps the terminal's encoding.
        environ = {"PYTHONIOENCODING": sys.stdout.encoding, **os.environ, "PYTHONUTF8": "1"}
        again = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, again, environ)  # noqa: S606
