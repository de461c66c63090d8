"""The workspace that all cases of bad input share, and who may speak in one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from e2e.running_daemon import Client, DaemonProcess
from stet.wire.framing import Encoding

SETTINGS = {"max_file_bytes": 20_000, "max_clipboard_bytes": 5_000}
A = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


class World:
    """The workspace that all cases share, and who may speak in a case."""

    def __init__(self, daemon: DaemonProcess, encoding: Encoding) -> None:
        self.site = site = daemon.site(f"ws-{encoding.value}", encoding=encoding)
        self._arrange_files()
        first = site.replace("a.py", "return 1", "return 11", request_id="used")
        self.first, self.outside = first["commit"], first["outside"]
        site.replace("a.py", "return 11", "return 1")
        site.agent.call("clipboard_set", name="kept", text="kept text\n")
        self.other = site.another("conv-2")
        self.others_commit = self.other.call(
            "patch",
            path="other.txt",
            patches={"operation": "append_eof", "newText": "theirs\n"},
            request_id="theirs",
        )["commit"]
        self._make_conflict()
        site.another("guarded", secret="open sesame")
        self.locked = site.another("locked")
        self.locked.call("mode_set", mode="restricted")
        self.speakers: dict[str, Callable[[], Client]] = {
            "agent": lambda: site.agent,
            "person": lambda: site.person,
            "locked": lambda: self.locked,
            "stranger": lambda: daemon.agent(encoding),
            "control": lambda: daemon.control(encoding),
        }

    def _arrange_files(self) -> None:
        site, root = self.site, self.site.root
        site.write("a.py", A)
        site.write("twice.txt", "same\nother\nsame\n")
        site.write("near.txt", "alpha\n    beta \ngamma\n")
        site.write("crooked.txt", "  one\nthree\n")
        site.write("nul.bin", b"\x7fELF\x00\x01")
        site.write("latin.txt", b"caf\xe9\nplain\n")
        site.write("big.txt", "x" * 20_001)
        site.write("long.txt", "y" * 6_000 + "\nend\n")
        site.write(".git/config", "[core]\n")
        site.write("vendored/.git/HEAD", "ref: refs/heads/main\n")
        site.write("conflict.txt", "1\n2\n3\n")
        site.write("dir/inside.txt", "inside\n")
        (root / "dir-link").symlink_to("dir")
        (root / "out-link").symlink_to("/etc")
        (root / "passwd").symlink_to("/etc/passwd")
        (root / "up-link").symlink_to("../outside.txt")
        (root / "git-link").symlink_to(".git/config")
        (root / "loop").symlink_to("loop")
        os.mkfifo(root / "pipe")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(root / "socket"))
        (root.parent / "outside.txt").write_text("outside\n")
        evil = root.parent / f"{root.name}-evil"
        evil.mkdir()
        (evil / "x.txt").write_text("evil\n")

    def _make_conflict(self) -> None:
        self.early = self.site.replace("conflict.txt", "2", "two", request_id="early")["commit"]
        self.undone = self.site.replace("conflict.txt", "1", "one", request_id="gone")["commit"]
        self.undo = self.site.agent.call("undo", commits=[self.undone])["commit"]
        self.site.write("conflict.txt", "1\nTWO by hand\n3\n")
