"""How many bytes each object of a repository takes, as it lies there."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right

from stetd.repository.object_files import INDEX_HEAD, Pack, loose_name, pack_names
from stetd.repository.reachable import Marks, all_loose_ids, pack_ids, union


def stored_sizes(repository: str) -> tuple[bytes, array[int]]:
    """The ids of all objects in order, and the bytes of each, with its place in an index.

    Of an object that is there several times, the largest copy counts.
    """
    packs = [Pack(repository, name) for name in pack_names(repository)]
    try:
        loose = all_loose_ids(repository)
        ids = union([*map(pack_ids, packs), loose])
        marks = Marks(ids)
        sizes = array("Q", bytes(8 * len(marks)))
        for pack in packs:
            _add_pack(pack, marks, sizes)
        for at in range(0, len(loose), 20):
            number = marks.number_of(loose[at : at + 20])
            path = os.path.join(repository, loose_name(loose[at : at + 20].hex()))
            if number is not None and os.path.exists(path):
                sizes[number] = max(sizes[number], os.path.getsize(path))
        return ids, sizes
    finally:
        for pack in packs:
            pack.close()


def _add_pack(pack: Pack, marks: Marks, sizes: array[int]) -> None:
    ids = pack_ids(pack)
    starts = [pack.offset(number) for number in range(pack.count)]
    ends = sorted([*starts, pack.size - 20])
    in_index = (pack.index_size - INDEX_HEAD) // max(pack.count, 1)
    for number, start in enumerate(starts):
        place = marks.number_of(ids[20 * number : 20 * number + 20])
        assert place is not None, "BUG: an id of a pack that is not in the union"
        sizes[place] = max(sizes[place], ends[bisect_right(ends, start)] - start + in_index)
