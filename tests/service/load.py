"""One of several clients in full flight: ``python -m service.load NUMBER COUNT``.

It appends numbered lines to a file of its own, every fifth to one that all share, each call with
a request id, through the client library as an agent uses it. COUNT 0: until the file ``stop``
appears in the workspace. It prints the commit of each request as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import sys

import stet

#: Calls after which a client goes on in another file, so that none grows without end.
_PER_FILE = 500


def path_of(client: int, number: int) -> str:
    """The file that a call appends to."""
    part = number // _PER_FILE
    return f"shared-{part}.txt" if number % 5 == 0 else f"own-{client}-{part}.txt"


def line_of(client: int, number: int) -> str:
    """What it appends; also the request id."""
    return f"client-{client}-call-{number}"


def main(client: int, count: int, workspace: str) -> None:
    """Call, and print what was answered."""
    answers = {}
    stop = os.path.join(workspace, "stop")
    with stet.connect(workspace, f"session-{client}", "load") as session:
        for number in range(count) if count else itertools.count():
            if not count and os.path.exists(stop):
                break
            line = line_of(client, number)
            append = stet.append_eof(f"{line}\n")
            done = session.patch(path_of(client, number), [append], request_id=line)
            answers[line] = done.commit
    print(json.dumps(answers))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), os.getcwd())
