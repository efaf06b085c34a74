"""The log of pushed rows as a source of events: the pushes to a table are a topic of one partition.

The offset of an event is the sequence number of its push, so that a push is in a commit as a whole. A table
that has no offsets of this log begins behind what the log had when the process started: rows that were pushed
to a table of that name before, and are not in its commits, belong to a table that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.ingest.declaration import PUSH, IngestDeclaration
from hudisql.ingest.event_source import Polled, StartOffsets
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.frames import Frame, PayloadFormat
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
        self._accepted = accepted
        self._stop_servers = stop_servers
        self._polled: dict[SourcePartition, int] = {}
        self._not_ended: set[SourcePartition] = set()
        self._turns: dict[SourcePartition, int] = {}
        self._turn = 0
        self._found_at_start = max(log.tables().values(), default=0)

    @property
    def assigned(self) -> Collection[SourcePartition]:
        """The partitions that are read."""
        return self._polled

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
            header.rows
            for header in (self._log.headers() if table in self._log.tables() else ())
            if header.table == table and header.sequence <= self._found_at_start
        ]
        warning = f"{table}: {sum(left):,} rows that were pushed to an earlier table of this name are dropped"
        # Before a row is acknowledged the table names this log, so that none is taken for an earlier table's.
        return StartOffsets({partition: self._found_at_start + 1}, True, (warning,) if left else ())

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Begin with the tables of these partitions; from now on clients may push to them.

        Raises CorruptWriteAheadLogError if the log ends before an offset.
        """
        for partition, offset in offsets.items():
            table = self._table(partition)
            self._log.check_committed(table, offset - 1)
            self._polled[partition] = offset - 1
            self._log.release(table, offset - 1)
            self._not_ended.add(partition)
            self._accepted.open(table)

    def unassign(self, sources: Collection[SourcePartition]) -> None:
        """Read these tables no longer; clients may push to them until `last_events`."""
        for partition in sources:
            self._polled.pop(partition, None)
            self._not_ended.discard(partition)

    def events_left(self, source: SourcePartition, offset: int) -> int | None:  # noqa: ARG002
        """The rows of a table that the log has: those before the offset are released."""
        return self._log.unreleased_rows_of(self._table(source))

    def poll(self, timeout: float) -> Polled:
        """The next pushes, of many tables together at most about 32 MiB."""
        ready = self._ready()
        if not ready:
            self._log.wait(timeout)
            ready = self._ready()
        batches: list[EventBatch] = []
        failed: dict[SourcePartition, HudisqlError] = {}
        size = 0
        for partition in sorted(ready, key=lambda candidate: self._turns.get(candidate, 0)):
            if size >= _POLL_BYTES:
                break
            self._turn += 1
            self._turns[partition] = self._turn
            try:
                frames = self._read(partition)
            except HudisqlError as error:
                failed[partition] = error
                continue
            size += sum(len(frame.payload) for frame in frames)
            batches += _batches_of(partition, frames)
        ended = self._not_ended.difference(ready)
        self._not_ended -= ended
        return Polled(tuple(batches), tuple(ended), failed=failed)

    def committed(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Delete what the log has of the tables before these offsets.

        Raises InvalidArgumentError for events that were not polled.
        """
        for partition, offset in offsets.items():
            if partition not in self._polled:
                continue
            table, polled = self._table(partition), self._polled[partition]
            if offset - 1 > polled:
                raise InvalidArgumentError(
                    f"sequence {offset - 1} of {table} cannot be committed: {polled} was polled last"
                )
            self._log.release(table, offset - 1)

    def last_events(self, table: str) -> Iterable[EventBatch]:
        """Refuse further pushes to the table; what is in the log and was not polled."""
        self._accepted.close(table)
        partition = self._partition(table)
        return self._rest(partition) if partition in self._polled else ()

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

    def _ready(self) -> list[SourcePartition]:
        """The partitions with durable rows that were not polled yet."""
        last = self._log.tables()
        return [
            partition
            for partition, polled in self._polled.items()
            if last.get(self._table(partition), 0) > polled
        ]

    def _read(self, partition: SourcePartition) -> list[Frame]:
        frames = self._log.read(self._table(partition), self._polled[partition], _BATCH_BYTES)
        if frames:
            self._polled[partition] = frames[-1].sequence
        return frames

    def _rest(self, partition: SourcePartition) -> Iterator[EventBatch]:
        while frames := self._read(partition):
            yield from _batches_of(partition, frames)

    def _partition(self, table: str) -> SourcePartition:
        return f"{PUSH}/{self._log.log_id}/{table}", 0

    def _table(self, partition: SourcePartition) -> str:
        return partition[0].split("/", 2)[2]


def _batches_of(partition: SourcePartition, frames: Sequence[Frame]) -> Iterator[EventBatch]:
    """The events of the pushes, in order: one a line of NDJSON, or one an Arrow stream."""

    def kind(frame: Frame) -> int:
        # Two Arrow streams cannot be read as one.
        return 0 if frame.header.format is PayloadFormat.NDJSON else frame.sequence

    for _, group in groupby(frames, key=kind):
        joined = list(group)
        is_json = joined[0].header.format is PayloadFormat.NDJSON
        values = (
            [line for frame in joined for line in _lines_of(frame.payload)]
            if is_json
            else [joined[0].payload]
        )
        rows = [frame.header.rows if is_json else 1 for frame in joined]
        yield EventBatch(
            partition,
            values,
            [None] * len(values),
            np.repeat(np.array([frame.sequence for frame in joined], np.int64), rows),
            np.full(len(values), joined[0].header.arrival_ms, np.int64),
            joined[-1].sequence + 1,
        )


def _lines_of(payload: bytes) -> list[bytes]:
    """The lines of a body that are not blank: a row each."""
    return [line for line in payload.split(b"\n") if line.strip()]
