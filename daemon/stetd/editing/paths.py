"""Which names a path may have, whatever the disk says.

``.git`` is protected in every disguise that some file system or Git version takes for it: letter
case, trailing dots and spaces, the 8.3 short name, an NTFS stream suffix, a backslash for a slash,
and characters that HFS+ or a case-folding ext4 ignores.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from stet.wire.failures import Kind, Refused, refuse

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: Characters that some file system ignores in names: Unicode's Default_Ignorable_Code_Point,
#: of which HFS+ has a part.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_MAX_NAME = 255
#: Names of the daemon's own temporary files; nobody else may make one.
TEMPORARY_PREFIX = ".stet-"
_TEMPORARY = re.compile(r"\.stet-[0-9a-f]{16}\.tmp")
#: Any disguise of ``.git`` has one of these, or begins with a dot or a g.
_SUSPICIOUS = re.compile(r"[.gG]|.*[\\]|.*[^\x00-\x7f]", re.DOTALL)
#: What makes a directory a Git repository, whatever it is called.
REPOSITORY_PARTS = frozenset({"head", "objects", "refs"})
#: Git finds a repository faulty that has a link of such a name.
_NEVER_LINKS = frozenset({".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})


@lru_cache(4096)
def folded_name(name: str) -> str:
    """What a name is to a file system that is as tolerant as any: for comparing only."""
    if name.isascii():
        folded = name.casefold()
    else:
        plain = _IGNORABLE.sub("", unicodedata.normalize("NFKC", _IGNORABLE.sub("", name)))
        folded = unicodedata.normalize("NFKC", plain.casefold())
    kept = folded.partition(":")[0].rstrip(". ")
    return kept or folded


def folded_path(path: str) -> str:
    """The same of every component."""
    return "/".join(folded_name(name) for name in path.split("/"))


def is_git_directory_name(name: str) -> bool:
    """Whether some file system takes this name for ``.git``, or for a path that holds it."""
    if not _SUSPICIOUS.match(name):
        return False
    return any(
        folded == ".git" or re.fullmatch(r"git~\d+", folded)
        for folded in map(folded_name, name.split("\\"))
    )


def check_component(name: str, path: str) -> None:
    """Refuse a component that no path may have. Raises Refused."""
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
    """Which of these files lie below which others, in order: they can't both be made."""
    made = set(paths)
    for path in sorted(made):
        yield from ((path, above) for above in directories_above(path) if above in made)


def may_be_link(name: str) -> bool:
    """Whether the history can have a link of this name."""
    return folded_name(name) not in _NEVER_LINKS


def in_repository(path: str, directory: str) -> Refused:
    """The refusal of a path that lies in a directory which is a Git repository itself."""
    return refuse(
        Kind.PATH_PROTECTED,
        f"{path}: {directory or 'the workspace'} holds HEAD, objects and refs, which makes it a "
        "Git repository's own directory; that is never read or written. Use git itself for that.",
        path=path,
    )


def repositories_made(paths: Iterable[str]) -> dict[str, set[str]]:
    """Directories of which these paths make a repository's parts: which parts, folded."""
    parts: dict[str, set[str]] = {}
    for path in paths:
        if path.isascii() and not any(part in path.lower() for part in REPOSITORY_PARTS):
            continue  # as good as always
        components = path.split("/")
        for depth, name in enumerate(components):
            # HEAD is a file, the other two are directories: they have something below them.
            folded = folded_name(name)
            if folded in REPOSITORY_PARTS and (folded == "head") == (depth + 1 == len(components)):
                parts.setdefault("/".join(components[:depth]), set()).add(folded)
    return parts
