"""What must be said first, and where: hello and workspaces."""

from __future__ import annotations

from typing import Any

from e2e.bad_input.case import Case, cases, patch, replace
from stet.wire.failures import Kind

NEEDS_HELLO: list[tuple[str, dict[str, Any]]] = [
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
    ("request_mode_upgrade", {}),
]
OTHER_PROTOCOLS: list[dict[str, Any]] = [
    {"protocol": 2, "workspace": "/tmp"},
    {"protocol": 0},
    {"protocol": -1},
    {"protocol": 2**40},
    {"protocol": 2, "workspace": "/tmp", "capabilities": ["new"]},
]
#: Method and parameter that take a workspace's root, with what else makes a sound call.
TAKES_ROOT: list[tuple[str, str, dict[str, Any]]] = [
    ("workspace_allow", "root", {}),
    ("workspace_forget", "root", {}),
    ("mode_set", "workspace", {"mode": "restricted", "scope": "workspace"}),
    ("upgrade_list", "workspace", {}),
]

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
        for method, params in NEEDS_HELLO
    ),
    *(
        Case(
            Kind.HELLO_REQUIRED,
            f"{method} from control",
            method,
            params,
            [f"{method}: say hello"],
            speaker="control",
        )
        for method, params in [
            ("upgrade_list", {}),
            ("upgrade_decide", {"request": "abcd", "approve": True}),
        ]
    ),
    *(
        Case(
            Kind.UNSUPPORTED_PROTOCOL,
            f"{params['protocol']} of {len(params)} parameters",
            "hello",
            params,
            [f"protocol {params['protocol']} is not spoken here; this daemon speaks: 1."],
            speaker="stranger",
        )
        for params in OTHER_PROTOCOLS
    ),
    *cases(
        Kind.WORKSPACE_NOT_ALLOWED,
        "hello",
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
        speaker="stranger",
    ),
    *cases(
        Kind.INVALID_PARAMS,
        "hello",
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
        speaker="stranger",
    ),
    *cases(
        Kind.WORKSPACE_NOT_ALLOWED,
        "workspace_forget",
        ("never allowed", {"root": "/usr"}, ["/usr is not an allowed workspace."]),
        (
            "a directory inside a workspace",
            lambda world: {"root": str(world.site.root / "dir")},
            ["is not an allowed workspace"],
        ),
        speaker="control",
    ),
    *cases(
        Kind.WORKSPACE_NOT_ALLOWED,
        "mode_set",
        (
            "of one that was never allowed",
            {"mode": "restricted", "scope": "workspace", "workspace": "/usr"},
            ["/usr is not an allowed workspace."],
        ),
        speaker="control",
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
        for method, field, more in TAKES_ROOT
        for root, says in [
            ("relative", ["absolute directory, not 'relative'"]),
            ("", ["absolute directory, not ''"]),
            ("/tmp/\x00", ["absolute directory, not '/tmp/\\x00'"]),
        ]
    ),
]
