"""Parameters of a wrong shape, in every method, and what all calls share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from e2e.bad_input.case import Case, cases, patch, replace
from stet.wire.failures import Kind

WRITES: dict[str, dict[str, Any]] = {"patch": patch(replace("return 1")), "undo": {}}

#: What is wrong with a parameter that all of them share.
BAD_COMMON: list[tuple[str, dict[str, Any], list[str]]] = [
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
        for method, params in WRITES.items()
        for name, bad, says in BAD_COMMON
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
    *cases(
        Kind.INVALID_PARAMS,
        "patch",
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
    ),
]

#: Method to its parameters, "*" marks what is required; and who calls it.
SHAPES: dict[str, tuple[str, str]] = {
    "hello": ("protocol* workspace session agent secret client", "stranger"),
    "status": ("", "agent"),
    "tools": ("style api custom", "agent"),
    "read": ("path* at start end", "agent"),
    "patch": ("path* patches*", "agent"),
    "patch_file": ("path* changes* dry_run context backup", "agent"),
    "patch_block": ("text* filepath", "agent"),
    "apply_patch": ("input* ambiguous overwrite", "agent"),
    "undo": ("commits last request session agent paths", "agent"),
    "log": ("path session agent method since until text limit cursor", "agent"),
    "show": ("commit*", "agent"),
    "diff": ("from to paths", "agent"),
    "clipboard_list": ("", "agent"),
    "clipboard_get": ("name*", "agent"),
    "clipboard_set": ("name* text*", "agent"),
    "clipboard_delete": ("name*", "agent"),
    "mode_get": ("", "agent"),
    "mode_set": ("mode* session scope workspace for", "person"),
    "request_mode_upgrade": ("reason wait", "agent"),
    "upgrade_list": ("workspace status", "person"),
    "upgrade_decide": ("request* approve* note for workspace", "person"),
    "workspace_allow": ("root*", "control"),
    "workspace_forget": ("root*", "control"),
    "workspace_list": ("", "control"),
    "shutdown": ("", "control"),
}
NUMBERS = {"protocol", "start", "end", "last", "limit", "context"}
#: Those that may have a fraction.
SECONDS = {"for", "wait"}
BOOLEANS = {"approve", "custom", "dry_run", "backup", "overwrite"}
LISTS = {"patches", "changes"}
#: One of a few words: the answer names these, not the parameters.
CHOICES = {"ambiguous"}
SOUND = {
    "protocol": 1,
    "patches": [],
    "changes": [],
    "mode": "restricted",
    "name": "kept",
    "commit": "HEAD",
    "approve": True,
}


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
            if name in SECONDS:
                wrong = ["30m", -1, True, [1], 1e12]
            if name in BOOLEANS:
                wrong = [1, "true", [True]]
            for value in wrong[:1] if name in LISTS else wrong:
                yield Case(
                    Kind.INVALID_PARAMS,
                    f"{method} {name} {value!r}",
                    method,
                    {**sound, name: value},
                    [name] if name in CHOICES else [name, *says],
                    speaker,
                )
