"""What is fuzzed, and what must hold whatever the input: one function of bytes a target.

A target accepts its input or refuses it in the documented way; any other exception, also a
failed assertion here, is a finding. Hypothesis (``test_targets``) and atheris
(``python -m fuzz``) call the same functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fuzz.spelling import Choices, spelled, unspelled
from stet.wire.failures import Kind, Refused, code_of
from stet.wire.framing import Encoding, FrameError, Framer, enclose
from stet.wire.messages import (
    MalformedMessage,
    decode_answer,
    decode_request,
    encode_error,
    encode_request,
    encode_result,
)
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan
from stetd.editing.tools.inputs import (
    ApplyPatchInput,
    PatchBlockInput,
    PatchFileInput,
    PatchInput,
    ToolInput,
)
from stetd.editing.tools.schemas import tool_definitions
from stetd.editing.tools.validation import validated
from tree_world import Tree, TreeWorld


@dataclass(frozen=True)
class Target:
    """``run`` raises exactly when something is wrong; ``seeds`` are inputs to begin with."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


# -- the wire

_LIMIT = 64
_ENCODINGS = (Encoding.JSON, Encoding.MSGPACK)


def _framing(data: bytes) -> None:
    """The first byte says how the rest is cut into pieces; the frames do not depend on it."""
    size, stream = 1 + (data[0] if data else 0) % 16, data[1:]
    whole, pieces = Framer(_LIMIT), Framer(_LIMIT)
    whole.feed(stream)
    expected = _frames(whole)
    found: tuple[list[bytes], Kind | None] = ([], None)
    for start in range(0, len(stream), size):
        pieces.feed(stream[start : start + size])
        frames, error = _frames(pieces)
        found = (found[0] + frames, error)
        if error:
            break
    assert expected == found
    assert all(1 <= len(frame) <= _LIMIT for frame in found[0])
    assert found[1] in (None, Kind.PARSE_ERROR, Kind.FRAME_TOO_LARGE)
    assert whole.mid_frame == pieces.mid_frame
    for frame in found[0]:
        _message(whole.encoding or Encoding.JSON, frame)


def _frames(framer: Framer) -> tuple[list[bytes], Kind | None]:
    frames = []
    try:
        while (frame := framer.next_frame()) is not None:
            frames.append(frame)
    except FrameError as error:
        return frames, Kind(error.kind)
    return frames, None


def _messages(data: bytes) -> None:
    """One message in each encoding, whatever it is."""
    for encoding in _ENCODINGS:
        _message(encoding, data)


def _message(encoding: Encoding, data: bytes) -> None:
    try:
        request = decode_request(encoding, data)
    except MalformedMessage as malformed:
        _answerable(encoding, malformed)
    else:
        again = encode_request(encoding, request.id, request.method, request.params)
        assert request == decode_request(encoding, again)
        framer = Framer(encoding=encoding)
        framer.feed(enclose(encoding, again))
        assert framer.next_frame() == again
    with contextlib.suppress(ValueError):
        decode_answer(encoding, data)


def _answerable(encoding: Encoding, malformed: MalformedMessage) -> None:
    assert malformed.kind in (Kind.PARSE_ERROR, Kind.INVALID_PARAMS, Kind.INPUT_TOO_LARGE)
    encode_error(encoding, malformed.id, code_of(Kind(malformed.kind)), malformed.message, {})


# -- tool inputs


_INPUTS: tuple[type[ToolInput], ...] = (
    PatchInput,
    PatchBlockInput,
    PatchFileInput,
    ApplyPatchInput,
)


def _names(schema: object) -> set[str]:
    """Every name of a field, and every word of an enumeration, in a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(_names, schema))
    if not isinstance(schema, dict):
        return set()
    own = {*schema.get("properties", ()), *map(str, schema.get("enum", ()))}
    return own.union(*map(_names, schema.values()))


_WORDS = ["", "a.txt", "old_text", *sorted(_names(tool_definitions("mcp")))]


def _tool_input(data: bytes) -> None:
    choices = Choices(data)
    model = _INPUTS[choices.below(len(_INPUTS))]
    params = choices.members(_WORDS)
    try:
        assert isinstance(validated(model, params), model)
    except Refused as refused:
        _documented(refused, {Kind.INVALID_PARAMS})


# -- dialects

_TREE = Tree(
    {
        "a.txt": b"one\ntwo\nthree\n",
        "b.py": b"def f():\n    return 1\n\n\ndef g():\n\tif x:\n\t\treturn 2\n",
        "crlf.txt": b"one\r\ntwo\r\n\r\nthree",
        "cr.txt": b"one\rtwo\rthree\r",
        "bom.txt": b"\xef\xbb\xbfone\n\xe2\x80\x9ctwo\xe2\x80\x9d \n",
        "latin.txt": b"caf\xe9\none\n",
        "bin": b"\0\1\2one\n",
        "empty": b"",
        "dir/same": b"one\none\n one\n",
    },
    links={"link": "a.txt", "out": "/etc/passwd", "loop": "loop"},
)
_PATHS = [
    "a.txt", "b.py", "crlf.txt", "cr.txt", "bom.txt", "latin.txt", "bin", "empty", "dir/same",
    "./a.txt", "/workspace/a.txt", "link", "out", "loop", "dir", "new.txt", "dir/new", "../up",
    ".git/config", "", "/a.txt",
]  # fmt: skip
_TEXTS = [
    "", "\n", "\r\n", "\r", " ", "\t", "    ", "one", "two", "three", "one\n", "two\n", "three\n",
    "def f():\n", "    return 1\n", "def g():\n", "\tif x:\n", "\t\treturn 2\n", "\"two\"",
    "caf", "#",
]  # fmt: skip

#: Longer texts are not built.
_LONGEST = 4_000

_OF_WORLD = {
    Kind.INVALID_PARAMS,
    Kind.PATH_OUTSIDE_WORKSPACE,
    Kind.PATH_PROTECTED,
    Kind.NOT_A_FILE,
    Kind.IO_ERROR,
}
_OF_TEXT = _OF_WORLD | {
    Kind.FILE_NOT_FOUND,
    Kind.NOT_TEXT,
    Kind.OLD_TEXT_NOT_FOUND,
    Kind.OLD_TEXT_NOT_UNIQUE,
    Kind.OVERLAPPING_EDITS,
    Kind.NO_CHANGE,
}
#: What each dialect may refuse with.
_KINDS: Mapping[str, set[Kind]] = {
    "patch": _OF_TEXT
    | {
        Kind.MISSING_OLD_TEXT,
        Kind.MISSING_CLIPBOARD,
        Kind.CLIPBOARD_REQUIRES_REPLACE,
        Kind.STRIP_PRECONDITION_FAILED,
    },
    "patch_block": _OF_TEXT | {Kind.PARSE_ERROR},
    "patch_file": _OF_TEXT
    | {Kind.MISSING_OLD_TEXT, Kind.OCCURRENCE_OUT_OF_RANGE, Kind.ALREADY_EXISTS},
    "apply_patch": _OF_TEXT | {Kind.PARSE_ERROR, Kind.CONTEXT_NOT_FOUND, Kind.ALREADY_EXISTS},
}


def _plan(dialect: str, params: Mapping[str, object]) -> Plan | None:
    """A call's plan, sound in itself; None if it was refused, in a documented way."""
    try:
        plan = DIALECTS[dialect](params, TreeWorld(_TREE, {"c": "    return 1\n"}))
    except Refused as refused:
        _documented(refused, _KINDS[dialect])
        return None
    _TREE.after(plan)
    assert plan.files or plan.clipboards
    paths = [planned.path for planned in plan.files]
    assert sorted(set(paths)) == sorted(paths)
    for report in plan.edits:
        assert 1 <= report.line <= report.end_line, report
    told = (plan.message, plan.warnings, plan.edits, plan.results, plan.subject)
    for encoding in _ENCODINGS:
        encode_result(encoding, 1, told)
    return plan


def _documented(refused: Refused, allowed: AbstractSet[Kind]) -> None:
    """A refusal is of an allowed kind, says something, and can be sent."""
    kinds = {failure.kind for failure in refused.failures}
    assert kinds <= allowed, kinds
    assert all(failure.message for failure in refused.failures)
    assert all(each.line for each in refused.failures if each.kind == Kind.PARSE_ERROR)
    data = {"failures": refused.failures, **refused.extra}
    for encoding in _ENCODINGS:
        encode_error(encoding, 1, code_of(Kind(refused.kind)), refused.message, data)


def _old_text(choices: Choices, path: str) -> str:
    """A text to look for: most often some lines of the file, a little changed or not."""
    if choices.once_in(4):
        return choices.text(_TEXTS)
    lines = _TREE.files.get(path, b"one\n").decode("utf-8", "replace").splitlines(keepends=True)
    first = choices.below(len(lines) + 1)
    passage = "".join(lines[first : first + 1 + choices.below(3)])
    match choices.below(6):
        case 0:
            return passage.replace("\n", " \n")
        case 1:
            return "".join("  " + line for line in passage.splitlines(keepends=True))
        case 2:
            return passage.replace("\r", "")
        case 3:
            return "\n" + passage
        case _:
            return passage


def _patch(data: bytes) -> None:
    choices = Choices(data)
    path = choices.one_of(_PATHS)
    patches: list[dict[str, object]] = []
    while choices.more and len(patches) < 6:
        operation = choices.one_of(("replace", "replace", "append_eof", "prepend_bof", "overwrite"))
        patch: dict[str, object] = {"operation": operation, "newText": choices.text(_TEXTS)}
        if operation == "replace":
            patch["oldText"] = _old_text(choices, path)
            patch["toClipboard"] = choices.one_of(("", "", "", "c", "d"))
        patch["fromClipboard"] = choices.one_of(("", "", "", "c", "d"))
        patch["reindent"] = {
            "strip": choices.one_of(("", "", "    ", "\t")),
            "add": choices.one_of(("", "  ")),
        }
        patches.append(patch)
    _plan("patch", {"path": path, "patches": patches})


def _patch_file(data: bytes) -> None:
    """Changes without regular expressions, whose time is bounded elsewhere."""
    choices = Choices(data)
    path = choices.one_of(_PATHS if choices.once_in(8) else _PATHS[:6])
    params: dict[str, object] = {"path": path}
    if choices.once_in(4):
        params |= {"dry_run": bool(choices.below(2)), "backup": bool(choices.below(2))}
        params["context"] = choices.below(4)
    changes: list[dict[str, object]] = []
    while choices.more and len(changes) < 6:
        change: dict[str, object] = {"search": _old_text(choices, path)}
        change["replace"] = choices.text(_TEXTS)
        match choices.below(8):
            case 1:
                change["occurrence"] = 1 + choices.below(3)
            case 2:
                change["near_line"] = 1 + choices.below(8)
            case 3:
                change["fuzzy"] = (50 + choices.below(51)) / 100
        changes.append(change)
    _plan("patch_file", {**params, "changes": changes})


_BLOCK_TOKENS = [
    "===FIND===\n", "===REPLACE===\n", "===SKIPPY_PATCH_END===\n",
    *(f"===SKIPPY_PATCH_START:{path}===\n" for path in (*_PATHS[:10], "/workspace/b.py", "link")),
    "===SKIPPY_PATCH_START:", "===", "\\", "\r\n", "\n", '{"filepath": "', '"}', "one\n", "two\n",
    "one", "    return 1\n", " ", "def g():\n", "\"two\"\n",
]  # fmt: skip


def _patch_block(data: bytes) -> None:
    """Tokens in any order. The first byte may choose ``filepath``."""
    path = _PATHS[data[0]] if data and data[0] < len(_PATHS) else ""
    _plan_blocks(spelled(data[1:], _BLOCK_TOKENS), path)


def _patch_block_pairs(data: bytes) -> None:
    """Blocks as they should be, but for their content and now and then a stray token."""
    choices = Choices(data)
    named = choices.once_in(4)
    filepath = choices.one_of(_PATHS) if choices.once_in(8) else ""
    text = ""
    while choices.more and len(text) < _LONGEST:
        path = choices.one_of(_PATHS if choices.once_in(8) else _PATHS[:6])
        text += choices.one_of(("", "prose\n"))
        text += f'{{"filepath": "{path}"}}\n' if named else ""
        text += f"===SKIPPY_PATCH_START:{path}===\n"
        for _ in range(1 + choices.below(3)):
            old, new = _old_text(choices, path) or "one", choices.text(_TEXTS)
            text += f"===FIND===\n{old}\n===REPLACE===\n{new}\n"
        text += choices.one_of(_BLOCK_TOKENS) if choices.once_in(16) else ""
        text += "===SKIPPY_PATCH_END===\n"
    _plan_blocks(text.replace("\n", "\r\n") if choices.once_in(4) else text, filepath)


_PATCH_TOKENS = [
    "*** Begin Patch\n", "*** End Patch\n", "*** End of File\n", "@@\n", "@@ def g():\n",
    *(f"*** {head} File: {path}\n" for head in ("Add", "Delete", "Update")
      for path in ("a.txt", "b.py", "new.txt", "link")),
    "*** Move to: dir/new\n", "*** Move to: a.txt\n", "<<'EOF'\n", "EOF\n", "```\n", "\r\n",
    " one\n", "-two\n", "+zwei\n", "\n", "+", "-", "\\ No newline at end of file\n",
    "@@ -1,3 +1,3 @@\n", "--- a/a.txt\n", "+++ b/a.txt\n", "*** ", "apply_patch ",
]  # fmt: skip


def _apply_patch(data: bytes) -> None:
    """Tokens in any order, mostly between the envelope's lines."""
    text = spelled(data[1:], _PATCH_TOKENS)
    if data and data[0] % 8:
        text = f"*** Begin Patch\n{text}\n*** End Patch\n"
    _plan_patch(text, data[0] if data else 0)


def _apply_patch_hunks(data: bytes) -> None:
    """Operations as they should be, but for their content and now and then a stray token."""
    choices = Choices(data)
    how = choices.below(256)
    text = "*** Begin Patch\n"
    while choices.more and len(text) < _LONGEST:
        path = choices.one_of(_PATHS if choices.once_in(8) else _PATHS[:6])
        text += choices.one_of(_PATCH_TOKENS) if choices.once_in(24) else ""
        match choices.below(8):
            case 6:
                text += f"*** Delete File: {path}\n"
            case 7:
                added = choices.text(_TEXTS).split("\n")
                text += f"*** Add File: {path}x\n" + "".join(f"+{line}\n" for line in added)
            case _:
                text += f"*** Update File: {path}\n"
                text += f"*** Move to: {path}y\n" if choices.once_in(6) else ""
                for _ in range(1 + choices.below(2)):
                    text += _hunk(choices, path)
    _plan_patch(text + "*** End Patch\n", how)


def _hunk(choices: Choices, path: str) -> str:
    """Lines of the file, most of them as context, with others added."""
    lines = [choices.one_of(("@@", "@@", "@@", "@@ one", "@@ def g():", "@@ free words"))]
    for line in _old_text(choices, path).split("\n")[:-1]:
        match choices.below(4):
            case 1:
                lines.append(f"-{line}")
            case 2:
                lines += [f"-{line}", f"+{choices.text(_TEXTS)}"]
            case 3:
                lines += [f" {line}", f"+{choices.one_of(_TEXTS)}"]
            case _:
                lines.append(f" {line}")
    lines += ["*** End of File"] if choices.once_in(12) else []
    return "\n".join(lines) + "\n"


def _plan_patch(text: str, how: int) -> None:
    params: dict[str, object] = {"input": text}
    params |= {"ambiguous": "first"} if how & 64 else {}
    params |= {"overwrite": True} if how & 128 else {}
    _plan("apply_patch", params)


def _plan_blocks(text: str, filepath: str) -> None:
    params = {"text": text, "filepath": filepath} if filepath else {"text": text}
    plan = _plan("patch_block", params)
    if plan is not None:
        applied = [int(result.result.split()[1]) for result in plan.results]
        assert len(plan.edits) == sum(applied)
        assert len(plan.files) == len(applied)
        assert all(planned.before != planned.after for planned in plan.files)


def _block(path: str, find: str, replace: str) -> bytes:
    text = (
        f"===SKIPPY_PATCH_START:{path}===\n===FIND===\n{find}===REPLACE===\n{replace}"
        "===SKIPPY_PATCH_END===\n"
    )
    return unspelled(text, _BLOCK_TOKENS)


TARGETS: Mapping[str, Target] = {
    "framing": Target(
        _framing,
        (b'\1{"id":1,"method":"status"}\n{}\n', b"\2\0\0\0\1\x80\0\0\0\0", b"\0{\n\n"),
    ),
    "messages": Target(
        _messages,
        (
            b'{"id":1,"method":"patch","params":{"path":"a","patches":[{}]}}',
            b"\x82\xa2id\x01\xa6method\xa6status",
            b'{"id":1,"error":{"code":1,"message":"","data":{}}}',
        ),
    ),
    "tool_input": Target(_tool_input, (b"\0\2\1\5\5\1\6\7", bytes(range(64)))),
    "patch": Target(_patch, (b"\0\0\1\x08\1\x07\0\0\0\0", bytes(range(40)))),
    "patch_file": Target(
        _patch_file, (b"\0\0\0\0\1\1\0\3\1\x07\2", bytes(range(50)), bytes(range(9, 60)))
    ),
    "apply_patch": Target(
        _apply_patch,
        (
            b"\1" + unspelled("*** Update File: a.txt\n@@\n one\n-two\n+zwei\n", _PATCH_TOKENS),
            b"\1" + unspelled("*** Delete File: b.py\n*** Add File: b.py\n+zwei\n", _PATCH_TOKENS),
            b"\0" + unspelled("apply_patch <<'EOF'\n*** Begin Patch\n", _PATCH_TOKENS),
        ),
    ),
    "apply_patch_hunks": Target(_apply_patch_hunks, (bytes(range(60)), bytes(range(60, 0, -1)))),
    "patch_block": Target(
        _patch_block,
        (
            b"\xff" + _block("a.txt", "two\n", "one\n"),
            b"\0" + _block("a.txt", "one\n", "") + _block("b.py", "    return 1\n", "\n"),
            b"\xff" + unspelled('{"filepath": "a.txt"}\n', _BLOCK_TOKENS),
        ),
    ),
    "patch_block_pairs": Target(_patch_block_pairs, (b"\0\0\0\0\1\1\0\5\1\x07", bytes(range(60)))),
}
