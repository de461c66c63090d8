"""The wire is simple enough for a script of ten lines that imports nothing of ours."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from e2e.running_daemon import PATIENCE_S, Site

SCRIPT = Path(__file__).with_name("json_lines_example.py")


def test_ten_lines_say_hello_patch_look_at_the_log_and_undo(site: Site) -> None:
    site.write("a.txt", "first\n")
    done = subprocess.run(
        # -S -E: no site-packages, so no stet to import even by mistake.
        [sys.executable, "-S", "-E", str(SCRIPT), str(site.root)],
        env={"STET_RUNTIME_DIR": str(site.daemon.runtime)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.stderr == ""
    assert done.stdout == (
        "diff --git a/a.txt b/a.txt\n"
        "index 9c59e24..3ada382 100644\n"
        "--- a/a.txt\n"
        "+++ b/a.txt\n"
        "@@ -1 +1,2 @@\n"
        " first\n"
        "+hi\n"
        "\n"
        "patch a.txt: 1 edit\n"
        "diff --git a/a.txt b/a.txt\n"
        "index 3ada382..9c59e24 100644\n"
        "--- a/a.txt\n"
        "+++ b/a.txt\n"
        "@@ -1,2 +1 @@\n"
        " first\n"
        "-hi\n"
        "\n"
    )
    assert site.bytes_of("a.txt") == b"first\n"
    assert site.kinds() == ["undo", "edit", "outside"]
    assert site.log()[1]["agent"] == "ten-lines"


def test_the_script_has_ten_lines_and_imports_the_standard_library_only() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code = [line for line in text.splitlines() if line and line[0] not in '"#']
    assert len(code) == 10
    imports = [node for node in tree.body if isinstance(node, ast.Import)]
    imported = [name.name for node in imports for name in node.names]
    assert imported == ["json", "os", "socket", "sys"]
