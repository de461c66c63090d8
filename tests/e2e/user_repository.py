"""A person's own Git repository, beside a workspace: what an export is applied to. No tests."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_COMMITTER_NAME": "person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "GIT_AUTHOR_NAME": "person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
}


class UserRepository:
    """An ordinary repository with a work tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")
        self.git("config", "core.autocrlf", "false")

    def git(self, *arguments: str, data: bytes = b"", check: bool = True) -> bytes:
        """Run git in it; what it prints."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=ENVIRONMENT, input=data, capture_output=True,
            check=False,
        )  # fmt: skip
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert not check or done.returncode == 0, said
        return done.stdout

    def take(self, root: Path) -> None:
        """Commit the files of a directory as they are."""
        for path in sorted(root.rglob("*")):
            target = self.root / path.relative_to(root)
            if path.is_symlink():
                target.symlink_to(os.readlink(path))
            elif path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(path.read_bytes())
                target.chmod(path.stat().st_mode)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "base")

    def am(self, mbox: str, *options: str) -> None:
        """Apply messages."""
        self.git("am", "-q", *options, data=mbox.encode())

    def log(self, form: str) -> list[str]:
        """The commits above the base, oldest first, in a format."""
        text = self.git("log", "--reverse", f"--format={form}%x00", "HEAD").decode()
        return [each.strip("\n") for each in text.split("\0")[1:-1]]


def content_of(root: Path) -> dict[str, tuple[str, bytes]]:
    """Path to kind (Git's modes) and content of every file below."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(".git/") or name == ".git":
            continue
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            found[name] = "link", os.fsencode(os.readlink(path))
        elif stat.S_ISREG(info.st_mode):
            found[name] = "755" if info.st_mode & 0o100 else "644", path.read_bytes()
    return found
