"""Who may call which method, as a table: from what the methods declare.

    cd tests && python -m e2e.rights_table > ../docs/rights.md

test_rights_table.py compares it with a running daemon.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from stet.wire.failures import Kind
from stetd.methods import METHODS
from stetd.planning.calls import EDIT_METHODS

TOOL_DISABLED = (
    "Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request write access."
)
#: In Restricted mode the person may undo all the same.
TAKE_BACK = ("undo", "redo", "rollback", "restore")


class PersonsOwn(msgspec.Struct, frozen=True):
    """What only the person may ask of a method that agents may call as well.

    ``planned``: it is noticed when the call's turn has come, so Restricted mode is told first.
    """

    method: str
    what: str
    planned: bool = False


PERSONS_OWN = (
    PersonsOwn("mode_set", "anything but restricting one's own session"),
    PersonsOwn("undo", "edits of another session, by its name"),
    PersonsOwn("undo", "edits of another session, by their commits", planned=True),
    PersonsOwn("rollback", "edits of another session"),
    PersonsOwn("rollback", "edits made outside"),
    PersonsOwn("restore", "a file that others have changed since", planned=True),
)


def answer(name: str, *, control: bool, restricted: bool) -> Kind | None:
    """The kind with which a good call is refused; None if it is carried out."""
    if METHODS[name].control and not control:
        return Kind.NOT_PERMITTED
    disabled = name in EDIT_METHODS or (name in TAKE_BACK and not control)
    return Kind.TOOL_DISABLED if restricted and disabled else None


def answer_to_persons_own(own: PersonsOwn, *, control: bool, restricted: bool) -> Kind | None:
    """The same for a call with parameters that are the person's."""
    refused = answer(own.method, control=control, restricted=restricted)
    if control or (own.planned and refused is not None):
        return refused
    return Kind.NOT_PERMITTED


def answer_before_hello(name: str, *, control: bool) -> Kind | None:
    """The same for a call on a connection that has not said hello, nor names a workspace."""
    method = METHODS[name]
    if method.control and not control:
        return Kind.NOT_PERMITTED
    return None if method.needs == "nothing" else Kind.HELLO_REQUIRED


def page() -> str:
    """docs/rights.md."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield from _HEAD.splitlines()
    yield "| method | agent | agent, Restricted | person | person, Restricted | before hello |"
    yield "|---|---|---|---|---|---|"
    for name in sorted(METHODS):
        cells = [
            _said(answer(name, control=control, restricted=restricted))
            for control in (False, True)
            for restricted in (False, True)
        ]
        yield _row(f"`{name}`", *cells, _before_hello(name))
    yield from _BETWEEN.splitlines()
    yield "| method | what | agent | agent, Restricted | person | person, Restricted |"
    yield "|---|---|---|---|---|---|"
    for own in PERSONS_OWN:
        cells = [
            _said(answer_to_persons_own(own, control=control, restricted=restricted))
            for control in (False, True)
            for restricted in (False, True)
        ]
        yield _row(f"`{own.method}`", own.what, *cells)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _said(kind: Kind | None) -> str:
    return "yes" if kind is None else f"`{kind}`"


def _before_hello(name: str) -> str:
    agent, person = (answer_before_hello(name, control=control) for control in (False, True))
    if agent == person:
        return _said(agent)
    return f"person: {_said(person)}"


_HEAD = """\
# Who may call what

Made by `python -m e2e.rights_table`, in `tests`, from what the methods declare; a test compares
each cell with the answer of a running daemon. An agent is whoever comes to `agent.sock`, the
person whoever comes to `control.sock`. *Restricted*: the session or its workspace is. A cell says
`yes`, or the kind of error with which a call is refused there. A refused call changes no file,
clipboard, mode or commit.

`tool_disabled` says, word for word:

    Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request write access.

*Before hello* is about a call that does not say which workspace it means. The person's methods
that take `workspace` need no hello with it. `status` tells an agent no more than version and
protocol then.

"""

_BETWEEN = """\

Some calls of methods that agents may call are the person's all the same:

"""

if __name__ == "__main__":
    sys.stdout.write(page())
