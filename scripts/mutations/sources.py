"""The files that hunks are taken from: modules of the packages that this project depends on.

The list is fixed and sorted, so that a seed gives the same hunks with the same versions.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from functools import cache

PACKAGES = (
    "markdown-it-py",
    "msgspec",
    "pydantic",
    "pygit2",
    "rapidfuzz",
    "regex",
    "requests",
    "rich",
    "tiktoken",
    "urllib3",
)
_FEWEST_LINES, _MOST_LINES = 60, 2_500


@dataclass(frozen=True)
class Source:
    """A file as lines without their terminators, all ``\\n``, the last one included."""

    name: str
    lines: tuple[str, ...]


@cache
def sources() -> tuple[Source, ...]:
    """Every module that is neither tiny nor huge."""
    found = []
    for package in PACKAGES:
        files = importlib.metadata.files(package) or []
        for file in sorted(map(str, files)):
            if file.endswith((".py", ".pyi")):
                source = _read(package, file)
                if source is not None:
                    found.append(source)
    assert found, "BUG: none of the packages is installed with its sources"
    return tuple(found)


def versions() -> dict[str, str]:
    """Package to version: what the figures depend on beside the seed."""
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def _read(package: str, file: str) -> Source | None:
    try:
        with open(str(importlib.metadata.distribution(package).locate_file(file)), "rb") as opened:
            text = opened.read().decode()
    except (OSError, UnicodeDecodeError):
        return None
    if not text.endswith("\n") or "\r" in text or "\0" in text:
        return None
    lines = text[:-1].split("\n")
    if not _FEWEST_LINES <= len(lines) <= _MOST_LINES:
        return None
    return Source(f"{package}/{file}", tuple(lines))
