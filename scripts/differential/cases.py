"""Whole patches: some files, operations on them, and what the patch is meant to do.

What a patch is meant to do is known from the edit that it was made from; no engine is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import product

from differential.dice import Dice
from differential.files import awkward_bytes, awkward_lines
from differential.hunks import Hunk, draw_hunks
from differential.mistakes import ADDED
from mutations.sources import sources

#: Path to content and permission bits.
Tree = Mapping[str, tuple[bytes, int]]
PLAIN, EXECUTABLE = 0o644, 0o755
ELSEWHERE = "a spoilt hunk stands to the letter in another place"
BARE = "bare lines of a hunk without other old lines are no context"
BACKWARD = "a hunk goes back, or shares context, and stands in several places"
NEARER = "the hunk stands nearer after its @@ line than where it was meant"


@dataclass(frozen=True)
class Case:
    """A patch and its files, and what they are meant to be afterwards.

    ``doubt``: why the text that is sent says something else than what was meant, if it does.
    """

    seed: str
    before: Tree
    patch: str
    meant: Tree
    traits: frozenset[str]
    doubt: str = ""


def draw(seed: str, without: AbstractSet[str] = frozenset()) -> Case:
    """The case of a seed, without some of its traits."""
    drawing = _Drawing(Dice(seed, without))
    for number in range(drawing.dice.on("operations").choice([1, 1, 1, 1, 2, 2, 3])):
        drawing.operation(f"operation{number}")
    patch = drawing.wrapped()
    traits = frozenset(drawing.dice.traits)
    return Case(seed, drawing.before, patch, drawing.meant, traits, drawing.doubt)


@dataclass
class _Drawing:
    dice: Dice
    before: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    meant: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    doubt: str = ""
    #: The lines and hunks of the operation before, if that is an update.
    last_update: tuple[list[str], list[Hunk]] = field(default_factory=lambda: ([], []))

    def operation(self, topic: str) -> None:
        """One operation, or two that belong together."""
        kinds, weights = zip(*_KINDS, strict=True)
        kind = self.dice.on(f"{topic}:kind").choices(kinds, weights)[0]
        if self.lines and self.dice.trait("blank_lines_between", topic, 0.06):
            self.lines.append("")
            self.doubt = self.doubt or _doubt(*self.last_update, blank_after=True)
        self.last_update = [], []
        kind(self, topic)

    def wrapped(self) -> str:
        """The text of the patch, with what may stand around it."""
        dice = self.dice
        rng = dice.on("envelope")
        lines = ["*** Begin Patch", *self.lines, "*** End Patch"]
        if dice.trait("environment_id", "envelope", 0.02):
            lines.insert(1, "*** Environment ID: 7")
        mark = rng.choice(["EOF", "'EOF'", '"EOF"'])
        kind = rng.choices(["none", "heredoc", "shell", "fence", "space"], [70, 12, 5, 5, 8])[0]
        if kind == "heredoc":
            lines = [f"<<{mark}", *lines, "EOF"]
        elif kind == "shell" and dice.trait("shell_line", "envelope"):
            lines = [f"apply_patch <<{mark}", *lines, "EOF"]
        elif kind == "fence" and dice.trait("markdown_fence", "envelope"):
            lines = ["```diff", *lines, "```"]
        elif kind == "space":
            lines = ["", *lines[:-1], lines[-1] + "  ", ""]
        end = "\r\n" if dice.chance("crlf_patch", 0.06) else "\n"
        return end.join(lines) + (end if rng.random() < 0.6 else "")

    # -- operations

    def _update(self, topic: str) -> None:
        path = self._path(topic)
        hunks, mode = self._edited(topic, path)
        self.lines += [f"*** Update File: {path}", *self._hunk_lines(topic, path, hunks)]
        self.meant[path] = self.meant[path][0], mode

    def _move(self, topic: str) -> None:
        path = self._path(topic)
        hunks, mode = self._edited(topic, path)
        target = f"{topic}/moved/here.py"
        if self.dice.trait("move_onto_itself", topic, 0.12):
            target = self.dice.on(f"{topic}:self").choice([path, f"./{path}"])
        else:
            self.meant[target] = self.meant.pop(path)[0], mode
            if self.dice.trait("move_onto_existing", topic, 0.1):
                self.before[target] = b"in the way\n", PLAIN
        body = self._hunk_lines(topic, path, hunks)
        move = f"*** Move to: {target}"
        after = self.dice.trait("move_after_hunks", topic, 0.2)
        self.lines += [f"*** Update File: {path}", *([*body, move] if after else [move, *body])]

    def _rename(self, topic: str) -> None:
        path, target = self._path(topic), f"{topic}/renamed/there.py"
        self.before[path] = data, mode = self._real(topic)
        if self.dice.trait("move_without_hunks", topic):
            self.lines += [f"*** Update File: {path}", f"*** Move to: {target}"]
            self.meant[target] = data, mode
        else:
            self.lines += [f"*** Delete File: {path}"]

    def _add(self, topic: str) -> None:
        path = self._path(topic)
        rng = self.dice.on(f"{topic}:add")
        text = list(rng.choice(sources()).lines[: rng.choice([0, 1, 5, 40])])
        self._add_text(topic, path, text)
        if self.dice.trait("add_over_existing", topic, 0.15):
            self.before[path] = self._real(topic)
            self.meant[path] = self.meant[path][0], self.before[path][1]

    def _add_text(self, topic: str, path: str, text: Sequence[str]) -> None:
        if text and "EOF" not in text and self.dice.trait("heredoc_body", topic, 0.15):
            body = ["<<EOF", *text, "EOF"]
        else:
            body = ["+" + line for line in text]
        self.lines += [f"*** Add File: {path}", *body]
        self.meant[path] = "".join(f"{line}\n" for line in text).encode(), PLAIN

    def _delete(self, topic: str) -> None:
        path = self._path(topic)
        self.before[path] = self._real(topic)
        if self.dice.chance(f"{topic}:binary", 0.2):
            self.before[path] = b"\x00\xff\xfe\x00binary", PLAIN
        self.lines.append(f"*** Delete File: {path}")

    def _replace(self, topic: str) -> None:
        """Delete, then add at the same path."""
        path = self._path(topic)
        self.before[path] = _, mode = self._real(topic)
        self.lines.append(f"*** Delete File: {path}")
        self._add_text(topic, path, ["one", "", "three"])
        self.meant[path] = self.meant[path][0], mode

    def _add_and_update(self, topic: str) -> None:
        path = self._path(topic)
        self._add_text(topic, path, ["one", "two", "three"])
        self.lines += [f"*** Update File: {path}", "@@", " one", "-two", "+2"]
        self.meant[path] = b"one\n2\nthree\n", PLAIN

    def _nothing(self, topic: str) -> None:
        """An update that puts in what stands there."""
        path = self._path(topic)
        self.before[path] = data, mode = self._real(topic)
        lines = data.decode().split("\n")
        new = lines[8] if self.dice.trait("no_change", topic) else "# changed"
        self.lines += [f"*** Update File: {path}", "@@"]
        self.lines += [" " + line for line in lines[:8]] + ["-" + lines[8], "+" + new]
        self.meant[path] = "\n".join([*lines[:8], new, *lines[9:]]).encode(), mode

    # -- parts of them

    def _path(self, topic: str) -> str:
        return f"{topic}/{self.dice.on(topic).choice(['a.py', 'b c.txt', 'dir/d.py', 'é.md'])}"

    def _real(self, topic: str) -> tuple[bytes, int]:
        source = self.dice.on(f"{topic}:real").choice(sources())
        return "".join(f"{line}\n" for line in source.lines).encode(), PLAIN

    def _edited(self, topic: str, path: str) -> tuple[list[Hunk], int]:
        """A file and hunks for it, put into the trees."""
        lines = awkward_lines(self.dice, topic)
        hunks = draw_hunks(self.dice, topic, lines)
        file = awkward_bytes(self.dice, topic, lines, hunks)
        mode = EXECUTABLE if self.dice.trait("executable", topic, 0.1) else PLAIN
        self.before[path] = file.before(), mode
        self.meant[path] = file.after(hunks), mode
        self.doubt = self.doubt or _doubt(lines, hunks)
        self.last_update = lines, hunks
        return hunks, mode

    def _hunk_lines(self, topic: str, path: str, hunks: Sequence[Hunk]) -> list[str]:
        file = self.before[path][0].decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        lines: list[str] = []
        if hunks[0].places is not None and self.dice.trait("git_names", topic, 0.03):
            lines += [f"--- a/{path}", f"+++ b/{path}"]
        out_of_order = len(hunks) > 1 and self.dice.trait("out_of_order", topic, 0.06)
        shown = list(hunks)
        if out_of_order:
            self.dice.on(f"{topic}:order").shuffle(shown)
            if any(len(_places(file, hunk.old)) != 1 for hunk in hunks):
                self.doubt = self.doubt or BACKWARD
        for number, hunk in enumerate(shown):
            if number and hunk.places is None:
                hunk.places = [""]
            lines += hunk.text()
        return lines


def _doubt(lines: Sequence[str], hunks: Sequence[Hunk], *, blank_after: bool = False) -> str:
    """Why hunks say something else than they mean, if they do."""
    cursor = 0
    for hunk in hunks:
        sent = [*hunk.sent, ""] if blank_after and hunk is hunks[-1] else hunk.sent
        old = [line for line in sent if not line.startswith(ADDED)]
        if hunk.old and not any(old):
            return BARE
        if any(_stands_elsewhere(lines, hunk, sent, *kept) for kept in product((0, 1), (0, 1))):
            return ELSEWHERE
        if hunk.first < cursor and len(_places(lines, hunk.old)) > 1:
            return BACKWARD
        if hunk.under is not None and any(
            max(cursor, hunk.under) <= at < hunk.first for at in _places(lines, hunk.old)
        ):
            return NEARER
        cursor = max(cursor, hunk.end)
    return ""


def _stands_elsewhere(
    lines: Sequence[str], hunk: Hunk, sent: Sequence[str], head: int, foot: int
) -> bool:
    """Whether what is sent stands in the file to the letter, but not at its place.

    With the bare lines at its edges or without, as ``head`` and ``foot`` say.
    """
    lead = next((n for n, line in enumerate(sent) if line), 0)
    tail = next((n for n, line in enumerate(reversed(sent)) if line), 0)
    bare_kept = (lead if head else 0) + (tail if foot else 0)
    if not hunk.old or (lead + tail and not bare_kept):
        return False
    rest = sent[0 if head else lead : len(sent) - (0 if foot else tail)]
    places = _places(lines, [line[1:] for line in rest if not line.startswith(ADDED)])
    place = hunk.first - hunk.invented + (0 if head else lead)
    return bool(places) and place not in places


def _places(lines: Sequence[str], old: Sequence[str]) -> list[int]:
    """Where lines stand to the letter."""
    count = len(lines) if old else 0
    return [at for at in range(count) if list(lines[at : at + len(old)]) == list(old)]


_Kind = Callable[[_Drawing, str], None]
_KINDS: list[tuple[_Kind, int]] = [
    (_Drawing._update, 70),
    (_Drawing._move, 10),
    (_Drawing._rename, 3),
    (_Drawing._add, 7),
    (_Drawing._delete, 3),
    (_Drawing._replace, 3),
    (_Drawing._add_and_update, 2),
    (_Drawing._nothing, 2),
]
