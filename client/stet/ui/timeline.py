"""The edits of a history, newest first, under a heading for each burst of a session."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from stet.terminal.colours import Colours
from stet.terminal.log_lines import Burst, bursts, edit_line, is_first_seen
from stet.terminal.spans import Line, Span, short
from stet.wire.results import CommitInfo

#: Rows below the cursor at which more edits are loaded.
_AHEAD = 60

#: Backgrounds of the row under the cursor, by (dark theme, has focus).
_CURSOR = {
    (True, True): "#24507a",
    (True, False): "#3a3f45",
    (False, True): "#bcd8f5",
    (False, False): "#dcdfe3",
}


def text_of(line: Line, *, dark: bool) -> Text:
    """A line for textual; ``dark``: its background."""
    style = Colours(on=True, light=not dark).style
    text = Text(no_wrap=True, end="")
    for span in line:
        text.append(span.text.replace("\t", " "), style(span.style))
    return text


class Timeline(ScrollView, can_focus=True):
    """The list; only visible rows are rendered."""

    DEFAULT_CSS = "Timeline { overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "go_to(0)", "newest", show=False),
        Binding("end,G", "last", "oldest", show=False),
        Binding("space", "mark", "mark"),
    ]

    class Selected(Message):
        """Another commit, or none, is under the cursor."""

        def __init__(self, commit: CommitInfo | None) -> None:
            super().__init__()
            self.commit = commit

    class Marked(Message):
        """An edit was marked or unmarked."""

    class WantsMore(Message):
        """The cursor is near the end of the list."""

    class WantsLines(Message):
        """Edits are shown whose first changed lines are not loaded."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        #: Headings (a Burst) and commits.
        self.rows: list[Burst | CommitInfo] = []
        self.cursor = 0
        self.marked: dict[str, CommitInfo] = {}
        #: Whether to show commits that only record files before their first edit.
        self.everything = False
        #: First changed lines, by the edit's id; None: not available, or not loaded yet.
        self.changed: dict[str, str | None] = {}
        self._wanted: list[str] = []
        #: The commit of the last Selected message.
        self._told: CommitInfo | str | None = "nothing yet"

    # -- content

    def take_wanted(self) -> list[str]:
        """The edits whose first changed lines have to be loaded; each is returned once."""
        wanted, self._wanted = self._wanted, []
        return wanted

    @property
    def selected(self) -> CommitInfo | None:
        row = self.rows[self.cursor] if self.cursor < len(self.rows) else None
        return row if isinstance(row, CommitInfo) else None

    def show(self, commits: Iterable[CommitInfo]) -> None:
        """Show these commits, newest first; keeps the cursor on its commit if it is there."""
        before = self.selected
        self.rows = []
        self._append(commits)
        ids = [row.commit if isinstance(row, CommitInfo) else None for row in self.rows]
        self.action_go_to(ids.index(before.commit) if before and before.commit in ids else 0)

    def add(self, commits: Iterable[CommitInfo]) -> None:
        """Append older commits."""
        self._append(commits)
        if self.selected is None:  # the list was empty
            self.action_go_to(0)

    def _append(self, commits: Iterable[CommitInfo]) -> None:
        shown = [each for each in commits if self.everything or not is_first_seen(each)]
        found = bursts(shown, (row for row in self.rows if isinstance(row, Burst)))
        self.rows = []
        for burst in found:
            self.rows += [burst, *burst.commits]
        self.virtual_size = Size(self.size.width, len(self.rows))
        self.refresh()

    @property
    def wants_more(self) -> bool:
        return len(self.rows) - self.cursor < _AHEAD

    # -- the cursor

    def action_move(self, by: int) -> None:
        """Move the cursor to the next commit in this direction, over headings."""
        at = self.cursor + by
        while 0 <= at < len(self.rows) and isinstance(self.rows[at], Burst):
            at += by
        if 0 <= at < len(self.rows):
            self.action_go_to(at)

    def action_page(self, by: int) -> None:
        at = self.cursor + by * max(1, self.size.height - 1)
        self.action_go_to(max(0, min(at, len(self.rows) - 1)))

    def action_last(self) -> None:
        self.action_go_to(max(0, len(self.rows) - 1))

    def action_mark(self) -> None:
        """Mark or unmark the commit, and move on."""
        commit = self.selected
        if commit is None:
            return
        if self.marked.pop(commit.commit, None) is None:
            self.marked[commit.commit] = commit
        self.post_message(self.Marked())
        self.refresh()
        self.action_move(1)

    def clear_marks(self) -> None:
        self.marked.clear()
        self.post_message(self.Marked())
        self.refresh()

    def action_go_to(self, at: int) -> None:
        """Move the cursor to a row; from a heading to the commit below it."""
        if at < len(self.rows) and isinstance(self.rows[at], Burst):
            at += 1
        self.cursor = at
        if self.selected != self._told:
            self._told = self.selected
            self.post_message(self.Selected(self.selected))
        heading = at > 0 and isinstance(self.rows[at - 1], Burst)
        self.scroll_to_region(Region(0, at - heading, 1, 1 + heading), animate=False, force=True)
        if self.wants_more:
            self.post_message(self.WantsMore())
        self.refresh()

    def on_click(self, event: Click) -> None:
        at = int(event.y + self.scroll_offset.y)
        if at < len(self.rows):
            self.action_go_to(at)

    # -- drawing

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.rows))

    def render_line(self, y: int) -> Strip:
        at = y + int(self.scroll_offset.y)
        width = self.scrollable_content_region.width
        if at >= len(self.rows):
            # Without colours (NO_COLOR) textual fails at blanks without a style.
            return Strip.blank(width, Style())
        text = text_of(self._line(self.rows[at], width), dark=self.app.current_theme.dark)
        segments = [segment for segment in text.render(self.app.console) if segment.text]
        strip = Strip(segments).adjust_cell_length(width, Style())
        if at == self.cursor:
            ground = _CURSOR[self.app.current_theme.dark, self.has_focus]
            strip = Strip(Segment.apply_style(strip, post_style=Style(bgcolor=ground)), width)
        return strip

    def _line(self, row: Burst | CommitInfo, width: int) -> Line:
        if isinstance(row, Burst):
            return row.heading(datetime.datetime.now(datetime.UTC), width)
        if row.kind == "edit" and row.commit not in self.changed:
            self.changed[row.commit] = None
            if not self._wanted:
                # Made later: one that is made while the screen draws comes from that.
                self.call_later(lambda: self.post_message(self.WantsLines()))
            self._wanted.append(row.commit)
        line = edit_line(row, self.changed.get(row.commit), width)
        if row.commit in self.marked:
            line = (Span("* ", "bold red"), Span(f"{short(row.commit)}  ", "yellow"), *line[1:])
        return line
