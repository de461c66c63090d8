"""Bad input through the socket: every error kind, and that a refusal changes nothing.

Each case is sent in both encodings to one workspace that all cases share; before and after
every one of them a picture is taken of all files (with modes and times), clipboards, mode,
history, workspaces and sessions, and the two must be equal. Kinds that need a machine in
trouble (a full disk, a failed fsync, a stop) are in test_trouble.py, frames that can not be
read in test_bad_frames.py.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.running_daemon import BOTH, Client, DaemonProcess, Refusal
from stet.wire.failures import Kind, code_of
from stet.wire.framing import Encoding

SETTINGS = {"max_file_bytes": 20_000, "max_clipboard_bytes": 5_000}
A = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
TOOL_DISABLED = (
    "Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request write access."
)


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


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess(SETTINGS)
    try:
        process.start()
        yield process
        assert process.stop() == 0
        assert process.log() == ""
    finally:
        process.close()


@pytest.fixture(scope="module", params=BOTH, ids=str)
def world(request: pytest.FixtureRequest, daemon: DaemonProcess) -> World:
    return World(daemon, request.param)


@dataclass(frozen=True)
class Case:
    """A request and what its refusal says. In ``params`` and ``says`` a callable asks the world."""

    kind: Kind
    name: str
    method: str
    params: dict[str, Any] | Callable[[World], dict[str, Any]]
    says: list[str] | Callable[[World], list[str]]
    speaker: str = "agent"
    #: For each failure what it must have, in order; None: there is one, of ``kind``.
    failures: list[dict[str, Any]] | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}".replace(" ", "_")


def refused(world: World, case: Case) -> Refusal:
    """Send a case; what must hold for all of them is checked here."""
    client = world.speakers[case.speaker]()
    params = case.params(world) if callable(case.params) else case.params
    before = world.site.picture()
    refusal = client.refusal(case.method, **params)
    assert world.site.picture() == before
    assert case.kind == refusal.kind, refusal.message
    assert code_of(case.kind) == refusal.code
    for part in case.says(world) if callable(case.says) else case.says:
        assert part in refusal.message
    assert "\n".join(each["message"] for each in refusal.failures) == refusal.message
    return refusal


def patch(*patches: dict[str, Any], path: str = "a.py", **more: Any) -> dict[str, Any]:
    """Params of a patch call."""
    return {"path": path, "patches": list(patches), **more}


def replace(old: str, new: str = "NEW", **more: Any) -> dict[str, Any]:
    """A replacement."""
    return {"operation": "replace", "oldText": old, "newText": new, **more}


def append(text: str = "x\n", **more: Any) -> dict[str, Any]:
    """An addition."""
    return {"operation": "append_eof", "newText": text, **more}


# -- the patch dialect

PATCH_CASES = [
    Case(
        Kind.OLD_TEXT_NOT_FOUND,
        "nowhere",
        "patch",
        patch(replace("class Nothing:\n    pass\n")),
        ["patch 1: old text not found in a.py."],
        failures=[{"kind": "old_text_not_found", "index": 0, "path": "a.py"}],
    ),
    Case(
        Kind.OLD_TEXT_NOT_FOUND,
        "nearest passage",
        "patch",
        patch(replace("alpha\n    beta\ndelta\n"), path="near.txt"),
        ["patch 1: old text not found in near.txt.", "gamma"],
        failures=[{"kind": "old_text_not_found", "index": 0, "path": "near.txt", "line": 1}],
    ),
    Case(
        Kind.OLD_TEXT_NOT_FOUND,
        "already applied",
        "patch",
        patch(replace("    return 0\n", "    return 2\n")),
        ["patch 1: old text not found in a.py.", "already"],
    ),
    Case(
        Kind.OLD_TEXT_NOT_UNIQUE,
        "twice",
        "patch",
        patch(replace("same\n"), path="twice.txt"),
        [
            "patch 1: old text stands 2 times in twice.txt, at lines 1 and 3; it must stand there "
            "exactly once. Send more of the surrounding lines in oldText"
        ],
        failures=[
            {
                "kind": "old_text_not_unique",
                "index": 0,
                "path": "twice.txt",
                "candidates": [1, 3],
            }
        ],
    ),
    Case(
        Kind.OLD_TEXT_NOT_UNIQUE,
        "tolerantly twice",
        "patch",
        patch(replace("same \n"), path="twice.txt"),
        ["patch 1: old text stands 2 times in twice.txt (compared with tolerance:"],
        failures=[{"kind": "old_text_not_unique", "candidates": [1, 3]}],
    ),
    Case(
        Kind.MISSING_OLD_TEXT,
        "absent",
        "patch",
        patch({"operation": "replace", "newText": "x"}),
        ["patch 1: replace needs oldText", "append_eof or prepend_bof", "overwrite"],
    ),
    Case(
        Kind.MISSING_OLD_TEXT,
        "empty",
        "patch",
        patch(replace("")),
        ["patch 1: replace needs oldText, the exact text to look for, and it may not be empty."],
    ),
    Case(
        Kind.MISSING_CLIPBOARD,
        "names the ones that exist",
        "patch",
        patch(replace("return 1", fromClipboard="lost")),
        ['patch 1: there is no clipboard "lost". Clipboards that exist: "kept".'],
    ),
    Case(
        Kind.MISSING_CLIPBOARD,
        "filled by a later patch only",
        "patch",
        patch(append("", fromClipboard="c"), replace("    return 1\n", "", toClipboard="c")),
        ['patch 1: there is no clipboard "c".', "in an earlier call or in an earlier patch"],
    ),
    Case(
        Kind.CLIPBOARD_REQUIRES_REPLACE,
        "on append",
        "patch",
        patch(append(toClipboard="c")),
        ["patch 1: toClipboard stores the text that a replace matched; append_eof matches none."],
    ),
    Case(
        Kind.CLIPBOARD_REQUIRES_REPLACE,
        "on overwrite",
        "patch",
        patch({"operation": "overwrite", "newText": "x", "toClipboard": "c"}),
        ["overwrite matches none. Use replace with oldText, or leave toClipboard out."],
    ),
    Case(
        Kind.STRIP_PRECONDITION_FAILED,
        "line and prefix",
        "patch",
        patch(replace("return 1", "    a\n  b\n", reindent={"strip": "    "})),
        ['patch 1: reindent.strip is "    ", but line 2 of the inserted text', '"  b"'],
        failures=[{"kind": "strip_precondition_failed", "index": 0, "line": 2}],
    ),
    Case(
        Kind.OVERLAPPING_EDITS,
        "both indexes",
        "patch",
        patch(replace("return 1"), append("# end\n"), replace("    return 1\n", "    return 3\n")),
        ["patch 3: overlaps patch 1: both change the same text at line 2 of a.py."],
        failures=[{"kind": "overlapping_edits", "index": 2, "path": "a.py", "line": 2}],
    ),
    Case(
        Kind.OVERLAPPING_EDITS,
        "the same insertion twice",
        "patch",
        patch(append("same\n"), append("same\n")),
        ["patch 2: overlaps patch 1: both insert the same text at the same place"],
        failures=[{"index": 1}],
    ),
    Case(
        Kind.OVERLAPPING_EDITS,
        "overwrite beside others",
        "patch",
        patch(replace("return 1"), {"operation": "overwrite", "newText": "x"}),
        ["patch 1: overlaps patch 2, which overwrites the whole of a.py. Send the overwrite alone"],
    ),
    Case(
        Kind.NO_CHANGE,
        "the same text",
        "patch",
        patch(replace("return 1", "return 1")),
        ["patch 1: changes nothing: a.py already reads like this"],
    ),
    Case(
        Kind.NO_CHANGE,
        "overwrite with what is there",
        "patch",
        patch({"operation": "overwrite", "newText": A}),
        ["patch 1: changes nothing"],
    ),
    Case(
        Kind.FILE_NOT_FOUND,
        "replace in a missing file",
        "patch",
        patch(replace("x"), path="no/such.txt"),
        [
            "patch 1: there is no file no/such.txt, so nothing in it can be replaced. Check the "
            "path; to create the file use append_eof, prepend_bof or overwrite."
        ],
    ),
    Case(
        Kind.NOT_TEXT,
        "binary",
        "patch",
        patch(append(), path="nul.bin"),
        ["NUL (byte 0x00) at offset 4", "overwrite still works"],
    ),
    Case(
        Kind.NOT_TEXT,
        "bytes that are not UTF-8 where it is edited",
        "patch",
        patch(replace("café"), path="latin.txt"),
        ["byte 0xe9 at line 1 is not UTF-8", "overwrite still works"],
        failures=[{"kind": "not_text", "line": 1}],
    ),
    Case(
        Kind.INPUT_TOO_LARGE,
        "tokens",
        "patch",
        lambda world: patch(append("word " * 61_000)),
        ["61,001 tokens long; the limit is 60,000. Break the edit into smaller patches"],
    ),
    Case(
        Kind.OLD_TEXT_NOT_FOUND,
        "all failures of a call",
        "patch",
        patch(
            replace("absent"),
            replace("return"),
            append(toClipboard="c"),
            replace("return 1", fromClipboard="lost"),
            {"operation": "replace"},
        ),
        ["patch 1: ", "patch 2: ", "patch 3: ", "patch 4: ", "patch 5: "],
        failures=[
            {"kind": "old_text_not_found", "index": 0},
            {"kind": "old_text_not_unique", "index": 1, "candidates": [2, 6]},
            {"kind": "clipboard_requires_replace", "index": 2},
            {"kind": "missing_clipboard", "index": 3},
            {"kind": "missing_old_text", "index": 4},
        ],
    ),
    Case(
        Kind.OLD_TEXT_NOT_FOUND,
        "one bad patch spoils the call and its clipboard",
        "patch",
        patch(replace("    return 2\n", "", toClipboard="c"), replace("absent")),
        ["patch 2: old text not found"],
        failures=[{"kind": "old_text_not_found", "index": 1}],
    ),
]

# -- paths, by every method that takes one

OUTSIDE = [
    "../outside.txt",
    "/etc/passwd",
    "dir/../../outside.txt",
    "dir-link/../../outside.txt",
    "passwd",
    "up-link",
    "out-link/passwd",
    "out-link/new.txt",
]
PROTECTED = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/config",
    "vendored/.git/HEAD",
    "new/.git/hooks/x",
    "git~1/config",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    ".g\u200cit/config",
    "git-link",
    "dir/../.git/config",
    ".git",
    ".stet-0123456789abcdef.tmp",
]
NOT_FILES = {
    "dir": "a directory",
    "dir-link": "a directory",
    ".": "a directory",
    "pipe": "a named pipe",
    "socket": "a socket",
    "a.py/x": "a.py is not a directory",
    "loop": "symbolic links",
}
BAD_NAMES = {
    "a\x00b": "control characters",
    "a\nb": "control characters",
    "dir/\x1b[31m": "control characters",
    "n" * 256: "255",
    "new/../x": "'..' after a directory that does not exist",
    "d/" * 256 + "x": "255 names one below the other are the most.",
    "d/" * 2_100 + "x": "4095 bytes",
    "a/" * 200_000 + "x": "4095 bytes",
    "dir/../" * 1_000 + "x": "4095 bytes",
}


def path_cases(method: str, params: Callable[[str], dict[str, Any]]) -> Iterator[Case]:
    """Every bad path in a method that takes one."""
    for path in OUTSIDE:
        yield Case(
            Kind.PATH_OUTSIDE_WORKSPACE,
            f"{method} {path}",
            method,
            params(path),
            lambda world, path=path: [  # type: ignore[misc]
                f"{path}: this path leads outside the workspace {world.site.root}. Use a path "
                "inside the workspace, relative to it."
            ],
        )
    yield Case(
        Kind.PATH_OUTSIDE_WORKSPACE,
        f"{method} sibling with the same beginning",
        method,
        lambda world: params(f"{world.site.root}-evil/x.txt"),
        ["leads outside the workspace"],
    )
    for path in PROTECTED:
        yield Case(Kind.PATH_PROTECTED, f"{method} {path!a}", method, params(path), [path])
    for path, what in NOT_FILES.items():
        yield Case(Kind.NOT_A_FILE, f"{method} {path}", method, params(path), [what])
    for path, what in BAD_NAMES.items():
        name = f"{method} path {path[:10]!a} {len(path)}"
        yield Case(Kind.INVALID_PARAMS, name, method, params(path), [what])


PATH_CASES = [
    *path_cases("patch", lambda path: patch(append(), path=path)),
    *path_cases("read", lambda path: {"path": path}),
    Case(
        Kind.FILE_TOO_LARGE,
        "patch",
        "patch",
        patch(append(), path="big.txt"),
        ["big.txt: this file has 20,001 bytes, 20,000 is the most"],
        failures=[{"kind": "file_too_large", "path": "big.txt"}],
    ),
    Case(
        Kind.FILE_TOO_LARGE,
        "read",
        "read",
        {"path": "big.txt"},
        ["big.txt: this file has 20,001 bytes, 20,000 is the most"],
        failures=[{"kind": "file_too_large", "path": "big.txt"}],
    ),
    Case(
        Kind.FILE_NOT_FOUND,
        "read",
        "read",
        {"path": "no/such.txt"},
        ["no/such.txt: there is no such file"],
        failures=[{"kind": "file_not_found", "path": "no/such.txt"}],
    ),
    Case(
        Kind.FILE_NOT_FOUND,
        "read at a commit",
        "read",
        {"path": "latin.txt", "at": "HEAD"},
        ["latin.txt: the history has no such file at", "files that edits have touched"],
    ),
    Case(
        Kind.NOT_TEXT,
        "read",
        "read",
        {"path": "nul.bin"},
        ["nul.bin: this file is binary (a NUL byte at offset 4)"],
    ),
]

# -- if_match

NOWHERE = "0" * 40
STALE_CASES = [
    Case(
        Kind.STALE,
        "text",
        "patch",
        patch(replace("return 1"), if_match=NOWHERE),
        [f"a.py: if_match expects blob {NOWHERE}, but there is blob ", "Read the file again"],
        failures=[{"kind": "stale", "path": "a.py"}],
    ),
    Case(
        Kind.STALE,
        "must not exist",
        "patch",
        patch(replace("return 1"), if_match={"a.py": None}),
        ["a.py: if_match expects no file, but there is blob "],
    ),
    Case(
        Kind.STALE,
        "must exist",
        "patch",
        patch(append(), path="new.txt", if_match=NOWHERE),
        [f"new.txt: if_match expects blob {NOWHERE}, but there is no file"],
    ),
    Case(
        Kind.STALE,
        "map about another file too",
        "patch",
        patch(replace("return 1"), if_match={"a.py": NOWHERE, "twice.txt": NOWHERE}),
        ["a.py: if_match expects", "twice.txt: if_match expects"],
        failures=[{"path": "a.py"}, {"path": "twice.txt"}],
    ),
    Case(
        Kind.STALE,
        "undo",
        "undo",
        {"if_match": {"other.txt": NOWHERE}},
        ["other.txt: if_match expects"],
    ),
    Case(
        Kind.STALE,
        "preview",
        "patch",
        patch(replace("return 1"), if_match=NOWHERE, preview=True),
        ["a.py: if_match expects"],
    ),
    Case(
        Kind.INVALID_PARAMS,
        "if_match text for a method of several files",
        "undo",
        {"if_match": NOWHERE},
        ["if_match", 'send a map from path to blob id: {"src/a.py": "<oid>"}'],
    ),
    Case(
        Kind.PATH_PROTECTED,
        "if_match",
        "patch",
        patch(replace("return 1"), if_match={".git/config": None}),
        [".git/config"],
    ),
]

# -- who may do what

PERMISSION_CASES = [
    *(
        Case(
            Kind.NOT_PERMITTED,
            method,
            method,
            params,
            [f"{method} is for the person at the machine: it works on control.sock only."],
        )
        for method, params in {
            "workspace_allow": {"root": "/tmp"},
            "workspace_forget": {"root": "/tmp"},
            "workspace_list": {},
            "shutdown": {},
        }.items()
    ),
    *(
        Case(
            Kind.NOT_PERMITTED,
            f"mode_set {params}",
            "mode_set",
            params,
            ["an agent may only set its own session to restricted. Use request_mode_upgrade"],
        )
        for params in [
            {"mode": "unrestricted"},
            {"mode": "restricted", "scope": "workspace"},
            {"mode": "unrestricted", "scope": "workspace"},
            {"mode": "restricted", "session": "conv-2"},
            {"mode": "restricted", "workspace": "/"},
        ]
    ),
    Case(
        Kind.NOT_PERMITTED,
        "undo of another session's commit",
        "undo",
        lambda world: {"commits": [world.others_commit]},
        lambda world: [
            f"{world.others_commit[:8]} is not an edit of this session; an agent may take back its "
            f"own edits only. A person can undo it with: stet undo {world.others_commit[:8]}"
        ],
    ),
    Case(
        Kind.NOT_PERMITTED,
        "undo of another session's request",
        "undo",
        {"request": "theirs"},
        ["is not an edit of this session"],
    ),
    Case(
        Kind.NOT_PERMITTED,
        "undo filtered by another session",
        "undo",
        {"session": "conv-2"},
        ["an agent may take back its own edits only"],
    ),
    Case(
        Kind.NOT_PERMITTED,
        "undo of an own and another's",
        "undo",
        lambda world: {"commits": [world.early, world.others_commit]},
        ["is not an edit of this session"],
    ),
    Case(
        Kind.NOT_PERMITTED,
        "undo of an outside edit",
        "undo",
        lambda world: {"commits": [world.outside]},
        ["is not an edit of this session"],
    ),
    Case(
        Kind.NOT_PERMITTED,
        "hello with no secret",
        "hello",
        lambda world: {"protocol": 1, "workspace": str(world.site.root), "session": "guarded"},
        ["session 'guarded' was opened with a secret; give the same one in hello"],
        speaker="stranger",
    ),
    Case(
        Kind.NOT_PERMITTED,
        "hello with a wrong secret",
        "hello",
        lambda world: {
            "protocol": 1,
            "workspace": str(world.site.root),
            "session": "guarded",
            "secret": "sesame",
        },
        ["or choose another session name"],
        speaker="stranger",
    ),
    *(
        Case(Kind.TOOL_DISABLED, f"{method} {params}", method, params, [], speaker="locked")
        for method, params in [
            ("patch", patch(replace("return 1"))),
            ("patch", patch(replace("return 1"), preview=True)),
            ("patch", patch(replace("absent"), path="../outside.txt")),
            ("undo", {}),
            ("undo", {"preview": True}),
        ]
    ),
]

# -- hello, protocol, workspace

HELLO_CASES = [
    *(
        Case(
            Kind.HELLO_REQUIRED,
            f"{method} from {speaker}",
            method,
            params,
            [
                f"{method}: say hello with a workspace first: "
                '{"method": "hello", "params": {"protocol": 1, "workspace": "/absolute/path"}}'
            ],
            speaker=speaker,
        )
        for speaker in ("stranger", "control")
        for method, params in [
            ("patch", patch(replace("return 1"))),
            ("read", {"path": "a.py"}),
            ("undo", {}),
            ("log", {}),
            ("show", {"commit": "HEAD"}),
            ("diff", {}),
            ("clipboard_list", {}),
            ("clipboard_get", {"name": "kept"}),
            ("clipboard_set", {"name": "kept", "text": ""}),
            ("clipboard_delete", {"name": "kept"}),
            ("mode_get", {}),
            ("mode_set", {"mode": "restricted"}),
        ]
    ),
    *(
        Case(
            Kind.UNSUPPORTED_PROTOCOL,
            f"{protocol} {sorted(more)}",
            "hello",
            {"protocol": protocol, **more},
            [f"protocol {protocol} is not spoken here; this daemon speaks: 1."],
            speaker="stranger",
        )
        for protocol, more in [
            (2, {"workspace": "/tmp"}),
            (0, {}),
            (-1, {}),
            (2**40, {}),
            (2, {"workspace": "/tmp", "capabilities": ["new"]}),
        ]
    ),
    *(
        Case(Kind.WORKSPACE_NOT_ALLOWED, name, "hello", params, says, speaker="stranger")
        for name, params, says in [
            (
                "never allowed",
                {"protocol": 1, "workspace": "/usr"},
                ["/usr is not an allowed workspace, nor inside one.", "stet init /usr"],
            ),
            (
                "sibling with the same beginning",
                lambda world: {"protocol": 1, "workspace": f"{world.site.root}-evil"},
                ["-evil is not an allowed workspace"],
            ),
            (
                "parent",
                lambda world: {"protocol": 1, "workspace": str(world.site.root.parent)},
                ["is not an allowed workspace, nor inside one."],
            ),
            (
                "through a link that leads out",
                lambda world: {"protocol": 1, "workspace": str(world.site.root / "out-link")},
                ["/etc is not an allowed workspace"],
            ),
            (
                "a directory that is not there",
                lambda world: {"protocol": 1, "workspace": str(world.site.root / "nowhere")},
                ["/nowhere is not a directory."],
            ),
            (
                "a file",
                lambda world: {"protocol": 1, "workspace": str(world.site.root / "a.py")},
                ["/a.py is not a directory."],
            ),
        ]
    ),
    *(
        Case(Kind.INVALID_PARAMS, f"hello {name}", "hello", params, says, speaker="stranger")
        for name, params, says in [
            ("without workspace", {"protocol": 1}, ["hello: workspace is required: an absolute"]),
            (
                "relative workspace",
                {"protocol": 1, "workspace": "src"},
                ["hello: workspace must be an absolute directory, not 'src'."],
            ),
            (
                "NUL in workspace",
                {"protocol": 1, "workspace": "/tmp/\x00"},
                ["hello: workspace must be an absolute directory"],
            ),
            *(
                (
                    f"{what} {label!a}",
                    {"protocol": 1, "workspace": "/tmp", what: label},
                    [f"the {what}", "no control characters, and no white space at its ends."],
                )
                for what in ("session", "agent")
                for label in ("a\nStet-Agent: root", "a\x00", " a", "a\t", "\x7f")
            ),
            *(
                (f"{what} of {len(label)}", {"protocol": 1, "workspace": "/tmp", what: label}, says)
                for what in ("session", "agent")
                for label, says in [("", [f"`{what}`"]), ("n" * 201, [f"`{what}`", "200"])]
            ),
            (
                "client name with a newline",
                {"protocol": 1, "workspace": "/tmp", "client": {"name": "a\nb"}},
                ["the client", "no control characters"],
            ),
        ]
    ),
    *(
        Case(
            Kind.WORKSPACE_NOT_ALLOWED, f"allow {name}", "workspace_allow", params, says, "control"
        )
        for name, params, says in [
            ("the root", {"root": "/"}, ["can't be a workspace: it is the root", "Choose a"]),
            ("home", lambda world: {"root": os.path.expanduser("~")}, ["can't be a workspace"]),
            ("a system directory", {"root": "/usr/lib"}, ["can't be a workspace: it "]),
            (
                "the state directory",
                lambda world: {"root": str(world.site.daemon.state)},
                ["stet's own directory"],
            ),
            (
                "what holds the state directory",
                lambda world: {"root": str(world.site.daemon.base)},
                ["stet's own directory"],
            ),
            (
                "inside the runtime directory",
                lambda world: {"root": str(world.site.daemon.runtime)},
                ["stet's own directory"],
            ),
            ("nothing", {"root": "/tmp/no/such"}, ["/tmp/no/such: No such file or directory"]),
            (
                "a file",
                lambda world: {"root": str(world.site.root / "a.py")},
                ["a.py is not a directory"],
            ),
            (
                "a Git directory",
                lambda world: {"root": str(world.site.root / ".git")},
                ["it lies in a Git directory"],
            ),
        ]
    ),
    *(
        Case(Kind.WORKSPACE_NOT_ALLOWED, f"{method} {name}", method, params, says, "control")
        for method, name, params, says in [
            (
                "workspace_forget",
                "never allowed",
                {"root": "/usr"},
                ["/usr is not an allowed workspace."],
            ),
            (
                "workspace_forget",
                "a directory inside a workspace",
                lambda world: {"root": str(world.site.root / "dir")},
                ["is not an allowed workspace"],
            ),
            (
                "mode_set",
                "never allowed",
                {"mode": "restricted", "scope": "workspace", "workspace": "/usr"},
                ["/usr is not an allowed workspace."],
            ),
        ]
    ),
    *(
        Case(
            Kind.INVALID_PARAMS,
            f"{method} {root!a}",
            method,
            {**more, field: root},
            says,
            "control",
        )
        for method, field, more in [
            ("workspace_allow", "root", {}),
            ("workspace_forget", "root", {}),
            ("mode_set", "workspace", {"mode": "restricted", "scope": "workspace"}),
        ]
        for root, says in [
            ("relative", ["absolute directory, not 'relative'"]),
            ("", ["absolute directory, not ''"]),
            ("/tmp/\x00", ["absolute directory, not '/tmp/\\x00'"]),
        ]
    ),
]

# -- history

HISTORY_CASES = [
    *(
        Case(
            Kind.UNKNOWN_COMMIT,
            f"{method} {name[:20]!a}",
            method,
            params(name),
            [
                f"{name}: there is no such commit in this workspace's history. Send a full id, a "
                "unique prefix of at least 4 digits, HEAD or HEAD~n; `log` lists the ids."
            ],
        )
        for method, params in {
            "show": lambda name: {"commit": name},
            "read": lambda name: {"path": "a.py", "at": name},
            "diff": lambda name: {"from": name},
            "undo": lambda name: {"commits": [name]},
        }.items()
        for name in [
            NOWHERE,
            "0000",
            "abc",
            "main",
            "HEAD~999999",
            "HEAD~x",
            "HEAD~\u00b2",
            "HEAD~-1",
            "HEAD^",
            "HEAD~" + "9" * 5000,
            "--all",
            "zzzz",
            "0" * 41,
        ]
    ),
    Case(
        Kind.UNKNOWN_COMMIT,
        "show a blob",
        "show",
        lambda world: {"commit": world.site.agent.call("read", path="a.py")["oid"]},
        ["there is no such commit"],
    ),
    Case(Kind.UNKNOWN_COMMIT, "diff to", "diff", {"to": NOWHERE}, ["there is no such commit"]),
    Case(
        Kind.UNKNOWN_REQUEST,
        "undo",
        "undo",
        {"request": "never sent"},
        ["no commit was made by request 'never sent'", "`log` lists"],
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "undone already",
        "undo",
        lambda world: {"commits": [world.undone]},
        lambda world: [f"{world.undone[:8]} is undone already, by {world.undo[:8]}."],
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "request undone already",
        "undo",
        {"request": "gone"},
        ["is undone already"],
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "session without edits",
        "undo",
        {"session": "guarded"},
        ["there is no edit left to undo in session 'guarded'", "Undos and edits made outside"],
        speaker="person",
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "agent without edits",
        "undo",
        {"agent": "nobody"},
        ["there is no edit left to undo"],
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "path without edits",
        "undo",
        {"paths": ["twice.txt"]},
        ["there is no edit left to undo"],
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "first seen",
        "undo",
        lambda world: {"commits": [world.site.log()[-1]["commit"]]},
        ["records what stood there before the first edit; there is nothing earlier"],
        speaker="person",
    ),
    Case(
        Kind.CONFLICT,
        "same line changed by hand",
        "undo",
        lambda world: {"commits": [world.early]},
        ["conflict.txt: later changes are in the way, so nothing was undone"],
        failures=[{"kind": "conflict", "path": "conflict.txt"}],
    ),
    Case(
        Kind.CONFLICT,
        "preview",
        "undo",
        {"request": "early", "preview": True},
        ["conflict.txt: later changes are in the way"],
    ),
    Case(
        Kind.CONFLICT,
        "one of several files",
        "undo",
        lambda world: {"commits": [world.early, world.first]},
        ["conflict.txt: later changes are in the way"],
        speaker="person",
    ),
    *(
        Case(Kind.INVALID_PARAMS, f"{method} {params}"[:60], method, params, says)
        for method, params, says in [
            (
                "undo",
                {"commits": ["HEAD"], "last": 1},
                ["undo: give one of commits, last, request"],
            ),
            ("undo", {"commits": ["HEAD"], "request": "r"}, ["undo: give one of"]),
            ("undo", {"last": 0}, ["undo:", "`last`"]),
            ("undo", {"last": -1}, ["undo:", "`last`"]),
            ("undo", {"commits": []}, ["undo:", "`commits`"]),
            ("undo", {"commits": ["HEAD"] * 1001}, ["undo:", "`commits`", "1000"]),
            ("undo", {"commits": ["HEAD"], "paths": ["a.py"]}, ["undo:", "paths", "last"]),
            ("undo", {"request": "used", "agent": "tester"}, ["undo:", "agent", "last"]),
            ("undo", {"paths": []}, ["undo:", "`paths`"]),
            ("log", {"limit": 0}, ["log:", "`limit`"]),
            ("log", {"limit": 1001}, ["log:", "`limit`", "1000"]),
            ("log", {"since": "yesterday"}, ["since: 'yesterday' is no time; send RFC 3339"]),
            ("log", {"until": ""}, ["until: '' is no time; send RFC 3339"]),
            ("log", {"since": "0001-01-01T00:00:00"}, ["since: '0001-01-01T00:00:00' is no time"]),
            ("log", {"cursor": "rubbish"}, ["cursor 'rubbish' is not from this workspace's log"]),
            ("log", {"cursor": ""}, ["cursor '' is not from this workspace's log"]),
            ("read", {"path": "a.py", "start": 0}, ["read:", "`start`"]),
            ("read", {"path": "a.py", "end": 0}, ["read:", "`end`"]),
            ("read", {"path": "a.py", "start": 7}, ["a.py has 6 lines, but start is 7"]),
            ("read", {"path": "a.py", "start": 3, "end": 2}, ["end", "start"]),
            ("mode_set", {"mode": "off"}, ["mode 'off' is none of restricted, unrestricted."]),
            (
                "mode_set",
                {"mode": "restricted", "scope": "all"},
                ["mode_set: scope is 'session' (the default) or 'workspace'."],
            ),
            ("tools", {"style": "x"}, ["tools: style 'x' is none of mcp, openai, anthropic."]),
        ]
    ),
    Case(
        Kind.INVALID_PARAMS,
        "mode_set of an unknown session",
        "mode_set",
        {"mode": "restricted", "session": "nobody"},
        ["mode_set: there is no session 'nobody' in this workspace."],
        speaker="person",
    ),
    *(
        Case(
            Kind.INVALID_PARAMS,
            f"{method} without a session",
            method,
            params,
            ["session: name one in hello, e.g. session: 'conv-1'"],
            speaker="person",
        )
        for method, params in [
            ("clipboard_list", {}),
            ("clipboard_get", {"name": "kept"}),
            ("clipboard_set", {"name": "kept", "text": "x"}),
            ("clipboard_delete", {"name": "kept"}),
            ("patch", patch(replace("return 1", toClipboard="c"))),
        ]
    ),
    *(
        Case(
            Kind.MISSING_CLIPBOARD,
            method,
            method,
            {"name": "lost"},
            ["there is no clipboard 'lost' in this session. Clipboards that exist: kept."],
        )
        for method in ("clipboard_get", "clipboard_delete")
    ),
    Case(
        Kind.INPUT_TOO_LARGE,
        "clipboard_set",
        "clipboard_set",
        {"name": "c", "text": "x" * 4_991},
        ["the session's clipboards would hold 5,001 bytes, 5,000 is the most"],
    ),
    Case(
        Kind.INVALID_PARAMS,
        "clipboard name of a patch",
        "patch",
        patch(replace("return 1", toClipboard="n" * 201)),
        ["the clipboard name", "has 201 characters; 200 is the most."],
    ),
    Case(
        Kind.INVALID_PARAMS,
        "clipboard name with a control character",
        "patch",
        patch(replace("return 1", toClipboard="a\x07")),
        ["the clipboard name", "no control characters"],
    ),
]

# -- what all calls share, and shapes

COMMON_CASES = [
    Case(
        Kind.INVALID_PARAMS,
        "request id of another call",
        "patch",
        patch(replace("return 1"), request_id="used"),
        ["request_id 'used' was used for another call before; make a new id for every new call."],
    ),
    Case(
        Kind.INVALID_PARAMS,
        "request id of another method",
        "undo",
        {"request_id": "used"},
        ["request_id 'used' was used for another call before"],
    ),
    Case(
        Kind.INVALID_PARAMS,
        "request id of the same call with another message",
        "patch",
        patch(replace("return 1", "return 11"), request_id="used", message="why"),
        ["request_id 'used' was used for another call before"],
    ),
    *(
        Case(
            Kind.INVALID_PARAMS,
            f"{method} {name}",
            method,
            {**params, **bad},
            says,
        )
        for method, params in {"patch": patch(replace("return 1")), "undo": {}}.items()
        for name, bad, says in [
            ("NUL in message", {"message": "a\x00b"}, ["message can't contain NUL characters."]),
            ("long message", {"message": "m" * 100_001}, ["`message`", "100000"]),
            ("newline in request_id", {"request_id": "a\nb"}, ["request_id", "control characters"]),
            ("empty request_id", {"request_id": ""}, ["`request_id`"]),
            ("number as request_id", {"request_id": 5}, ["`request_id`"]),
            ("number as message", {"message": 5}, ["`message`"]),
            ("text as preview", {"preview": "yes"}, ["`preview`"]),
            ("list as if_match", {"if_match": ["a.py"]}, ["`if_match`"]),
            ("number in if_match", {"if_match": {"a.py": 5}}, ["`if_match"]),
        ]
    ),
    Case(
        Kind.UNKNOWN_METHOD,
        "misspelt",
        "pacth",
        {},
        ["there is no method 'pacth'. Did you mean patch? The methods are: ", "workspace_list."],
    ),
    Case(
        Kind.UNKNOWN_METHOD,
        "far from any",
        "exec\n\x1b[31m",
        {},
        ["there is no method 'exec\\n\\x1b[31m'. The methods are: "],
    ),
    Case(Kind.UNKNOWN_METHOD, "before hello", "nothing", {}, ["The methods are:"], "stranger"),
    *(
        Case(Kind.INVALID_PARAMS, f"patch {name}", "patch", params, says)
        for name, params, says in [
            ("no path", {"patches": [replace("x")]}, ['"path" is missing. Expected fields: path']),
            ("no patches", {"path": "a.py"}, ['"patches" is missing. Expected fields: path']),
            ("no params", {}, ['"path" is missing', '"patches" is missing']),
            ("empty path", patch(replace("x"), path=""), ['"path" is empty.']),
            ("empty patches", patch(), ['"patches" is empty.']),
            ("number as path", {"path": 5, "patches": [replace("x")]}, ['"path" must be a string']),
            (
                "text as patches",
                {"path": "a.py", "patches": "fix it"},
                ['"patches" must be a list'],
            ),
            ("number in patches", {"path": "a.py", "patches": [5]}, ["patch 1: must be an object"]),
            (
                "broken JSON in patches",
                {"path": "a.py", "patches": '[{"operation": "replace"'},
                ['"patches"'],
            ),
            ("no operation", patch({"oldText": "x"}), ['patch 1: "operation" is missing.']),
            (
                "unknown operation",
                patch({"operation": "insert", "newText": "x"}),
                ['patch 1: "operation" must be', "'append_eof'", 'received "insert"'],
            ),
            (
                "misspelt field",
                patch({"operation": "replace", "old_string": "x"}),
                ['patch 1: unknown field "old_string" (did you mean "oldText"?).'],
            ),
            (
                "field one level too high",
                {"path": "a.py", "oldText": "x", "patches": [replace("x")]},
                ['unknown field "oldText" (it belongs into the objects of the list "patches")'],
            ),
            (
                "number as text",
                patch(replace("x"), {"operation": "append_eof", "newText": 5}),
                ['patch 2: "newText" must be a string; received 5.'],
            ),
            (
                "append without text",
                patch({"operation": "append_eof"}),
                ["append_eof needs newText"],
            ),
            ("reindent as text", patch(replace("x", reindent="  ")), ['"reindent"']),
            (
                "unknown field in reindent",
                patch(replace("x", reindent={"stripp": ""})),
                ['unknown field "reindent.stripp" (did you mean "strip"?)'],
            ),
            (
                "two spellings with different values",
                patch({**replace("return 1"), "old_text": "return 2"}),
                ['"old_text"'],
            ),
        ]
    ),
]

# -- the shape of every method's parameters

#: Method to its parameters, "*" marks what is required; and to what else makes a sound call.
SHAPES: dict[str, tuple[str, str]] = {
    "hello": ("protocol* workspace session agent secret client", "stranger"),
    "status": ("", "agent"),
    "tools": ("style", "agent"),
    "read": ("path* at start end", "agent"),
    "patch": ("path* patches*", "agent"),
    "undo": ("commits last request session agent paths", "agent"),
    "log": ("path session agent method since until text limit cursor", "agent"),
    "show": ("commit*", "agent"),
    "diff": ("from to paths", "agent"),
    "clipboard_list": ("", "agent"),
    "clipboard_get": ("name*", "agent"),
    "clipboard_set": ("name* text*", "agent"),
    "clipboard_delete": ("name*", "agent"),
    "mode_get": ("", "agent"),
    "mode_set": ("mode* session scope workspace", "person"),
    "workspace_allow": ("root*", "control"),
    "workspace_forget": ("root*", "control"),
    "workspace_list": ("", "control"),
    "shutdown": ("", "control"),
}
NUMBERS = {"protocol", "start", "end", "last", "limit"}
SOUND = {"protocol": 1, "patches": [], "mode": "restricted", "name": "kept", "commit": "HEAD"}


def shape_cases() -> Iterator[Case]:
    """Every method with an unknown, a missing and a wrongly typed parameter."""
    for method, (fields, speaker) in SHAPES.items():
        names = [name.rstrip("*") for name in fields.split()]
        required = [name[:-1] for name in fields.split() if name.endswith("*")]
        sound: dict[str, Any] = {name: SOUND.get(name, "x") for name in required}
        says = list(names)  # whatever is wrong, the answer names the parameters there are
        yield Case(
            Kind.INVALID_PARAMS,
            f"{method} unknown parameter",
            method,
            {**sound, "nonsense": 1},
            ["nonsense", *says] if names else ["nonsense", "It takes none."],
            speaker,
        )
        for name in required:
            without = {key: value for key, value in sound.items() if key != name}
            missing = f"{method} without {name}"
            yield Case(Kind.INVALID_PARAMS, missing, method, without, says, speaker)
        for name in names:
            wrong: list[Any] = ["1", 1.5, True, [1]] if name in NUMBERS else [True, [7]]
            for value in wrong[:1] if name == "patches" else wrong:
                yield Case(
                    Kind.INVALID_PARAMS,
                    f"{method} {name} {value!r}",
                    method,
                    {**sound, name: value},
                    [name, *says],
                    speaker,
                )


ALL_CASES = [
    *shape_cases(),
    *PATCH_CASES,
    *PATH_CASES,
    *STALE_CASES,
    *PERMISSION_CASES,
    *HELLO_CASES,
    *HISTORY_CASES,
    *COMMON_CASES,
]


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_refusal_says_what_and_why_and_changes_nothing(world: World, case: Case) -> None:
    refusal = refused(world, case)
    if case.kind is Kind.TOOL_DISABLED:
        assert refusal.message == TOOL_DISABLED
    expected = case.failures
    if expected is None:
        assert all(each["kind"] == case.kind for each in refusal.failures)
        return
    assert len(refusal.failures) == len(expected)
    for failure, wanted in zip(refusal.failures, expected, strict=True):
        assert wanted == {key: failure.get(key) for key in wanted}


#: Kinds that no method of this daemon gives yet; the rest of the dialects will.
LATER = {
    Kind.CONTEXT_NOT_FOUND,
    Kind.OCCURRENCE_OUT_OF_RANGE,
    Kind.ALREADY_EXISTS,
}
#: Covered in test_bad_frames.py.
FRAMES = {Kind.PARSE_ERROR, Kind.FRAME_TOO_LARGE}
#: Covered in test_trouble.py.
TROUBLE = {
    Kind.CONTENDED,
    Kind.STORAGE_FULL,
    Kind.IO_ERROR,
    Kind.READ_ONLY,
    Kind.OUTCOME_UNKNOWN,
    Kind.OVERLOADED,
    Kind.SHUTTING_DOWN,
}
#: A defect of ours; there is no input known that gives it.
DEFECT = {Kind.INTERNAL}


def test_every_kind_of_the_contract_is_covered() -> None:
    here = {case.kind for case in ALL_CASES}
    assert set(Kind) == here | LATER | FRAMES | TROUBLE | DEFECT
    assert not here & (LATER | FRAMES | TROUBLE | DEFECT)
