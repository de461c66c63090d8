"""The configuration read again while the daemon runs: on SIGHUP, and by the method ``reload``.

All or nothing: a file that can't be used leaves every option as it is, and the reason is in the
log and in ``status`` until a later reload succeeds. Options in
:data:`stetd.config.settings.NEED_RESTART` keep their value, and the log says so. Which part of the
daemon goes by which option is ``apply``'s affair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from stet.wire.results import OptionChange, ReloadResult
from stetd.config.settings import NEED_RESTART, OPTIONS, ConfigurationError, Settings, load_settings

_log = logging.getLogger("stetd.configuration")


@dataclass(slots=True)
class Reloading:
    """The configuration in force, and where it comes from.

    ``apply`` makes the daemon go by other settings; it is called on the event loop. Set by
    the server.
    """

    path: str
    must_exist: bool
    settings: Settings
    apply: Callable[[Settings], None] = field(default=lambda _: None)
    #: Why the last reload was not carried out.
    error: str | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reload(self) -> ReloadResult:
        """Read the file again and go by it; what has changed, or why nothing has."""
        async with self._turn:
            try:
                # The file may lie on a disk that does not answer.
                read = await asyncio.to_thread(load_settings, self.path, must_exist=self.must_exist)
            except ConfigurationError as error:
                return self._refuse(str(error))
            return self._take(read)

    def _refuse(self, reason: str) -> ReloadResult:
        self.error = reason
        _log.error("the configuration is not taken over, the old one stays: %s", reason)
        return ReloadResult(self.path, [], [], reason)

    def _take(self, read: Settings) -> ReloadResult:
        old = self.settings
        kept = {name: getattr(old, name) for name in NEED_RESTART}
        restart = sorted(name for name in kept if getattr(read, name) != kept[name])
        new = msgspec.structs.replace(read, **kept)
        changed = [
            OptionChange(name, getattr(old, name), getattr(new, name))
            for name in OPTIONS
            if getattr(old, name) != getattr(new, name)
        ]
        self.error, self.settings = None, new
        if changed:
            self.apply(new)
        told = ", ".join(f"{each.option} {each.before} to {each.after}" for each in changed)
        _log.info("configuration read again: %s", told or "nothing has changed")
        for name in restart:
            _log.warning(
                "%s needs a restart: it stays %s until then", name, getattr(self.settings, name)
            )
        return ReloadResult(self.path, changed, restart, None)
