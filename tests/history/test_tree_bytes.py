"""Trees as bytes: what is found and what differs, against the entries as a dictionary."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stetd.history.objects import EXECUTABLE, FILE, TREE, Entry, tree_content
from stetd.history.tree_bytes import differing_entries, entries_of, find_in

#: Some ids look like the beginnings and the ends of entries.
IDS = st.sampled_from(
    [
        "12" * 20,
        b"100644 a\x00aaaaaaaaaaa".hex(),
        b"\x00100644 a\x00aaaaaaaaaa".hex(),
        b" b\x00\x00\x0040000 a\x00aaaaaaa".hex(),
        (b"\x00" * 20).hex(),
        (b"7" * 20).hex(),
    ]
)
NAMES = st.sampled_from(["a", "a.b", "a-b", "a0", "ab", "b", "é", "7", "40000 a", "long" * 30])
ENTRIES = st.tuples(st.sampled_from([FILE, EXECUTABLE, TREE]), IDS).map(lambda pair: Entry(*pair))
TREES = st.dictionaries(NAMES, ENTRIES, max_size=7)


patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@patient
@given(TREES)
def test_entries_are_read_back(entries: dict[str, Entry]) -> None:
    assert entries == entries_of(tree_content(entries))


@patient
@given(TREES, NAMES)
def test_a_name_is_found_where_it_is_a_name(entries: dict[str, Entry], name: str) -> None:
    assert entries.get(name) == find_in(tree_content(entries), name)


@patient
@given(TREES, TREES)
def test_what_differs_is_what_dictionaries_say(
    old: dict[str, Entry], new: dict[str, Entry]
) -> None:
    olds, news = differing_entries(tree_content(old), tree_content(new))
    assert {name: e for name, e in old.items() if new.get(name) != e} == olds
    assert {name: e for name, e in new.items() if old.get(name) != e} == news


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 3000), st.sampled_from(["changed", "gone", "new"]))
def test_one_change_in_a_large_directory(number: int, what: str) -> None:
    old = {f"f{n:05}": Entry(FILE, f"{n:040x}") for n in range(3000)}
    new, name = dict(old), f"f{number:05}"
    if what == "gone":
        new.pop(name, None)
    else:
        new[name if what == "changed" else name + "x"] = Entry(FILE, "ab" * 20)
    olds, news = differing_entries(tree_content(old), tree_content(new))
    assert {n: e for n, e in old.items() if new.get(n) != e} == olds
    assert {n: e for n, e in new.items() if old.get(n) != e} == news
