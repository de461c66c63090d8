"""Renders a report as one HTML page that loads nothing else. Pure functions of the values.

All text from agents and files is escaped, and control characters are made visible. The content
security policy allows the page's own style and nothing else: no script, no network.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from html import escape

from stet.report.gathering import Report
from stet.terminal.blame_lines import texts_of
from stet.terminal.diff_colours import names
from stet.terminal.diff_lines import files_of
from stet.terminal.log_lines import first_changed, subject_and_why
from stet.terminal.spans import padded, plural, short, shortened, visible, who
from stet.wire.results import BlameResult, CommitInfo, ShowResult

#: The most lines shown of a commit's diff and of a file, and the most characters of a line.
_MOST_LINES, _MOST_BLAMED_LINES, _LONGEST_LINE = 400, 2000, 1000
#: Levels of the colour of a file's lines, from the oldest commits to the newest.
_HEAT_LEVELS = 5
#: Number of agents' colours. An agent's name has the same colour on every page.
_AGENT_COLOURS = 8

with open(os.path.join(os.path.dirname(__file__), "page.css"), encoding="utf-8") as _file:
    STYLE = _file.read()


def html(report: Report) -> Iterator[str]:
    """The page, piece by piece."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    name = _text(report.workspace.rpartition("/")[2] or report.workspace)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Edits of {name}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    )
    yield from _head(report, name)
    yield "<h2>Timeline</h2>\n"
    yield from _timeline(report.commits)
    yield '<h2 id="sessions">Sessions</h2>\n'
    sessions: dict[tuple[str, str | None], list[ShowResult]] = {}
    for commit in report.commits:
        sessions.setdefault((_agent(commit), commit.session), []).append(commit)
    yield from _sessions(sessions)
    for number, commits in enumerate(sessions.values()):
        when = f'<span class="dim">{_period(commits)}</span>'
        yield f'<h3 id="s{number}">{_who(commits[0])} {when}</h3>\n'
        for commit in commits:
            yield from _commit(commit)
    yield '<h2 id="files">Files</h2>\n'
    yield '<p class="dim">Lines of all these commits, also of those that were undone.</p>\n'
    yield from _files(report.commits)
    if report.blames:
        yield '<h2 id="lines">Who wrote each line</h2>\n'
        yield '<p class="dim">The files as the history has them. '
        yield "The newer a line is in its file, the stronger its colour.</p>\n"
        for blame in report.blames:
            yield from _blame(blame)
    yield "</body></html>\n"


# -- parts


def _head(report: Report, name: str) -> Iterator[str]:
    commits = report.commits
    undone = sum(commit.reverted_by is not None for commit in commits)
    files = {change.path for commit in commits for change in commit.files}
    asked = f" ({_text(', '.join(report.filters))})" if report.filters else ""
    yield f"<h1>Edits of {name}</h1>\n"
    made = f"made {_time(report.made)}; times are UTC"
    yield f'<p class="dim">{_text(report.workspace)}{asked}, {made}</p>\n'
    yield (
        f"<p>{plural(len(commits), 'commit')}, {undone:,} undone, in {plural(len(files), 'file')}, "
        f"lines {_line_counts(commits)}.</p>\n"
    )
    yield '<p><a href="#sessions">Sessions</a> · <a href="#files">Files</a>'
    yield ' · <a href="#lines">Lines</a></p>\n' if report.blames else "</p>\n"


def _line_counts(commits: Sequence[ShowResult], path: str | None = None) -> str:
    """Lines that the commits added and removed, in all files or in one."""
    changes = [c for commit in commits for c in commit.files if path in (None, c.path)]
    return f"+{sum(c.added for c in changes):,} -{sum(c.removed for c in changes):,}"


def _timeline(commits: Sequence[ShowResult]) -> Iterator[str]:
    """A dot for each commit, from the first to the last; a row for each agent."""
    if not commits:
        yield "<p>No edits.</p>\n"
        return
    agents = list(dict.fromkeys(_agent(commit) for commit in commits))
    times = [datetime.datetime.fromisoformat(commit.time).timestamp() for commit in commits]
    first, last = min(times), max(times)
    scale = 820 / (last - first) if last > first else 0.0
    height = 24 * len(agents) + 24
    yield '<p class="dim">A ring is a commit that was undone.</p>\n<div class="wide">'
    yield f'<svg viewBox="0 0 1000 {height}" role="img" aria-label="Edits over time">\n'
    for row, agent in enumerate(agents):
        y = 24 * row + 14
        yield f'<line x1="160" x2="985" y1="{y}" y2="{y}"/>'
        yield f'<text x="0" y="{y + 4}">{_text(shortened(agent, 20))}</text>\n'
    for commit, time in zip(commits, times, strict=True):
        x, y = 165 + (time - first) * scale, 24 * agents.index(_agent(commit)) + 14
        ring = " ring" if commit.reverted_by else ""
        yield f'<circle class="{_colour(_agent(commit))}{ring}" cx="{x:.1f}" cy="{y}" r="4"/>'
    left, right = _time(commits[0].time), _time(commits[-1].time)
    yield f'\n<text x="160" y="{height - 2}">{left}</text>'
    yield f'<text x="985" y="{height - 2}" text-anchor="end">{right}</text>\n</svg></div>\n'


def _sessions(sessions: dict[tuple[str, str | None], list[ShowResult]]) -> Iterator[str]:
    yield '<div class="wide"><table>\n'
    yield "<tr><th>who</th><th>commits</th><th>undone</th><th>lines</th><th>when</th></tr>\n"
    for number, commits in enumerate(sessions.values()):
        undone = sum(commit.reverted_by is not None for commit in commits)
        yield (
            f'<tr><td><a href="#s{number}">{_who(commits[0])}</a></td><td>{len(commits):,}</td>'
            f"<td>{undone:,}</td><td>{_line_counts(commits)}</td><td>{_period(commits)}</td></tr>\n"
        )
    yield "</table></div>\n"


def _commit(commit: ShowResult) -> Iterator[str]:
    subject, why = subject_and_why(commit.message)
    undone = f" · undone by {short(commit.reverted_by)}" if commit.reverted_by else ""
    yield f"<details{_class_attr('undone' if commit.reverted_by else '')}><summary>"
    changed = escape(shortened(first_changed(commit.diff), 80))
    what = f'<span class="what">{_text(subject)} <code>{changed}</code></span>'
    yield f'<span class="id">{_id(commit)}</span> {what} '
    yield f'<span class="dim">{_time(commit.time)}{undone}</span></summary>\n'
    if why:
        yield f'<div class="why">{"<br>".join(_text(line) for line in why)}</div>\n'
    # The id is inside, so that a browser opens the details when a link leads there.
    yield f'<pre id="{_id(commit)}">'
    yield from _diff(commit.diff)
    yield "</pre></details>\n"


def _diff(text: str) -> Iterator[str]:
    left = _MOST_LINES
    for file in files_of(text):
        path, notes = names(file)
        yield f'<span class="file">{_text(path)}</span>'
        for note in notes:
            yield f'<span class="at">{_text(note)}</span>'
        for hunk in file.hunks:
            yield f'<span class="at">{_text(hunk.header)}</span>'
            for line in hunk.lines[: max(left, 0)]:
                kind = {"+": "add", "-": "del", "\\": "at"}.get(line[:1], "")
                yield f"<span{_class_attr(kind)}>{_line(line)}</span>"
            left -= len(hunk.lines)
    if left < 0:
        yield f'<span class="at">{-left:,} more lines: stet show</span>'


def _files(commits: Sequence[ShowResult]) -> Iterator[str]:
    by_path: dict[str, list[ShowResult]] = {}
    for commit in commits:
        for change in commit.files:
            by_path.setdefault(change.path, []).append(commit)
    for path, touching in sorted(by_path.items()):
        changed = f"{plural(len(touching), 'commit')} {_line_counts(touching, path)}"
        yield f"<details><summary><code>{_text(path)}</code> "
        yield f'<span class="dim">{changed}</span></summary>\n<pre>'
        for commit in touching:
            subject, _ = subject_and_why(commit.message)
            link = f'<a href="#{_id(commit)}">{_id(commit)}</a>'
            yield f"<span>{link} {_time(commit.time)} {_who(commit)} {_text(subject)}</span>"
        yield "</pre></details>\n"


def _blame(blame: BlameResult) -> Iterator[str]:
    count = sum(run.count for run in blame.lines)
    yield f"<details><summary><code>{_text(blame.path)}</code> "
    yield f'<span class="dim">{plural(count, "line")}</span></summary>\n<pre class="blame">'
    times = sorted({run.time or "" for run in blame.lines})
    heats = {time: number * _HEAT_LEVELS // len(times) for number, time in enumerate(times, 1)}
    for run in blame.lines:
        name = run.agent or run.session
        kind = f"by {_colour(name)} h{heats[run.time or '']}" if name else ""
        author = padded(shortened(visible(name or run.kind), 18), 19)
        author += short(run.commit) if run.commit else ""
        for offset, line in enumerate(texts_of(run)[: max(_MOST_BLAMED_LINES - run.line + 1, 0)]):
            margin = padded(f"{run.line + offset:>5}  {'' if offset else author}", 36)
            yield f"<span{_class_attr(kind)}><b>{escape(margin)}</b><i>{_line(line)}</i></span>"
    if count > _MOST_BLAMED_LINES:
        yield f'<span class="at">{count - _MOST_BLAMED_LINES:,} more lines: stet blame</span>'
    yield "</pre></details>\n"


# -- formatting


def _agent(commit: CommitInfo) -> str:
    return commit.agent or commit.session or commit.kind


def _who(commit: CommitInfo) -> str:
    return f'<span class="name {_colour(_agent(commit))}">{_text(who(commit))}</span>'


def _colour(agent: str | None) -> str:
    return f"c{zlib.crc32((agent or '').encode('utf-8', 'replace')) % _AGENT_COLOURS}"


def _class_attr(name: str) -> str:
    return f' class="{name}"' if name else ""


def _id(commit: CommitInfo) -> str:
    return _text(commit.commit[:12])


def _text(text: str) -> str:
    return escape(visible(text))


def _line(text: str) -> str:
    return _text(text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "…")


def _time(time: str | datetime.datetime) -> str:
    moment = datetime.datetime.fromisoformat(time) if isinstance(time, str) else time
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _period(commits: Sequence[CommitInfo]) -> str:
    first, last = _time(commits[0].time), _time(commits[-1].time)
    return first if first == last else f"{first} to {last.removeprefix(first[:11])}"
