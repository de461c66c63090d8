"""``stet ui``: keys, searches, live updates, and the calls to the daemon."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from rich.terminal_theme import SVG_EXPORT_THEME
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Footer, Input, Static

import stet
from stet import aio, calls
from stet.aio import AsyncEventStream
from stet.calls import Call
from stet.cli.history import parse_time
from stet.cli.usage import UsageError
from stet.service.spawn import Endpoint
from stet.terminal.log_lines import first_changed
from stet.terminal.refusals import as_typed
from stet.terminal.spans import Line, Span, columns, named, plural, short, visible, visible_lines
from stet.ui.details import Details, diff_lines
from stet.ui.dialogs import Ask, Choose, Confirm
from stet.ui.timeline import Timeline
from stet.wire.events import CommitEvent, LostEvent
from stet.wire.results import CommitInfo, EditResult, LogResult, UpgradeInfo

#: Commits of a page.
PAGE = 200
#: Seconds between a key and the search, and between an edit and the refresh of the list.
_TYPING_S, _GATHER_S = 0.15, 0.1
#: Seconds between checks whether the daemon was restarted or is back.
_LOOK_S = 1.0
#: Seconds between refreshes of relative times.
_AGE_S = 20
#: Seconds without an answer after which the person is told, as on the command line.
_SILENT_S = 5.0
#: Rows from the top within which the list follows new edits.
_FOLLOWED = 100
#: A filter, perhaps still without its value.
_FILTER = re.compile(r'(?<!\S)(agent|session|path|since|until|kind):(?:"([^"]+)"|(\S+)|\Z)\s*')

HELP = """\
up, down, PgUp, PgDn   move            Tab     the other side
/    search: words, agent:X, session:X, path:X, since:2h, kind:edit
space  mark an edit     a       also what was there before edits
u    undo this edit, or the marked ones; shows the result first
r    redo what an undo took back
R    roll back to here: undo all that agents did after it
o    restore a file as it was right after this edit
b    who wrote each line of a file, as of this edit
p    pin: give this edit a name
m    who may write here, and requests that were deferred
q    quit"""


def filters_of(text: str) -> dict[str, str]:
    """The search text as filters of ``log``."""
    filters = {name: quoted or bare for name, quoted, bare in _FILTER.findall(text)}
    filters["text"] = _FILTER.sub("", text).strip()
    return {name: value for name, value in filters.items() if value}


class HistoryApp(App[None]):
    """The history of one workspace."""

    TITLE = "stet"
    ENABLE_COMMAND_PALETTE = False
    #: Columns below which the two sides are one above the other.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (70, "-wide")]  # noqa: RUF012 - textual's
    CSS = """
    #where { height: 1; background: $primary-background; color: $text; padding: 0 1; }
    #sides { height: 1fr; }
    #sides Timeline { width: 2fr; min-width: 34; }
    #sides Details { width: 3fr; border-left: solid $primary-background; padding: 0 1; }
    .-narrow #sides { layout: vertical; }
    .-narrow #sides Timeline { width: 1fr; height: 1fr; }
    .-narrow #sides Details {
        width: 1fr; height: 1fr; border: none; border-top: solid $primary-background; padding: 0;
    }
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
        # At once, because the next key is meant for the search.
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
        # In Textual's own an agent's magenta is the red of what was removed.
        self.ansi_theme_dark = SVG_EXPORT_THEME
        self._session = aio.connect(directory, agent="person", control=True, endpoint=endpoint)
        self._where = Static(id="where", markup=False)
        self.timeline = Timeline(id="edits")
        self.details = Details()
        self._root = ""
        self._cursor: str | None = None
        self._search: dict[str, str] = {}
        self._loading = False
        self._mode = ""
        #: Requests that are being decided, and those that were deferred.
        self._asking: dict[str, Choose[Any]] = {}
        self._later: set[str] = set()
        self._news = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield self._where
        with Horizontal(id="sides"):
            yield self.timeline
            yield self.details
        yield Input(id="search", placeholder="words  agent:X  session:X  path:X  since:2026-11-01")
        yield Footer()

    async def on_mount(self) -> None:
        # Without it the terminal would stay in its full-screen mode, without echo.
        ended = partial(self.exit, return_code=128 + signal.SIGTERM)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended)
        self.timeline.focus()
        await self._session.open()
        self._root = self._session.workspace or ""
        self._follow()
        self._refresh_when_told()
        self.set_interval(_AGE_S, self.timeline.refresh)
        await self._load()

    async def on_unmount(self) -> None:
        await self._session.close()

    def _say_where(self) -> None:
        typed = [f"{key}:{value}" for key, value in self._search.items()]
        marked = len(self.timeline.marked)
        notes = ["search " + " ".join(typed)] if typed else []
        notes += [f"{marked} marked"] if marked else []
        root = visible(self._root)
        rest = "   ".join(["", self._mode, *notes])
        over = columns(f"  stet  {root}{rest}") - self.size.width
        self._where.update(f"stet  {'…' + root[over + 1 :] if over > 0 else root}{rest}")

    def on_resize(self) -> None:
        """Fit the workspace's path into the title."""
        self.call_after_refresh(self._say_where)

    # -- the daemon

    async def _ask(self, call: Call[Any]) -> Any:
        """Make a call; on an error shows a message and returns None."""
        try:
            return await self._perform(call)
        except stet.StetError as error:
            self.notify(visible(as_typed(str(error))), severity="error", markup=False)
            return None

    async def _perform(self, call: Call[Any]) -> Any:
        """Make a call, and say so if there is no answer for long. Raises StetError."""
        text = f"No answer from the daemon for {_SILENT_S:.0f} s. stet doctor says what to do."
        loop = asyncio.get_running_loop()
        notice = loop.call_later(_SILENT_S, partial(self.notify, text, severity="warning"))
        try:
            return await self._session.perform(call)
        finally:
            notice.cancel()

    async def _page(self, cursor: str | None) -> LogResult | None:
        given: dict[str, Any] = {**self._search, "limit": PAGE, "cursor": cursor}
        if "path" in given:
            given["path"] = self._whole(given["path"])
        try:
            for name in given.keys() & {"since", "until"}:
                given[name] = parse_time(given[name])
        except UsageError as error:  # the person may still be typing
            self.notify(visible(str(error)), severity="error", markup=False)
            return None
        found: LogResult | None = await self._ask(calls.log(**given))
        return found

    async def _load(self, keep: CommitInfo | None = None) -> None:
        """Load the newest edits; with ``keep`` as many as it takes to have this one in the list."""
        search, cursor = self._search, None
        commits: list[CommitInfo] = []
        while True:
            page = await self._page(cursor)
            if page is None or search is not self._search:
                return
            commits += page.commits
            cursor = page.cursor
            found = keep is None or any(each.commit == keep.commit for each in page.commits)
            if cursor is None or found:
                break
        self._cursor = cursor
        self.timeline.show(commits)
        self._say_where()

    @work(group="more")
    async def on_timeline_wants_more(self) -> None:
        """Load older edits when the cursor is near the end; a search may give empty pages."""
        if self._loading:
            return
        self._loading = True
        try:
            while (cursor := self._cursor) is not None and self.timeline.wants_more:
                page = await self._page(cursor)
                if page is None:
                    break
                if cursor == self._cursor:  # else the list was refreshed meanwhile
                    self._cursor = page.cursor
                    self.timeline.add(page.commits)
        finally:
            self._loading = False

    @work(group="lines")
    async def on_timeline_wants_lines(self) -> None:
        """Load the first changed line of each edit on the screen."""
        for commit in self.timeline.take_wanted():
            with suppress(stet.StetError):
                shown = await self._session.perform(calls.show(commit))
                self.timeline.changed[commit] = first_changed(shown.diff)
        self.timeline.refresh()

    @work(exclusive=True, group="show")
    async def on_timeline_selected(self, event: Timeline.Selected) -> None:
        """Show the diff of the commit under the cursor."""
        if event.commit is None:
            self.details.show_lines([(Span("No edits.", "dim"),)])
            return
        try:
            self.details.show_commit(await self._perform(calls.show(event.commit.commit)))
        except stet.StetError as error:
            self.details.show_lines([(Span(visible(as_typed(str(error))), "red"),)])

    def on_timeline_marked(self) -> None:
        self._say_where()

    @work(group="follow")
    async def _follow(self) -> None:
        """Follow edits, modes and requests, through restarts of the daemon."""
        while True:
            # The daemon or the workspace's directory is away, and may come back.
            with suppress(stet.StetError):
                async with self._session.events() as events:
                    await self._listen(events)
            await asyncio.sleep(_LOOK_S)

    async def _listen(self, events: AsyncEventStream) -> None:
        connections = 0
        while True:
            if connections != events.connections:  # there are no events for the time in between
                connections = events.connections
                self._news.set()
                await self._look()
            try:
                async with asyncio.timeout(_LOOK_S):
                    event = await anext(events)
            except TimeoutError:
                continue
            if isinstance(event, LostEvent) or event.workspace == self._root:
                if isinstance(event, LostEvent | CommitEvent):
                    self._news.set()
                if not isinstance(event, CommitEvent):
                    await self._look()

    @work(group="refresh")
    async def _refresh_when_told(self) -> None:
        said = False
        while True:
            await self._news.wait()
            await asyncio.sleep(_GATHER_S)
            if self.timeline.cursor <= _FOLLOWED:
                self._news.clear()
                said = False
                await self._load()
            elif not said:
                said = True
                self.notify("New edits: Home shows them.", timeout=3)

    # -- requests for write access

    async def _look(self) -> None:
        """Load the mode and the requests. Raises StetError."""
        self._mode = (await self._session.mode_get()).workspace_mode or ""
        self._say_where()
        requests = (await self._session.upgrade_list()).requests
        waiting = {
            each.request: each
            for each in requests
            if each.status == "pending" and each.workspace == self._root
        }
        for request, dialog in list(self._asking.items()):
            if request not in waiting:
                dialog.withdraw()
        for each in waiting.values():
            self._decide(each)

    @work(group="decide")
    async def _decide(self, request: UpgradeInfo) -> None:
        if request.request in self._asking or request.request in self._later:
            return
        decide = partial(calls.upgrade_decide, request.request)
        choices = [
            (None, "decide later (m)"),
            (decide(True, for_=30 * 60), "approve for 30 minutes"),
            (decide(True), "approve until it is taken back"),
            (decide(False), "deny"),
        ]
        title = f"{named(request.agent, request.session)} asks for write access"
        # It may appear while the person types: neither Enter nor Down and Enter decides it.
        dialog = Choose(title, choices, visible_lines(request.reason), chosen=False)
        self._asking[request.request] = dialog
        chosen = await self.push_screen_wait(dialog)
        del self._asking[request.request]
        if chosen is None:
            self._later.add(request.request)
        elif await self._ask(chosen):
            self.notify("Approved." if chosen.params["approve"] else "Denied.")

    # -- taking back

    @work(exclusive=True, group="take back")
    async def action_undo(self) -> None:
        """Undo the marked edits, or the one under the cursor, after a preview."""
        selected = self.timeline.selected
        chosen = list(self.timeline.marked.values()) or ([selected] if selected else [])
        if chosen:
            title, ids = f"Undo {_names(chosen)}?", [each.commit for each in chosen]
            if await self._take_back(title, partial(calls.undo, ids)):
                self.timeline.clear_marks()

    @work(exclusive=True, group="take back")
    async def action_redo(self) -> None:
        """Redo: take the undo under the cursor back, or the one that undid this edit."""
        commit = self.timeline.selected
        if commit is None:
            return
        which = commit.reverted_by or (commit.commit if commit.reverts else None)
        if which is None:
            self.notify(f"{short(commit.commit)} was not undone.")
            return
        title = f"Redo what {short(which)} took back?"
        await self._take_back(title, partial(calls.redo, [which]))

    @work(exclusive=True, group="take back")
    async def action_rollback(self) -> None:
        commit = self.timeline.selected
        if commit is not None:
            title = f"Take back all edits after {short(commit.commit)}?"
            await self._take_back(title, partial(calls.rollback, commit.commit))

    @work(exclusive=True, group="take back")
    async def action_restore(self) -> None:
        commit = self.timeline.selected
        path = await self._choose_file(commit, "Restore which file?")
        if commit is not None and path is not None:
            title = f"Restore {visible(path)} as of {short(commit.commit)}?"
            await self._take_back(title, partial(calls.restore, self._whole(path), commit.commit))

    async def _take_back(self, title: str, build: Callable[..., Call[EditResult]]) -> bool:
        """Show a preview, and make the call if the person agrees; returns whether it was made."""
        seen: object = None
        while True:
            try:
                result = await self._perform(build(preview=True))
            except stet.StetError as error:
                lines: list[Line] = [(Span(visible(each)),) for each in str(error).splitlines()]
                await self.push_screen_wait(Confirm("Nothing was changed.", lines, asks=False))
                return False
            if (result.undone, result.diff) == seen:  # nobody has edited while it was asked
                break
            width = Confirm.room(self.size.width)
            lines = list(diff_lines(result.diff, width, dark=self.current_theme.dark))
            title_now = f"Changed meanwhile. {title}" if seen else title
            if not await self.push_screen_wait(Confirm(title_now, lines or _NO_FILE)):
                return False
            seen = (result.undone, result.diff)
        done: EditResult | None = await self._ask(build())
        if done is not None:
            self.notify(f"Done: {plural(len(done.files), 'file')} changed.")
            await self._load(self.timeline.selected)
        return done is not None

    async def _choose_file(self, commit: CommitInfo | None, title: str) -> str | None:
        paths = [change.path for change in commit.files] if commit is not None else []
        if len(paths) < 2:
            return paths[0] if paths else None
        return await self.push_screen_wait(Choose(title, [(path, visible(path)) for path in paths]))

    def _whole(self, path: str) -> str:
        """An absolute path for a path of a reply, which is relative to the root."""
        return os.path.join(self._root, path)

    # -- looking

    @work(exclusive=True, group="ask")
    async def action_blame(self) -> None:
        commit = self.timeline.selected
        path = await self._choose_file(commit, "Blame of which file?")
        if commit is not None and path is not None:
            self._blame(path, commit.commit)

    @work(exclusive=True, group="show")
    async def _blame(self, path: str, commit: str) -> None:
        found = await self._ask(calls.blame(self._whole(path), at=commit))
        if found is not None:
            self.details.show_blame(found)

    @work(exclusive=True, group="ask")
    async def action_pin(self) -> None:
        commit = self.timeline.selected
        if commit is None:
            return
        name = await self.push_screen_wait(Ask(f"A name for {short(commit.commit)}"))
        if name and await self._ask(calls.pin_set(name, commit.commit)) is not None:
            self.notify(f"{visible(name)} names {short(commit.commit)}", markup=False)

    @work(exclusive=True, group="ask")
    async def action_mode(self) -> None:
        """Set who may write in this workspace; requests that were deferred are asked again."""
        self._later.clear()
        with suppress(stet.StetError):
            await self._look()
        mode_set = partial(calls.mode_set, scope="workspace")
        choices = [
            (mode_set("restricted"), "restricted: nobody writes"),
            (mode_set("unrestricted"), "unrestricted: agents may edit"),
            (mode_set("unrestricted", for_=30 * 60), "unrestricted for 30 minutes"),
        ]
        chosen = await self.push_screen_wait(Choose("Who may write here?", choices))
        if chosen is None:
            return
        found = await self._ask(chosen)
        if found is not None:
            self._mode = found.workspace_mode
            self._say_where()

    @work(exclusive=True, group="everything")
    async def action_everything(self) -> None:
        self.timeline.everything = not self.timeline.everything
        await self._load()

    @work(group="ask")
    async def action_help(self) -> None:
        lines: list[Line] = [(Span(line),) for line in HELP.splitlines()]
        await self.push_screen_wait(Confirm("Keys", lines, asks=False))

    # -- searching

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002
        """Whether a key means this action now; in the search field a slash is a character."""
        return action != "search" or not isinstance(self.focused, Input)

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.add_class("shown")
        self.screen.set_focus(search)

    @work(exclusive=True, group="search")
    async def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "search":
            await asyncio.sleep(_TYPING_S)
            self._search, self._cursor = filters_of(event.value), None
            self.clear_notifications()  # those about the earlier search text
            await self._load()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "search":
            self.timeline.focus()

    def action_clear(self) -> None:
        """End the search; show the diff again."""
        search = self.query_one("#search", Input)
        search.value = ""
        search.remove_class("shown")
        self.timeline.clear_marks()
        self.timeline.focus()
        self.timeline.post_message(Timeline.Selected(self.timeline.selected))


_NO_FILE: list[Line] = [(Span("No file changes; it only counts as taken back.", "dim"),)]


def _names(commits: Sequence[CommitInfo]) -> str:
    if len(commits) > 3:
        return plural(len(commits), "edit")
    return ", ".join(short(each.commit) for each in commits)
