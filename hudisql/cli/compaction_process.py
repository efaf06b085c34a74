"""A process beside a worker that compacts its tables, one after the other, within a share of a core.

It is a separate process with a lower priority: a worker that reads events only waits for it at a table's
lock. It ends with the worker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

from hudisql.console import Console, SilentConsole
from hudisql.errors import HudisqlError, InvalidArgumentError

if TYPE_CHECKING:
    from hudisql.config.settings import Settings

# Requests must fit the pipe, so that the worker never waits; other tables ask again with their next commit.
_MOST_ASKED: Final = 200
_LAST_SECONDS: Final = 60.0
_NICE: Final = 5


class CompactionProcess:
    """Compacts requested tables. The process starts with the first request.

    `share` is the average part of a core that it may use. Raises InvalidArgumentError.
    """

    def __init__(self, settings: Settings, console: Console, share: float) -> None:
        if not 0 < share <= 1:
            raise InvalidArgumentError(
                f"the share of a core for compactions is above 0, up to 1, not {share}"
            )
        self._settings, self._console, self._share = settings, console, share
        self._asked: set[str] = set()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def request(self, table: str) -> None:
        """Compact the table if that is due; a request that is still open covers this one."""
        self._listen()
        if table in self._asked or len(self._asked) >= _MOST_ASKED:
            return
        try:
            self._started().send(table)
            self._asked.add(table)
        except OSError as error:
            self._console.warning(f"the compaction process has ended: {error}")
            self._forget()

    def is_busy(self, table: str) -> bool:
        """True if the table is being compacted, or its request is open."""
        self._listen()
        return table in self._asked

    def close(self) -> None:
        """End the process after the running compaction; a long one is killed, and rolled back later."""
        if self._process is not None and self._pipe is not None:
            self._pipe.close()
            self._process.join(_LAST_SECONDS)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._process = self._pipe = None

    def _started(self) -> Connection:
        if self._pipe is None:
            # Threads of librdkafka do not survive a fork.
            spawning = multiprocessing.get_context("spawn")
            self._pipe, other = spawning.Pipe()
            self._process = spawning.Process(
                target=_serve, args=(other, self._settings, self._share), name="compaction", daemon=True
            )
            self._process.start()
            other.close()
        return self._pipe

    def _listen(self) -> None:
        """Print the reports of the process."""
        try:
            while self._pipe is not None and self._pipe.poll():
                table, report, is_error = self._pipe.recv()
                self._asked.discard(table)
                if report is not None:
                    (self._console.warning if is_error else self._console.info)(f"{table}: {report}")
        except (EOFError, OSError):
            self._console.warning("the compaction process has ended; the next request starts another")
            self._forget()

    def _forget(self) -> None:
        self._asked.clear()
        self.close()


def _text(error: Exception) -> str:
    return error.message if isinstance(error, HudisqlError) else f"{type(error).__name__}: {error}"


def _serve(pipe: Connection, settings: Settings, share: float) -> None:
    """Compact tables until the worker ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(_NICE)
    import pyarrow as pa

    from hudisql.service_process.ingest.compact_table import compact_if_due
    from hudisql.session import open_session

    pa.set_cpu_count(1)
    with open_session(settings=settings, console=SilentConsole()) as session:
        while True:
            try:
                table = pipe.recv()
            except (EOFError, OSError):
                return
            began = time.process_time()
            report, is_error = None, False
            try:
                report = compact_if_due(session.context, table)
            except Exception as error:
                report, is_error = (
                    f"the compaction failed, and a later commit requests it again: {_text(error)}",
                    True,
                )
            try:
                pipe.send((table, report, is_error))
            except OSError:
                return
            time.sleep((time.process_time() - began) * (1 / share - 1))
