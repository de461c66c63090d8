"""Rules for names in paths, independent of the disk.

``.git`` is protected under every name that some file system or Git version treats as ``.git``:
other letter case, trailing dots and spaces, the 8.3 short name, an NTFS stream suffix, a backslash
for a slash, and characters that HFS+ or a case-folding ext4 ignores.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from stet.wire.failures import Kind, Refused, refuse

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: Characters that some file systems ignore in names: Unicode's Default_Ignorable_Code_Point; HFS+
#: ignores a part of them.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_MAX_NAME = 255
#: Prefix of the daemon's temporary files; calls may not create such names.
TEMPORARY_PREFIX = ".stet-"
_TEMPORARY = re.compile(r"\.stet-[0-9a-f]{16}\.tmp")
#: Every alias of ``.git`` has one of these characters, or begins with a dot or a g.
_SUSPICIOUS = re.compile(r"[.gG]|.*[\\]|.*[^\x00-\x7f]", re.DOTALL)
#: The entries that make a directory a Git repository, under any name.
REPOSITORY_PARTS = frozenset({"head", "objects", "refs"})
#: ``git fsck`` rejects links with these names.
_NEVER_LINKS = frozenset({".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})


@lru_cache(4096)
def folded_name(name: str) -> str:
    """A name as the most tolerant file system sees it; only for comparisons."""
    plain = _IGNORABLE.sub("", unicodedata.normalize("NFKC", _IGNORABLE.sub("", name)))
    folded = unicodedata.normalize("NFKC", plain.casefold())
    kept = folded.partition(":")[0].rstrip(". ")
    return kept or folded


def folded_path(path: str) -> str:
    """A path with all components folded by :func:`folded_name`."""
    return "/".join(folded_name(name) for name in path.split("/"))


def is_git_directory_name(name: str) -> bool:
    """Whether some file system treats this name as ``.git``, or as a path that contains it."""
    if not _SUSPICIOUS.match(name):
        return False
    return any(
        folded == ".git" or re.fullmatch(r"git~\d+", folded)
        for folded in map(folded_name, name.split("\\"))
    )


def check_component(name: str, path: str) -> None:
    """Raises Refused for a component that no path may have."""
    if _CONTROL.search(name):
        raise refuse(
            Kind.INVALID_PARAMS, f"{path!r}: a path can't contain control characters", path=path
        )
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise refuse(Kind.INVALID_PARAMS, f"{path!r}: this name is not valid UTF-8") from error
    if length > _MAX_NAME:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{path[:80]}...: a name in this path has {length} bytes, {_MAX_NAME} is the most",
        )
    if is_git_directory_name(name):
        raise refuse(
            Kind.PATH_PROTECTED,
            f"{path}: {name} is protected: a Git directory is never read or written. "
            "Use git itself for that.",
            path=path,
        )
    if name.startswith(".") and _TEMPORARY.fullmatch(folded_name(name)):
        raise refuse(
            Kind.PATH_PROTECTED,
            f"{path}: names like {name} are kept for temporary files; choose another",
            path=path,
        )


def directories_above(path: str) -> Iterator[str]:
    """The directories above a relative path, from the outermost on, without the root."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def files_above(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a file and another file above it, in order: both can't exist."""
    made = set(paths)
    for path in sorted(made):
        yield from ((path, above) for above in directories_above(path) if above in made)


def may_be_link(name: str) -> bool:
    """Whether the history accepts a link with this name."""
    return folded_name(name) not in _NEVER_LINKS


def in_repository(path: str, directory: str) -> Refused:
    """The refusal for a path in a directory that is a Git repository."""
    return refuse(
        Kind.PATH_PROTECTED,
        f"{path}: {directory or 'the workspace'} holds HEAD, objects and refs, which makes it a "
        "Git repository's own directory; that is never read or written. Use git itself for that.",
        path=path,
    )


def repositories_made(paths: Iterable[str]) -> dict[str, set[str]]:
    """Directories in which these paths would create entries of a Git repository; which, folded."""
    parts: dict[str, set[str]] = {}
    for path in paths:
        components = path.split("/")
        for depth, name in enumerate(components):
            # HEAD is a file. Git takes executable files, and links, for the directories too.
            folded = folded_name(name)
            is_last = depth + 1 == len(components)
            if folded in REPOSITORY_PARTS and (is_last or folded != "head"):
                parts.setdefault("/".join(components[:depth]), set()).add(folded)
    return parts
