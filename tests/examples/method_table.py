"""The methods of a session as a table for docs/python.md: python -m examples.method_table"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import stet
from stet import calls
from stetd.methods import METHODS


def table() -> str:
    """A row a method, with its parameters, its result and the first sentence of its help."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "| method | gives | |"
    yield "|---|---|---|"
    for name in sorted(METHODS.keys() & vars(calls).keys() - {"subscribe"}):
        method = getattr(stet.Session, name)
        signature = inspect.signature(method)
        named = [each for each in signature.parameters.values() if each.name != "self"]
        parameters = ", ".join(
            each.name + ("" if each.default is inspect.Parameter.empty else "?") for each in named
        )
        text = " ".join((inspect.getdoc(method) or "").split("\n\n")[0].split())
        sentence = text.split(". ")[0].rstrip(".").replace("``", "`")
        yield f"| `{name}({parameters})` | `{signature.return_annotation}` | {sentence} |"


if __name__ == "__main__":
    print(table(), end="")
