"""Patterns of files that the history does not keep: a gitignore's rules, letter case folded."""

from __future__ import annotations

import pytest

from stetd.history.excluding import Excludes, fault_of

CASES = [
    (".env", [".env", "a/.env", ".ENV", "a/b/.Env"], ["env", ".env.txt", "x.env"]),
    ("*.pem", ["k.pem", "a/K.PEM"], ["pem", "k.pem.txt"]),
    ("/top", ["top", "TOP", "top/below"], ["a/top"]),
    ("secrets/", ["secrets/a", "a/Secrets/b/c"], ["secrets", "a/secrets"]),
    ("conf/**/key", ["conf/key", "conf/a/b/KEY", "CONF/a/key"], ["a/conf/key", "conf/keys"]),
    ("[A-C]*", ["a", "Bee", "c/d"], ["d"]),
    ("[[:upper:]]x", ["ax", "AX"], ["1x"]),
    ("[![:upper:]]x", ["1x"], ["ax", "AX"]),
    ("k\u00e9y", ["k\u00e9y", "K\u00c9Y", "ke\u0301y"], ["key"]),
    ("stra\u00dfe", ["STRASSE", "stra\u00dfe"], ["strase"]),
]


@pytest.mark.parametrize(("pattern", "covered", "not_covered"), CASES, ids=[c[0] for c in CASES])
def test_what_a_pattern_covers(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    excludes = Excludes([pattern])
    assert [path for path in covered if not excludes(path)] == []
    assert [path for path in not_covered if excludes(path)] == []
    assert fault_of(pattern) is None


def test_a_later_pattern_takes_back_but_not_below_a_directory() -> None:
    excludes = Excludes(["*.pem", "!public.pem", "keys/", "!keys/public"])
    assert [excludes(p) for p in ("a.pem", "public.pem", "PUBLIC.PEM")] == [True, False, False]
    assert excludes("keys/public")


def test_without_patterns_nothing_is_excluded() -> None:
    assert not Excludes()
    assert not Excludes()(".env")


@pytest.mark.parametrize("pattern", ["", "   ", "# comment", "[a", "[[:nonsense:]]", "a\nb", "\0"])
def test_a_pattern_that_can_match_nothing_is_a_fault(pattern: str) -> None:
    assert fault_of(pattern) is not None
