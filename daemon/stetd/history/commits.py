"""Commit objects of the shadow repository: how they are written and read back.

A commit says who asked for what, and what was done:

    <subject: what was done>

    <body: why, as the caller said>

    Stet-Kind: edit
    Stet-Method: patch
    Stet-Agent: my-agent
    Stet-Session: conv-1
    Stet-Subagent: general-purpose a3041
    Stet-Request: 5f0c...
    Stet-Peer: 4711 python3
    Stet-Reverts: <commit id>        (one line for each commit taken back)
    Stet-Flagged: .envrc             (one line for each protected file that was changed)
    Stet-Permissions: 600 <path>     (only where Git's file modes lose something)
    Stet-Regraded: 600 644 <path>    (where that changed in a file that stays or is moved)
    Stet-Directory: src/new          (one line for each directory that the call made)
    Stet-Moved: ["src/a.py","src/b.py"]     (one line for each file moved: from, to)
    Stet-Excluded: M .env            (one line for each file changed that is not to be kept)
    Stet-Version: 0.1.0
    Stet-Forgotten: .env             (one line for each path that was forgotten since)

The trailers are always the last paragraph, and only the last paragraph is read as
trailers, so nothing that a caller puts into the body can pass for one. The author is
the agent, the committer the daemon, both with the time of the journal record: the same
record always gives the same commit id.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from stet.wire.results import CommitInfo, FileChange, Peer
from stetd.history.objects import NewObject, object_id

_COMMITTER = "stetd <stetd@stet.invalid>"
#: Git forbids these in names; control characters would break the header lines.
_UNSAFE_IN_NAME = re.compile(r"[<>\x00-\x1f\x7f]")
_UNSAFE_IN_TRAILER = re.compile(r"[\x00-\x1f\x7f]")


class CommitMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who did what and why: everything of a commit except its tree and parent.

    ``time`` is in whole seconds since the epoch (Git keeps no fractions).
    """

    kind: str
    time: int
    subject: str
    why: str = ""
    method: str | None = None
    agent: str | None = None
    session: str | None = None
    #: Which of the session's subagents, where the client says it.
    subagent: str | None = None
    request: str | None = None
    peer: Peer | None = None
    reverts: tuple[str, ...] = ()
    #: Protected files that the call changed (``protected`` in the configuration).
    flagged: tuple[str, ...] = ()
    #: Paths whose permission bits are neither 0644 nor 0755, with the bits.
    permissions: tuple[tuple[str, int], ...] = ()
    #: Files whose bits were changed, unless Git can say both: path, bits before and after.
    regraded: tuple[tuple[str, int, int], ...] = ()
    #: Directories that did not exist before; taking the commit back removes them if empty.
    directories: tuple[str, ...] = ()
    #: Files that were moved: old path, new path. Trees alone don't show a move.
    moves: tuple[tuple[str, str], ...] = ()
    #: Files that the call changed and whose contents the history does not keep (``exclude`` in
    #: the configuration): A, M or D, and the path. They are not in the tree.
    excluded: tuple[tuple[str, str], ...] = ()
    #: Paths that the commit changed, and that the history has forgotten since.
    forgotten: tuple[str, ...] = ()
    version: str = ""

    @property
    def message(self) -> str:
        """Subject and body, without the trailers."""
        return f"{self.subject}\n\n{self.why}" if self.why else self.subject


class StoredCommit(msgspec.Struct, frozen=True):
    """A commit read back from the repository."""

    oid: str
    tree: str
    parent: str | None
    meta: CommitMeta


def _one_line(text: str) -> str:
    # White space at its ends stays: a path may begin or end with some, or be nothing else.
    return _UNSAFE_IN_TRAILER.sub(" ", text)


def author(meta: CommitMeta) -> str:
    """A commit's author: the agent, or what the commit is instead of an agent's."""
    name = _UNSAFE_IN_NAME.sub("", meta.agent or meta.kind).strip(" .,;:\"'") or "unnamed"
    return f"{name} <{'agent' if meta.agent else meta.kind}@stet.invalid>"


def _trailers(meta: CommitMeta) -> list[str]:
    peer = f"{meta.peer.pid} {meta.peer.command}" if meta.peer else None
    pairs: list[tuple[str, str | None]] = [
        ("Kind", meta.kind),
        ("Method", meta.method),
        ("Agent", meta.agent),
        ("Session", meta.session),
        ("Subagent", meta.subagent),
        ("Request", meta.request),
        ("Peer", peer),
        *(("Reverts", oid) for oid in meta.reverts),
        *(("Flagged", path) for path in meta.flagged),
        *(("Permissions", f"{mode:o} {path}") for path, mode in meta.permissions),
        *(("Regraded", f"{old:o} {new:o} {path}") for path, old, new in meta.regraded),
        *(("Directory", path) for path in meta.directories),
        *(("Moved", msgspec.json.encode(move).decode()) for move in meta.moves),
        *(("Excluded", f"{status} {path}") for status, path in meta.excluded),
        ("Version", meta.version or None),
        *(("Forgotten", path) for path in meta.forgotten),
    ]
    return [f"Stet-{key}: {_one_line(value)}" for key, value in pairs if value is not None]


def commit_object(meta: CommitMeta, tree: str, parent: str | None) -> NewObject:
    """The commit object for this metadata."""
    subject = _one_line(meta.subject).strip() or meta.kind
    why = meta.why.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip("\n")
    paragraphs = [subject, why, "\n".join(_trailers(meta))]
    lines = [
        f"tree {tree}",
        *([f"parent {parent}"] if parent else []),
        f"author {author(meta)} {meta.time} +0000",
        f"committer {_COMMITTER} {meta.time} +0000",
        "",
        "\n\n".join(p for p in paragraphs if p) + "\n",
    ]
    content = "\n".join(lines).encode("utf-8", "replace")
    return NewObject("commit", object_id("commit", content), content)


def parse_commit(oid: str, content: bytes) -> StoredCommit:
    """Read a commit object back (the inverse of :func:`commit_object`)."""
    header, _, message = content.decode("utf-8", "replace").partition("\n\n")
    fields = [line.partition(" ") for line in header.split("\n")]
    first = {key: value for key, _, value in reversed(fields)}
    paragraphs = message.rstrip("\n").split("\n\n")
    trailers: dict[str, list[str]] = {}
    if len(paragraphs) > 1:
        for line in paragraphs.pop().split("\n"):
            key, _, value = line.partition(": ")
            trailers.setdefault(key, []).append(value)

    def many(key: str) -> list[str]:
        return trailers.get(f"Stet-{key}", [])

    def one(key: str) -> str | None:
        return next(iter(many(key)), None)

    def split(key: str, spaces: int) -> list[list[str]]:
        return [line.split(" ", spaces) for line in many(key)]

    pid, _, command = (one("Peer") or "").partition(" ")
    meta = CommitMeta(
        kind=one("Kind") or "edit",
        time=int(first["committer"].split(" ")[-2]),
        subject=paragraphs[0],
        why="\n\n".join(paragraphs[1:]),
        method=one("Method"),
        agent=one("Agent"),
        session=one("Session"),
        subagent=one("Subagent"),
        request=one("Request"),
        peer=Peer(int(pid), command) if pid.isdigit() else None,
        reverts=tuple(many("Reverts")),
        flagged=tuple(many("Flagged")),
        permissions=tuple((path, int(mode, 8)) for mode, path in split("Permissions", 1)),
        regraded=tuple((path, int(old, 8), int(new, 8)) for old, new, path in split("Regraded", 2)),
        directories=tuple(many("Directory")),
        moves=tuple(msgspec.json.decode(line, type=tuple[str, str]) for line in many("Moved")),
        excluded=tuple((line[:1], line[2:]) for line in many("Excluded")),
        forgotten=tuple(many("Forgotten")),
        version=one("Version") or "",
    )
    return StoredCommit(oid, first["tree"], first.get("parent"), meta)


def rfc3339(seconds: int) -> str:
    """A time as the contract writes it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit_info(
    commit: StoredCommit, files: list[FileChange], reverted_by: str | None = None
) -> CommitInfo:
    """A commit as in results: with what it did to its files, and what took it back."""
    meta = commit.meta
    return CommitInfo(
        commit=commit.oid,
        parent=commit.parent,
        time=rfc3339(meta.time),
        kind=meta.kind,
        method=meta.method,
        agent=meta.agent,
        session=meta.session,
        subagent=meta.subagent,
        request=meta.request,
        peer=meta.peer,
        message=meta.message,
        files=files,
        reverts=list(meta.reverts),
        reverted_by=reverted_by,
        forgotten=list(meta.forgotten) or msgspec.UNSET,
    )
