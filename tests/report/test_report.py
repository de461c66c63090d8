"""``stet report``: one page that loads nothing, in which nothing of an agent's text is markup."""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import stet
from client.live import installation
from stet.report import page
from stet.report.gathering import Report, gather
from stet.terminal.spans import columns
from stet.wire.results import BlameLines, BlameResult, FileChange, ShowResult

NASTY = "<script>alert('x')</script> & \"quoted\" \x1b[31m \u202e"


class Outline(HTMLParser):
    """The elements of a page, their attributes and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def commit(number: int = 1, **fields: object) -> ShowResult:
    given = {
        "commit": f"{number:040x}",
        "parent": None,
        "time": f"2026-11-23T10:{number // 60 % 60:02}:{number % 60:02}Z",
        "kind": "edit",
        "method": "patch",
        "agent": "bot",
        "session": "conv",
        "message": "patch a.py: 1 edit",
        "files": [FileChange("a.py", "M", "1", "2", 1, 1)],
        "diff": "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old\n+new\n",
    }
    return ShowResult(**{**given, **fields})  # type: ignore[arg-type]


def made(*commits: ShowResult, blames: Sequence[BlameResult] = ()) -> str:
    now = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
    return "".join(page.html(Report("/home/me/w", now, [], list(commits), list(blames))))


SAID = """
Edits of w
/home/me/w, made 2026-11-23 12:00:00; times are UTC
2 commits, 1 undone, in 2 files, lines +3 -1.
Sessions · Files · Lines
Timeline
A ring is a commit that was undone.
bot
2026-11-23 10:00:012026-11-23 10:01:15
Sessions
whocommitsundonelineswhen
bot/conv10+1 -12026-11-23 10:00:01
bot/other11+2 -02026-11-23 10:01:15
bot/conv 2026-11-23 10:00:01
000000000000 patch a.py: 1 edit + new 2026-11-23 10:00:01
reads better
a.py@@ -1 +1 @@-old+new
bot/other 2026-11-23 10:01:15
000000000000 patch b.py: 1 edit + one 2026-11-23 10:01:15 · undone by 99999999
b.py@@ -1 +1,3 @@ same+one+two
Files
Lines of all these commits, also of those that were undone.
a.py 1 commit +1 -1
000000000000 2026-11-23 10:00:01 bot/conv patch a.py: 1 edit
b.py 1 commit +2 -0
000000000000 2026-11-23 10:01:15 bot/other patch b.py: 1 edit
Who wrote each line
The files as the history has them. The newer a line is in its file, the stronger its colour.
a.py 2 lines
    1  bot                00000000  new    2  outside                      old
"""


def test_the_page_says_who_changed_which_lines_when_and_why() -> None:
    first = commit(1, message="patch a.py: 1 edit\n\nreads better")
    second = commit(
        75,
        session="other",
        message="patch b.py: 1 edit",
        files=[FileChange("b.py", "M", "1", "2", 2, 0)],
        diff="diff --git a/b.py b/b.py\n@@ -1 +1,3 @@\n same\n+one\n+two\n",
        reverted_by="9" * 40,
    )
    lines = [
        BlameLines(line=1, count=1, text="new\n", commit=f"{1:040x}", kind="edit", agent="bot"),
        BlameLines(line=2, count=1, text="old\n"),
    ]
    page = made(first, second, blames=[BlameResult("a.py", lines)])
    body = "".join(Outline(page.partition("</head>")[2]).text)
    assert re.sub(r"\n+", "\n", body) == SAID
    assert page.endswith("</body></html>\n")


def test_a_sessions_period_names_a_day_once() -> None:
    assert "<td>2026-11-23 10:00:01 to 10:01:15</td>" in made(commit(1), commit(75))
    assert "<td>2026-11-23 10:00:01 to 2026-11-24 10:00:01</td>" in made(
        commit(1), commit(75, time="2026-11-24T10:00:01Z")
    )


def test_an_undone_commit_is_a_ring_in_the_timeline() -> None:
    text = made(commit(), commit(75, reverted_by="9" * 40))
    assert text.count("<circle") == 2
    assert text.count(' ring" cx=') == 1


def test_nothing_is_made_pale() -> None:
    """Text that lets its ground shine through has less contrast than WCAG's AA asks for."""
    assert "opacity" not in page.STYLE


def test_a_long_diff_is_cut_and_says_so() -> None:
    diff = "diff --git a/a.py b/a.py\n@@ -0,0 +1,500 @@\n" + "+x\n" * 500
    text = made(commit(diff=diff))
    assert text.count('<span class="add">+x</span>') == 400
    assert "100 more lines: stet show" in text


def test_text_of_agents_and_files_is_never_markup() -> None:
    diff = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -0,0 +1 @@\n+{NASTY}\n"
    text = made(
        commit(
            agent=NASTY,
            session=NASTY,
            message=f"{NASTY}\n\n{NASTY}",
            files=[FileChange(NASTY, "M", "1", "2", 1, 1)],
            diff=diff,
        )
    )
    outline = Outline(text)

    assert not {tag for tag, _ in outline.elements} & {"script", "img", "iframe", "link"}
    assert "<script>alert('x')</script>" in "".join(outline.text)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    text = made(commit())
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(a for t, a in Outline(text).elements if a.get("http-equiv"))["content"]

    assert policy is not None
    assert policy.split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    links = [value for _, a in Outline(text).elements for key, value in a.items() if key in LOADS]
    assert all(value is not None and value.startswith("#") for value in links)
    assert not any("style" in attributes for _, attributes in Outline(text).elements)


LOADS = ("src", "href", "data", "action")


def test_what_was_undone_is_said_and_links_lead_to_commits() -> None:
    text = made(commit(1, reverted_by=f"{2:040x}"), commit(2, kind="undo", reverts=[f"{1:040x}"]))
    outline = Outline(text)
    ids = {attributes["id"] for _, attributes in outline.elements if "id" in attributes}

    assert "undone by 00000000" in "".join(outline.text)
    targets = {str(a["href"])[1:] for _, a in outline.elements if "href" in a} - {"lines"}
    assert targets <= ids


def test_a_link_leads_into_what_a_browser_then_opens() -> None:
    elements = Outline(made(commit())).elements
    assert ("pre", {"id": "0" * 12}) in elements
    assert not any("id" in attributes for tag, attributes in elements if tag == "details")


def test_files_have_their_own_names_and_long_lines_are_cut() -> None:
    name = '"b/\\350\\257\\264.md"'
    header = f"diff --git {name.replace('b/', 'a/')} {name}\n--- /dev/null\n+++ {name}\n"
    text = made(commit(diff=f"{header}@@ -0,0 +1 @@\n+{'x' * 1_000_000}\n"))

    assert "说.md" in text
    assert "350" not in text
    assert len(text) < 50_000


def test_who_wrote_a_line_is_cut_as_text_and_newer_lines_are_of_a_stronger_colour() -> None:
    def run(line: int, agent: str, time: str) -> BlameLines:
        return BlameLines(
            line=line, count=1, text="x\n", commit="ab" * 20, kind="edit", agent=agent, time=time
        )

    names = ["a&b&c&d&e&f&g&h&i&j&k&l", "设计助手设计助手设计助手", "short"]
    times = ["2026-11-23T10:00:00Z", "2026-11-23T10:00:02Z", "2026-11-23T10:00:01Z"]
    blames = [BlameResult("a.py", [run(n + 1, names[n], times[n]) for n in range(3)])]
    text = made(commit(), blames=blames)
    margins = re.findall("<b>(.*?)</b>", text)

    assert not re.search("&(?!amp;|#x27;|lt;|gt;|quot;)", "".join(margins))
    assert {columns(unescape(margin)) for margin in margins} == {36}
    assert all("abababab" in margin for margin in margins)
    assert re.findall(r'class="by c\d h(\d)"', text) == ["1", "5", "3"]


def test_lines_are_counted_whatever_ends_them() -> None:
    run = BlameLines(line=1, count=3, text="a\r\nb\rc\n", kind="edit", agent="bot")
    text = made(commit(), blames=[BlameResult("a.py", [run])])

    assert re.findall("<i>(.*?)</i>", text) == ["a", "b", "c"]


def test_a_long_file_that_one_commit_wrote_is_cut() -> None:
    text = "x\n" * 5000
    run = BlameLines(line=1, count=5000, text=text, commit="ab" * 20, kind="edit", agent="bot")
    made_page = made(commit(), blames=[BlameResult("a.py", [run])])

    assert made_page.count("<i>x</i>") == 2000
    assert "3,000 more lines: stet blame" in made_page


def test_a_thousand_edits_take_less_than_five_megabytes() -> None:
    diff = "diff --git a/a.py b/a.py\n@@ -1,40 +1,40 @@\n" + "".join(
        f"{'-+ '[number % 3]}a line of text that is not short, number {number}\n"
        for number in range(40)
    )
    assert len(made(*(commit(number, diff=diff) for number in range(1000)))) < 5_000_000


def test_no_edits_are_a_page_too() -> None:
    assert "No edits." in made()


def test_the_command_writes_the_page_of_a_session(tmp_path: Path) -> None:
    with installation() as own:
        own.stet("init")
        with stet.connect(own.workspace, session="one", agent="a", endpoint=own.endpoint()) as s:
            s.patch("a.py", [stet.overwrite("x = 1\n")], message="begin")
        with stet.connect(own.workspace, session="two", agent="b", endpoint=own.endpoint()) as s:
            s.patch("b.py", [stet.overwrite("y = 2\n")])
        person = own.endpoint(control=True)
        with stet.connect(own.workspace, control=True, endpoint=person) as p:
            report = gather(p, {})
        done = own.stet("report", "--session", "one", "-o", str(tmp_path / "r.html"))

        assert done.returncode == 0, done.stderr
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "x = 1" in text
        assert "y = 2" not in text
        assert {blame.path for blame in report.blames} == {"a.py", "b.py"}


def test_lines_are_told_apart_from_a_directory_inside_too() -> None:
    with installation() as own:
        own.stet("init")
        with stet.connect(own.workspace, session="one", agent="a", endpoint=own.endpoint()) as s:
            s.patch("src/a.py", [stet.overwrite("x = 1\n")])
            s.patch("src/src/a.py", [stet.overwrite("y = 2\n")])
        person, inside = own.endpoint(control=True), Path(own.workspace, "src")
        with stet.connect(inside, control=True, endpoint=person) as p:
            report = gather(p, {"since": 60.5, "until": None, "paths": ["a.py"]})
        assert report.filters == ["since 1970-01-01T00:01:00Z", "paths a.py"]
        assert [(each.path, each.lines[0].text) for each in report.blames] == [
            ("src/a.py", "x = 1\n")
        ]


def test_the_page_has_nothing_of_a_file_that_the_history_does_not_have() -> None:
    with installation() as own:
        own.stet("init")
        with stet.connect(own.workspace, session="one", agent="a", endpoint=own.endpoint()) as s:
            s.patch("early.env", [stet.overwrite("key = recorded\n")])
            Path(own.base, "config.toml").write_text('exclude = ["*.env"]\n')
            assert own.stet("config", "reload").returncode == 0
            s.patch("late.env", [stet.overwrite("key = secret\n")])
        Path(own.workspace, "early.env").write_text("key = secret\n")
        done = own.stet("report", "-o", "-")
        assert "late.env" in done.stdout
        assert "secret" not in done.stdout
