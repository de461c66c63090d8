"""What the ``patch`` dialect refuses: each kind once. The others are in tests/scenarios."""

from __future__ import annotations

from e2e.bad_input.case import Case, append, patch, replace
from stet.wire.failures import Kind

PATCH_CASES = [
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
        Kind.MISSING_OLD_TEXT,
        "absent",
        "patch",
        patch({"operation": "replace", "newText": "x"}),
        ["patch 1: replace needs oldText", "append_eof or prepend_bof", "overwrite"],
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
        Kind.NO_CHANGE,
        "the same text",
        "patch",
        patch(replace("return 1", "return 1")),
        ["patch 1: changes nothing: a.py already reads like this"],
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
        Kind.INPUT_TOO_LARGE,
        "tokens",
        "patch",
        lambda world: patch(append("word " * 61_000)),
        ["61,001 tokens long; the limit is 60,000. Break the edit into smaller patches"],
    ),
    Case(
        Kind.INPUT_TOO_LARGE,
        "clipboard",
        "patch",
        patch(replace("y" * 6_000, "", toClipboard="c"), path="long.txt"),
        [
            "the session's clipboards would hold 6,010 bytes, 5,000 is the most "
            "(max_clipboard_bytes in the configuration); delete some first."
        ],
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
]
