"""Which names a path may have, whatever the disk says.

Pure: it looks at names only. ``.git`` is protected in every disguise under which some
file system or Git version takes it for the same name: letter case, trailing dots and
spaces, the 8.3 short name, an NTFS stream suffix, and characters that HFS+ ignores.
"""

from __future__ import annotations

import re
import unicodedata

from stet.wire.failures import Kind, refuse

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: Characters that HFS+ ignores in names (Git's own list for the same purpose).
_IGNORABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_MAX_NAME = 255
#: Names of the daemon's own temporary files; nobody else may make one.
TEMPORARY_PREFIX = ".stet-"
_TEMPORARY = re.compile(r"\.stet-[0-9a-f]{16}\.tmp\Z")


def is_git_directory_name(name: str) -> bool:
    """Whether some file system takes this name for ``.git``."""
    folded = _IGNORABLE.sub("", unicodedata.normalize("NFKC", name)).casefold()
    folded = folded.partition(":")[0].rstrip(". ")
    return folded == ".git" or bool(re.fullmatch(r"git~\d+", folded))


def check_component(name: str, path: str) -> None:
    """Refuse a component that no path may have.

    Raises Refused: invalid_params (control characters, not UTF-8, too long) or
    path_protected (``.git`` and the daemon's temporary files).
    """
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
    if _TEMPORARY.match(name):
        raise refuse(
            Kind.PATH_PROTECTED,
            f"{path}: names like {name} are kept for temporary files; choose another",
            path=path,
        )
