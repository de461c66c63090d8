"""``stet patch-file``, ``patch-block``, ``apply-patch`` and ``tools``, as a user meets them."""

from __future__ import annotations

import json
import os

import pytest

from client.live import Installation
from client.scripted_daemon import HangUp, empty_edit, in_turn, scripted

A = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
A10 = A.replace("return 1", "return 10")
CHANGES = '[{"search": "return 1", "replace": "return 10"}]'
BLOCK = """\
===SKIPPY_PATCH_START:src/a.py===
===FIND===
    return 1
===REPLACE===
    return 10
===SKIPPY_PATCH_END===
"""
BACK = BLOCK.replace("    return 10\n", "-").replace("    return 1\n", "    return 10\n")
BACK = BACK.replace("-", "    return 1\n")
PATCH = """\
*** Begin Patch
*** Add File: n/new.txt
+hi
*** Update File: src/a.py
@@ def a():
-    return 1
+    return 10
*** Delete File: d.txt
*** Update File: m.txt
*** Move to: moved.txt
*** End Patch
"""


@pytest.fixture
def ws(ws: Installation) -> Installation:
    """The workspace, with files in it."""
    ws.write("src/a.py", A)
    ws.write("d.txt", "x\n")
    ws.write("m.txt", "m\n")
    return ws


def files(ws: Installation) -> dict[str, str]:
    found = {}
    for directory, _, names in os.walk(ws.workspace):
        for name in names:
            path = os.path.relpath(os.path.join(directory, name), ws.workspace)
            found[path] = ws.text(path)
    return found


BEFORE = {"src/a.py": A, "d.txt": "x\n", "m.txt": "m\n"}
AFTER = {"src/a.py": A10, "n/new.txt": "hi\n", "moved.txt": "m\n"}


def success(ws: Installation) -> str:
    return (
        "Success. Updated the following files:\n"
        f"A {ws.workspace}/n/new.txt\n"
        f"M {ws.workspace}/src/a.py\n"
        f"M {ws.workspace}/moved.txt\n"
        f"D {ws.workspace}/d.txt\n"
    )


class TestPatchFile:
    def test_with_path_the_input_is_the_list(self, ws: Installation) -> None:
        run = ws.stet("patch-file", "--path", "src/a.py", "-m", "ten", stdin=CHANGES)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("File patched successfully: src/a.py\nApplied 1 changes:\n")
        assert "M src/a.py  +1 -1" in run.stdout
        assert files(ws) == {**BEFORE, "src/a.py": A10}
        log = ws.stet("log").stdout.splitlines()
        assert "patch_file src/a.py" in log[0]
        assert log[1].strip() == "ten"

    def test_without_path_the_input_is_the_params(self, ws: Installation) -> None:
        params = {"path": "src/a.py", "changes": json.loads(CHANGES), "request_id": "once"}
        ws.write("../params.json", json.dumps(params))
        assert ws.stet("patch-file", "../params.json").returncode == 0
        assert ws.json("patch-file", "../params.json")["replayed"] is True
        assert files(ws) == {**BEFORE, "src/a.py": A10}

    @pytest.mark.parametrize("how", [["--preview"], []])
    def test_a_preview_and_a_dry_run_say_that_nothing_was_changed(
        self, ws: Installation, how: list[str]
    ) -> None:
        params = {"path": "src/a.py", "changes": json.loads(CHANGES), "dry_run": not how}
        run = ws.stet("patch-file", *how, stdin=json.dumps(params))
        assert run.returncode == 0
        assert "+    return 10\n" in run.stdout
        assert run.stdout.endswith("Preview: nothing was changed.\n")
        assert files(ws) == BEFORE

    def test_a_refusal_names_the_change(self, ws: Installation) -> None:
        changes = [*json.loads(CHANGES), {"search": "return", "replace": "x"}]
        run = ws.stet("patch-file", "--path", "src/a.py", stdin=json.dumps(changes))
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.startswith("stet: change 2: ")
        assert files(ws) == BEFORE

    def test_a_list_without_path_is_wrong_usage(self, ws: Installation) -> None:
        run = ws.stet("patch-file", stdin=CHANGES)
        assert (run.returncode, run.stdout) == (2, "")
        assert '{"path": "src/a.py", "changes": [{"search": ' in run.stderr
        assert "stet patch-file --path src/a.py" in run.stderr


class TestPatchBlock:
    def test_the_text_comes_from_standard_input_or_a_file(self, ws: Installation) -> None:
        run = ws.stet("patch-block", "-m", "ten", stdin=f"Here it is:\n\n{BLOCK}\nDone.\n")
        assert (run.returncode, run.stderr) == (0, "")
        assert "M src/a.py  +1 -1" in run.stdout
        assert files(ws) == {**BEFORE, "src/a.py": A10}
        ws.write("../back.txt", BACK)
        assert ws.stet("patch-block", "../back.txt").returncode == 0
        assert files(ws) == BEFORE

    def test_json_has_the_structure_of_the_dialect(self, ws: Installation) -> None:
        assert ws.json("patch-block", stdin=BLOCK)["result"] == {
            "filepath": "src/a.py",
            "result": "Applied 1 changes",
            "error": None,
            "exitCode": 0,
        }

    def test_another_path_than_the_blocks_is_refused(self, ws: Installation) -> None:
        run = ws.stet("patch-block", "--path", "m.txt", "--json", stdin=BLOCK)
        assert run.returncode == 1
        error = json.loads(run.stdout)["error"]
        assert error["data"]["kind"] == "parse_error"
        assert error["data"]["result"]["exitCode"] == 1
        assert files(ws) == BEFORE

    def test_a_preview_changes_nothing(self, ws: Installation) -> None:
        run = ws.stet("patch-block", "--preview", stdin=BLOCK)
        assert run.stdout.endswith("Preview: nothing was changed.\n")
        assert files(ws) == BEFORE


class TestApplyPatch:
    @pytest.mark.parametrize("source", ["standard input", "dash", "file", "argument"])
    def test_the_patch_comes_from_everywhere(self, ws: Installation, source: str) -> None:
        ws.write("../p.patch", PATCH)
        run = {
            "standard input": lambda: ws.stet("apply-patch", stdin=PATCH),
            "dash": lambda: ws.stet("apply-patch", "-", stdin=PATCH),
            "file": lambda: ws.stet("apply-patch", "../p.patch"),
            "argument": lambda: ws.stet("apply-patch", PATCH),
        }[source]()
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout == success(ws)
        assert files(ws) == AFTER

    def test_an_argument_in_a_heredoc_is_the_patch_itself(self, ws: Installation) -> None:
        run = ws.stet("apply-patch", f"<<'EOF'\n{PATCH}EOF\n")
        assert (run.returncode, run.stdout) == (0, success(ws))

    def test_a_preview_changes_nothing(self, ws: Installation) -> None:
        run = ws.stet("apply-patch", "--preview", PATCH)
        assert run.returncode == 0
        assert "+    return 10\n" in run.stdout
        assert run.stdout.endswith("Preview: nothing was changed.\n")
        assert files(ws) == BEFORE

    def test_why_goes_into_the_commit(self, ws: Installation) -> None:
        assert ws.stet("apply-patch", "-m", "tidying", stdin=PATCH).returncode == 0
        assert ws.stet("log").stdout.splitlines()[1].strip() == "tidying"
        assert ws.stet("undo").returncode == 0
        assert files(ws) == BEFORE

    def test_a_missing_file_is_wrong_usage(self, ws: Installation) -> None:
        run = ws.stet("apply-patch", "missing.patch")
        assert (run.returncode, run.stdout) == (2, "")
        assert "cannot read missing.patch" in run.stderr

    def test_overwrite_and_ambiguous_are_handed_on(self, ws: Installation) -> None:
        again = "*** Begin Patch\n*** Add File: d.txt\n+y\n*** End Patch\n"
        assert ws.stet("apply-patch", stdin=again).returncode == 1
        assert ws.stet("apply-patch", "--overwrite", stdin=again).returncode == 0
        assert ws.text("d.txt") == "y\n"
        ws.write("twice", "x\ny\nx\n")
        first = "*** Begin Patch\n*** Update File: twice\n@@\n-x\n+z\n*** End Patch\n"
        assert ws.stet("apply-patch", stdin=first).returncode == 1
        assert ws.stet("apply-patch", "--ambiguous", "first", stdin=first).returncode == 0
        assert ws.text("twice") == "z\ny\nx\n"


def test_tools_are_those_of_a_vendor(shared: Installation) -> None:
    """What is in them: tests/editing/test_tool_schemas."""
    run = shared.stet("tools", "--style", "openai", "--api", "responses", "--custom")
    (custom,) = [tool for tool in json.loads(run.stdout) if tool["type"] == "custom"]
    assert (custom["name"], custom["format"]["syntax"]) == ("apply_patch", "lark")
    run = shared.stet("tools", "--custom")
    assert (run.returncode, run.stdout) == (1, "")
    assert 'custom and api go with style "openai"' in run.stderr


def test_an_edit_whose_request_id_is_null_is_sent_again_as_the_same_request(
    ws: Installation,
) -> None:
    edit = {"path": "a", "changes": [{"search": "a"}], "request_id": None}
    with scripted(in_turn(HangUp(), empty_edit("c" * 40))) as daemon:
        where = {"STET_RUNTIME_DIR": daemon.endpoint.runtime}
        done = ws.stet("patch-file", stdin=json.dumps(edit), **where)
        assert done.returncode == 0, done.stderr
        first, again = (request.params["request_id"] for request in daemon.requests)
        assert first is not None
        assert first == again
