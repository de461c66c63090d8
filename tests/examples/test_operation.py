"""docs/operation.md: a backup that is made and put back as it says is whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from client.live import installation

PAGE = Path(__file__).parents[2] / "docs" / "operation.md"

#: tar, which first tells whether a daemon could be started while it copies.
TAR = """#!/bin/sh
case $* in *-cf*)
    flock -n "$HOME/.local/state/stet/stetd.lock" true && echo "a daemon could start" >&2 ;;
esac
exec /usr/bin/tar "$@"
"""


def commands() -> tuple[str, str]:
    """What the page says for a backup and for the way back, where there is no service."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Backup\n")[2].partition("\n## ")[0]
    backup, back, _ = re.findall(r"(?:^ {4}.*\n)+", section, re.MULTILINE)
    assert "# without a service: stet stop" in backup
    own = [
        "\n".join(line for line in block.splitlines() if "without a service" not in line)
        for block in (backup, back)
    ]
    return own[0], own[1]


def test_a_backup_as_it_says_is_whole(tmp_path: Path) -> None:
    with installation() as place:
        home = Path(place.base)
        (home / "bin").mkdir()
        (home / "bin/tar").write_text(TAR)
        (home / "bin/tar").chmod(0o755)
        (home / ".local/state").mkdir(parents=True)
        state = {"HOME": place.base, "STET_STATE_DIR": str(home / ".local/state/stet")}
        path = f"{home}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"

        def follow(block: str) -> str:
            """What the commands print, or say on standard error."""
            done = subprocess.run(
                ["bash", "-ec", "exec 2>&1\n" + block.replace("/backup", str(tmp_path))],
                env=place.environ | state | {"PATH": path},
                cwd=place.workspace,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout
            return done.stdout

        edit = """echo '[{"operation": "append_eof", "newText": "x"}]' | stet patch --path f\n"""
        backup, back = commands()
        follow(f"stet init\n{edit}")
        known = follow("stet log")
        follow("stet stop")
        assert follow(backup) == ""
        follow(edit)
        follow("stet stop")

        assert follow(back) == ""

        assert "The history is whole: 1 commit" in follow("stet verify")
        assert follow("stet log") == known
        follow("stet stop")
