"""No path leads out of a workspace or into a Git directory, in any method that takes one.

Each case is a hole that a similar tool had. Every method is given every path,
on a kernel with ``openat2`` and on one that answers ENOSYS; after each refusal all files, inside
and outside, are as they were, times included. Races have a rig of their own (rigs/test_races.py),
and what stands at a path that the history knows is changed under it in test_containment_undo.py.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.bad_input.paths import BAD_NAMES, NOT_FILES, OUTSIDE, PROTECTED
from e2e.bad_input.world import SETTINGS, World
from e2e.running_daemon import Client, DaemonProcess, Refusal, faultless, files_below
from stet.wire.framing import Encoding

NO_OPENAT2 = "from stetd.storage import paths_on_disk\npaths_on_disk._SYS_OPENAT2 = 100_000\n"

Params = Callable[[str], dict[str, Any]]


def _patch(path: str) -> dict[str, Any]:
    return {"path": path, "patches": [{"operation": "append_eof", "newText": "x\n"}]}


def _block(path: str) -> dict[str, Any]:
    lines = [f"===SKIPPY_PATCH_START:{path}===", "===FIND===", "a", "===REPLACE===", "b"]
    return {"text": "\n".join([*lines, "===SKIPPY_PATCH_END==="])}


def _envelope(*lines: str) -> dict[str, Any]:
    return {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def _in_transaction(method: str, params: Params) -> Params:
    return lambda path: {"calls": [{"method": method, "params": params(path)}]}


#: Methods that look at the file now.
EDITS: dict[str, tuple[str, Params]] = {
    "patch": ("patch", _patch),
    "preview": ("patch", lambda path: {**_patch(path), "preview": True}),
    "overwrite": (
        "patch",
        lambda p: {"path": p, "patches": [{"operation": "overwrite", "newText": "x\n"}]},
    ),
    "patch_file": (
        "patch_file",
        lambda path: {"path": path, "changes": [{"search": "a", "replace": "b"}]},
    ),
    "patch_block": ("patch_block", _block),
    "patch_block with filepath": ("patch_block", lambda p: {**_block(p), "filepath": p}),
    "add": ("apply_patch", lambda path: _envelope(f"*** Add File: {path}", "+x")),
    "update": ("apply_patch", lambda path: _envelope(f"*** Update File: {path}", "@@", "-a", "+b")),
    "delete": ("apply_patch", lambda path: _envelope(f"*** Delete File: {path}")),
    "move from": (
        "apply_patch",
        lambda p: _envelope(f"*** Update File: {p}", "*** Move to: new-name.txt", "@@", "-a", "+b"),
    ),
    "move to": (
        "apply_patch",
        lambda path: _envelope(
            "*** Update File: dir/inside.txt", f"*** Move to: {path}", "@@", "-inside", "+moved"
        ),
    ),
    "transaction": ("transaction", _in_transaction("patch", _patch)),
    "transaction of apply_patch": (
        "transaction",
        _in_transaction("apply_patch", lambda path: _envelope(f"*** Add File: {path}", "+x")),
    ),
    "if_match": ("patch", lambda path: {**_patch("a.py"), "if_match": {path: None}}),
    "read": ("read", lambda path: {"path": path}),
}
#: Methods that look a path up in the history.
LOOKUPS: dict[str, tuple[str, Params]] = {
    "read at": ("read", lambda path: {"path": path, "at": "HEAD"}),
    "restore": ("restore", lambda path: {"path": path, "at": "HEAD"}),
    "log": ("log", lambda path: {"path": path}),
    "diff": ("diff", lambda path: {"paths": [path]}),
    "diff of commits": ("diff", lambda path: {"from": "HEAD~1", "to": "HEAD", "paths": [path]}),
    "blame": ("blame", lambda path: {"path": path}),
    "blame at": ("blame", lambda path: {"path": path, "at": "HEAD"}),
    "undo": ("undo", lambda path: {"paths": [path]}),
    "rollback": ("rollback", lambda path: {"to": "HEAD~1", "paths": [path]}),
    "export": ("export", lambda path: {"paths": [path]}),
}
METHODS = EDITS | LOOKUPS
#: These are about a link itself, if one is the last name of a path, and not about its target.
OF_LINKS = {"add", "delete", "move from", "move to", "transaction of apply_patch"}
LINKS = {
    *("passwd", "up-link", "git-link", "chain", "dangling", "nowhere", "magic-file", "dir-link"),
    *("loop", "second-link"),
}

MORE_OUTSIDE = [
    "..",
    "../w-evil/x",
    "dir/../..",
    "./../outside.txt",
    "dir/./.././../outside.txt",
    "chain",
    "far/outside.txt",
    "far/new/deep.txt",
    "far/../outside.txt",
    "dangling",
    "dangling/x",
    "nowhere",
    "magic/x",
    "magic/outside.txt",
    "magic-file",
    "magic-root/etc/passwd",
    "/proc/self/cwd/c.toml",
    "/proc/self/root/etc/passwd",
    "/proc/self/fd/0",
    "/dev/null",
]
MORE_PROTECTED = [
    "git-directory/config",
    "git-chain/hooks/pre-commit",
    ".git/../.git/config",
    ".gIt/hooks/new",
    ".git. . /config",
    ".git\\hooks\\pre-commit",
    ".g\u00adit/config",
    "\u200b.git/config",
    "\uff0egit/config",
    "GIT~1",
    "dir/.git:stream",
    "embedded/config",
    "embedded/HEAD",
    "embedded/hooks/post-update",
    "embedded/refs/heads/new",
    "embedded-link/config",
    "nearly/refs/x",
    ".STET-0123456789ABCDEF.TMP",
]
MORE_NOT_FILES = ["device", "dir/", "file-link/x", "pipe/x", "device/x", "socket/x", "dir/."]


class Ground:
    """A workspace full of traps, what lies outside it, and the agent in it."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.world = World(daemon, Encoding.JSON)
        self.site = self.world.site
        self.root = root = self.site.root
        self.outside = root.parent / "elsewhere"
        (self.outside / "deep").mkdir(parents=True)
        (self.outside / "outside.txt").write_text("a\nprecious\n")
        (root.parent / "w-evil").mkdir()
        for name, leads_to in {
            "far": str(self.outside),
            "chain": "first-link",
            "first-link": "dir/second-link",
            "dir/second-link": "../../elsewhere/outside.txt",
            "dangling": "../not-there-yet",
            "nowhere": "/not/there/at/all",
            "magic": "/proc/self/cwd",
            "magic-root": "/proc/self/root",
            "magic-file": "/proc/self/environ",
            "git-directory": "vendored/.git",
            "git-chain": "git-directory",
            "embedded-link": "embedded",
            "file-link": "a.py",
        }.items():
            (root / name).symlink_to(leads_to)
        for name in ("objects", "refs/heads", "hooks"):
            self.site.write(f"embedded/{name}/x", "a\n")
        self.site.write("embedded/HEAD", "ref: refs/heads/main\n")
        self.site.write("embedded/config", "a\n[core]\n")
        self.site.write("nearly/HEAD", "ref: refs/heads/main\n")
        self.site.write("nearly/objects/x", "a\n")
        if os.geteuid() == 0:
            os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        else:
            os.mkfifo(root / "device")

    def everything(self) -> dict[str, tuple[int, int, bytes]]:
        """All files beside the state and the log, with modes and times."""
        found = {}
        for place in (self.root, self.outside, self.root.parent / "w-evil"):
            found.update({f"{place}/{path}": each for path, each in files_below(place).items()})
        found.update(dict.fromkeys(os.listdir(self.root.parent), (0, 0, b"")))
        return found

    def outside_only(
        self, files: dict[str, tuple[int, int, bytes]]
    ) -> dict[str, tuple[int, int, bytes]]:
        """What of them is not in the workspace."""
        return {path: each for path, each in files.items() if not path.startswith(f"{self.root}/")}

    def check(self, method: str, paths: list[str], kinds: set[str], client: Client) -> None:
        """Every path must be refused with one of these kinds, and change nothing."""
        name, params = METHODS[method]
        if method in OF_LINKS:
            paths = [path for path in paths if path not in LINKS]
        head = self.site.log(limit=1)
        before = self.everything()
        wrong = {}
        for path in paths:
            try:
                answer = client.call(name, **params(path))
                wrong[path] = f"not refused: {answer}"
            except Refusal as refusal:
                if refusal.kind not in kinds:
                    wrong[path] = f"{refusal.kind}: {refusal.message}"
        assert wrong == {}
        assert self.everything() == before
        assert self.site.log(limit=1) == head


@pytest.fixture(scope="module", params=["openat2", "ENOSYS"])
def ground(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Ground]:
    environment = {}
    if request.param == "ENOSYS":
        place = tmp_path_factory.mktemp("customized")
        (place / "sitecustomize.py").write_text(NO_OPENAT2)
        inherited = os.environ.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(p for p in (str(place), inherited) if p)
    with faultless(SETTINGS, environment) as daemon:
        yield Ground(daemon)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_outside(ground: Ground, method: str) -> None:
    root = ground.root
    absolute = [f"{root}-evil/x.txt", f"{root}/../outside.txt", f"/{root.parent}//outside.txt"]
    paths = [*OUTSIDE, *MORE_OUTSIDE, *absolute]
    ground.check(method, paths, {"path_outside_workspace"}, ground.site.agent)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_of_git(ground: Ground, method: str) -> None:
    for client in (ground.site.agent, ground.site.person):
        ground.check(method, [*PROTECTED, *MORE_PROTECTED], {"path_protected"}, client)


@pytest.mark.parametrize("method", EDITS)
def test_nothing_that_is_no_file(ground: Ground, method: str) -> None:
    paths = [*NOT_FILES, *MORE_NOT_FILES]
    kinds = {"not_a_file", "already_exists"} if method in ("add", "move to") else {"not_a_file"}
    ground.check(method, paths, kinds, ground.site.agent)


@pytest.mark.parametrize("method", METHODS)
def test_no_impossible_names(ground: Ground, method: str) -> None:
    # In a line of text such a path ends early, or makes the text too large or unreadable.
    in_text = method.startswith("patch_block") or method in OF_LINKS or method == "update"
    kinds = {"invalid_params"} | ({"parse_error", "input_too_large"} if in_text else set())
    ground.check(method, list(BAD_NAMES), kinds, ground.site.agent)


def test_links_that_stay_inside_are_followed(ground: Ground) -> None:
    """Else the table above would be passed by refusing every link."""
    (ground.root / "own").symlink_to("dir")
    (ground.root / "absolute").symlink_to(ground.root / "dir")
    for path in ("own/inside.txt", "absolute/inside.txt", "own/../dir/inside.txt"):
        assert ground.site.agent.call("read", path=path)["text"] == "inside\n"
    result = ground.site.agent.call("patch", **_patch("own/made.txt"))
    assert [each["path"] for each in result["files"]] == ["dir/made.txt"]
    ground.site.agent.call("undo")


def test_a_link_is_deleted_and_its_target_stays(ground: Ground) -> None:
    for name in sorted(LINKS - {"second-link"}):
        leads_to = os.readlink(ground.root / name)
        before = ground.everything()
        add = METHODS["add"][1](name)
        assert ground.site.agent.refusal("apply_patch", **add).kind == "already_exists"
        ground.site.agent.call("apply_patch", **METHODS["delete"][1](name))
        assert not os.path.lexists(ground.root / name)
        ground.site.agent.call("undo")
        assert os.readlink(ground.root / name) == leads_to
        assert ground.outside_only(ground.everything()) == ground.outside_only(before)


# -- the session's directory


@pytest.mark.parametrize(
    "directory", ["far", "magic", "magic-root", "{root}-evil", "..", "dir/../..", "chain"]
)
def test_no_session_begins_outside(ground: Ground, directory: str) -> None:
    chosen = directory.format(root=ground.root)
    workspace = chosen if chosen.startswith("/") else f"{ground.root}/{chosen}"
    refusal = ground.site.daemon.agent().refusal("hello", protocol=1, workspace=workspace)
    assert refusal.kind == "workspace_not_allowed"


def _in_directory(ground: Ground, directory: str) -> Client:
    client = ground.site.daemon.agent()
    client.call("hello", protocol=1, workspace=f"{ground.root}/{directory}", session="elsewhere")
    return client


@pytest.mark.parametrize(
    ("directory", "path", "kind"),
    [
        (".git", "config", "path_protected"),
        ("vendored/.git", "HEAD", "path_protected"),
        ("git-directory", "HEAD", "path_protected"),
        ("embedded/hooks", "post-update", "path_protected"),
        ("dir", "../../outside.txt", "path_outside_workspace"),
        ("dir", "second-link", "path_outside_workspace"),
        ("dir", "../.git/config", "path_protected"),
    ],
)
def test_the_sessions_directory_gives_no_more_rights(
    ground: Ground, directory: str, path: str, kind: str
) -> None:
    client = _in_directory(ground, directory)
    for method in ("patch", "read", "add", "log", "diff", "undo", "restore"):
        ground.check(method, [path], {kind}, client)


def test_a_sessions_directory_that_becomes_a_link_leads_nowhere(ground: Ground) -> None:
    (ground.root / "begun-in").mkdir()
    client = _in_directory(ground, "begun-in")
    (ground.root / "begun-in").rmdir()
    (ground.root / "begun-in").symlink_to(ground.outside)
    for method in METHODS:
        ground.check(method, ["outside.txt"], {"path_outside_workspace"}, client)
