"""Mounting for a while: tmpfs, and file systems in image files. Root only.

Whatever happens, nothing stays mounted: what is busy at the end is detached lazily, and the
kernel lets go of it, and of its loop device, with the last process that uses it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Seconds for which a mount that is busy is tried to be unmounted.
_BUSY_S = 10.0


def run(*command: str) -> None:
    """Run a program of the system. AssertionError with what it says, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@contextmanager
def mounted(where: Path, *arguments: str) -> Iterator[Path]:
    """``mount`` with these arguments at a directory, which is made."""
    where.mkdir(exist_ok=True)
    run("mount", *arguments, str(where))
    try:
        yield where
    finally:
        unmount(where)


def unmount(where: Path) -> None:
    """Unmount; lazily if it stays busy. A process that was just killed may hold it for a moment."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        # Who mounts the image next must find all of it, also if another test's namespace has a copy
        # of the mount: then umount writes nothing.
        subprocess.run(["sync", "-f", str(where)], capture_output=True, check=False)
        if not subprocess.run(["umount", str(where)], capture_output=True, check=False).returncode:
            return
        if time.monotonic() > deadline:
            run("umount", "-l", str(where))
            return
        time.sleep(0.02)


def make_image(image: Path, size: int, *mkfs: str) -> None:
    """A sparse file of ``size`` bytes with a new file system in it."""
    with image.open("wb") as file:
        file.truncate(size)
    run(*mkfs, str(image))


def why_not_tmpfs() -> str | None:
    """Why nothing can be mounted here; None if it can."""
    return _try("-t", "tmpfs", "-o", "size=1m", "tmpfs")


def why_not_images(kind: str) -> str | None:
    """Why images of a kind of file system can't be mounted here; None if they can."""
    if shutil.which(f"mkfs.{kind}") is None:
        return f"mkfs.{kind} is not installed"
    if kind != "ext4":
        return why_not_images("ext4")
    with tempfile.NamedTemporaryFile() as image:
        make_image(Path(image.name), 4 << 20, "mkfs.ext4", "-q", "-F")
        return _try("-o", "loop", image.name)


def _try(*arguments: str) -> str | None:
    if os.geteuid() != 0:
        return "mounting takes root"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder, "m"), *arguments):
                return None
        except AssertionError as error:
            return f"nothing can be mounted here: {error}"
