"""Commits as messages of an mbox that ``git am`` takes, as ``git format-patch`` writes them. Pure.

What an agent said in a message is data here, and must stay so: ``git am`` takes lines such as
``---`` and ``diff --git`` for the beginning of the patch, ``From: `` and the like at the top for
headers, and ``From `` for the next message. The first are indented by a space; above a text of the
agent's stands the author in a line of its own, which ends the headers; the third is written in
quoted-printable, which also keeps carriage returns, bytes that are no UTF-8, and very long lines.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime

from stetd.history.commits import CommitMeta, author
from stetd.history.objects import is_utf8

#: The date in the first line of every message that format-patch writes; git looks for it.
_MAGIC = "Mon Sep 17 00:00:00 2001"
_LONGEST_LINE = 900
#: git am takes the address for a name of other lengths, in bytes.
_SHORTEST_NAME, _LONGEST_NAME = 3, 60
_PATCH_BEGINS = re.compile(r"^(?=diff -|Index: |---(?:[ \t\v\f]*$| \S))", re.MULTILINE)
_PLAIN_HEADER = re.compile(r"[ !-<>-~]*")  # no =, which could begin an encoded word
_NEEDS_QUOTING = re.compile(rb"\r|\0|^From |[^\n]{%d}" % _LONGEST_LINE, re.MULTILINE)


def message(oid: str, meta: CommitMeta, patch: bytes, *, context: bool, version: str) -> str:
    """One commit as a message. ``context``: it is there only because later ones need it."""
    from email.utils import format_datetime  # as email.header

    name, _, address = author(meta).rpartition(" ")
    sender = f"{_encoded(_name(name))} {address}"
    payload = (
        (_body(meta, sender, oid, context=context) + "---\n\n").encode("utf-8", "replace")
        + patch
        + f"-- \nstet {version}\n\n".encode()
    )
    quoted = _NEEDS_QUOTING.search(payload) is not None or not is_utf8(payload)
    head = [
        f"From {oid} {_MAGIC}",
        f"From: {sender}",
        f"Date: {format_datetime(datetime.fromtimestamp(meta.time, UTC))}",
        f"Subject: {_encoded('[PATCH] ' + meta.subject)}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        f"Content-Transfer-Encoding: {'quoted-printable' if quoted else '8bit'}",
        "",
    ]
    body = b"\n".join(map(_quoted_line, payload.split(b"\n"))) if quoted else payload
    return "".join(line + "\n" for line in head) + body.decode()


def _body(meta: CommitMeta, sender: str, oid: str, *, context: bool) -> str:
    why = _PATCH_BEGINS.sub(" ", meta.why.replace("\r\n", "\n").strip("\n"))
    # Ends what git am reads as headers, whatever the message begins with.
    first = f"From: {sender}\n\n" if why else ""
    facts: list[tuple[str, str | None]] = [
        ("Kind", meta.kind),
        ("Method", meta.method),
        ("Agent", meta.agent),
        ("Session", meta.session),
        ("Request", meta.request),
        ("Commit", oid),
        ("Context", "not asked for, but what follows is made on it" if context else None),
    ]
    trailers = "".join(f"Stet-{key}: {value}\n" for key, value in facts if value)
    return first + (why + "\n\n" if why else "") + trailers


def _name(name: str) -> str:
    """A name that git am takes for one."""
    name = " ".join(name.replace("@", " at ").replace('"', "").split())
    name = name.encode()[:_LONGEST_NAME].decode("utf-8", "ignore")
    # git mailinfo reads past the name at a quotation mark or a parenthesis that is not closed.
    name = " ".join(re.sub(r"(\([^()]*\))|[()]", r"\1", name).split())
    return name if len(name.encode()) >= _SHORTEST_NAME else f"agent {name}".strip()


def _encoded(text: str) -> str:
    """A header's value, as encoded words (RFC 2047) where it needs them."""
    from email.header import Header  # takes long to load, and few export

    text = re.sub(r"[\x00-\x1f\x7f]", " ", text)
    plain = _PLAIN_HEADER.fullmatch(text) and not re.search(r'[",()\\;<>]', text)
    if plain and len(text) < _LONGEST_LINE:
        return text
    return Header(text.encode("utf-8", "replace"), "utf-8").encode()


def _quoted_line(line: bytes) -> bytes:
    quoted = binascii.b2a_qp(line, istext=False)
    return b"=46" + quoted[1:] if quoted.startswith(b"From ") else quoted
