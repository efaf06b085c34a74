"""Commits the events in the memory of a worker's tables when they are due, and splits partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hudisql.console import Console
from hudisql.errors import HudisqlError, WriteConflictError
from hudisql.ingest.fed_table import FedTable
from hudisql.ingest.source_readers import SourceReaders
from hudisql.ingest.table_buffer import EventBatch
from hudisql.ingest.watch.observer import CommittedEvents, IngestObserver

Attempt = Callable[[FedTable, Callable[[FedTable], object]], None]
"""Does something for a table; an error halts the table."""


@dataclass
class TableCommits:
    """`sources` learn what is committed, `observer` sees commits and failures.

    Rows in memory may take `memory` bytes: the largest buffer is committed when they take more.
    """

    sources: SourceReaders
    observer: IngestObserver
    console: Console
    clock: Callable[[], float]
    memory: int
    # Those with events in memory or partitions to split: most of a thousand tables are idle at each look.
    _busy: dict[str, FedTable] = field(default_factory=dict)

    def add(self, fed: FedTable) -> None:
        """The table may have something to commit or to split."""
        self._busy[fed.name] = fed

    def take(self, batch: EventBatch, fed: FedTable) -> None:
        """Take a batch into the table's memory."""
        fed.feed.take(batch, self.clock())
        self.add(fed)

    def take_last(self, batches: Iterable[EventBatch], fed: FedTable) -> None:
        """Take and commit these batches and what is in memory."""
        for batch in batches:
            self.take(batch, fed)
            if fed.feed.is_due(self.clock()):
                self.flush(fed)
        self.flush(fed)

    def flush_due(self, attempt: Attempt) -> None:
        """Commit what is due, split one partition of each table with due splits, and free memory."""
        now = self.clock()
        busy = [fed for fed in self._busy.values() if not fed.is_halted and not fed.feed.is_idle]
        self._busy = {fed.name: fed for fed in busy}
        for fed in busy:
            if fed.feed.is_due(now):
                attempt(fed, self.flush)
            if not fed.is_halted and fed.feed.wants_split:
                attempt(fed, self.split)
        while (busy := [fed for fed in busy if not fed.is_halted]) and (
            sum(fed.feed.memory for fed in busy) > self.memory
        ):
            attempt(max(busy, key=lambda fed: fed.feed.memory), self.flush)

    def flush(self, fed: FedTable) -> None:
        """Commit what is in the table's memory."""
        events, began = fed.feed.buffered, time.monotonic()
        result = fed.feed.flush()
        fed.failures = 0
        if result is None:
            return
        self.sources.committed(fed)
        seconds, offsets = time.monotonic() - began, fed.feed.committed
        lag = self.sources.lag_of(fed)
        self.observer.committed(CommittedEvents(fed.name, result, events, offsets, seconds, lag))
        try:
            fed.feed.look_for_splits()
        except Exception as error:
            # The commit stands, and the next one looks again.
            self.console.warning(f"{fed.name}: cannot find out which partitions to split: {describe(error)}")
            self.observer.failed(fed.name)

    def split(self, fed: FedTable) -> None:
        """Split a partition of the table that is due."""
        try:
            result = fed.feed.split_next()
        except WriteConflictError:
            raise
        except Exception as error:
            # The partition is as it was: events need not wait for what keeps it from being split.
            self.console.warning(f"{fed.name}: a split failed: {describe(error)}")
            self.observer.failed(fed.name)
            return
        if result is not None:
            self.console.info(f"{fed.name}: split {result.instant_time}: {result.files} hash buckets")


def describe(error: Exception) -> str:
    """The error as one line of text."""
    if not isinstance(error, HudisqlError):
        return f"{type(error).__name__}: {error}"
    return f"{error.message} ({error.hint})" if error.hint else error.message
