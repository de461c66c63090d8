"""Statements that select commits from the query index, newest first."""

from __future__ import annotations

from collections.abc import Sequence

#: Trigrams of a search that are looked up; what they find is verified anyway.
_MOST_TRIGRAMS = 32
#: The rows of texts: the number of the commit, then so many bits for the number of the part.
PART_BITS = 20


def first_row(n: int) -> int:
    """The row of the first text of a commit."""
    return n << PART_BITS


class Query:
    """A SELECT over commits, newest first, in the making."""

    def __init__(self, upto: int) -> None:
        self._conditions: list[str] = []
        self._values: list[object] = []
        self._from, self._upto = 1, upto
        self._path: int | None = None

    def where(self, condition: str, *values: object) -> None:
        """Only what meets a condition."""
        self._conditions.append(condition)
        self._values += values

    def of_path(self, path: int) -> None:
        """Only what changed the path with this number, or something below it."""
        self._path = path

    def above(self, n: int) -> None:
        """Only from this commit on."""
        self._from = max(self._from, n)

    def below(self, n: int) -> None:
        """Only up to this commit."""
        self._upto = min(self._upto, n)

    def build(self, match: str | None = None) -> tuple[str, list[object]]:
        """The statement and its values; ``match``: only what has this in its text.

        What the order is taken from comes first: texts, a path, or the commits.
        """
        joined = " JOIN commits ON commits.n = "
        tables, order = "commits", "commits.n"
        conditions: list[str] = []
        values: list[object] = []
        first, last = self._from, self._upto
        if match is not None:
            order = "changed_text.rowid"
            tables = f"changed_text CROSS{joined}({order} >> {PART_BITS})"
            conditions.append("changed_text MATCH ?")
            values.append(match)
            first, last = first_row(first), first_row(last + 1) - 1
        if self._path is not None:
            if match is None:
                order = "touched.n"
                tables = "touched CROSS" + joined + order
            else:
                tables += " CROSS JOIN touched ON touched.n = commits.n"
            conditions.append("touched.path = ?")
            values.append(self._path)
        conditions += [f"{order} BETWEEN ? AND ?", *self._conditions]
        values += [first, last, *self._values]
        return (
            f"SELECT commits.n FROM {tables}"  # noqa: S608 - made of the above
            f" WHERE {' AND '.join(conditions)} ORDER BY {order} DESC",
            values,
        )


def plain(text: str | None) -> str | None:
    """Text as SQLite can take it: what is not UTF-8 is nowhere in it."""
    return text.encode("utf-8", "replace").decode() if text is not None else None


def searchable(text: str | None) -> str:
    """A text as both sides of a search have it: the tokenizer stops at a NUL."""
    return (plain(text) or "").replace("\0", "\ufffd")


def matching(sought: Sequence[str]) -> str:
    """The trigrams as FTS5 takes them: all of them."""
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in sought)


def trigrams(text: str) -> list[str]:
    """The trigrams to look up for a text; none if it is too short."""
    sought = searchable(text)
    found = list(dict.fromkeys(sought[at : at + 3] for at in range(len(sought) - 2)))
    step = -(-len(found) // _MOST_TRIGRAMS) or 1
    return found[::step]
