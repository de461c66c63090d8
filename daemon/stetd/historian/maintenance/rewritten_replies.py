"""The replies that are kept by request id, of a history that was rewritten."""

from __future__ import annotations

import msgspec

from stet.wire.first_use import known
from stet.wire.results import EditResult


class Replies(msgspec.Struct, frozen=True):
    """Replies by request id, of a history that was rewritten."""

    names: dict[str, str]
    paths: frozenset[str]

    def changed(self, reply: bytes) -> bytes:
        """A reply with the ids that its commits have now, and no text about these paths."""
        result = msgspec.msgpack.decode(reply, type=known(EditResult))
        told = msgspec.structs.replace(
            result,
            commit=self.names.get(result.commit or "", result.commit),
            outside=self.names.get(result.outside or "", result.outside),
        )
        touched = {path for file in result.files for path in (file.path, file.old_path)}
        if self.paths & touched:
            told = msgspec.structs.replace(
                told,
                message="This call was carried out. It changed a path that was forgotten since.",
                files=[file for file in told.files if file.path not in self.paths],
                edits=[edit for edit in told.edits if edit.path not in self.paths],
                warnings=[],
                result=msgspec.UNSET,
            )
        return msgspec.msgpack.encode(told)
