"""Looking at a whole workspace: what is remembered of it, and what is said when time runs out."""

from __future__ import annotations

from pathlib import Path

from e2e.running_daemon import Site
from hooks.test_observe import before
from stetd.observing.changed_files import KnownFiles
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


def test_no_time_at_all_is_not_said_to_be_the_fault_of_others(site: Site) -> None:
    site.write("a.txt", "one\n")
    done = before(site, "t1", within=0)
    assert (done["complete"], len(done["warnings"])) == (False, 1)
    assert "there was no time to look at all of it" in done["warnings"][0]
