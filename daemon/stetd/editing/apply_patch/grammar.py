"""The inside of a patch: from its lines to its operations.

    patch     = (operation | environment | blank)* "*** End Patch"
    operation = add | delete | update
    add       = "*** Add File: " path (("+" text)* | "<<EOF" text* "EOF") "*** End of File"?
    delete    = "*** Delete File: " path
    update    = "*** Update File: " path move? leftover* hunk* move? ("*** End of File")?
    move      = "*** Move to: " path                     at most one; hunks, a move, or both
    hunk      = place* line+ "*** End of File"?          the first hunk may do without a place
    place     = "@@" | "@@ " text | "@@ -1,3 +1,3 @@" text?
    line      = (" " | "-" | "+") text | "" | "\\ No newline at end of file"
    leftover  = "diff --git ..", "index ..", "--- a/x" with "+++ b/x"      before a line "@@"
    environment = "*** Environment ID:" text             ignored

A line that has no sign is refused, never guessed at, save an empty one: inside a hunk it is an
empty context line, and between operations it is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stetd.editing.apply_patch.envelope import (
    END,
    HEREDOC,
    Malformed,
    PatchLine,
    stripped,
    unexpected,
    unwrap,
)
from stetd.editing.apply_patch.hunk_reading import END_OF_FILE, RANGE, HunkReader
from stetd.editing.apply_patch.operations import (
    ADDED,
    CONTEXT,
    REMOVED,
    Add,
    Delete,
    Operation,
    Update,
)
from stetd.editing.refusals import visible
from stetd.editing.text import WHITE_SPACE, is_blank

ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE = "*** Move to:"
_ENVIRONMENT = "*** Environment ID:"
_MARK = "***"

_OPERATION = f'"{ADD} <path>", "{DELETE} <path>", "{UPDATE} <path>" or "{END}"'
_HUNK_LINE = 'a line that begins with " ", "-" or "+", a line "@@", or the next "*** " line'
_NO_NEWLINE = re.compile(r"\\ ?[Nn]o newline at end of (?:file|line).*")
_LEFTOVER = re.compile(r"diff --git .*|index [0-9a-f]{4,}\.\.[0-9a-f]{4,}.*")
_OLD_NAME = re.compile(r"--- (?:a/\S.*|/dev/null)(?:\t.*)?")
_NEW_NAME = re.compile(r"\+\+\+ (?:b/\S.*|/dev/null)(?:\t.*)?")


def parse(text: str) -> list[Operation]:
    """The operations of a patch, in order. Raises Malformed, and nothing else."""
    return _Parser(unwrap(text)).operations()


class _Parser:
    """Reads the lines of a patch from first to last."""

    def __init__(self, lines: Sequence[PatchLine]) -> None:
        self._lines = lines
        self._at = 0
        #: How many edits have been read; every hunk is one, and what has no hunks.
        self._edits = 0

    def operations(self) -> list[Operation]:
        """All of them, up to the end of the patch."""
        operations: list[Operation] = []
        while True:
            self._skip_blank()
            line = self._take()
            kind, path = _header(line)
            if kind == END:
                if self._at < len(self._lines):
                    raise unexpected(self._next_telling(), f'nothing after "{END}"')
                break
            if kind == _ENVIRONMENT:
                continue
            if kind not in (ADD, DELETE, UPDATE):
                raise unexpected(line, _OPERATION)
            _check_path(line, kind, path)
            if kind == ADD:
                operations.append(self._add(line, path))
            elif kind == DELETE:
                operations.append(self._delete(line, path))
            else:
                operations.append(self._update(line, path))
        if not operations:
            raise unexpected(line, f'an operation before "{END}": {_OPERATION}')
        return operations

    def _add(self, head: PatchLine, path: str) -> Add:
        text = self._heredoc() if self._opens_heredoc() else self._added_lines()
        self._edits += 1
        return Add(head.number, self._edits - 1, path, text)

    def _delete(self, head: PatchLine, path: str) -> Delete:
        self._edits += 1
        return Delete(head.number, self._edits - 1, path)

    def _update(self, head: PatchLine, path: str) -> Update:
        first = self._edits
        self._skip_blank()
        before = self._move()
        if before:
            self._skip_end_of_file()
        self._skip_leftovers()
        reader = HunkReader(first)
        while self._hunk_line(reader):
            pass
        reader.close(self._peek())
        after = self._move_after_hunks(before, reader)
        hunks = tuple(reader.hunks)
        if not hunks and not before and not after:
            raise unexpected(self._peek(), f'a hunk of "{UPDATE} {path}", or "{MOVE} <path>"')
        self._edits += len(hunks) or 1
        number, target = before or after or (0, None)
        return Update(head.number, first, path, hunks, target, number)

    # -- Add

    def _opens_heredoc(self) -> bool:
        self._skip_blank()
        return HEREDOC.fullmatch(stripped(self._peek())) is not None

    def _heredoc(self) -> str:
        opening = self._take()
        found = HEREDOC.fullmatch(stripped(opening))
        assert found, "BUG: no heredoc opens here"
        content: list[str] = []
        while self._at < len(self._lines):
            line = self._take()
            if stripped(line) == found[2]:
                self._skip_end_of_file()
                return "".join(content)
            content.append(line.text + line.end)
        raise Malformed(
            opening.number,
            f'received {visible(opening.text)}; expected a line "{found[2]}" after it, which ends '
            "the text.",
        )

    def _added_lines(self) -> str:
        self._skip_new_file_leftovers()
        content: list[str] = []
        while self._peek().text.startswith(ADDED):
            line = self._take()
            content.append(line.text[1:] + line.end)
        if content and _NO_NEWLINE.fullmatch(self._peek().text):
            self._take()
            content[-1] = content[-1].rstrip("\r\n")
        self._skip_end_of_file()
        after = self._peek()
        if _header(after)[0] in ("", MOVE, END_OF_FILE):
            raise unexpected(after, f'"+" before each line of the new file, or {_OPERATION}')
        return "".join(content)

    def _skip_new_file_leftovers(self) -> None:
        """``--- /dev/null``, ``+++ b/x`` and ``@@ -0,0 +1,9 @@``, if Git wrote the lines."""
        names = [line.text for line in self._lines[self._at : self._at + 2]]
        if len(names) == 2 and _OLD_NAME.fullmatch(names[0]) and _NEW_NAME.fullmatch(names[1]):
            self._at += 2
        if RANGE.fullmatch(self._peek().text):
            self._at += 1

    # -- Update

    def _hunk_line(self, reader: HunkReader) -> bool:
        """Read one line of hunks; False where they are over."""
        line = self._peek()
        text = line.text
        if text.startswith(_MARK):
            kind = _header(line)[0]
            if kind == END_OF_FILE and not reader.ended:
                reader.close(line)
                reader.end_of_file(line)
                self._at += 1
                return True
            if text.startswith(END_OF_FILE) and kind != END_OF_FILE:
                raise unexpected(line, f'"{END_OF_FILE}" alone on its line')
            if kind in ("", END_OF_FILE):
                raise unexpected(line, _HUNK_LINE)
            return False
        self._at += 1
        if is_blank(text) and not text.startswith(CONTEXT):
            reader.blank(line)
        elif text.startswith("@@"):
            reader.place(line)
        elif _NO_NEWLINE.fullmatch(text):
            reader.unended(line)
        elif text[0] in (CONTEXT, REMOVED, ADDED):
            reader.line(line)
        else:
            raise unexpected(line, _HUNK_LINE)
        return True

    def _move(self) -> tuple[int, str] | None:
        """``*** Move to``, if it comes next: its line and the path."""
        kind, path = _header(self._peek())
        if kind != MOVE or not self._peek().text.startswith(_MARK):
            return None
        line = self._take()
        _check_path(line, kind, path)
        return line.number, path

    def _move_after_hunks(
        self, before: tuple[int, str] | None, reader: HunkReader
    ) -> tuple[int, str] | None:
        """The move after the hunks, which ``*** End of File`` may follow."""
        line = self._peek()
        after = self._move()
        if not after:
            return None
        if before:
            raise unexpected(line, f'no second "{MOVE}"; the first is in line {before[0]}')
        self._skip_blank()
        if stripped(self._peek()) == END_OF_FILE and not reader.ended:
            self._at += 1
            reader.end_of_file()
            self._skip_blank()
        following = self._peek()
        if following.text.startswith((CONTEXT, REMOVED, ADDED, "@@")):
            raise unexpected(following, f'no hunk after "{MOVE}", which stands before or after all')
        return after

    def _skip_leftovers(self) -> None:
        """What Git writes above the first hunk."""
        self._skip_blank()
        begin = self._at
        while _LEFTOVER.fullmatch(self._peek().text):
            self._at += 1
        names = self._lines[self._at : self._at + 3]
        if (
            len(names) == 3
            and _OLD_NAME.fullmatch(names[0].text)
            and _NEW_NAME.fullmatch(names[1].text)
            and names[2].text.startswith("@@")
        ):
            self._at += 2
        if self._at == begin and self._peek().text.startswith((CONTEXT, REMOVED, ADDED)):
            self._back_to_unchanged()

    def _back_to_unchanged(self) -> None:
        """A blank line that has its space is unchanged, and belongs to the hunk it precedes.

        Only where the first hunk has no "@@" is it in doubt. Without it what is added after a
        blank line would go to the end of the file.
        """
        begin = self._at
        while is_blank(self._lines[self._at - 1].text):
            self._at -= 1
        while self._at < begin and not self._peek().text.startswith(CONTEXT):
            self._at += 1

    # -- lines

    def _peek(self) -> PatchLine:
        """The next line; at the end of the patch its last."""
        return self._lines[min(self._at, len(self._lines) - 1)]

    def _take(self) -> PatchLine:
        self._at += 1
        return self._lines[self._at - 1]

    def _next_telling(self) -> PatchLine:
        """The next line that is not blank."""
        following = (line for line in self._lines[self._at :] if not is_blank(line.text))
        return next(following, self._lines[-1])

    def _skip_blank(self) -> None:
        while self._at < len(self._lines) and is_blank(self._lines[self._at].text):
            self._at += 1

    def _skip_end_of_file(self) -> None:
        self._skip_blank()
        if stripped(self._peek()) == END_OF_FILE:
            self._at += 1
            self._skip_blank()


def _header(line: PatchLine) -> tuple[str, str]:
    """Which ``*** `` line this is, and what stands after the colon; ("", "") for none."""
    text = stripped(line)
    for kind in (ADD, DELETE, UPDATE, MOVE, _ENVIRONMENT):
        if text.startswith(kind):
            return kind, text[len(kind) :].strip(WHITE_SPACE)
    return (text, "") if text in (END, END_OF_FILE) else ("", "")


def _check_path(line: PatchLine, kind: str, path: str) -> None:
    if not path:
        raise unexpected(line, f'a path: "{kind} <path>"')
