"""The fixtures of the end-to-end tests: a daemon a module, a fresh workspace a test."""

from __future__ import annotations

from e2e.conftest import own_daemon, own_site, shared_daemon, site

__all__ = ["own_daemon", "own_site", "shared_daemon", "site"]
