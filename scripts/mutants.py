"""Mutants of the daemon: for each promise a change that breaks it, and the rigs that must fail.

A rig that has never failed proves nothing. So each mutant below takes one safeguard out of a
copy of the sources; the rigs named beside it run against the copy until one of them fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """One safeguard removed: in ``file``, ``old`` becomes ``new``."""

    name: str
    what: str
    file: str
    old: str
    new: str
    rigs: tuple[str, ...]


MUTANTS = [
    Mutant(
        "no-fsync",
        "nothing is ever synced",
        "storage/disk.py",
        "        _sync(os.fdatasync, fd)",
        "        return",
        ("tests/rigs/test_kth_write.py", "tests/rigs/test_power_cut.py"),
    ),
    Mutant(
        "no-outside-check",
        "what others wrote is not recorded before it is replaced",
        "transaction/heads.py",
        "        if not same_image(known, image):",
        "        if False:",
        ("tests/recovery/test_saves_in_a_loop.py", "tests/e2e/test_history.py"),
    ),
    Mutant(
        "no-exchange-compare",
        "what came out of the exchange is not looked at",
        "transaction/transaction.py",
        "    displaced = worktree.compare_displaced(work.target, work.temporary, before)",
        "    displaced = None",
        ("tests/recovery/test_saves_in_a_loop.py", "tests/recovery/test_outside_saves.py"),
    ),
    Mutant(
        "any-file-is-out",
        "what came out is taken for the file that was read, by the handle on that",
        "storage/worktree.py",
        "        same = (now.st_dev, now.st_ino) == expected.inode",
        "        same = True",
        ("tests/storage/test_worktree.py", "tests/recovery/test_outside_saves.py"),
    ),
    Mutant(
        "reply-before-journal",
        "a call is answered when it is planned",
        "engine/writer.py",
        "            return self._publish_all(workspace, self._make_durable(outcomes))",
        "            for job, outcome in outcomes:\n"
        "                if isinstance(outcome, Prepared):\n"
        "                    self._answer(job, outcome.result)\n"
        "                    job.future, job.followers = Future(), []\n"
        "            return self._publish_all(workspace, self._make_durable(outcomes))",
        ("tests/recovery/test_killed_anywhere.py", "tests/rigs/test_kth_write.py"),
    ),
    Mutant(
        "no-request-record",
        "a request id that was answered is forgotten",
        "engine/preparing.py",
        "        found = self._state.requests.get(key) or self._historian.remembered.find(key)\n"
        "        if found is None and",
        "        found = None\n        if False and",
        ("tests/rigs/test_workspace_machine.py", "tests/e2e/test_sessions.py"),
    ),
    Mutant(
        "checkpoint-without-the-historian",
        "the journal is dropped before Git durably has what it said",
        "engine/checkpointing.py",
        "            await self._historian.make_durable([*kept, *self._state.given_up])",
        "            pass",
        ("tests/historian", "tests/rigs/test_power_cut.py"),
    ),
    Mutant(
        "checkpoint-without-one-history",
        "a checkpoint does not wait for a repository that can't be written",
        "repository/git_writer.py",
        "        return all_done and all(self._attempt(None, [item]) for item in checkpoints)",
        "        return all(self._attempt(None, [item]) for item in checkpoints) and all_done",
        ("tests/repository/test_git_writer.py",),
    ),
    Mutant(
        "question-before-its-history",
        "a question does not wait until Git has what it must have seen",
        "historian/questions.py",
        "    if given.number:\n        _require",
        "    if False:\n        _require",
        ("tests/e2e/test_history.py",),
    ),
    Mutant(
        "stale-draft",
        "an undo that was made from other content is published",
        "planning/proposals.py",
        "        if (found.image if found is not None else None) != file.found:",
        "        if False:",
        ("tests/historian",),
    ),
    Mutant(
        "followed-too-far",
        "the historian reads past the durable end of the journal",
        "historian/following.py",
        "file.read(end[1] - offset if last else -1)",
        "file.read(-1)",
        ("tests/historian",),
    ),
    Mutant(
        "no-published-mark",
        "recovery does not learn which calls were finished",
        "transaction/transaction.py",
        "        journal.append(*(Published(number) for number in numbers))",
        "        pass",
        ("tests/recovery/test_counterexamples.py",),
    ),
    Mutant(
        "temporary-files-cleared-unseen",
        "recovery clears temporary files without looking into them",
        "recovery/files.py",
        "        if not looks_torn(found.data, self._contents(images)):\n            return True",
        "        if not looks_torn(found.data, self._contents(images)):\n            return False",
        ("tests/recovery/test_counterexamples.py",),
    ),
    Mutant(
        "abort-without-sync",
        "files are put back before the abort record is durable",
        "transaction/transaction.py",
        "        journal.append(record)\n        journal.sync()",
        "        pass",
        ("tests/recovery/test_outside_saves.py", "tests/recovery/test_counterexamples.py"),
    ),
    Mutant(
        "no-object-id-check",
        "a loose object is taken for what its name says",
        "repository/object_files.py",
        '    if found_id != oid:\n        raise Damaged(name, f"its',
        '    if False:\n        raise Damaged(name, f"its',
        ("tests/e2e/test_corruption.py",),
    ),
    Mutant(
        "verify-without-checksums",
        "packs and their indexes are not checked as files",
        "repository/object_checking.py",
        "            if checksum.digest() != expected:",
        "            if False:",
        ("tests/e2e/test_corruption.py",),
    ),
    Mutant(
        "verify-without-contents",
        "files that commits need may be missing",
        "historian/queries/verify.py",
        '                self._is_there(file.hex(), "blob", oid, path)',
        "                pass",
        ("tests/e2e/test_verify.py::test_a_history_without_the_text_of_a_file_is_noticed",),
    ),
    Mutant(
        "verify-trusts-the-reference",
        "a history that was moved back passes",
        "historian/queries/verify.py",
        "        if in_place or reference == before.head or (reference and reference == head):",
        "        if reference:",
        ("tests/e2e/test_corruption.py",),
    ),
    Mutant(
        "packs-removed-early",
        "old packs go before the new one is durable",
        "repository/repacking.py",
        "            written = self._write(new) if len(new.chosen) else []\n",
        "            for pack in copied:\n"
        "                remove_pack(os.path.join(self.repository, pack.name), self.disk)\n"
        '                failpoint("gc.removed_pack")\n'
        "            written = self._write(new) if len(new.chosen) else []\n",
        ("tests/repository/test_repacking.py::test_killed_at_any_step_nothing_is_lost",),
    ),
    Mutant(
        "garbage-not-marked-again",
        "what has come to be needed since it was taken for garbage is removed",
        "repository/repacking.py",
        "            self._rescue()",
        "            pass",
        (
            "tests/repository/test_repacking.py"
            "::test_what_comes_to_be_needed_while_garbage_is_collected_stays",
        ),
    ),
    Mutant(
        "removed-and-taken-for-present",
        "who writes objects does not learn which have been removed",
        "repository/git_writer.py",
        "                self._unsynced[repository].recent.clear()",
        "                pass",
        ("tests/e2e/test_forget.py::test_a_call_may_need_again_what_is_being_removed",),
    ),
    Mutant(
        "cut-without-its-checkpoint",
        "history is dropped though recovery may start from it",
        "upkeep/retention.py",
        "known[name].cut != cut:",
        "known[name].cut is None:",
        ("tests/e2e/test_retention.py::test_what_is_too_old_goes",),
    ),
    Mutant(
        "forgotten-text-in-replies",
        "the answers to forgotten calls are kept as they were",
        "historian/maintenance/forget_scan.py",
        "    if not touched.isdisjoint(forgotten):",
        "    if False:",
        ("tests/e2e/test_forget.py::test_retries_are_answered_without_the_secret",),
    ),
    Mutant(
        "damaged-history-let-go",
        "the journal drops the commits that a damaged history still has to get",
        "recovery/startup.py",
        "            start = self.start_of(name) if damaged else None",
        "            start = None",
        (
            "tests/e2e/test_damaged_history.py"
            "::test_a_damaged_history_puts_its_workspace_off_and_no_other",
        ),
    ),
    Mutant(
        "directory-checked-by-name",
        "a directory is checked by its name, and then opened by it",
        "storage/paths_on_disk.py",
        "            fd = _openat2_directory(self._root_fd, parent)\n",
        '            folder = f"{self._root}/{parent}"\n'
        '            if os.path.realpath(folder) != folder.removesuffix("/."):\n'
        "                return None\n"
        "            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)\n",
        ("tests/rigs/test_races.py",),
    ),
    Mutant(
        "links-followed-on-the-walk",
        "a directory that became a link since it was looked at is entered",
        "storage/paths_on_disk.py",
        "_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        ("tests/rigs/test_races.py",),
    ),
    Mutant(
        "moved-away-unseen",
        "nobody asks whether the directory is still where its path says",
        "transaction/transaction.py",
        "    if not worktree.resolver.in_place(work.target):",
        "    if False:",
        ("tests/rigs/test_races.py",),
    ),
    Mutant(
        "grant-without-end",
        "an ended grant is not noticed when a call is planned",
        "session/modes.py",
        "(grant is None or remaining(grant, now) <= 0)",
        "grant is None",
        ("tests/session/test_modes.py",),
    ),
    Mutant(
        "grant-by-the-wall-clock",
        "whoever sets the clock back prolongs a grant",
        "session/modes.py",
        "        return min(left, grant.runs_out - now.running)",
        "        return left",
        ("tests/session/test_modes.py",),
    ),
    Mutant(
        "mode-overtakes-calls",
        "a change of mode does not wait for the calls before it",
        "methods/modes.py",
        "after_all=True, within=within)",
        "within=within)",
        ("tests/e2e/test_modes.py",),
    ),
    Mutant(
        "nested-workspace-open",
        "a restricted workspace is written from the one around it",
        "state/state.py",
        "            if known.allowed and known.root.startswith(prefix):",
        "            if known.allowed and not prefix:",
        ("tests/e2e/test_modes.py",),
    ),
    Mutant(
        "new-name-escapes",
        "a new session is unrestricted whatever the default and the workspace say",
        "state/session_records.py",
        "        return mode_at(self.state.now(), "
        "Standing(self.state.settings.default_mode), ceiling)",
        '        return "unrestricted"',
        ("tests/e2e/test_modes.py",),
    ),
    Mutant(
        "observed-claims-what-it-never-saw",
        "a file of which nothing is known is taken for that of the agent's tool",
        "observing/recording.py",
        "        return before.was_absent(path)",
        "        return True",
        ("tests/hooks/test_observe.py",),
    ),
    Mutant(
        "observed-before-it-is-in-place",
        "the disk is looked at while earlier calls of the batch are only planned",
        "planning/world.py",
        "        return self.needs_history or self.method == OBSERVE",
        "        return self.needs_history",
        ("tests/hooks/test_observe.py",),
    ),
    Mutant(
        "observed-without-a-note",
        "what stood before a tool is not recorded",
        "observing/recording.py",
        '        journal_if_unchanged=asked.phase == "before" and asked.use is not None,',
        "        journal_if_unchanged=False,",
        ("tests/hooks/test_observe.py",),
    ),
]


def mutated_copy(mutant: Mutant, place: Path) -> None:
    """Copy the sources and make the change, which must apply exactly once."""
    for name in ("client", "daemon", "tests"):
        shutil.copytree(CHECKOUT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", place)
    target = place / "daemon" / "stetd" / mutant.file
    source = target.read_text()
    if source.count(mutant.old) != 1:  # tests/scripts/test_mutants.py notices that earlier
        raise SystemExit(f"{mutant.name}: its text stands {source.count(mutant.old)} times")
    target.write_text(source.replace(mutant.old, mutant.new))


def rig_notices(rig: str, place: Path) -> bool:
    """Run a rig against the copy; whether it failed."""
    path = os.pathsep.join(str(place / name) for name in ("client", "daemon"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", rig],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if run.returncode not in (0, 1):
        raise SystemExit(f"{rig} could not run:\n{run.stdout[-2000:]}")
    return run.returncode == 1


def main(names: list[str]) -> int:
    """Try the mutants; 0 if each was noticed."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    if unknown := set(names) - {mutant.name for mutant in MUTANTS}:
        raise SystemExit(f"no such mutant: {', '.join(sorted(unknown))}")
    survived = 0
    for mutant in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="stet-mutant-") as directory:
            mutated_copy(mutant, Path(directory))
            caught = next((rig for rig in mutant.rigs if rig_notices(rig, Path(directory))), None)
        took = f"{time.monotonic() - began:.0f} s"
        survived += caught is None
        print(f"{mutant.name:32} {caught or 'SURVIVED':44} {took:>6}   {mutant.what}", flush=True)
    print(f"{len(chosen)} mutants, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
