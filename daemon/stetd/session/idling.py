"""Sessions that hold nothing need not be kept for ever: which of them are let go. Values only.

Every connection without a session name gets a session of its own, so their number has to be
bounded. One that is let go and then opened again begins anew; what it has lost is when it was
first opened and how many commits it has made. Its commits, and the replies by request id,
are kept elsewhere, under its name.
"""

from __future__ import annotations

from collections.abc import Iterable

from stetd.session.modes import RESTRICTED
from stetd.session.sessions import Session

#: Idle sessions that are kept, of all workspaces together: those that were seen last.
MOST_IDLE = 1000
#: Seconds after which an idle session is let go, however few there are.
LONGEST_IDLE_S = 30 * 86400


def is_idle(session: Session, begins_in: str) -> bool:
    """Whether letting it go would change nothing for who opens it again.

    ``begins_in``: the mode in which a new session of its workspace would begin now. A secret
    is worth keeping where there are commits, because whoever has the name may take them back.
    """
    chosen = session.chosen
    if chosen is None:  # not noted: a restriction may be somebody's will
        chosen = session.mode == RESTRICTED
    guards = session.secret is not None and session.commits > 0
    holds = session.clipboards or session.grant is not None or chosen or guards
    return not holds and session.mode == begins_in


def let_go(idle: Iterable[Session], now: float) -> list[Session]:
    """Those of the idle sessions that are not kept any longer."""
    newest = sorted(idle, key=lambda each: (each.last_seen, each.created, each.name), reverse=True)
    kept = [each for each in newest[:MOST_IDLE] if each.last_seen >= now - LONGEST_IDLE_S]
    return newest[len(kept) :]  # the old ones are at the end
