"""The process that runs an embedded Hive Metastore and stops it after its last user.

Runs as a script of its own (standard library only, so it costs little memory and starts at once): `python
metastore_watcher.py DIRECTORY COMMAND_FILE`. It keeps an exclusive lock on `watcher.lock` for as long as it
lives, starts the Java server as its child (which the kernel kills if the watcher dies), writes `state.json`,
and then waits for an exclusive lock on `users.lock`, on which every user holds a shared one. SIGUSR1 makes it
a user itself ("keep running"), SIGUSR2 ends that, SIGTERM stops the server at once.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any

_PR_SET_PDEATHSIG = 1


class _StopRequested(Exception):  # noqa: N818  (a request, not an error)
    """SIGTERM was received."""


class _Server:
    """The Java child process and its `state.json`."""

    def __init__(self, directory: Path, command: list[str], start_timeout: float) -> None:
        self._directory = directory
        self._command = command
        self._start_timeout = start_timeout
        self._java: subprocess.Popen[bytes] | None = None
        self.state: dict[str, Any] = {"status": "starting", "watcher_pid": os.getpid(), "kept": False}

    def write_state(self, **changes: Any) -> None:
        self.state.update(changes)
        staged = self._directory / f"state.json.{os.getpid()}"
        staged.write_text(json.dumps(self.state))
        staged.replace(self._directory / "state.json")

    def start(self) -> bool:
        """Start Java and wait until it accepts connections. False if it failed; the state has the reason."""
        port_file = self._directory / "port"
        port_file.unlink(missing_ok=True)
        with (self._directory / "metastore.log").open("wb") as output:
            self._java = subprocess.Popen(
                [*self._command, str(port_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                preexec_fn=_die_with_parent(os.getpid()),
            )
        deadline = time.monotonic() + self._start_timeout
        while not port_file.exists():
            if (code := self._java.poll()) is not None:
                self.write_state(status="failed", reason=f"it ended with exit code {code}")
                return False
            if time.monotonic() > deadline:
                self.stop()
                self.write_state(
                    status="failed", reason=f"it opened no port within {self._start_timeout:.0f} s"
                )
                return False
            time.sleep(0.05)
        port = int(port_file.read_text())
        self.write_state(status="ready", port=port, server_pid=self._java.pid)
        return True

    def is_running(self) -> bool:
        return self._java is not None and self._java.poll() is None

    def stop(self) -> None:
        if self._java is None or self._java.poll() is not None:
            return
        self._java.terminate()
        try:
            self._java.wait(20)
        except subprocess.TimeoutExpired:
            self._java.kill()
            self._java.wait()


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """Runs in the child before exec, so that the server ends with a killed watcher (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def set_parent_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return set_parent_death_signal


def _lock(file: IO[bytes]) -> bool:
    """Take the exclusive lock; processes that only check the lock also hold it for a moment."""
    for _ in range(40):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


def _detach() -> None:
    """Leave the starter's session as a daemon, keeping open locks."""
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _watch(directory: Path, server: _Server) -> None:
    """Wait until nobody uses the server any more, the server has died, or SIGTERM was received."""
    kept: IO[bytes] | None = None

    def keep(_signal: int, _frame: FrameType | None) -> None:
        nonlocal kept
        if kept is None:
            lock = (directory / "users.lock").open("ab")
            try:
                # Without waiting: if this process is stopping the server, it holds the lock itself.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                return
            kept = lock
            server.write_state(kept=True)

    def release(_signal: int, _frame: FrameType | None) -> None:
        nonlocal kept
        if kept is not None:
            kept.close()
            kept = None
            server.write_state(kept=False)

    def server_ended(_signal: int, _frame: FrameType | None) -> None:
        if not server.is_running():
            raise _StopRequested

    signal.signal(signal.SIGUSR1, keep)
    signal.signal(signal.SIGUSR2, release)
    signal.signal(signal.SIGCHLD, server_ended)
    if not server.is_running():
        return
    with (directory / "users.lock").open("ab") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Still under the exclusive lock: a new user waits until the old server has closed Derby.
        server.stop()
        (directory / "state.json").unlink(missing_ok=True)


def main(directory: Path, command_file: Path) -> int:
    """Run one server from start to end. Returns the exit code of the script."""
    description = json.loads(command_file.read_text())
    watcher_lock = (directory / "watcher.lock").open("ab")
    if not _lock(watcher_lock):
        return 3
    _detach()

    def stop_requested(_signal: int, _frame: FrameType | None) -> None:
        raise _StopRequested

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop_requested)
    server = _Server(directory, description["command"], description["start_timeout"])
    try:
        server.write_state()
        if not server.start():
            return 1
        _watch(directory, server)
    except _StopRequested:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if server.state["status"] != "failed":
            server.write_state(status="stopping")
            server.stop()
            (directory / "state.json").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
