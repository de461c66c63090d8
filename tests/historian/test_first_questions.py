"""The first questions of several clients, all at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A member of no value makes the decoder look at what it knows of that member.
_ALL_AT_ONCE = """
import sys, threading
import msgspec
from stetd.historian import questions
from stetd.processes import historian_messages as messages
from stetd.storage.progress import Progress

sys.setswitchinterval(1e-6)
view = messages.WorkspaceView(
    root="", shadow="", head=None, number=0, directory="", cut=None, inner=[]
)
table = (questions._ABOUT_A_VIEW | questions._ABOUT_BOTH).items()
kinds = {name: kind for name, (kind, _) in table if hasattr(kind, "__struct_fields__")}
asked = []
for name, kind in kinds.items():
    params = msgspec.msgpack.encode(dict.fromkeys(kind.__struct_fields__))
    asked.append(messages.Ask(id=1, question=name, view=view, params=params))
together = threading.Barrier(8)
answered = []

def ask_all():
    together.wait()
    for each in asked:
        try:
            questions.answer(None, each, Progress())
        except (msgspec.ValidationError, AttributeError):  # there is no library
            pass
    answered.append(True)

threads = [threading.Thread(target=ask_all) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(kinds) > 5 and len(answered) == 8
"""


@pytest.mark.parametrize("time", range(8))
def test_the_first_questions_of_a_kind_may_come_at_once(time: int) -> None:
    done = subprocess.run([sys.executable, "-c", _ALL_AT_ONCE], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
