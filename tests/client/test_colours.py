"""Whether commands write with colours, and with which."""

from __future__ import annotations

import pytest
from rich.color import Color
from rich.style import Style

from stet.cli.output import Output
from stet.terminal.colours import Colours, colours
from stet.terminal.spans import _NAME_STYLES, Span


@pytest.mark.parametrize(
    ("environ", "terminal", "on"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, True, False),
        ({"CLICOLOR": "0"}, True, False),
        ({"CLICOLOR": "1"}, False, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1", "CLICOLOR": "0"}, False, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_who_decides(environ: dict[str, str], terminal: bool, on: bool) -> None:
    assert colours(environ, terminal=terminal).on is on


@pytest.mark.parametrize(
    ("value", "light"),
    [("0;15", True), ("0;default;15", True), ("0;7", True), ("15;0", False), ("7;8", False),
     ("default;default", False), ("", False), ("nonsense", False)],
)  # fmt: skip
def test_the_background(value: str, light: bool) -> None:
    assert colours({"COLORFGBG": value}, terminal=True).light is light


@pytest.mark.parametrize("word", ["yellow", "green", "red", "cyan", "magenta", *_NAME_STYLES])
def test_on_a_light_background_every_colour_can_be_read(word: str) -> None:
    style = Style.parse(Colours(on=True, light=True).style(f"bold {word}"))

    assert style.bold
    assert style.color is not None
    assert contrast(style.color) >= 4.5  # WCAG's AA


def contrast(color: Color) -> float:
    """With white, as WCAG has it."""
    assert color.triplet is not None, "a colour of the terminal's own choice"
    shares = (part / 255 for part in color.triplet)
    linear = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 1.05 / (sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05)


def test_what_stands_on_a_ground_of_its_own_keeps_it() -> None:
    assert Colours(on=True, light=True).style("bold on #dafbe1").split() == [
        "bold",
        "on",
        "#dafbe1",
    ]
    assert Colours(on=True, light=False).style("bold yellow") == "bold yellow"


@pytest.mark.parametrize(("term", "green"), [("xterm", "32"), ("xterm-256color", "38;5;22")])
def test_a_terminal_of_sixteen_colours_uses_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], term: str, green: str
) -> None:
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("COLORFGBG", "0;15"), ("CLICOLOR_FORCE", "1"), ("TERM", term)):
        monkeypatch.setenv(name, value)
    Output(as_json=False, pager=False, dates=None).lines([(Span("+1", "green"),)])
    assert capsys.readouterr().out == f"\x1b[{green}m+1\x1b[0m\n"
