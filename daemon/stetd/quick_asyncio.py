"""Loads asyncio without TLS, which a daemon on Unix sockets has no use for, some 6 ms sooner."""

from __future__ import annotations

from stet.quick_start import load

load("asyncio", without="ssl")
