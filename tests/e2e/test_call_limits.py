"""What one call may ask for at most: each limit is told in ``status`` and named in its refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import BOTH, DaemonProcess, Site, faultless
from stet.wire.framing import Encoding

SETTINGS = {
    "max_call_files": 3,
    "max_call_bytes": 5_000,
    "max_file_bytes": 4_900,
    "max_clipboard_bytes": 1_000,
    "max_held_bytes": 20 << 20,
    "max_pipelined": 32,
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with faultless(SETTINGS) as process:
        yield process


@pytest.fixture(scope="module", params=BOTH, ids=str)
def site(request: pytest.FixtureRequest, daemon: DaemonProcess) -> Site:
    encoding: Encoding = request.param
    site = daemon.site(f"ws-{encoding}", encoding=encoding)
    for name in ("large.txt", "large-too.txt"):
        site.write(name, "a line\n" * 600)
    return site


def writing(path: str, text: str = "x\n") -> dict[str, Any]:
    params = {"path": path, "patches": [{"operation": "overwrite", "newText": text}]}
    return {"method": "patch", "params": params}


def refused(site: Site, method: str, **params: Any) -> str:
    """The message of a call that must be refused as too much and change nothing."""
    before = site.picture()
    refusal = site.agent.refusal(method, **params)
    assert refusal.kind == "input_too_large", refusal.message
    assert site.picture() == before
    return refusal.message


def test_all_limits_are_in_the_status(site: Site) -> None:
    limits = site.person.call("status")["limits"]
    assert {name: limits[name] for name in SETTINGS} == SETTINGS
    fixed = ("max_tokens", "max_edits", "max_transaction_calls", "max_values", "max_depth")
    assert all(limits[name] > 0 for name in (*fixed, "max_frame", "max_connections"))


def appending(path: str) -> dict[str, Any]:
    patch = [{"operation": "append_eof", "newText": "end\n"}]
    return {"method": "patch", "params": {"path": path, "patches": patch}}


@pytest.mark.parametrize(
    ("calls", "fit", "says"),
    [
        ([writing(f"many-{n}.txt") for n in range(4)], 3, "3 files at most (max_call_files"),
        (
            [appending("large.txt"), appending("large-too.txt")],
            1,
            "5,000 bytes at most (max_call_bytes",
        ),
        (
            [writing(f"long-{n}.txt", "y" * 2_600) for n in range(2)],
            1,
            "5,000 bytes at most (max_call_bytes",
        ),
    ],
    ids=["files", "reads", "writes"],
)
def test_a_call_on_more_than_allowed_is_refused(
    site: Site, calls: list[dict[str, Any]], fit: int, says: str
) -> None:
    assert says in refused(site, "transaction", calls=calls)
    assert len(site.agent.call("transaction", calls=calls[:fit])["files"]) == fit


def test_no_call_makes_a_file_that_could_not_be_undone(site: Site) -> None:
    site.overwrite("made.txt", "y" * 4_899)
    for path, more in (("made.txt", "xx"), ("new.txt", "y" * 4_901)):
        refusal = site.agent.refusal(
            "patch", path=path, patches=[{"operation": "append_eof", "newText": more}]
        )
        assert (refusal.kind, refusal.failures[0]["path"]) == ("file_too_large", path)
        assert "4,900 is the most (max_file_bytes" in refusal.message
    patch = [{"operation": "append_eof", "newText": "x"}]
    assert site.agent.call("patch", path="made.txt", patches=patch)
    assert site.agent.call("undo")
    assert site.bytes_of("made.txt") == b"y" * 4_899


def test_edits_and_calls_beyond_the_limit_are_told_with_it(site: Site) -> None:
    patches = [{"operation": "append_eof", "newText": "x"}] * 10_001
    refusal = site.agent.refusal("patch", path="large.txt", patches=patches)
    assert "10,000 elements" in refusal.message
    refusal = site.agent.refusal("transaction", calls=[writing("a.txt")] * 1_001)
    assert "1 to 1000" in refusal.message


@pytest.mark.parametrize("method", ["undo", "rollback", "diff", "export"])
def test_a_filter_has_a_thousand_paths_at_most(site: Site, method: str) -> None:
    paths = [f"p{n}" for n in range(1_001)]
    refusal = site.agent.refusal(
        method, paths=paths, **({"to": "HEAD"} if method == "rollback" else {})
    )
    assert refusal.kind == "invalid_params"
    assert "1000" in refusal.message
