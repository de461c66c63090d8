"""Documents as people write them: any value, laid out in any way that the grammar allows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

KEYS = ("servers", "stet", "other", "hooks", "a b", "ü", "//", "/*", '"', "\\")
#: What may stand between two tokens.
GAPS = ("", " ", "  ", "\t", "\n", "\n  ", "\r\n", "\r\n\t", "// a, {\n", " // ]}\r\n", "/* } */",
        "/* a\n */ ", "\n\n", "//\n")  # fmt: skip

keys = st.sampled_from(KEYS)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 99), st.sampled_from([0.5, -1e30]),
    st.text("ab ,{}[]:\"\\/*\n\tü€", max_size=5),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, values, max_size=4)


@st.composite
def layouts(draw: st.DrawFn, value: Any, gaps: tuple[str, ...] = GAPS) -> str:
    """A text for a value; comments, any white space, and commas after the last item."""
    gap = st.sampled_from(gaps)

    def told(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        items = []
        for each in value:
            key = f"{json.dumps(each)}{draw(gap)}:{draw(gap)}" if isinstance(value, dict) else ""
            inner = value[each] if isinstance(value, dict) else each
            items.append(f"{draw(gap)}{key}{told(inner)}{draw(gap)}")
        tail = f",{draw(gap)}" if bool(items) and draw(st.booleans()) else ""
        body = ",".join(items) + tail or draw(gap)
        return f"{{{body}}}" if isinstance(value, dict) else f"[{body}]"

    return draw(gap) + told(value) + draw(gap)


@st.composite
def documents(draw: st.DrawFn) -> tuple[Any, str]:
    """A value, and a text of it: laid out in any way, or by a program."""
    value = draw(objects)
    indent = draw(st.sampled_from([None, 2, 4, "\t", "any"]))
    if indent == "any":
        text = draw(layouts(value))
    else:
        assert not isinstance(indent, str) or indent == "\t"
        text = json.dumps(value, indent=indent) + draw(st.sampled_from(["", "\n"]))
        if draw(st.booleans()):
            text = text.replace("\n", "\r\n")
    return value, draw(st.sampled_from(["", "\ufeff"])) + text
