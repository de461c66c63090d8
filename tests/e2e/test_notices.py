"""The notice on the desktop: on a real session bus of its own, and what may stand in one.

What the daemon's program sends is read with dbus-monitor; there is no desktop on this bus, so
the call ends in an error, which is the daemon's to live with.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.running_daemon import Site, running
from stetd.server import desktop_notices
from stetd.server.desktop_notices import Notice, command, plain, session_bus, title_and_body

CONFIGURATION = """\
<busconfig>
  <type>session</type>
  <listen>unix:path={path}</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
PATIENCE_S = 60.0


class Bus:
    """A session bus and somebody who listens on it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "bus"
        self.address = f"unix:path={self.path}"
        configuration = directory / "bus.conf"
        configuration.write_text(CONFIGURATION.format(path=self.path))
        self._daemon = subprocess.Popen(
            ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nosyslog",
             "--print-address"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline()  # its socket is there before it listens on it
        self._heard = directory / "heard"
        with self._heard.open("wb") as heard:
            self._monitor = subprocess.Popen(
                ["dbus-monitor", "--address", self.address, "member='Notify'"],
                stdin=subprocess.DEVNULL,
                stdout=heard,
            )
        self._wait_for(lambda: "NameLost" in self.heard)  # it has become a monitor

    @property
    def heard(self) -> str:
        return self._heard.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        self._wait_for(lambda: text in self.heard)

    def _wait_for(self, condition: object) -> None:
        assert callable(condition)
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, self.heard
            time.sleep(0.02)

    def close(self) -> None:
        for process in (self._monitor, self._daemon):
            with process:
                process.kill()


@pytest.fixture
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    missing = [name for name in ("dbus-daemon", "dbus-monitor") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is missing (Debian package dbus)")
    if command("title", "body") is None:
        pytest.skip("neither notify-send nor busctl is there")
    opened = Bus(tmp_path_factory.mktemp("bus"))
    yield opened
    opened.close()


@contextmanager
def site_on(address: str, *, notify: bool = True) -> Iterator[Site]:
    settings = {"default_mode": '"restricted"', "notify": str(notify).lower()}
    with running(settings, {"DBUS_SESSION_BUS_ADDRESS": address}) as daemon:
        yield daemon.site("w")


# -- through a bus


def test_a_request_is_told_with_the_command_that_approves_it(bus: Bus) -> None:
    with site_on(bus.address) as site:
        asked = site.agent.call("request_mode_upgrade", reason="<b>why</b> & \x1b[31m\nnot\u202e")
        bus.wait_for("stet approve")
        call = bus.heard
        assert "interface=org.freedesktop.Notifications; member=Notify" in call
        assert 'string "stet: tester/conv-1 asks for write access"' in call
        body = (
            f"{site.root}\n&lt;b&gt;why&lt;/b&gt; &amp; [31m not\nstet approve {asked['request']}"
        )
        assert f'string "{body}"' in call
        site.agent.call("request_mode_upgrade", reason="told already, in words")
        assert site.daemon.stop() == 0
        assert bus.heard.count("member=Notify") == 1


def test_what_comes_at_once_is_told_together(bus: Bus) -> None:
    with site_on(bus.address) as site:
        agents = [site.another(f"s{n}") for n in range(5)]
        site.agent.call("request_mode_upgrade")
        bus.wait_for("member=Notify")
        for agent in agents:  # in the five seconds before the next is shown
            agent.send("request_mode_upgrade")
        bus.wait_for('string "stet: 5 requests for write access"')
        assert bus.heard.count("member=Notify") == 2


def test_with_notify_false_nothing_is_told(bus: Bus) -> None:
    with site_on(bus.address, notify=False) as site:
        site.agent.call("request_mode_upgrade")
        assert site.daemon.stop() == 0
        assert "member=Notify" not in bus.heard


@pytest.mark.parametrize("address", ["unix:path=/nonexistent", "rubbish"])
def test_a_bus_that_is_not_there_keeps_nobody_from_asking(address: str) -> None:
    with site_on(address) as site:
        assert site.agent.call("request_mode_upgrade")["status"] == "pending"
        assert site.daemon.stop() == 0


def test_a_bus_that_says_nothing_holds_up_no_stop(tmp_path: Path) -> None:
    """The program hangs on it; it is ended with the daemon."""

    if command("title", "body") is None:
        pytest.skip("neither notify-send nor busctl is there")
    with socket.socket(socket.AF_UNIX) as mute:
        path = Path("/tmp") / f"stet-mute-{os.getpid()}"
        mute.bind(str(path))
        mute.listen()
        try:
            with site_on(f"unix:path={path}") as site:
                site.agent.call("request_mode_upgrade")
                mute.settimeout(PATIENCE_S)
                connection, _ = mute.accept()  # the program has come
                assert site.agent.call("request_mode_upgrade")["status"] == "pending"
                children = Path(f"/proc/{site.daemon.process.pid}/task")
                pids = [
                    pid
                    for task in children.iterdir()
                    for pid in (task / "children").read_text().split()
                    # One child is a fork of the daemon, for calls that take long to plan.
                    if b"stetd" not in Path(f"/proc/{pid}/cmdline").read_bytes()
                ]
                assert len(pids) == 1
                assert site.daemon.stop() == 0
                assert not Path(f"/proc/{pids[0]}").exists()
                connection.close()
        finally:
            path.unlink()


# -- what stands in one


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("a b", "a\nb"),
        ("a b", " a \t\r\n\x00 b "),
        ("evil [31m", "evil \x1b[31m"),
        ("left", "\u202eleft\u2066\u200b"),
        ("ab", "ab\udc80"),
        ("äß 日本", "äß 日本"),
        ("x" * 19 + "…", "x" * 5000),
        ("", "\u2028\n"),
    ],
)
def test_only_what_can_be_seen_is_shown_in_one_line(expected: str, text: str) -> None:
    assert expected == plain(text, 20)


def test_markup_is_escaped_in_the_body() -> None:
    notice = Notice("bot<i>/s", "/ws&", "<a href='x'>y</a>", "stet approve abcd")
    assert title_and_body([notice]) == (
        "stet: bot<i>/s asks for write access",
        "/ws&amp;\n&lt;a href='x'&gt;y&lt;/a&gt;\nstet approve abcd",
    )


def test_what_is_said_is_an_argument_and_never_an_option() -> None:
    found = command("--title", "-body")
    assert found is None or found.index("--") < found.index("--title") < found.index("-body")


@pytest.mark.parametrize("lacking", ["program", "bus"])
def test_where_nothing_could_show_it_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x" if lacking != "bus" else "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if lacking == "program":
        monkeypatch.setattr(desktop_notices, "_PROGRAM_PATH", str(tmp_path))
    else:
        monkeypatch.setattr(desktop_notices, "command", lambda *_: ["/bin/false"])
    asyncio.run(desktop_notices._show("title", "body"))


def test_notices_do_not_come_often(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    async def show(title: str, _: str) -> None:
        shown.append(title)

    async def story() -> None:
        notices = desktop_notices.Notices(lambda: True)
        notice = Notice("a/s", "/w", "", "stet approve 1")
        notices.post(notice)
        while not shown:
            await asyncio.sleep(0)
        notices.post(notice)
        await asyncio.sleep(0)
        notices.post(notice)
        while len(shown) < 2:
            await asyncio.sleep(0.01)
        await notices.close()

    monkeypatch.setattr(desktop_notices, "_show", show)
    monkeypatch.setattr(desktop_notices, "INTERVAL_S", 0.4)
    asyncio.run(story())
    assert shown == ["stet: a/s asks for write access", "stet: 2 requests for write access"]


def test_the_bus_is_the_one_that_is_named_or_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x")
    assert session_bus() == "unix:path=/x"
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert session_bus() is None
    (tmp_path / "bus").touch()
    assert session_bus() == f"unix:path={tmp_path}/bus"
