"""Whether to use colours, and which, by the environment.

NO_COLOR                  not empty: no colours
CLICOLOR_FORCE            neither empty nor 0: colours, also where there is no terminal
CLICOLOR=0, TERM=dumb     no colours
COLORFGBG=0;15            the last number is the background's: light ones get darker colours
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: Numbers of light colours in COLORFGBG.
_LIGHT = frozenset(("7", "9", "10", "11", "12", "13", "14", "15"))
#: Colours that can't be read on a light background, and their replacements.
_DARKER = {
    "yellow": "#7a4d00",
    "green": "#116329",
    "red": "#a40e26",
    "cyan": "#0b5a6f",
    "magenta": "#7a2fc0",
    "blue": "#0550ae",
    "bright_magenta": "#a626a4",
    "bright_blue": "#3b3bbd",
}


class Colours(NamedTuple):
    """The colours of an output."""

    on: bool
    #: Whether the background is light.
    light: bool = False

    def style(self, style: str) -> str:
        """A style that is readable on the background."""
        if not self.light:
            return style
        text, on, ground = f" {style}".partition(" on ")
        return (" ".join(_DARKER.get(word, word) for word in text.split()) + on + ground).strip()


def colours(environ: Mapping[str, str], *, terminal: bool) -> Colours:
    """The colours for an output."""
    able = terminal and environ.get("CLICOLOR") != "0" and environ.get("TERM") != "dumb"
    forced = environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    light = environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT
    return Colours((able or forced) and not environ.get("NO_COLOR"), light)
