"""What is asked on top of the history: yes or no, a line of text, one of several things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from stet.terminal.spans import Line
from stet.ui.timeline import text_of

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box over the history; Escape closes it with None."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 90%; max-width: 120; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    Dialog VerticalScroll { height: auto; max-height: 24; }
    Dialog .title { text-style: bold; }
    Dialog .keys { color: $text-muted; }
    Dialog OptionList { height: auto; max-height: 20; border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "close")]


class Confirm(Dialog[bool]):
    """Shows what would happen, and asks; ``agree`` None: there is nothing to agree to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "agree", "do it"),
        Binding("n,q", "dismiss(None)", "leave it"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Line], agree: str | None) -> None:
        super().__init__()
        self._title, self._lines, self._agree = title, lines, agree

    def compose(self) -> ComposeResult:
        """Title, what would happen, and the keys."""
        with Vertical():
            yield Static(Text(self._title), classes="title")
            dark = self.app.current_theme.dark
            text = Text("\n").join(text_of(line, dark=dark) for line in self._lines)
            with VerticalScroll():
                yield Static(text, id="lines")
            keys = f"Enter: {self._agree}   Esc: leave it" if self._agree else "Esc: close"
            yield Static(keys, classes="keys")

    def action_agree(self) -> None:
        """Close with yes."""
        self.dismiss(True if self._agree else None)

    def action_scroll(self, by: int) -> None:
        """Scroll what is shown."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


class Ask(Dialog[str]):
    """A line of text."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """Title and field."""
        with Vertical():
            yield Static(Text(self._title), classes="title")
            yield Input()
            yield Static("Enter: do it   Esc: leave it", classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the text."""
        self.dismiss(event.value.strip() or None)


class Choose(Dialog[str]):
    """One of several things: (value, what is shown)."""

    def __init__(self, title: str, choices: Sequence[tuple[str, str]], text: str = "") -> None:
        super().__init__()
        self._title, self._choices, self._text = title, choices, text

    def compose(self) -> ComposeResult:
        """Title, text, choices."""
        with Vertical():
            yield Static(Text(self._title), classes="title")
            if self._text:
                yield Static(Text(self._text))
            yield OptionList(*(Option(Text(shown), id=value) for value, shown in self._choices))
            yield Static("Enter: choose   Esc: leave it", classes="keys")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close with the choice."""
        self.dismiss(event.option.id)
