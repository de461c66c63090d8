"""``stet ui``: keys, searches, live updates, and the calls to the daemon."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Footer, Input, Static

import stet
from stet import aio, calls
from stet.calls import Call
from stet.service.spawn import Endpoint
from stet.session.methods import LogFilters
from stet.terminal.log_lines import first_changed
from stet.terminal.refusals import as_typed
from stet.terminal.spans import Line, Span, named, plural, short, visible
from stet.ui.details import Details, diff_lines
from stet.ui.dialogs import Ask, Choose, Confirm
from stet.ui.timeline import Timeline
from stet.wire.events import CommitEvent, LostEvent, ModeEvent, UpgradeRequestEvent
from stet.wire.results import CommitInfo, EditResult, LogResult, UpgradeInfo

#: Commits of a page.
PAGE = 200
#: Seconds after a key until a search is made, and after an edit until the list is made again.
_TYPING_S, _GATHER_S = 0.15, 0.1
#: Rows from the top within which the list follows new edits.
_FOLLOWED = 100
_FILTER = re.compile(r"^(agent|session|path|since|until|kind):(.*)$")

HELP = """\
up, down, PgUp, PgDn   move            Tab     the other side
/    search: words in changed text; agent:X session:X path:X since:2026-11-01 kind:edit
space  mark an edit     a       also show what was only recorded before an edit
u    undo this edit, or the marked ones; shows the result first
r    redo what an undo took back
R    roll back to here: take back everything that agents did after it
o    restore a file as it was right after this edit
b    who wrote each line of a file, as of this edit
p    pin: give this edit a name
m    who may write here
q    quit"""


def filters_of(text: str) -> tuple[str | None, LogFilters]:
    """What is typed into the search, as a path and the filters of ``log``."""
    path: str | None = None
    filters: dict[str, str] = {}
    words = []
    try:
        typed = shlex.split(text)
    except ValueError:  # an open quote: it is still being typed
        typed = text.split()
    for word in typed:
        found = _FILTER.match(word)
        if found is None:
            words.append(word)
        elif found[1] == "path":
            path = found[2] or None
        elif found[2]:
            filters[found[1]] = found[2]
    if words:
        filters["text"] = " ".join(words)
    return path, filters  # type: ignore[return-value]


class HistoryApp(App[None]):
    """The history of one workspace."""

    TITLE = "stet"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #where { height: 1; background: $primary-background; color: $text; padding: 0 1; }
    #sides { height: 1fr; }
    #sides Timeline { width: 2fr; min-width: 34; }
    #sides Details { width: 3fr; border-left: solid $primary-background; padding: 0 1; }
    #search { display: none; height: 3; }
    #search.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "undo"),
        Binding("r", "redo", "redo"),
        Binding("R", "rollback", "roll back", show=False),
        Binding("o", "restore", "restore", show=False),
        Binding("b", "blame", "blame"),
        Binding("p", "pin", "pin"),
        # Before the next key is read: what is typed after it is meant for the search.
        Binding("slash", "search", "search", priority=True),
        Binding("m", "mode", "mode"),
        Binding("a", "everything", "all", show=False),
        Binding("question_mark", "help", "help"),
        Binding("escape", "clear", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(
        self, directory: str, endpoint: Endpoint | None = None, *, light: bool = False
    ) -> None:
        super().__init__()
        self.theme = "textual-light" if light else "textual-dark"
        self._session = aio.connect(directory, agent="person", control=True, endpoint=endpoint)
        self._where = Static(id="where")
        #: The left side, and the right one.
        self.timeline = Timeline(id="edits")
        self.details = Details()
        self._cursor: str | None = None
        self._search: tuple[str | None, LogFilters] = (None, {})
        self._loading = False
        self._mode = ""
        self._asking: set[str] = set()
        self._news = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Where one is, the edits, what they changed, a search."""
        yield self._where
        with Horizontal(id="sides"):
            yield self.timeline
            yield self.details
        yield Input(id="search", placeholder="words  agent:X  session:X  path:X  since:2026-11-01")
        yield Footer()

    async def on_mount(self) -> None:
        """Show the newest edits, then follow."""
        self.timeline.focus()
        self._follow()
        self._refresh_when_told()
        await self._session.open()
        await self._load()
        self._mode = (await self._session.mode_get()).mode
        self._say_where()
        for request in (await self._session.upgrade_list()).requests:
            if request.status == "pending" and request.workspace == self._session.workspace:
                self._decide(request)

    async def on_unmount(self) -> None:
        """Close the connection."""
        await self._session.close()

    def _say_where(self) -> None:
        where = f"stet  {visible(self._session.workspace or '')}   {self._mode}"
        path, filters = self._search
        typed = [f"{key}:{value}" for key, value in filters.items()]
        typed += [f"path:{path}"] if path else []
        marked = len(self.timeline.marked)
        notes = ["   search " + " ".join(typed)] if typed else []
        notes += [f"   {marked} marked"] if marked else []
        self._where.update("".join([where, *notes]).replace("[", r"\["))

    # -- the daemon

    async def _ask(self, call: Call[Any]) -> Any:
        """The answer, or None and a message."""
        try:
            return await self._session.perform(call)
        except stet.StetError as error:
            self.notify(visible(as_typed(str(error))), severity="error", markup=False)
            return None

    async def _page(self, cursor: str | None) -> LogResult | None:
        path, filters = self._search
        given: dict[str, Any] = {**filters, "limit": PAGE, "cursor": cursor}
        found: LogResult | None = await self._ask(calls.log(path, **given))
        return found

    async def _load(self) -> None:
        page = await self._page(None)
        if page is not None:
            self._cursor = page.cursor
            self.timeline.show(page.commits)
            self._say_where()

    async def on_timeline_wants_more(self) -> None:
        """Older edits, when the end comes near."""
        if self._cursor is None or self._loading:
            return
        self._loading = True
        try:
            page = await self._page(self._cursor)
            if page is not None:
                self._cursor = page.cursor
                self.timeline.add(page.commits)
        finally:
            self._loading = False

    @work(group="lines")
    async def on_timeline_wants_lines(self) -> None:
        """The first line that each edit on the screen changed."""
        for commit in self.timeline.take_wanted():
            with suppress(stet.StetError):
                shown = await self._session.perform(calls.show(commit))
                self.timeline.changed[commit] = first_changed(shown.diff)
        self.timeline.refresh()

    @work(exclusive=True, group="show")
    async def on_timeline_selected(self, event: Timeline.Selected) -> None:
        """The diff of the commit under the cursor."""
        self._say_where()
        commit = event.commit
        shown = await self._ask(calls.show(commit.commit)) if commit is not None else None
        self.details.show_commit(shown, dark=self.current_theme.dark)

    @work(group="follow")
    async def _follow(self) -> None:
        """Edits, modes and requests as they happen, through restarts of the daemon."""
        async with self._session.events() as events:
            self._news.set()  # what was made before
            async for event in events:
                if isinstance(event, LostEvent):
                    self._news.set()
                elif event.workspace != self._session.workspace:
                    continue
                elif isinstance(event, CommitEvent):
                    self._news.set()
                elif isinstance(event, ModeEvent) and event.session is None:
                    self._mode = event.mode
                    self._say_where()
                elif isinstance(event, UpgradeRequestEvent):
                    await self._requested(event.request, event.status)

    @work(group="refresh")
    async def _refresh_when_told(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(_GATHER_S)
            self._news.clear()
            if self.timeline.cursor <= _FOLLOWED:
                await self._load()
            else:
                self.notify("New edits: Home shows them.", timeout=3)

    # -- requests for write access

    async def _requested(self, request: str, status: str) -> None:
        if status != "pending":
            self._asking.discard(request)
            return
        found = await self._ask(calls.upgrade_list(workspace=self._session.workspace))
        for each in found.requests if found is not None else []:
            if each.request == request and each.status == "pending":
                self._decide(each)

    @work(group="decide")
    async def _decide(self, request: UpgradeInfo) -> None:
        if request.request in self._asking:
            return
        self._asking.add(request.request)
        choices = [
            ("30", "approve for 30 minutes"),
            ("0", "approve until it is taken back"),
            ("deny", "deny"),
            ("later", "decide later"),
        ]
        title = f"{named(request.agent, request.session)} asks for write access"
        chosen = await self.push_screen_wait(Choose(title, choices, visible(request.reason)))
        self._asking.discard(request.request)
        if chosen in (None, "later"):
            return
        approve = chosen != "deny"
        for_ = int(chosen) * 60 if approve and chosen != "0" else None
        if await self._ask(calls.upgrade_decide(request.request, approve, for_=for_)):
            self.notify("Approved." if approve else "Denied.")

    # -- taking back

    def _chosen(self) -> list[CommitInfo]:
        selected = self.timeline.selected
        return list(self.timeline.marked.values()) or ([selected] if selected else [])

    @work(exclusive=True, group="take back")
    async def action_undo(self) -> None:
        """Undo the marked edits, or the one under the cursor, after showing what comes of it."""
        chosen = self._chosen()
        ids = [each.commit for each in chosen]
        if ids:
            await self._take_back(
                f"Undo {_names(chosen)}?", lambda preview: calls.undo(ids, preview=preview)
            )

    @work(exclusive=True, group="take back")
    async def action_redo(self) -> None:
        """Redo: take the undo under the cursor back, or the one that undid this edit."""
        commit = self.timeline.selected
        if commit is None:
            return
        which = commit.reverted_by or (commit.commit if commit.reverts else None)
        ids = [which] if which else None
        what = f"Redo what {short(which)} took back?" if which else "Redo the newest undo?"
        await self._take_back(what, lambda preview: calls.redo(ids, preview=preview))

    @work(exclusive=True, group="take back")
    async def action_rollback(self) -> None:
        """Take back everything that agents did after the commit under the cursor."""
        commit = self.timeline.selected
        if commit is not None:
            await self._take_back(
                f"Take back all edits after {short(commit.commit)}?",
                lambda preview: calls.rollback(commit.commit, preview=preview),
            )

    @work(exclusive=True, group="take back")
    async def action_restore(self) -> None:
        """Make a file what it was right after the commit under the cursor."""
        commit = self.timeline.selected
        path = await self._choose_file(commit, "Restore which file?")
        if commit is not None and path is not None:
            await self._take_back(
                f"Restore {visible(path)} as of {short(commit.commit)}?",
                lambda preview: calls.restore(self._whole(path), commit.commit, preview=preview),
            )

    async def _take_back(self, title: str, build: Callable[[bool], Call[EditResult]]) -> None:
        try:
            result = await self._session.perform(build(True))
        except stet.StetError as error:
            lines: list[Line] = [(Span(visible(line)),) for line in str(error).splitlines()]
            await self.push_screen_wait(Confirm("Nothing was changed.", lines, None))
            return
        width = min(116, self.size.width - 12)
        lines = list(diff_lines(result.diff, width, dark=self.current_theme.dark))
        if not await self.push_screen_wait(Confirm(title, lines or _NO_FILE, "do it")):
            return
        done: EditResult | None = await self._ask(build(False))
        if done is not None:
            self.timeline.marked.clear()
            self.notify(f"Done: {plural(len(done.files), 'file')} changed.")
            await self._load()

    async def _choose_file(self, commit: CommitInfo | None, title: str) -> str | None:
        paths = [change.path for change in commit.files] if commit is not None else []
        if len(paths) < 2:
            return paths[0] if paths else None
        return await self.push_screen_wait(Choose(title, [(path, visible(path)) for path in paths]))

    def _whole(self, path: str) -> str:
        """A path of a reply, which is from the root, for a session that may be in a directory."""
        return os.path.join(self._session.workspace or "", path)

    # -- looking

    @work(exclusive=True, group="show")
    async def action_blame(self) -> None:
        """Who wrote each line of a file of this commit."""
        commit = self.timeline.selected
        path = await self._choose_file(commit, "Blame of which file?")
        if commit is not None and path is not None:
            found = await self._ask(calls.blame(self._whole(path), at=commit.commit))
            if found is not None:
                self.details.show_blame(found)

    @work(exclusive=True, group="ask")
    async def action_pin(self) -> None:
        """Give the commit under the cursor a name."""
        commit = self.timeline.selected
        if commit is None:
            return
        name = await self.push_screen_wait(Ask(f"A name for {short(commit.commit)}"))
        if name and await self._ask(calls.pin_set(name, commit.commit)) is not None:
            self.notify(f"{visible(name)} names {short(commit.commit)}", markup=False)

    @work(exclusive=True, group="ask")
    async def action_mode(self) -> None:
        """Set who may write in this workspace."""
        choices = [
            ("restricted", "restricted: nobody writes"),
            ("unrestricted", "unrestricted: agents may edit"),
            ("30", "unrestricted for 30 minutes"),
        ]
        chosen = await self.push_screen_wait(Choose("Who may write here?", choices))
        if chosen is None:
            return
        for_ = int(chosen) * 60 if chosen.isdigit() else None
        mode: Any = "restricted" if chosen == "restricted" else "unrestricted"
        found = await self._ask(calls.mode_set(mode, scope="workspace", for_=for_))
        if found is not None:
            self._mode = found.mode
            self._say_where()

    async def action_everything(self) -> None:
        """Show, or hide again, what was only recorded before an edit."""
        self.timeline.everything = not self.timeline.everything
        await self._load()

    @work(group="ask")
    async def action_help(self) -> None:
        """The keys."""
        lines: list[Line] = [(Span(line),) for line in HELP.splitlines()]
        await self.push_screen_wait(Confirm("Keys", lines, None))

    # -- searching

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002
        """Whether a key means this action now: in the search a slash is a slash."""
        return action != "search" or not isinstance(self.focused, Input)

    def action_search(self) -> None:
        """Search as one types."""
        search = self.query_one("#search", Input)
        search.add_class("shown")
        self.screen.set_focus(search)

    @work(exclusive=True, group="search")
    async def on_input_changed(self, event: Input.Changed) -> None:
        """Search when nothing was typed for a moment."""
        if event.input.id == "search":
            await asyncio.sleep(_TYPING_S)
            self._search = filters_of(event.value)
            await self._load()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the list, which shows what was found."""
        if event.input.id == "search":
            self.timeline.focus()

    def action_clear(self) -> None:
        """End the search; show the diff again."""
        search = self.query_one("#search", Input)
        search.value = ""
        search.remove_class("shown")
        self.timeline.marked.clear()
        self.timeline.focus()
        self.timeline.post_message(Timeline.Selected(self.timeline.selected))


_NO_FILE: list[Line] = [(Span("No file changes; it only counts as taken back.", "dim"),)]


def _names(commits: Sequence[CommitInfo]) -> str:
    if len(commits) > 3:
        return plural(len(commits), "edit")
    return ", ".join(short(each.commit) for each in commits)
