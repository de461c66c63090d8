"""Allow a directory, leave the daemon running, and say how to talk to it.

    python scripts/connecting.py DIR

With the user's ordinary directories (or what STET_* variables say), as ``stet init`` would.
"""

from __future__ import annotations

import json
import os
import shlex
import sys

import stet
from stet.service.spawn import Endpoint

_TEXT = """\
Agents may edit below {root}. The commands below are in {bin}.

In an agent's client (docs/clients.md has the others):

    stet connect claude-code --write --hooks

From the command line:

    export PATH={bin}:"$PATH"
    cd {quoted}
    echo '[{{"operation": "append_eof", "newText": "hello\\n"}}]' | stet patch --path hello.txt
    stet log
    stet undo

From Python ({python}):

    import stet
    with stet.connect(workspace={root!r}, session="conv-1", agent="me") as s:
        print(s.patch("hello.txt", [stet.append_eof("hello\\n")]).diff)
        s.undo(last=1)

From anything else, JSON lines over the agents' socket, {agent}:

    {{"id": 1, "method": "hello", "params": {{"protocol": 1, "workspace": {json_root}}}}}
    {{"id": 2, "method": "tools", "params": {{"style": "openai"}}}}
    {{"id": 3, "method": "patch", "params": {{"path": "hello.txt", "patches": [..]}}}}

The history is a bare Git repository:

    git --git-dir {quoted_shadow} log -p history

The daemon goes on running; what it says goes to {log}.
To end it (it finishes what is in work, and the next stet command starts it again):

    stet stop

To take the permission back (the history is kept):

    stet workspaces --forget {quoted}
"""


def main() -> int:
    """Allow the directory that was named; the exit status."""
    root = os.path.realpath(sys.argv[1])
    try:
        with stet.connect(None, control=True) as person:
            workspace = person.workspace_allow(root)
    except stet.StetError as error:
        print(f"scripts/run: {error.message}", file=sys.stderr)
        return 1
    endpoint = Endpoint.from_environment(control=False)
    print(
        _TEXT.format(
            root=workspace.root,
            json_root=json.dumps(workspace.root),
            quoted=shlex.quote(workspace.root),
            quoted_shadow=shlex.quote(workspace.shadow),
            bin=shlex.quote(os.path.dirname(sys.executable)),
            python=shlex.quote(sys.executable),
            agent=endpoint.path,
            log=endpoint.log,
        ),
        end="",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
