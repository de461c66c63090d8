"""Writes a command's output: as JSON, as plain text, or to a terminal with colour and pager.

    --json             one JSON value, indented on a terminal
    no terminal        the text of the lines, and nothing else; times absolute
    terminal           control characters spelled out, times relative, colour by rich
                       (:mod:`stet.terminal.colours`), a pager for long output

:mod:`stet.terminal.render` makes the lines. Modules that only a terminal needs are imported where
they are used: most calls come from programs, which wait for every import.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stet.cli.usage import columns
from stet.terminal.colours import colours
from stet.terminal.spans import Line, visible, visible_lines

#: The SGR codes that every terminal knows; attributes have smaller numbers than colours.
_SGR_CODES = {"bold": 1, "dim": 2, "italic": 3, "strike": 9} | {
    f"{bright}{name}": first + number
    for bright, first in (("", 30), ("bright_", 90))
    for number, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan"))
}


class Output:
    """Standard output of one command."""

    def __init__(self, *, as_json: bool, pager: bool, dates: str | None) -> None:
        self.as_json = as_json
        self.terminal = sys.stdout.isatty()
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Characters that the encoding of the terminal lacks are printed as escapes.
            sys.stdout.reconfigure(errors="backslashreplace")
        self._pager = pager
        self._relative = self.terminal if dates is None else dates == "relative"
        self.colours = colours(os.environ, terminal=self.terminal)

    @property
    def now(self) -> datetime.datetime | None:
        """The reference of relative times; None if times are printed as absolute ones."""
        return datetime.datetime.now(datetime.UTC) if self._relative else None

    @property
    def width(self) -> int | None:
        """The terminal's width in columns; None without a terminal."""
        return columns() if self.terminal else None

    def diff(self, text: str, *, titles: bool = True, words: bool = False) -> Iterator[Line]:
        """The lines of a unified diff, coloured where the terminal has colours.

        ``titles``: whether to name the files; ``words``: compare by words instead of lines.
        """
        from stet.terminal import diff_lines

        if words:
            return diff_lines.diff(text, words=True, marks=not self.colours.on)
        width = self.width if self.colours.on else None
        if width is not None and self._colour_system in ("256", "truecolor"):
            from stet.terminal import diff_colours

            grounds = diff_colours.LIGHT if self.colours.light else diff_colours.DARK
            return diff_colours.coloured(text, width, grounds, titles=titles)
        return diff_lines.diff(text, titles=titles)

    def value(self, value: Any) -> None:
        """Print a value as JSON, in UTF-8 whatever the locale."""
        encoded = msgspec.json.encode(value)
        if self.terminal:
            encoded = msgspec.json.format(encoded, indent=2)
        sys.stdout.flush()
        sys.stdout.buffer.write(encoded + b"\n")

    def tell(self, value: Any, lines: Iterable[Line], *, long: bool = False) -> None:
        """Print a value with --json, else the lines that tell a person the same."""
        if self.as_json:
            self.value(value)
        else:
            self.lines(lines, long=long)

    def lines(self, lines: Iterable[Line], *, long: bool = False) -> None:
        """Print lines; ``long`` ones go through the pager on a terminal."""
        if not (self.terminal or self.colours.on):
            sys.stdout.writelines("".join(s.text for s in line) + "\n" for line in lines)
            return
        # Of 16 colours, which the terminal defines, the nearest to a dark green would be grey.
        darker = self.colours.light and self._colour_system != "standard"
        style = self.colours.style if darker else str
        text: Iterator[str] = (
            "".join(self._styled(visible(s.text), style(s.style)) for s in line) + "\n"
            for line in lines
        )
        first = [*itertools.islice(text, 1)]  # no pager for nothing
        text = itertools.chain(first, text)
        if not (first and long and self.terminal and self._pager and _show_in_pager(text)):
            sys.stdout.writelines(text)

    def content(self, text: str) -> None:
        """Print a text: as it is, on a terminal with escapes, with --json as a JSON string."""
        if self.as_json:
            self.value(text)
        elif self.terminal:
            sys.stdout.write(visible_lines(text))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))

    def _styled(self, text: str, style: str) -> str:
        """A text with a style. Only a colour without an SGR code needs rich, which loads slowly."""
        if not self.colours.on:
            return text
        codes = [_SGR_CODES.get(word, 0) for word in style.split()]
        if 0 in codes:
            from rich.console import COLOR_SYSTEMS
            from rich.style import Style

            return Style.parse(style).render(text, color_system=COLOR_SYSTEMS[self._colour_system])
        return f"\x1b[{';'.join(map(str, sorted(codes)))}m{text}\x1b[0m" if codes and text else text

    @functools.cached_property
    def _colour_system(self) -> str:
        """The terminal's colours as rich names them: standard, 256, truecolor."""
        from rich.console import Console

        return Console(force_terminal=True).color_system or "standard"


def _show_in_pager(text: Iterator[str]) -> bool:
    """Show text in the pager, as far as that reads it; False if there is none."""
    import shlex
    import signal
    import subprocess

    command: list[str] = []
    with contextlib.suppress(ValueError):  # an unclosed quote
        command = shlex.split(os.environ.get("PAGER", "less"))
    if not command or command == ["cat"]:
        return False
    # As git sets it: quit if the text fits one screen, pass colours, do not clear at the end.
    environ = {"LESS": "FRX", **os.environ}
    # Ctrl-C is for the pager. Without waiting for it, it and the shell would read the same keys.
    # SIG_IGN would be inherited by the pager; a handler is not.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        pager = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environ, encoding="utf-8", errors="backslashreplace"
        )
        # Quitting the pager early is no error.
        with contextlib.suppress(BrokenPipeError), pager:
            assert pager.stdin is not None, "BUG: it is a pipe"
            pager.stdin.writelines(text)
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True
