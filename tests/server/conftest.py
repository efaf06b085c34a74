"""A server in the suite's process, on the suite's session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on


@pytest.fixture(scope="session")
def server(session: Any) -> Iterator[ThriftServer]:
    """A server without users, on a free port of the loopback."""
    started = ThriftServer(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole())
    yield started
    started.close()
