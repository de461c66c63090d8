"""Several edits as one, from Python."""

from __future__ import annotations

import pytest

import stet
from client.live import installation


def test_a_move_between_files_is_one_commit() -> None:
    with installation() as own:
        own.stet("init")
        own.write("a.py", "def f(): ...\nx = 1\n")
        with stet.connect(own.workspace, "conv-1", endpoint=own.endpoint()) as session:
            result = session.transaction(
                [
                    stet.calls.patch(
                        "a.py", [stet.replace("def f(): ...\n", "", to_clipboard="f")]
                    ),
                    stet.calls.patch("b.py", [stet.append_eof(from_clipboard="f")]),
                ],
                message="f moves",
            )
            assert [("a.py", "M"), ("b.py", "A")] == [(f.path, f.status) for f in result.files]
            assert ["transaction"] == [c.method for c in session.history(session="conv-1")]
        assert (own.text("a.py"), own.text("b.py")) == ("x = 1\n", "def f(): ...\n")


def test_a_part_that_fails_fails_the_whole() -> None:
    with installation() as own:
        own.stet("init")
        own.write("a.py", "x = 1\n")
        with stet.connect(own.workspace, "conv-1", endpoint=own.endpoint()) as session:
            calls = [
                stet.calls.patch("a.py", [stet.replace("1", "2")]),
                stet.calls.patch("a.py", [stet.replace("1", "3")]),
            ]
            with pytest.raises(stet.OldTextNotFound) as refusal:
                session.transaction(calls)
            assert refusal.value.failures[0].call == 1
        assert own.text("a.py") == "x = 1\n"
