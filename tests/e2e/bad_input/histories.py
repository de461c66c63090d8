"""Commits, requests, clipboards and ranges that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2e.bad_input.case import Case, patch, replace
from e2e.bad_input.paths import NOWHERE
from stet.wire.failures import Kind

#: Methods that take a commit: their parameters with this one.
TAKES_COMMIT: dict[str, Callable[[str], dict[str, Any]]] = {
    "show": lambda name: {"commit": name},
    "read": lambda name: {"path": "a.py", "at": name},
    "diff": lambda name: {"from": name},
    "undo": lambda name: {"commits": [name]},
}
WRONG_VALUES: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "undo",
        {"commits": ["HEAD"], "last": 1},
        ["undo: give one of `commits`, `last`, `request`"],
    ),
    ("undo", {"commits": ["HEAD"], "request": "r"}, ["undo: give one of"]),
    ("undo", {"last": 0}, ["undo:", "`last`"]),
    ("undo", {"last": -1}, ["undo:", "`last`"]),
    ("undo", {"commits": []}, ["undo:", "`commits`"]),
    ("undo", {"commits": ["HEAD"] * 10_001}, ["undo:", "`commits`", "10000"]),
    ("undo", {"commits": ["HEAD"], "paths": ["a.py"]}, ["undo:", "paths", "last"]),
    ("undo", {"request": "used", "agent": "tester"}, ["undo:", "agent", "last"]),
    ("undo", {"request": ""}, ["undo:", "length >= 1", "`request`"]),
    ("undo", {"last": 1, "session": ""}, ["undo:", "length >= 1", "`session`"]),
    ("undo", {"last": 1, "agent": ""}, ["undo:", "length >= 1", "`agent`"]),
    ("rollback", {"to": "HEAD", "agent": ""}, ["rollback:", "length >= 1", "`agent`"]),
    ("rollback", {"to": "HEAD", "session": ""}, ["rollback:", "length >= 1", "`session`"]),
    ("undo", {"dry_run": True}, ["undo:", "`dry_run`", "paths?, message?, if_match?, preview?"]),
    ("undo", {"paths": []}, ["undo:", "`paths`"]),
    ("undo", {"paths": [""]}, ["undo:", "length >= 1", "`paths"]),
    ("rollback", {"to": "HEAD", "paths": ["a.py", ""]}, ["rollback:", "length >= 1", "`paths"]),
    ("rollback", {}, ["rollback: Object missing required field `to`"]),
    ("rollback", {"to": "HEAD", "last": 2}, ["rollback:", "unknown field `last`"]),
    ("rollback", {"to": "HEAD", "paths": []}, ["rollback:", "length >= 1"]),
    ("restore", {"path": "a.py"}, ["restore: Object missing required field `at`"]),
    ("redo", {"commits": []}, ["redo:", "length >= 1"]),
    ("redo", {"last": 1}, ["redo:", "unknown field `last`"]),
    ("log", {"path": ""}, ["log:", "length >= 1", "`path`"]),
    ("diff", {"paths": [""]}, ["diff:", "length >= 1", "`paths"]),
    ("export", {"paths": [""]}, ["export:", "length >= 1", "`paths"]),
    ("observe", {"phase": "before", "paths": [""]}, ["observe:", "length >= 1", "`paths"]),
    ("mode_set", {"mode": "restricted", "session": ""}, ["length >= 1", "`session`"]),
    ("log", {"limit": 0}, ["log:", "`limit`"]),
    ("log", {"limit": 1001}, ["log:", "`limit`", "1000"]),
    ("log", {"method": "patches"}, ["method: 'patches' is none of apply_patch, ", "undo"]),
    ("export", {"method": "patches"}, ["method: 'patches' is none of apply_patch, ", "undo"]),
    ("log", {"since": "yesterday"}, ["since: 'yesterday' is no time; send RFC 3339"]),
    ("log", {"since": "1700000000"}, ["is no time; send", "or seconds since 1970 as a number"]),
    ("log", {"until": ""}, ["until: '' is no time; send RFC 3339"]),
    ("log", {"since": "0000-01-01T00:00:00"}, ["since: '0000-01-01T00:00:00' is no time"]),
    ("log", {"until": "2026-13-01"}, ["until: '2026-13-01' is no time; send RFC 3339"]),
    ("log", {"cursor": "rubbish"}, ["cursor 'rubbish' is not from this workspace's log"]),
    ("log", {"cursor": NOWHERE}, [f"cursor '{NOWHERE}' is not from this workspace's log"]),
    ("log", {"cursor": "HEAD"}, ["cursor 'HEAD' is not from this workspace's log"]),
    ("log", {"cursor": ""}, ["cursor '' is not from this workspace's log"]),
    ("read", {"path": ""}, ["read:", "length >= 1", "`path`"]),
    ("undo", {"if_match": {"": None}}, ["undo:", "length >= 1", "`if_match"]),
    ("blame", {"path": ""}, ["blame:", "length >= 1", "`path`"]),
    ("restore", {"path": "", "at": "HEAD"}, ["restore:", "length >= 1", "`path`"]),
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
    (
        "mode_set",
        {"mode": "unrestricted", "scope": "workspace", "session": "conv-1"},
        ["mode_set: session", "scope 'workspace'", "Leave one of them out."],
    ),
    (
        "mode_set",
        {"mode": "restricted", "for": 5},
        ["mode_set: for goes with mode 'unrestricted'", "Leave for out."],
    ),
    ("request_mode_upgrade", {"reason": "r" * 2001}, ["`reason`", "2000"]),
    ("request_mode_upgrade", {"wait": 86_401}, ["`wait`", "86400"]),
    ("tools", {"style": "x"}, ["tools: style 'x' is none of mcp, openai, anthropic."]),
]

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
        for method, params in TAKES_COMMIT.items()
        for name in [
            NOWHERE,
            "0000",
            "abc",
            "main",
            "HEAD~999999",
            "HEAD~x",
            "kept~1",
            "../x",
            "@",
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
    Case(
        Kind.UNKNOWN_COMMIT, "no name", "show", {"commit": ""}, ["'': there is no such commit in"]
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
        ["there is no edit left to undo", " by agent 'nobody'."],
    ),
    Case(
        Kind.NOTHING_TO_UNDO,
        "path without edits",
        "undo",
        {"paths": ["twice.txt"]},
        ["there is no edit left to undo", " that touched the given paths."],
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
        ["conflict.txt: later changes are in the way, so nothing was changed"],
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
        for method, params, says in WRONG_VALUES
    ),
    Case(
        Kind.INVALID_PARAMS,
        "a grant on what has no end",
        "mode_set",
        {"mode": "unrestricted", "scope": "workspace", "for": 5},
        [
            "the workspace is unrestricted already, and without an end",
            "Set mode 'restricted'",
        ],
        speaker="person",
    ),
    Case(
        Kind.INVALID_PARAMS,
        "a denial for a while",
        "upgrade_decide",
        {"request": "abcd", "approve": False, "for": 5},
        ["upgrade_decide: for is how long an approval holds; leave it out to deny."],
        speaker="person",
    ),
    *(
        Case(
            Kind.UNKNOWN_REQUEST,
            f"upgrade_decide {request!r}",
            "upgrade_decide",
            {"request": request, "approve": True},
            [f"there is no request {request!r}", "upgrade_list lists them."],
            speaker="person",
        )
        for request in ("", "abc", "never asked", "\x1b[31m")
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
