"""What to do about one path after a crash: the table in ARCHITECTURE.md 6.

The chain of a path has every image that the journal since the checkpoint names for it, in
order: before, after, voided and restored. The image on disk is looked up in the chain.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stetd.history.objects import Image, same_image


class ChainImage(msgspec.Struct, frozen=True):
    """One image of a chain. ``published``: its record, or the abort that voids it, has a mark.

    ``boot``: id of the boot in which the record was written.
    """

    image: Image | None
    published: bool = False
    boot: str = ""


def looks_torn(data: bytes, contents: Sequence[bytes]) -> bool:
    """Whether these bytes look like one of the contents, torn by a power cut.

    That is: empty, NULs only, NULs at the end, or a proper prefix.
    """
    kept = data.rstrip(b"\0")
    return any(
        len(data) <= len(content) and data != content and content.startswith(kept)
        for content in contents
    )


def decide(
    chain: Sequence[ChainImage],
    found: Image | None,
    *,
    same_boot: bool,
    torn: bool = False,
    other: bool = False,
) -> tuple[bool, bool]:
    """The table: whether what is on disk is recorded as outside, and whether the last image is
    written. Both: a power cut tore the file.

    ``found`` is the image on disk, ``torn`` the result of :func:`looks_torn`. ``other``: a
    directory or the like is there, which has no image.

    In the same boot nothing that reached the page cache was lost, so an earlier image means an
    unfinished call, unless the record that replaced it is marked as published: then somebody has
    put the old content back, and it stays. After a reboot the write may just not have reached the
    disk.
    """
    if other:
        return True, False
    matches = [at for at, link in enumerate(chain, 1) if same_image(link.image, found)]
    if not matches:
        return True, torn and not same_boot
    later = chain[matches[-1] :]
    if not later:
        return False, False
    put_back = same_boot and later[0].published
    return put_back, not put_back
