"""What a scenario gives now, for a person to read: ``python -m scenarios.show patch 012 ..``

Run in the directory of the tests. Prints the reply or the error as JSON, as it would stand in
reply.json or error.json (and the message once more as text), and every file that is not as the
scenario says, byte for byte. It writes nothing: an expectation is thought of, not copied.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from scenarios.scenario import ROOT, Scenario, folders, load
from scenarios.ways import InProcess, Outcome, PurePlan, check
from stetd.editing.dialects import DIALECTS


def main() -> None:
    """Show the scenarios that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.show")
    parser.add_argument("dialect")
    parser.add_argument("numbers", nargs="*", help="e.g. 012; default: all that fail")
    options = parser.parse_args()
    process = InProcess() if options.dialect not in DIALECTS else None
    for folder in folders(options.dialect):
        if options.numbers and folder.name[:3] not in options.numbers:
            continue
        scenario = load(folder)
        outcome = (process or PurePlan()).run(scenario)
        if options.numbers or not _as_expected(outcome):
            _show(scenario, outcome)
    if process:
        process.close()


def _as_expected(outcome: Outcome) -> bool:
    try:
        check(outcome)
    except AssertionError:
        return False
    return True


def _show(scenario: Scenario, outcome: Outcome) -> None:
    good = _as_expected(outcome)
    print(f"== {scenario.dialect}/{scenario.name}: {'as expected' if good else 'NOT AS EXPECTED'}")
    answer = outcome.error or outcome.reply or {}
    named = ("kind", "message", "failures", "edits", "files", "warnings", "result", "clipboards")
    shown = {name: answer[name] for name in named if answer.get(name)}
    print(json.dumps(shown, indent=2, ensure_ascii=False).replace(PurePlan.root, ROOT))
    print("-- message\n" + answer.get("message", ""))
    _compare("file", outcome.scenario.after.files, outcome.tree.files)
    _compare("link", outcome.scenario.after.links, outcome.tree.links)
    _compare("clipboard", outcome.scenario.clipboards_after, outcome.clipboards)


def _compare(what: str, wanted: Mapping[str, object], found: Mapping[str, object]) -> None:
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            print(f"-- {what} {name}")
            print(f"   wanted {wanted.get(name)!r}")
            print(f"   found  {found.get(name)!r}")


if __name__ == "__main__":
    main()
