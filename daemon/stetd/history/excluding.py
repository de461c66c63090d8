"""Which files the history is not to keep: the ``exclude`` patterns of the configuration. Pure.

Patterns are those of a ``.gitignore`` in the root of every workspace
(:mod:`stetd.history.ignoring`), except that letters do not differ by case: on a file system that
folds case ``.ENV`` is ``.env``, and a pattern that misses a secret is worse than one that covers a
file too many. Composed and decomposed letters are the same for the same reason.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

from stetd.history.ignoring import IgnoreFile, is_left_out


def _content(patterns: Sequence[str]) -> bytes:
    folded = _folded("\n".join(patterns))
    folded = folded.replace("[:upper:]", "[:lower:]")  # a folded path has no other letters
    return folded.encode()


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


class Excludes:
    """The patterns, asked with a path relative to the workspace's root."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        content = _content(patterns)
        self._file = IgnoreFile(content, "")
        #: Tells whether two instances have the same patterns.
        self.digest = hashlib.sha256(content).hexdigest()

    def __bool__(self) -> bool:
        return bool(self._file)

    def __call__(self, path: str) -> bool:
        """Whether a file at this path, or a directory above it, is excluded."""
        return bool(self._file) and is_left_out(_folded(path), {"": self._file}.get)


NOTHING_EXCLUDED = Excludes()


def fault_of(pattern: str) -> str | None:
    """Why a pattern would exclude nothing; None if it may."""
    if "\n" in pattern or "\0" in pattern:
        return "a pattern is one line"
    if not IgnoreFile(_content([pattern]), ""):
        return "it matches nothing: it is blank, a comment, or a set in brackets does not end"
    return None
