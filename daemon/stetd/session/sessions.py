"""Sessions: an agent's conversation with a workspace, its clipboards and its mode.

Every change of a session is journalled. A session that holds nothing is dropped after a while:
every connection without a session name gets one. Opened again, it is a new session; its commits and
its replies by request id are found by its name, not in it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from stet.wire.failures import Kind, refuse
from stetd.session.modes import RESTRICTED, Grant, Standing

#: Idle sessions that are kept, of all workspaces together: those that were used last.
MOST_IDLE = 1000
#: Seconds after which an idle session is dropped, however few there are.
LONGEST_IDLE_S = 30 * 86400


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session. Times are whole seconds since the epoch.

    ``secret`` is a salted hash, never the secret itself. ``chosen``: whether somebody has set its
    mode; None: it was opened by a version that did not record that.
    """

    workspace: str
    name: str
    mode: str
    created: int
    last_seen: int
    agent: str | None = None
    clipboards: dict[str, str] = {}
    secret: bytes | None = None
    commits: int = 0
    grant: Grant | None = None
    chosen: bool | None = None

    @property
    def standing(self) -> Standing:
        """Its mode and its grant."""
        return Standing(self.mode, self.grant)


class Entrant(NamedTuple):
    """Who enters a session, and by which secret; ``control``: the person, who needs none."""

    workspace: str
    session: str
    agent: str | None
    secret: str | None
    control: bool


def with_standing(session: Session, standing: Standing) -> Session:
    """The session with a mode or a grant that somebody has set."""
    return msgspec.structs.replace(session, mode=standing.mode, grant=standing.grant, chosen=True)


def with_clipboards(session: Session, changes: dict[str, str | None]) -> Session:
    """The session with clipboards set, or removed (None)."""
    merged = {**session.clipboards, **changes}
    clipboards = {name: text for name, text in merged.items() if text is not None}
    return msgspec.structs.replace(session, clipboards=clipboards)


def check_clipboards(session: Session, changes: Mapping[str, str], limit: int) -> None:
    """Refuse changes that make the session's clipboards larger than ``limit`` bytes together."""
    size = sum(len(text.encode()) for text in {**session.clipboards, **changes}.values())
    if size > limit:
        raise refuse(
            Kind.INPUT_TOO_LARGE,
            f"the session's clipboards would hold {size:,} bytes, {limit:,} is the most "
            "(max_clipboard_bytes in the configuration); delete some first.",
        )


def hash_secret(secret: str, salt: bytes) -> bytes:
    """The hash that is kept of a session's secret: 16 bytes of salt, then SHA-256 over both."""
    return salt + hashlib.sha256(salt + secret.encode()).digest()


def secret_matches(session: Session, secret: str | None) -> bool:
    """Whether this secret opens the session. A session without one is open to all."""
    if session.secret is None or secret is None:
        return session.secret is None
    return hmac.compare_digest(session.secret, hash_secret(secret, session.secret[:16]))


def is_idle(session: Session, begins_in: str) -> bool:
    """Whether a new session of its name, in the mode ``begins_in``, would be the same.

    A secret is kept if there are commits: whoever opens the session may undo them.
    """
    chosen = session.chosen
    if chosen is None:  # not recorded: somebody may have restricted it
        chosen = session.mode == RESTRICTED
    guards = session.secret is not None and session.commits > 0
    holds = session.clipboards or session.grant is not None or chosen or guards
    return not holds and session.mode == begins_in


def expired(idle: Iterable[Session], now: float) -> list[Session]:
    """The idle sessions to drop."""
    newest = sorted(idle, key=lambda each: (each.last_seen, each.created, each.name), reverse=True)
    kept = [each for each in newest[:MOST_IDLE] if each.last_seen >= now - LONGEST_IDLE_S]
    return newest[len(kept) :]  # the old ones are at the end
