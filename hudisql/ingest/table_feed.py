"""One table that a worker owns: its events on their way from the source into commits.

A feed is opened at the offsets of the table's last commit. After any error its memory is dropped and it is
opened there again, so that an event is in the table once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import (
    NoSuchPathError,
    PendingCleanError,
    TableLockedError,
    WriteConflictError,
    WriteRefusedError,
)
from hudisql.ingest.declaration import ROCKSDB, STOP, IngestDeclaration
from hudisql.ingest.feed_target import AddColumns, FeedTarget, OpenTarget
from hudisql.ingest.flush import commit_rows, newest_of_keys, paths_of
from hudisql.ingest.index.partition_indexes import IndexLimits
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from hudisql.ingest.offsets import SourcePartition, TableOffsets, find_offsets
from hudisql.ingest.parse.parsed_batch import BadRecord, RecordParser
from hudisql.ingest.row_keys import keyed_rows
from hudisql.ingest.split.due_splits import DueSplits, SplitLimits
from hudisql.ingest.split.rewrite_partition import SplitRequest, can_split, split_partition
from hudisql.ingest.split.split_option import SplitKind, parse_split_option
from hudisql.ingest.table_buffer import BadEvent, BufferedEvents, EventBatch, TableBuffer
from hudisql.ingest.table_index import TableIndex
from hudisql.services.clean.clean_action import run_pending_cleans
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.commit_files import WriteResult

_CONFLICT_ATTEMPTS: Final = 10
_LISTINGS: Final = 2
INDEX_BYTES: Final = 512 << 20
"""What the indexes of one table may take in memory: those of 64 million keys."""

MakeParser = Callable[[HudiTable, IngestDeclaration], RecordParser]
TakeBadEvents = Callable[[list[BadEvent]], None]


@dataclass(frozen=True)
class TableFeed:
    """How one table is fed.

    `open_target` opens the table as it is now, `bad_events` stores events that cannot become rows. `owner` is
    the worker's name; `add_columns` gives the table columns that only the events have.
    """

    name: str
    declaration: IngestDeclaration
    open_target: OpenTarget
    make_parser: MakeParser
    bad_events: TakeBadEvents
    owner: str
    add_columns: AddColumns | None = None
    split_limits: SplitLimits = field(default_factory=SplitLimits)

    def open(self) -> OpenFeed:
        """Begin at the offsets of the table's last commit."""
        return OpenFeed(self)


class OpenFeed:
    """The events of a table from the opening of its feed on: rows in memory, offsets, indexes and due splits.

    After an error it is closed, and a new one begins at the last commit.
    """

    def __init__(self, feed: TableFeed) -> None:
        declaration = feed.declaration
        on_disk = RocksDbIndex if declaration.index == ROCKSDB else None
        self._feed = feed
        self._target = FeedTarget(
            feed.open_target,
            lambda table: feed.make_parser(table, declaration),
            feed.add_columns,
        )
        self._buffer = TableBuffer()
        self._columns = self._target.table.file_columns
        self._committed = find_offsets(self._target.table)
        self._epoch = self._committed.epoch + 1
        self._began: Mapping[SourcePartition, int] = {}
        self._position: dict[SourcePartition, int] = {}
        self._index = TableIndex(IndexLimits(INDEX_BYTES, declaration.index_days, on_disk))
        option = parse_split_option(declaration.split)
        self._due_splits = DueSplits(option, time.monotonic, feed.split_limits)
        self._written: set[str] = set()
        self._due_splits.look(self._target.table, self._index.splits, ())

    def close(self) -> None:
        """Drop the indexes."""
        self._index.forget()

    def begin_at(self, offsets: Mapping[SourcePartition, int], *, commits: bool) -> None:
        """Take events from these offsets on; with `commits` they are committed before the first event, so
        that a later start begins there, too.
        """
        self._began = dict(offsets)
        self._position = dict(offsets)
        if commits:
            self._buffer.offsets.update(offsets)
            self.flush()

    def take(self, batch: EventBatch, now: float) -> None:
        """Add a batch to the buffer.

        Raises WriteRefusedError for a bad event if the table's feed stops at these.
        """
        batch = batch.since(self._position.get(batch.source, 0))
        if not batch.values:
            return
        if self._buffer.is_empty:
            self._columns = self._target.table.file_columns
        parsed = self._target.parse(batch.values, batch.keys)
        rows, is_deleted, refused = keyed_rows(parsed, self._target.current, self._target.paths)
        bad = [_bad_event(batch, record) for record in (*parsed.bad, *refused)]
        if bad and self._feed.declaration.on_bad_record == STOP:
            first = min(bad, key=lambda event: event.offset)
            raise WriteRefusedError(
                f"{self._feed.name}: the event at offset {first.offset} of {first.source[0]}, partition "
                f"{first.source[1]}, cannot become a row of the table: {first.reason}",
                hint=f"fix the table or the events; with on_bad_record '{STOP}' no later event is taken",
            )
        self._buffer.add(rows, is_deleted, bad, batch, now)
        self._position[batch.source] = batch.next_offset

    def is_due(self, now: float) -> bool:
        """True if it is time to commit the buffer."""
        buffer = self._buffer
        if buffer.opened_at is None:
            return False
        aged = now - buffer.opened_at >= self._feed.declaration.flush_seconds
        return aged or buffer.bytes >= self._feed.declaration.flush_bytes

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to commit and nothing to split."""
        return self._buffer.is_empty and not self.wants_split

    @property
    def memory(self) -> int:
        """The bytes of the buffer."""
        return self._buffer.memory

    @property
    def index_bytes(self) -> int:
        """The bytes of the indexes."""
        return self._index.nbytes

    @property
    def buffered(self) -> BufferedEvents:
        """The counts of the events in memory."""
        return self._buffer.held

    @property
    def committed(self) -> Mapping[SourcePartition, int]:
        """The next offset of each source partition that no commit has yet."""
        return {**self._began, **self._committed.offsets}

    @property
    def position(self) -> Mapping[SourcePartition, int]:
        """The next offset of each source partition, committed or in memory."""
        return self._position

    def flush(self) -> WriteResult | None:
        """Commit what is in memory; None if there is nothing.

        Raises WriteConflictError if another worker has committed since, or other writers conflict repeatedly;
        TableLockedError, UnsupportedTableError, WriteRefusedError, StorageError.
        """
        buffer = self._buffer
        if buffer.is_empty:
            return None
        if buffer.bad:
            self._feed.bad_events(buffer.bad)
            buffer.bad = []
        reached = TableOffsets(buffer.reached(self._committed.offsets), self._epoch, self._feed.owner)
        rows = buffer.keep(partial(newest_of_keys, self._target.table))
        paths = paths_of(rows)
        result = self._commit(rows, reached)
        self._committed, self._buffer = reached, TableBuffer()
        if result.instant_time is not None:
            self._target.committed(paths, result.instant_time)
        self._written |= set(paths)
        self._target.current.after_commit()
        return result

    def look_for_splits(self) -> None:
        """Find out which of the partitions that were written since the last look are to be split.

        Raises CorruptTableError, StorageError; the partitions are then looked at again.
        """
        if self._feed.declaration.split != SplitKind.NEVER and self._written:
            paths = [*sorted(self._written), *self._index.indexed()]
            self._due_splits.look(self._target.table.reopened(), self._index.splits, paths)
        self._written = set()

    @property
    def wants_split(self) -> bool:
        """True if a partition is to be split."""
        return bool(self._due_splits)

    def split_next(self) -> WriteResult | None:
        """Split one partition that is due; None if other writers conflict: it is looked at again later.

        Rows in memory stay there. Raises WriteConflictError if another worker has committed since. After
        other errors the partition is not due again for a time.
        """
        path = self._due_splits.next()
        try:
            return self._split(path)
        except WriteConflictError:
            raise
        except Exception:
            self._due_splits.put_off(path)
            raise

    def _split(self, path: str) -> WriteResult | None:
        self._target.reopen()
        table = self._target.table
        self._index.splits.look_back(table)
        metadata = self._index.begin(table, [path])
        split = self._index.splits.split_of(table, path)
        if not can_split(table, path):
            return None
        request = SplitRequest(
            path,
            self._feed.split_limits.bucket_bytes,
            self._committed,
            metadata,
            joins_keys=split is not None and (bool(split.foreign) or self._index.splits.is_mixed(split)),
        )
        try:
            result = split_partition(table, self._target.current.options, request)
        except TableLockedError:
            return None
        except WriteConflictError:
            if find_offsets(table.reopened()) != self._committed:
                raise
            return None
        self._index.drop_split(path, result.instant_time or "")
        self._target.current.after_commit()
        return result

    def _check_names(self) -> None:
        """Raise WriteConflictError if columns have other names than when the rows in memory were parsed.

        The events are then read again.
        """
        columns = self._target.table.file_columns
        if columns is not None and not columns.keeps_columns_of(self._columns):
            raise WriteConflictError(
                f"columns of {self._feed.name} were renamed or dropped while events were in memory",
                hint="the events are read again from the last commit on, by the columns' new names",
            )

    def _commit(self, rows: pa.Table | None, reached: TableOffsets) -> WriteResult:
        for attempt in range(1, _CONFLICT_ATTEMPTS + 1):
            self._target.reopen(paths_of(rows))
            target = self._target.current
            if rows is not None:
                self._check_names()
                rows = _with_columns(rows, target.table.schema)
            try:
                return commit_rows(target, self._index, rows, self._committed, reached, self._target.paths)
            except TableLockedError:
                # Waiting for a lock would stop all tables of the worker.
                raise
            except PendingCleanError:
                if attempt == _CONFLICT_ATTEMPTS or target.options.concurrency.optimistic:
                    raise
                run_pending_cleans(target.table.reopened(), target.options.concurrency)
            except WriteConflictError:
                lost = find_offsets(target.table.reopened()) != self._committed
                if lost or attempt == _CONFLICT_ATTEMPTS:
                    raise
            except NoSuchPathError:
                # Others have archived or cleaned since the table was opened; a file that is missing stays so.
                if attempt >= _LISTINGS:
                    raise
        raise AssertionError("unreachable")


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with nulls in columns that the table got after their arrival."""
    for column in schema:
        if column.name not in rows.schema.names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return rows


def _bad_event(batch: EventBatch, record: BadRecord) -> BadEvent:
    at = record.position
    return BadEvent(
        batch.source,
        int(batch.offsets[at]),
        int(batch.timestamps[at]),
        batch.keys[at],
        batch.values[at],
        record.reason,
        at - int(np.searchsorted(batch.offsets, batch.offsets[at])),
    )
