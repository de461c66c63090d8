"""Dialogs over the history: yes or no, a line of text, a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from stet.terminal.spans import Line
from stet.ui.details import text_of_all

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box over the history; Escape closes it with None."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 90%; min-width: 20; max-width: 120; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    Dialog VerticalScroll { height: auto; max-height: 60vh; scrollbar-gutter: stable; }
    Dialog .title { text-style: bold; max-height: 3; }
    Dialog .text { max-height: 25vh; }
    Dialog OptionList { height: auto; max-height: 40vh; border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "close")]
    #: The keys, shown on the border, where long content can't hide them.
    KEYS = "Enter: do it   Esc: leave it"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._withdrawn = False

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_subtitle = self.KEYS
            yield Static(Text(self._title), classes="title")
            yield from self.content()

    def content(self) -> ComposeResult:
        """The widgets below the title."""
        raise NotImplementedError

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close it. A second key that came before it was closed must close nothing else."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def withdraw(self) -> None:
        """Close with None as soon as no other dialog is over this one."""
        self._withdrawn = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        if self._withdrawn and self.app.screen is self:
            self.dismiss(None)


class Confirm(Dialog[bool]):
    """Shows lines and asks for agreement; ``asks`` False: only shows them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "agree", "do it"),
        Binding("n,q", "dismiss(None)", "leave it"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Line], *, asks: bool = True) -> None:
        super().__init__(title)
        self._lines, self._asks = lines, asks
        if not asks:
            self.KEYS = "Esc: close"

    def content(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(text_of_all(self._lines, dark=self.app.current_theme.dark), id="lines")

    @staticmethod
    def room(terminal: int) -> int:
        """The columns of its lines on such a terminal."""
        return max(10, min(120, terminal * 9 // 10) - 6)

    def action_agree(self) -> None:
        self.dismiss(True if self._asks else None)

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


class Ask(Dialog[str]):
    """Asks for a line of text."""

    def content(self) -> ComposeResult:
        yield Input()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class _Options(OptionList):
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002
        """Whether a key is obeyed: not without room for the list, where textual fails at PgDn. If
        nothing is highlighted, Down alone is: the others would go to the end of the list.
        """
        begun = self.highlighted is not None or action == "cursor_down"
        return begun and bool(self.scrollable_content_region)


class Choose(Dialog[T]):
    """Asks for one of several choices: (value, shown text)."""

    KEYS = "Up, Down, Enter: choose   Esc: leave it"

    def __init__(
        self,
        title: str,
        choices: Sequence[tuple[T, str]],
        text: str = "",
        *,
        chosen: bool = True,
    ) -> None:
        super().__init__(title)
        self._choices, self._text, self._chosen = choices, text, chosen

    def content(self) -> ComposeResult:
        """Text, choices; none is highlighted unless one is to be ``chosen`` at once."""
        if self._text:
            yield Static(Text(self._text), classes="text")
        options = _Options(*(Option(Text(shown)) for _, shown in self._choices))
        if not self._chosen:
            options.highlighted = None
        yield options

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index][0])
