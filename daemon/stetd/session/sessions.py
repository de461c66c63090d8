"""Sessions: an agent's conversation with a workspace, its clipboards and its mode.

Values only; the journal carries every change of them.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

import msgspec

from stetd.session.modes import Grant, Standing


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session. Times are whole seconds since the epoch.

    ``secret`` is a salted hash, never the secret itself. ``chosen``: somebody has set its mode;
    False: it is the one that it began in; None: a version that did not note it has opened it.
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
        """Its mode, and the grant on top of it."""
        return Standing(self.mode, self.grant)


class Entrant(NamedTuple):
    """Who enters a session, and with what; ``control``: as the person."""

    workspace: str
    session: str
    agent: str | None
    secret: str | None
    control: bool


def with_standing(session: Session, standing: Standing) -> Session:
    """The session with a mode, or a grant, that somebody has set."""
    return msgspec.structs.replace(session, mode=standing.mode, grant=standing.grant, chosen=True)


def with_clipboards(session: Session, changes: dict[str, str | None]) -> Session:
    """The session after clipboards were set, or removed (None)."""
    clipboards = {**session.clipboards}
    for name, text in changes.items():
        if text is None:
            clipboards.pop(name, None)
        else:
            clipboards[name] = text
    return msgspec.structs.replace(session, clipboards=clipboards)


def clipboard_bytes(clipboards: dict[str, str]) -> int:
    """What a session's clipboards take, in UTF-8 bytes."""
    return sum(len(text.encode()) for text in clipboards.values())


def hash_secret(secret: str, salt: bytes) -> bytes:
    """What is kept of a session's secret: 16 bytes of salt, then SHA-256 over both.

    The secret guards against other agents of the same user, who cannot read the state
    directory from their sandbox; it is not a password that anyone types.
    """
    return salt + hashlib.sha256(salt + secret.encode()).digest()


def secret_matches(session: Session, secret: str | None) -> bool:
    """Whether this secret opens the session (one without a secret is open)."""
    if session.secret is None:
        return True
    if secret is None:
        return False
    return hmac.compare_digest(session.secret, hash_secret(secret, session.secret[:16]))
