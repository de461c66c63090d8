"""Who may not do what."""

from __future__ import annotations

from typing import Any

from e2e.bad_input.case import Case, patch, replace
from stet.wire.failures import Kind

#: What only the person may call.
_FOR_THE_PERSON: dict[str, dict[str, Any]] = {
    "workspace_allow": {"root": "/tmp"},
    "workspace_forget": {"root": "/tmp"},
    "workspace_list": {},
    "shutdown": {},
    "upgrade_list": {},
    "upgrade_decide": {"request": "abcd", "approve": True},
}
#: What no agent may set, of its own session or another.
_LIFTS: list[dict[str, Any]] = [
    {"mode": "unrestricted"},
    {"mode": "restricted", "scope": "workspace"},
    {"mode": "unrestricted", "scope": "workspace"},
    {"mode": "restricted", "session": "conv-2"},
    {"mode": "restricted", "workspace": "/"},
    {"mode": "unrestricted", "for": 5},
]
PERMISSION_CASES = [
    *(
        Case(
            Kind.NOT_PERMITTED,
            method,
            method,
            params,
            [f"{method} is for the person at the machine: it works on control.sock only."],
        )
        for method, params in _FOR_THE_PERSON.items()
    ),
    *(
        Case(
            Kind.NOT_PERMITTED,
            f"mode_set {params}",
            "mode_set",
            params,
            ["an agent may only set its own session to restricted. Use request_mode_upgrade"],
        )
        for params in _LIFTS
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
            ("redo", {}),
            ("rollback", {"to": "HEAD"}),
            ("restore", {"path": "a.py", "at": "HEAD"}),
        ]
    ),
]
