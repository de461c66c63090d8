"""The configuration read again: by SIGHUP and by the method; a wrong file changes nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import Client, DaemonProcess, Gate, eventually, running
from stetd.config.settings import NEED_RESTART, OPTIONS


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running({"log_level": '"info"'}) as made:
        yield made


def configure(daemon: DaemonProcess, text: str) -> str:
    path = daemon.base / "c.toml"
    path.write_text(text + "notify = false\n")  # as DaemonProcess has it
    return str(path)


def limits(daemon: DaemonProcess) -> dict[str, Any]:
    client = daemon.control()
    found: dict[str, Any] = client.call("status")["limits"]
    client.close()
    return found


def test_reload_tells_what_has_changed(daemon: DaemonProcess) -> None:
    path = configure(daemon, "max_pipelined = 3\ngc_idle_s = 5\n")
    assert daemon.control().call("reload") == {
        "path": path,
        "changed": [
            {"option": "max_pipelined", "before": 64, "after": 3},
            {"option": "gc_idle_s", "before": 60, "after": 5},
        ],
        "restart": [],
        "error": None,
    }
    assert limits(daemon)["max_pipelined"] == 3
    assert "configuration read again: max_pipelined 64 to 3, gc_idle_s 60" in daemon.log()


def test_sighup_does_the_same(daemon: DaemonProcess) -> None:
    configure(daemon, "max_pipelined = 3\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: limits(daemon)["max_pipelined"] == 3)


def test_sighup_during_the_start_is_not_lost(daemon: DaemonProcess) -> None:
    assert daemon.stop() == 0
    gate = Gate(daemon.base, "journal.segment_created")
    daemon.environment |= gate.environment
    starting = threading.Thread(target=daemon.start)
    starting.start()
    gate.once_reached()
    configure(daemon, "max_pipelined = 5\n")
    daemon.process.send_signal(signal.SIGHUP)
    gate.open()
    starting.join()
    assert eventually(lambda: limits(daemon)["max_pipelined"] == 5)


def test_wrong_file_changes_nothing_and_status_says_why(daemon: DaemonProcess) -> None:
    path = configure(daemon, 'max_pipelined = 3\n\ndurabilty = "full"\ngrace_s = -1\n')
    answer = daemon.control().call("reload")
    error = (
        f"{path}, line 3: there is no option durabilty. Did you mean durability?\n"
        f"{path}, line 4: grace_s: Input should be greater than or equal to 0 (not -1)"
    )
    assert sorted(answer.pop("error").split("\n")) == sorted(error.split("\n"))
    assert answer == {"path": path, "changed": [], "restart": []}
    status = daemon.control().call("status")
    assert sorted(status["config_error"].split("\n")) == sorted(error.split("\n"))
    assert status["limits"]["max_pipelined"] == 64
    assert "durabilty" in status["last_error"]["message"]
    assert "ERROR stetd.configuration: the configuration is not taken over" in daemon.log()
    configure(daemon, "max_pipelined = 4\n")
    daemon.control().call("reload")
    status = daemon.control().call("status")
    assert (status.get("config_error"), status["limits"]["max_pipelined"]) == (None, 4)


def test_agents_neither_reload_nor_see_what_is_in_the_log(daemon: DaemonProcess) -> None:
    configure(daemon, "nonsense = 1\n")
    assert daemon.control().call("reload")["error"] is not None
    site = daemon.site("w")
    assert site.agent.refusal("reload").kind == "not_permitted"
    assert not {"config_error", "last_error"} & set(site.agent.call("status"))


def test_durability_needs_a_restart(daemon: DaemonProcess) -> None:
    configure(daemon, 'durability = "relaxed"\n')
    answer = daemon.control().call("reload")
    assert (answer["changed"], answer["restart"]) == ([], ["durability"])
    assert daemon.control().call("status")["durability"] == "full"
    assert "durability needs a restart: it stays full until then" in daemon.log()
    daemon.restart()
    assert daemon.control().call("status")["durability"] == "relaxed"


def test_every_option_is_said_to_be_taken_over_or_not() -> None:
    """Whoever adds one says here that a reload reaches it (Daemon.reconfigure), or can't."""
    taken_over = {
        "checkpoint_bytes", "checkpoint_idle_s", "default_mode", "exclude", "frame_timeout_s",
        "gc_idle_s", "grace_s", "idle_exit_s", "log_level", "max_call_bytes", "max_call_files",
        "max_clipboard_bytes", "max_connections", "max_file_bytes", "max_frame", "max_held_bytes",
        "max_pipelined", "notify", "observe_max_files", "protected", "protected_action",
        "request_record_calls", "request_record_s", "retention_days", "retention_mb",
        "snapshot_max_bytes", "snapshot_max_files",
    }  # fmt: skip
    assert taken_over | NEED_RESTART == set(OPTIONS)


def test_environment_still_overrides_the_file(daemon: DaemonProcess) -> None:
    daemon.restart(STET_MAX_PIPELINED="7")
    configure(daemon, "max_pipelined = 3\n")
    assert daemon.control().call("reload")["changed"] == []
    assert limits(daemon)["max_pipelined"] == 7


def test_every_part_goes_by_what_was_reloaded(daemon: DaemonProcess) -> None:
    site = daemon.site("w")
    site.write("a.txt", "12345678\n" * 20)
    for name in ("first", "second"):
        site.agent.call("clipboard_set", name=name, text="12345678")
    configure(
        daemon,
        'max_file_bytes = 100\nmax_clipboard_bytes = 5\ndefault_mode = "restricted"\n'
        "max_frame = 2000\nmax_connections = 2\nsnapshot_max_files = 1\n",
    )
    assert daemon.control().call("reload")["error"] is None
    # Open connections as well as new ones.
    assert site.agent.refusal("read", path="a.txt").kind == "file_too_large"
    change = {"operation": "append_eof", "newText": "x"}
    assert site.agent.refusal("patch", path="a.txt", patches=[change]).kind == "file_too_large"
    assert site.agent.refusal("clipboard_set", name="c", text="1").kind == "input_too_large"
    site.agent.call("clipboard_delete", name="first")  # though what is left is still too much
    site.write("b.txt", "x")
    assert site.person.refusal("snapshot").kind == "input_too_large"
    # site.agent and the watcher are two already.
    third = Client(str(daemon.runtime / "agent.sock"))
    assert "2 open connections, which is its limit" in third.refusal("status").message
    third.close()
    site.agent.close()
    fresh: Client | None = None
    while fresh is None:  # until the daemon has noticed that one is gone
        fresh = admit(daemon)
    hello = fresh.call("hello", protocol=1, workspace=str(site.root), session="new")
    assert hello["mode"] == "restricted"
    fresh.send_bytes(b'{"id": 1, "method": "' + b"x" * 3000)
    assert (error := fresh.receive().error) is not None
    assert error.data["kind"] == "frame_too_large"


def admit(daemon: DaemonProcess) -> Client | None:
    """A connection that is served, if there is room for one."""
    client = daemon.agent()
    try:
        client.call("status")
    except Exception:  # noqa: BLE001 - overloaded, or hung up on
        client.close()
        time.sleep(0.02)
        return None
    return client


def test_idle_exit_can_be_set_while_it_runs(daemon: DaemonProcess) -> None:
    configure(daemon, "idle_exit_s = 0.3\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.wait() == 0


def test_reloading_under_load_loses_no_call(daemon: DaemonProcess) -> None:
    site = daemon.site("w")
    for number in range(100):
        patches = [{"operation": "append_eof", "newText": f"{number}\n"}]
        site.agent.send("patch", path="a.txt", patches=patches)
        if number % 10 == 0:
            configure(daemon, f"max_pipelined = {number % 7 + 1}\ncheckpoint_bytes = 65536\n")
            daemon.process.send_signal(signal.SIGHUP)
    for _ in range(100):
        site.agent.result_of(site.agent.receive())
    assert site.bytes_of("a.txt").decode() == "".join(f"{n}\n" for n in range(100))
