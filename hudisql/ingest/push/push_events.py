"""The log of pushed rows as a source of events: the pushes to a table are a topic of one partition.

The offset of an event is the sequence number of its push, so that a push is in a commit as a whole. A table
that has no offsets of this log begins behind what the log had when the process started: rows that were pushed
to a table of that name before, and are not in its commits, belong to a table that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from hudisql.errors import HudisqlError
from hudisql.ingest.declaration import PUSH, IngestDeclaration
from hudisql.ingest.event_source import Polled, StartOffsets
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.frames import PayloadFormat
from hudisql.ingest.push.push_source import LogPushSource, PushedBatch
from hudisql.ingest.push.pushed_rows import lines_of
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from hudisql.ingest.table_buffer import EventBatch

_BATCH_BYTES: Final = 4 << 20
_POLL_BYTES: Final = 32 << 20


class PushEvents:
    """The pushes in a log; `stop_servers` ends what clients push to."""

    name = PUSH

    def __init__(
        self, log: WriteAheadLog, accepted: AcceptedTables, stop_servers: Callable[[], None] = lambda: None
    ) -> None:
        self._log = log
        self._pushes = LogPushSource(log)
        self._accepted = accepted
        self._stop_servers = stop_servers
        self._tables: dict[SourcePartition, str] = {}
        self._not_ended: set[SourcePartition] = set()
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._found_at_start = max(log.tables().values(), default=0)

    @property
    def assigned(self) -> Collection[SourcePartition]:
        """The partitions that are read."""
        return self._tables

    def all_partitions(self) -> Mapping[str, Collection[int]]:
        """None: each table has one partition."""
        return {}

    def start(
        self,
        table: str,
        declaration: IngestDeclaration,  # noqa: ARG002
        committed: Mapping[SourcePartition, int],
    ) -> StartOffsets:
        """Behind the last commit. Raises CorruptWriteAheadLogError if the log ends before that."""
        partition = self._partition(table)
        if partition in committed:
            self._log.check_committed(table, committed[partition] - 1)
            return StartOffsets({partition: committed[partition]}, commits=False)
        left = [
            each.rows
            for each in (self._log.headers() if table in self._log.tables() else ())
            if each.table == table and each.sequence <= self._found_at_start
        ]
        warning = f"{table}: {sum(left):,} rows that were pushed to an earlier table of this name are dropped"
        # Before a row is acknowledged the table names this log, so that none is taken for an earlier table's.
        return StartOffsets({partition: self._found_at_start + 1}, True, (warning,) if left else ())

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Begin with the tables of these partitions; from now on clients may push to them."""
        for partition, offset in offsets.items():
            table = self._table(partition)
            self._pushes.open_table(table, offset - 1)
            self._tables[partition] = table
            self._not_ended.add(partition)
            self._accepted.open(table)

    def unassign(self, sources: Collection[SourcePartition]) -> None:
        """Read these tables no longer; clients may push to them until `last_events`."""
        for partition in sources:
            table = self._tables.pop(partition, None)
            self._not_ended.discard(partition)
            if table is not None:
                self._pushes.close_table(table)

    def events_left(self, source: SourcePartition, offset: int) -> int | None:  # noqa: ARG002
        """The rows of a table that the log has: those before the offset are released."""
        return self._log.unreleased_rows_of(self._table(source))

    def poll(self, timeout: float) -> Polled:
        """The next pushes, of many tables together at most about 32 MiB."""
        ready = self._pushes.ready()
        if not ready:
            self._pushes.wait(timeout)
            ready = self._pushes.ready()
        batches: list[EventBatch] = []
        failed: dict[SourcePartition, HudisqlError] = {}
        size = 0
        for table in sorted(ready, key=lambda each: self._turns.get(each, 0)):
            if size >= _POLL_BYTES:
                break
            self._turn += 1
            self._turns[table] = self._turn
            try:
                polled = self._pushes.poll(table, _BATCH_BYTES)
            except HudisqlError as error:
                failed[self._partition(table)] = error
                continue
            size += sum(len(each.payload) for each in polled)
            batches += [self._batch(each) for each in polled]
        ended = self._not_ended - {self._partition(table) for table in ready}
        self._not_ended -= ended
        return Polled(tuple(batches), tuple(ended), failed=failed)

    def committed(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Delete what the log has of the tables before these offsets."""
        for partition, offset in offsets.items():
            if partition in self._tables:
                self._pushes.committed(self._tables[partition], offset - 1)

    def last_events(self, table: str) -> Iterable[EventBatch]:
        """Refuse further pushes to the table; what is in the log and was not polled."""
        self._accepted.close(table)
        return self._rest(table) if self._partition(table) in self._tables else ()

    def discard(self, table: str) -> int:
        """Delete what the log has of a table that is gone; the rows."""
        headers = [header for header in self._log.headers() if header.table == table]
        if headers:
            self._log.release(table, headers[-1].sequence)
        return sum(header.rows for header in headers)

    def stop(self) -> None:
        """Refuse further pushes, and complete those that run."""
        self._stop_servers()

    def close(self) -> None:
        """Do nothing: the log is closed after the servers."""

    def _rest(self, table: str) -> Iterator[EventBatch]:
        while polled := self._pushes.poll(table, _BATCH_BYTES):
            yield from map(self._batch, polled)

    def _partition(self, table: str) -> SourcePartition:
        return f"{PUSH}/{self._log.log_id}/{table}", 0

    def _table(self, partition: SourcePartition) -> str:
        return partition[0].split("/", 2)[2]

    def _batch(self, pushed: PushedBatch) -> EventBatch:
        """The events of the pushes: one a line, or one an Arrow stream."""
        is_json = pushed.format is PayloadFormat.NDJSON
        values = lines_of(pushed.payload) if is_json else [pushed.payload]
        rows = [count if is_json else 1 for _, count in pushed.pushes]
        return EventBatch(
            self._partition(pushed.table),
            values,
            [None] * len(values),
            np.repeat(np.array([sequence for sequence, _ in pushed.pushes], np.int64), rows),
            np.full(len(values), pushed.first_arrival_ms, np.int64),
            pushed.last_sequence + 1,
        )
