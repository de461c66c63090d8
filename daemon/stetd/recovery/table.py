"""What to do about one path after a crash: PROTOCOL.md 10 as a pure function.

The chain of a path is every image that the journal since the checkpoint knows of it, in
order: before, after, voided and restored. What the disk holds is looked up in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from stetd.history.objects import Image, same_image


class Decision(Enum):
    """What recovery does about a path."""

    #: The disk holds the last image.
    DONE = auto()
    #: An unfinished call is finished: write the last image.
    WRITE_LAST = auto()
    #: Somebody else's content: it stays, and is recorded as outside.
    KEEP = auto()
    #: Torn by a power cut: record the torn bytes, then write the last image.
    RESTORE_TORN = auto()


class Link(msgspec.Struct, frozen=True):
    """One image of a chain; ``published``: its record is marked, or is voided by one that is."""

    image: Image | None
    published: bool = False


def looks_torn(data: bytes, contents: Sequence[bytes]) -> bool:
    """Whether these bytes are what a power cut leaves of one of the contents.

    Empty, NULs only, NULs at the end, or a proper prefix.
    """
    kept = data.rstrip(b"\0")
    return any(
        len(data) <= len(content) and data != content and content.startswith(kept)
        for content in contents
    )


def decide(chain: Sequence[Link], found: Image | None, *, same_boot: bool, torn: bool) -> Decision:
    """The table. ``found`` is what the disk holds, ``torn`` what :func:`looks_torn` says.

    In the same boot nothing that reached the page cache was lost, so an earlier image
    means an unfinished call - unless the record that replaced it is marked published:
    then somebody put the old content back, and it is theirs. After a reboot the write
    may simply not have reached the disk.
    """
    matches = [i for i, link in enumerate(chain) if same_image(link.image, found)]
    if matches:
        latest = matches[-1]
        if latest == len(chain) - 1:
            return Decision.DONE
        put_back_by_hand = same_boot and chain[latest + 1].published
        return Decision.KEEP if put_back_by_hand else Decision.WRITE_LAST
    if torn and not same_boot:
        return Decision.RESTORE_TORN
    return Decision.KEEP
