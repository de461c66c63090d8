"""Looking at a whole workspace: what is remembered of it."""

from __future__ import annotations

from pathlib import Path

from stetd.differing import KnownFiles
from stetd.storage.scanning import Folder
from stetd.storage.stat_cache import Stamp

_KNOWN = (Stamp(1, 2, 3, 4, 0o100644), b"1" * 20)


def _folder(path: str) -> Folder:
    return Folder(path, None, {}, cached={"a.txt": _KNOWN})


def test_directories_that_are_gone_are_not_remembered(tmp_path: Path) -> None:
    known = KnownFiles(str(tmp_path / "no snapshot"))
    known.learn([_folder(""), _folder("gone/")])
    known.learn([_folder("")])
    assert (known.folder(""), known.folder("gone/")) == ({"a.txt": _KNOWN}, {})
