"""What the history knows, and where something else stands by now: a link that leads out, a pipe,
a device, a directory, or the directory above it has gone outside. Whatever is asked then, nothing
outside is changed, and nothing from there is in an answer.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Client, Refusal, Site, files_below

SECRET = "precious, and nobody's business"
#: Answers that would say that nobody has thought of this.
DEFECTS = ('["internal"', '["io_error"', '["outcome_unknown"')


def listening(file: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(file))


def device(file: Path, outside: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make devices")
    os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def parent_is_a_link(file: Path, outside: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.symlink_to(outside)


def parent_is_outside_behind_a_link(file: Path, outside: Path) -> None:
    file.parent.rename(outside / "moved")
    file.parent.symlink_to(outside / "moved")


def parent_is_a_file(file: Path, outside: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("a file\n")


#: What is put in the place of a file that is gone, or of the directory above it.
OBSTACLES: dict[str, Callable[[Path, Path], object]] = {
    "link to a file": lambda file, outside: file.symlink_to(outside / "f"),
    "relative link": lambda file, outside: file.symlink_to(
        os.path.relpath(outside / "f", file.parent)
    ),
    "dangling link": lambda file, outside: file.symlink_to(outside / "not-there-yet"),
    "link to a directory": lambda file, outside: file.symlink_to(outside),
    "directory": lambda file, _: file.mkdir(),
    "pipe": lambda file, _: os.mkfifo(file),
    "listening": listening,
    "device": device,
    "parent is a link": parent_is_a_link,
    "parent is outside": lambda file, outside: file.parent.rename(outside / "moved"),
    "parent is outside behind a link": parent_is_outside_behind_a_link,
    "parent is a file": parent_is_a_file,
}


@pytest.fixture
def outside(site: Site) -> Path:
    place = site.root.parent / f"outside-{site.root.name}"
    place.mkdir()
    for name in ("f", "created", "kept", "deleted", "moved-to"):
        (place / name).write_text(SECRET)
    return place


def history(site: Site) -> dict[str, str]:
    """Commits that change a file, create, delete and move one, in a directory each."""
    for name in ("changed", "deleted", "moved"):
        site.write(f"{name}/f", "one\ntwo\n")
    site.write("created/kept", "kept\n")
    calls = {
        "changed": "*** Update File: changed/f\n@@\n-one\n+1\n",
        "created": "*** Add File: created/f\n+new\n",
        "deleted": "*** Delete File: deleted/f\n",
        "moved": "*** Update File: moved/f\n*** Move to: arrived/f\n@@\n-one\n+1\n",
    }
    return {
        name: site.agent.call("apply_patch", input=f"*** Begin Patch\n{text}*** End Patch")[
            "commit"
        ]
        for name, text in calls.items()
    }


def ask(client: Client, method: str, params: dict[str, Any]) -> str:
    """The answer, or the refusal, as text."""
    try:
        return json.dumps(client.call(method, **params))
    except Refusal as refusal:
        return json.dumps([refusal.kind, refusal.message, refusal.data])


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("name", ["changed", "created", "deleted", "moved"])
def test_nothing_outside_is_changed_or_told(
    site: Site, outside: Path, name: str, obstacle: str
) -> None:
    commits = history(site)
    path = "arrived/f" if name == "moved" else f"{name}/f"
    before = site.log()[-1]["commit"]
    if not obstacle.startswith("parent"):
        (site.root / path).unlink(missing_ok=True)
    OBSTACLES[obstacle](site.root / path, outside)
    around = files_below(outside)
    folder = path.rpartition("/")[0]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("undo", {"commits": [commits[name]], "preview": True}),
        ("undo", {"commits": [commits[name]]}),
        ("undo", {"last": 4}),
        ("undo", {"paths": [path]}),
        ("undo", {"paths": [folder]}),
        ("redo", {}),
        ("restore", {"path": path, "at": before}),
        ("restore", {"path": path, "at": commits[name]}),
        ("rollback", {"to": before}),
        ("rollback", {"to": before, "paths": [path]}),
        ("read", {"path": path}),
        ("read", {"path": path, "at": commits[name]}),
        ("diff", {}),
        ("diff", {"from": before}),
        ("diff", {"paths": [path]}),
        ("log", {"path": path}),
        ("show", {"commit": commits[name]}),
        ("blame", {"path": path}),
        ("blame", {"path": path, "at": commits[name]}),
        ("export", {}),
        ("export", {"paths": [path]}),
    ]
    for client in (site.agent, site.person):
        for method, params in calls:
            answer = ask(client, method, params)
            assert SECRET not in answer, (method, params)
            assert not answer.startswith(DEFECTS), (method, params, answer)
            assert files_below(outside) == around, (method, params)
    for method in ("snapshot", "verify", "gc"):
        assert SECRET not in ask(site.person, method, {})
        assert files_below(outside) == around, method
    assert SECRET not in site.git("log", "-p", "history")
    assert list(site.root.rglob(".stet-*")) == []


def test_a_directory_that_is_away_comes_back_and_its_edits_are_taken_back(
    site: Site, outside: Path
) -> None:
    """Else the table above would be passed by refusing whatever was once outside."""
    commits = history(site)
    (site.root / "changed").rename(outside / "moved")
    assert site.agent.refusal("undo", commits=[commits["changed"]]).kind == "conflict"
    (outside / "moved").rename(site.root / "changed")
    site.agent.call("undo", commits=[commits["changed"]])
    assert site.bytes_of("changed/f") == b"one\ntwo\n"
