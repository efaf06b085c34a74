"""One table that a worker owns: its events on their way from the source into commits.

A feed begins at the offsets of the table's last commit. Whatever goes wrong, its memory is dropped and it
begins there again, so that an event is in the table once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import NoSuchPathError, TableLockedError, WriteConflictError, WriteRefusedError
from hudisql.ingest.declaration import ROCKSDB, STOP, IngestDeclaration
from hudisql.ingest.flush import IngestTarget, commit_rows, newest_of_keys, paths_of
from hudisql.ingest.index.partition_indexes import IndexLimits
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from hudisql.ingest.known_partitions import KnownPartitions
from hudisql.ingest.offsets import NO_OFFSETS, SourcePartition, TableOffsets, find_offsets
from hudisql.ingest.parse.parsed_batch import BadRecord, RecordParser
from hudisql.ingest.row_keys import keyed_rows
from hudisql.ingest.split.due_splits import DueSplits, SplitLimits
from hudisql.ingest.split.rewrite_partition import SplitRequest, can_split, split_partition
from hudisql.ingest.split.split_option import SplitKind, parse_split_option
from hudisql.ingest.table_buffer import BadEvent, BufferedEvents, EventBatch, TableBuffer
from hudisql.ingest.table_index import TableIndex
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.commit_files import WriteResult
from hudisql.write.keygen.partition_paths import PartitionPaths

_CONFLICT_ATTEMPTS: Final = 10
_LISTINGS: Final = 2
INDEX_BYTES: Final = 512 << 20
"""What the indexes of one table may take in memory: those of 64 million keys."""

OpenTarget = Callable[[], IngestTarget]
MakeParser = Callable[[HudiTable, IngestDeclaration], RecordParser]
TakeBadEvents = Callable[[list[BadEvent]], None]
AddColumns = Callable[[pa.Schema], None]


@dataclass
class TableFeed:
    """`open_target` opens the table as it is now, `bad_events` keeps events that are no rows for good.

    `owner` is the worker's name; `add_columns` gives the table columns that events have and it lacks.
    """

    name: str
    declaration: IngestDeclaration
    open_target: OpenTarget
    make_parser: MakeParser
    bad_events: TakeBadEvents
    owner: str
    add_columns: AddColumns | None = None
    split_limits: SplitLimits = field(default_factory=SplitLimits)
    _buffer: TableBuffer = field(default_factory=TableBuffer)
    _committed: TableOffsets = NO_OFFSETS
    _began: Mapping[SourcePartition, int] = field(default_factory=dict)
    _position: dict[SourcePartition, int] = field(default_factory=dict)
    _epoch: int = 0
    _target: IngestTarget | None = None
    _parser: RecordParser | None = None
    _partitions: KnownPartitions = field(default_factory=KnownPartitions)
    _paths: PartitionPaths | None = None
    _seen_columns: set[str] = field(default_factory=set)
    _written: set[str] = field(default_factory=set)
    _index: TableIndex = field(init=False)
    _due_splits: DueSplits = field(init=False)

    def __post_init__(self) -> None:
        on_disk = RocksDbIndex if self.declaration.index == ROCKSDB else None
        limits = IndexLimits(INDEX_BYTES, self.declaration.index_days, on_disk)
        self._index = TableIndex(limits)
        self._due_splits = self._no_due_splits()

    def take_over(self) -> Mapping[SourcePartition, int]:
        """Begin: the offsets of the table's last commit. Raises what opening the table raises."""
        self._buffer = TableBuffer()
        self._index.forget()
        self._due_splits = self._no_due_splits()
        self._seen_columns = set()
        self._partitions = KnownPartitions()
        self._open()
        assert self._target is not None
        self._committed = find_offsets(self._target.table)
        self._epoch = self._committed.epoch + 1
        self._due_splits.look(self._target.table, self._index.splits, ())
        return self._committed.offsets

    def close(self) -> None:
        """Drop the indexes: the table is another worker's."""
        self._index.forget()

    def begin_at(self, offsets: Mapping[SourcePartition, int], *, commits: bool) -> None:
        """Take events from these offsets on; with `commits` they are committed before the first event, so
        that a later start begins there too. Raises as `flush`.
        """
        self._began = dict(offsets)
        self._position = dict(offsets)
        if commits:
            self._buffer.offsets.update(offsets)
            self.flush()

    def take(self, batch: EventBatch, now: float) -> None:
        """Add a batch to the buffer. Raises WriteRefusedError for a bad event if those end the table's feed,
        and what the parser raises.
        """
        assert self._parser is not None
        assert self._target is not None
        assert self._paths is not None
        batch = batch.since(self._position.get(batch.source, 0))
        if not batch.values:
            return
        parsed = self._parser.parse(batch.values, batch.keys)
        if self._adds(parsed.new_columns):
            parsed = self._parser.parse(batch.values, batch.keys)
        rows, is_deleted, refused = keyed_rows(parsed, self._target, self._paths)
        bad = [_bad_event(batch, each) for each in (*parsed.bad, *refused)]
        if bad and self.declaration.on_bad_record == STOP:
            first = min(bad, key=lambda each: each.offset)
            raise WriteRefusedError(
                f"{self.name}: the event at offset {first.offset} of {first.source[0]}, partition "
                f"{first.source[1]}, is no row of the table: {first.reason}",
                hint=f"mend the table or the events; on_bad_record is '{STOP}', and nothing later is taken",
            )
        self._buffer.add(rows, is_deleted, bad, batch, now)
        self._position[batch.source] = batch.next_offset

    def _adds(self, found: pa.Schema) -> bool:
        """Give the table new columns; each is tried once. True if the events are to be read again."""
        new = pa.schema([each for each in found if each.name not in self._seen_columns])
        if self.add_columns is None or not len(new):
            return False
        self.add_columns(new)
        self._seen_columns |= set(new.names)
        self._open()
        return True

    def is_due(self, now: float) -> bool:
        """True if the buffer is to be committed."""
        buffer = self._buffer
        if buffer.opened_at is None:
            return False
        aged = now - buffer.opened_at >= self.declaration.flush_seconds
        return aged or buffer.bytes >= self.declaration.flush_bytes

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to commit and nothing to split."""
        return self._buffer.is_empty and not self.wants_split

    @property
    def memory(self) -> int:
        """What the buffer takes, in bytes."""
        return self._buffer.memory

    @property
    def index_bytes(self) -> int:
        """What the indexes take, in bytes."""
        return self._index.nbytes

    @property
    def buffered(self) -> BufferedEvents:
        """What is in memory."""
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

        Raises WriteConflictError if another worker has committed since (then `take_over` begins again) or
        other writers conflict again and again; what `commit_rows` raises.
        """
        buffer = self._buffer
        if buffer.is_empty:
            return None
        if buffer.bad:
            self.bad_events(buffer.bad)
            buffer.bad = []
        reached = TableOffsets(buffer.reached(self._committed.offsets), self._epoch, self.owner)
        assert self._target is not None
        rows = buffer.keep(partial(newest_of_keys, self._target.table))
        paths = paths_of(rows)
        result = self._commit(rows, reached)
        self._committed, self._buffer = reached, TableBuffer()
        if result.instant_time is not None:
            self._partitions.committed(self._target.table, paths, result.instant_time)
        self._written |= set(paths)
        self._target.after_commit()
        return result

    def look_for_splits(self) -> None:
        """Find out which of the partitions that were written since the last look are to be split.

        Raises CorruptTableError, StorageError; the partitions are then looked at again.
        """
        assert self._target is not None
        if self.declaration.split != SplitKind.NEVER and self._written:
            paths = [*sorted(self._written), *self._index.indexed()]
            self._due_splits.look(self._target.table.reopened(), self._index.splits, paths)
        self._written = set()

    @property
    def wants_split(self) -> bool:
        """True if a partition is to be split."""
        return bool(self._due_splits)

    def split_next(self) -> WriteResult | None:
        """Split one partition that is due; None if other writers conflict: it is looked at again later.

        What is in memory stays there. Raises WriteConflictError if another worker has committed since, and
        what `split_partition` raises: the partition is then not due again for a time.
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
        self._open()
        assert self._target is not None
        table = self._target.table
        self._index.splits.look_back(table)
        said = self._index.begin(table, [path])
        split = self._index.splits.split_of(table, path)
        if not can_split(table, path):
            return None
        request = SplitRequest(
            path,
            self.split_limits.bucket_bytes,
            self._committed,
            said,
            joins_keys=split is not None and (bool(split.foreign) or self._index.splits.is_mixed(split)),
        )
        try:
            result = split_partition(table, self._target.options, request)
        except TableLockedError:
            return None
        except WriteConflictError:
            if find_offsets(table.reopened()) != self._committed:
                raise
            return None
        self._index.drop_split(path, result.instant_time or "")
        self._target.after_commit()
        return result

    def _no_due_splits(self) -> DueSplits:
        option = parse_split_option(self.declaration.split)
        return DueSplits(option, time.monotonic, self.split_limits)

    def _commit(self, rows: pa.Table | None, reached: TableOffsets) -> WriteResult:
        for attempt in range(1, _CONFLICT_ATTEMPTS + 1):
            self._open(paths_of(rows))
            assert self._target is not None
            if rows is not None:
                rows = _with_columns(rows, self._target.table.schema)
            try:
                return commit_rows(self._target, self._index, rows, self._committed, reached, self._paths)
            except TableLockedError:
                # Waiting for a lock would stop all tables of the worker.
                raise
            except WriteConflictError:
                lost = find_offsets(self._target.table.reopened()) != self._committed
                if lost or attempt == _CONFLICT_ATTEMPTS:
                    raise
            except NoSuchPathError:
                # Others have archived or cleaned since the table was opened; a file that is missing stays so.
                if attempt >= _LISTINGS:
                    raise
        raise AssertionError("unreachable")

    def _open(self, used: Sequence[str] = ()) -> None:
        """Open the table as it is now, and make what depends on its columns if these have changed.

        `used` are the partitions that rows are in.
        """
        before, opened = self._target, self.open_target()
        self._target = replace(opened, table=opened.table.listed_once())
        table = self._target.table
        if before is None or not before.table.schema.equals(table.schema):
            self._parser = self.make_parser(table, self.declaration)
        self._paths = self._partitions.paths(self._target, used)


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with nulls in columns that the table got since they came."""
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
