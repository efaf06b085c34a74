"""A port for servers that must be told one before they start."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_given: set[int] = set()


def find_free_port() -> int:
    """A port of the loopback that nobody listens on, a new one at each call. OSError if there is none."""
    # Below the range from which the kernel gives ports to everyone else who asks for any.
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
    raise OSError("no free port between 20000 and 32000")
