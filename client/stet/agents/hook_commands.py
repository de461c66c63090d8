"""What the text of a shell command says of where it works, and of files that it names. Pure.

Only what stands there in plain words: nothing is expanded but ``~/``, and a word with a variable,
a pattern or a substitution is passed over. It is a guess, on which nothing is executed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PATCH = "*** Begin Patch"
_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_SIGNS = frozenset("&|;()<>")
_NOT_PLAIN = frozenset("$`*?[]{}!\\\n\0")
#: So much of a command is read: the rest may be the contents of files.
_LONGEST = 20_000
_MOST = 1000


class Command:
    """A command that begins in ``directory``. All paths are absolute.

    ``entered``: directories behind ``cd`` and ``pushd`` that are absolute or the user's
    (``~/src``). ``patched``: the files of a patch that it hands to ``apply_patch``. ``written``:
    files that it redirects output to. ``named``: other words that may be files.
    """

    __slots__ = ("entered", "named", "patched", "written")

    def __init__(self, text: str, directory: str) -> None:
        self.entered: list[str] = []
        self.written: list[str] = []
        self.named: list[str] = []
        head, _, patch = text.partition(_PATCH)
        before = ""
        for word in _words(head[:_LONGEST]):
            if before in ("cd", "pushd") and word.startswith("-"):
                continue
            path = _path(word, directory)
            if path is None:
                pass
            elif before in ("cd", "pushd"):
                self.entered += [path] if word.startswith(("/", "~")) else []
                directory = path
            elif before in (">", ">>", ">|", "&>", "&>>"):
                self.written.append(path)
            elif "." in word or "/" in word:
                self.named.append(path)
            before = word
        patched = in_patch(patch) if "apply_patch" in head or "applypatch" in head else ()
        self.patched = [os.path.join(directory, path) for path in patched][:_MOST]
        del self.written[_MOST:], self.named[_MOST:]


def in_patch(text: str) -> Iterator[str]:
    """The files that the text of an ``apply_patch`` names."""
    for line in text.splitlines():
        for mark in _MARKS:
            if line.startswith(mark) and line[len(mark) :].strip():
                yield line[len(mark) :].strip()


def _path(word: str, directory: str) -> str | None:
    """A word as an absolute path; None if it is an option, a sign, or no plain word."""
    if not word or word[0] == "-" or word[0] in _SIGNS or not _NOT_PLAIN.isdisjoint(word):
        return None
    if word[0] == "~":
        if word[1:2] not in ("", "/"):
            return None  # somebody else's
        word = os.path.expanduser(word)
    return os.path.normpath(os.path.join(directory, word))


def _words(text: str) -> Iterator[str]:
    """The words and signs of a command, up to a quote that does not end."""
    import shlex  # which few payloads need

    reading = shlex.shlex(text, posix=True, punctuation_chars=True)
    reading.whitespace_split = True
    reading.commenters = ""
    try:
        yield from reading
    except ValueError:
        return
