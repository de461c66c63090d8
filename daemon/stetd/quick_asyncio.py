"""Loads asyncio without its TLS support, which Unix sockets do not need; it saves some 6 ms."""

from __future__ import annotations

from stet.quick_start import load

load("asyncio", without="ssl")
