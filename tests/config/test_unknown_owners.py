"""Files of others in a user namespace, where a hardened service is: kept, or refused."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from stetd.config.directories import unknown_owner

#: Edits the file in a namespace that knows one user and group, its own; prints what comes of it.
EDIT = """
import os, sys
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree
from stetd.config.directories import unknown_owner
worktree = Worktree(sys.argv[1], Disk())
target = worktree.resolver.resolve("a.txt", follow_last=False)
try:
    before = worktree.read(target, 100)
    worktree.stage(target, ".stet-1.tmp", b"new", 0o100664, like=before)
    worktree.swap(target, ".stet-1.tmp")
    print("edited")
except OSError as error:
    print(error.strerror)
print(unknown_owner("uid"), unknown_owner("gid"), os.stat("/").st_uid)
"""
FOREIGN = 4242
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")


def edited(root: Path, *namespace: str) -> list[str]:
    done = subprocess.run(
        [*namespace, sys.executable, "-c", EDIT, str(root)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "a.txt"
    file.write_bytes(b"old")
    file.chmod(0o664)
    return file


def test_outside_of_user_namespaces_every_owner_is_known() -> None:
    if Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]:
        assert (-1, -1) == (unknown_owner("uid"), unknown_owner("gid"))


@needs_root
@pytest.mark.parametrize("namespace", [[], ["unshare", "--user", "--map-root-user"]])
def test_own_files_are_edited_in_any_namespace(file: Path, namespace: list[str]) -> None:
    assert "edited" == edited(file.parent, *namespace)[0]
    assert b"new" == file.read_bytes()


@needs_root
def test_a_group_is_kept_where_it_is_known(file: Path) -> None:
    os.chown(file, 0, FOREIGN)
    assert ["edited", "-1 -1 0"] == edited(file.parent)
    assert (b"new", FOREIGN) == (file.read_bytes(), file.stat().st_gid)


@needs_root
@pytest.mark.parametrize("inherited", [False, True])
def test_a_file_of_an_unknown_group_is_refused_and_left(file: Path, inherited: bool) -> None:
    """Also in a directory that gives new files its group: it may be another one."""
    os.chown(file, 0, FOREIGN)
    if inherited:
        os.chown(file.parent, 0, FOREIGN + 1)
        file.parent.chmod(0o2770)
    said, told = edited(file.parent, "unshare", "--user", "--map-root-user")
    assert said.startswith("this file belongs to another group")
    assert "65534 65534 0" == told
    assert (b"old", FOREIGN) == (file.read_bytes(), file.stat().st_gid)


@needs_root
def test_a_file_with_an_access_list_of_unknown_groups_is_refused(file: Path) -> None:
    # acl(5) as linux/posix_acl_xattr.h has it: version, then tag, permissions and id of each.
    entries = [(1, 6, -1), (4, 6, -1), (8, 6, FOREIGN), (16, 6, -1), (32, 4, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"no access lists here: {error}")
    said, _ = edited(file.parent, "unshare", "--user", "--map-root-user")
    assert said.startswith("this file belongs to another group")
    assert (b"old", acl) == (file.read_bytes(), os.getxattr(file, "system.posix_acl_access"))


@needs_root
def test_an_unknown_owner_is_not_kept_but_a_known_group_is(file: Path) -> None:
    """As everywhere: who may write a file of another user's becomes its owner."""
    os.chown(file, FOREIGN, 0)
    file.chmod(0o666)
    assert "edited" == edited(file.parent, "unshare", "--user", "--map-root-user")[0]
    assert (b"new", 0, 0) == (file.read_bytes(), file.stat().st_uid, file.stat().st_gid)
