"""Waits for processes: for what they do, for their ports and for their end."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def wait_for(condition: Callable[[], object], what: str = "the awaited state", seconds: float = 60) -> float:
    """Wait until it holds; the seconds that it took. Fails with `what` if it does not within the time."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"waited {seconds} seconds for: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path, seconds: float) -> None:
    """Wait until the server takes connections on the loopback.

    One that does not within the time is ended: RuntimeError with the end of its log.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    end_process(process)
    raise RuntimeError(f"nobody listens on port {port}\n{log.read_text(errors='replace')[-4000:]}")


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, and kill it if it has not done so 20 seconds later."""
    process.terminate()
    wait_or_kill(process, 20)


def wait_or_kill(process: subprocess.Popen[str] | subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of the process, and kill it if it does not come within the time."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
