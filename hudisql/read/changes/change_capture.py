"""Change data capture: the rows that each commit of a window inserted, updated and deleted, with images.

Computed from the file slices before and after each commit, so that no setting is needed beforehand (Hudi's
own `cdc` queries need `hoodie.table.cdc.enabled`). Columns and operations are those of `HoodieCDCUtils` in
Hudi 0.15; images hold the table's columns without meta columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.log_file.change_log import AFTER, BEFORE, COMMIT, DELETE, INSERT, OPERATION, UPDATE
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.meta_columns import COMMIT_SEQNO, COMMIT_TIME, META_SCHEMA, RECORD_KEY
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import Instant
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS, CalendarSettings
from hudisql.read.changes.json_text import render_json
from hudisql.read.changes.row_multisets import (
    RowNumbers,
    equal_row_numbers,
    missing_rows,
    pair_rows,
    partly_missing_rows,
)
from hudisql.read.files.predicates import Comparison, Predicate
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.scan.incremental import check_rows_tell_their_commit
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import (
    FileVersions,
    attach_external_files,
    list_file_versions,
    slices_of_versions,
)
from hudisql.table.history.past_state import state_gone_error
from hudisql.table.history.timeline_window import MOVING_OPERATIONS, TimelineWindow, version_of_write
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.table.timeline.instant_files import read_commits

CAPTURED_TEXTS = pa.schema([(name, pa.string()) for name in (OPERATION, COMMIT, BEFORE, AFTER)])
"""Captured changes with images as JSON texts: the columns of Hudi's `cdc` queries."""
_BATCH_ROWS = 64 * 1024
_BATCH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One file group before and after one commit; None where it did not exist, or was replaced.

    The configurations select each side's log blocks. `deleted_rows` is the count in the commit's metadata.
    """

    instant_time: str
    partition_values: Mapping[str, object]
    before: FileSlice | None
    after: FileSlice | None
    before_config: LogMergeConfig | None = None
    after_config: LogMergeConfig | None = None
    deleted_rows: int | None = None


@dataclass(frozen=True, slots=True)
class _Touched:
    """A file group in a commit: version before ("" if none), its own ("" if replaced), deleted rows."""

    previous: str
    version: str
    deleted_rows: int | None = None


def captured_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of captured changes, whose images are structs of these columns of the table."""
    image = pa.struct(list(schema))
    return pa.schema([(OPERATION, pa.string()), (COMMIT, pa.string()), (BEFORE, image), (AFTER, image)])


def plan_capture(table: HudiTable, window: TimelineWindow) -> list[GroupChange]:
    """The file groups that each commit of the window changed, in the order of the commits.

    Compactions and clusterings, which only move rows, are left out. Raises NoSuchStateError if files that a
    commit read or wrote are gone, or its instants archived; UnsupportedTableError for a table without meta
    columns; CorruptTableError, StorageError.
    """
    check_rows_tell_their_commit(table)
    if window.is_open:
        raise state_gone_error(table, window.begin, "its instants are archived", None)
    read = read_commits(table, window.commits)
    touched = [
        (commit, _touched_groups(table, commit, metadata))
        for commit, metadata in zip(window.commits, read, strict=True)
    ]
    paths = sorted({partition for _, groups in touched for partition, _ in groups})
    versions = list_file_versions(table, paths)
    group_changes = [
        change
        for commit, groups in touched
        for change in (_changes_of_commit(table, versions, commit, groups) if groups else ())
    ]
    return _with_external_files(table, group_changes)


def _touched_groups(table: HudiTable, commit: Instant, metadata: CommitMetadata) -> dict[FileGroup, _Touched]:
    if metadata.operation_type in MOVING_OPERATIONS:
        return {}
    groups: dict[FileGroup, _Touched] = {}
    for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        groups.update(((partition, file_id), _Touched("", "")) for file_id in file_ids)
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            # New file groups name no previous version, or their own commit.
            is_new = stat.prev_commit in (None, "null") or stat.prev_commit >= commit.timestamp
            previous = "" if is_new else stat.prev_commit
            groups[partition, stat.file_id] = _Touched(
                previous, version_of_write(table, stat.path), stat.num_deletes
            )
    return groups


def _changes_of_commit(
    table: HudiTable, versions: FileVersions, commit: Instant, groups: Mapping[FileGroup, _Touched]
) -> Iterator[GroupChange]:
    commits = table.timeline.commits
    position = bisect_left(commits, commit.timestamp, key=lambda instant: instant.timestamp)
    times = (commits[position - 1].timestamp if position else "", commit.timestamp)
    some: FileVersions = {}
    for partition, file_id in groups:
        if file_id in versions[partition]:
            some.setdefault(partition, {})[file_id] = versions[partition][file_id]
    before, after = (
        {file_slice.file_group: file_slice for file_slice in slices_of_versions(table, some, time)}
        for time in times
    )
    configs = [log_merge_config_of(table, time) if table.is_merge_on_read else None for time in times]
    names = [column.name for column in table.partition_columns]
    for group, touched in sorted(groups.items()):
        change = GroupChange(
            commit.timestamp,
            dict(zip(names, partition_of(table, group[0]).values, strict=False)),
            before.get(group),
            after.get(group),
            before_config=configs[0],
            after_config=configs[1],
            deleted_rows=touched.deleted_rows,
        )
        _check_files(table, change, group, touched)
        yield change


def _check_files(table: HudiTable, change: GroupChange, group: FileGroup, touched: _Touched) -> None:
    """Raise NoSuchStateError if a side of the change has been deleted."""
    found_before = "" if change.before is None else change.before.base_instant_time
    found_after = "" if change.after is None else change.after.base_instant_time
    is_replaced = not touched.version
    if (is_replaced and not found_before) or found_before < touched.previous or found_after < touched.version:
        raise state_gone_error(
            table,
            change.instant_time,
            f"changes are computed from the files before and after each commit, and those of the file group "
            f"{'/'.join(part for part in group if part)} were deleted",
            [group[0]],
        )


def _with_external_files(table: HudiTable, changes: Sequence[GroupChange]) -> list[GroupChange]:
    sides = [side for change in changes for side in (change.before, change.after) if side is not None]
    attached = iter(attach_external_files(table, sides))
    return [
        replace(
            change,
            before=None if change.before is None else next(attached),
            after=None if change.after is None else next(attached),
        )
        for change in changes
    ]


def read_changes(
    storage: Storage, change: GroupChange, schema: pa.Schema, calendars: CalendarSettings = DEFAULT_CALENDARS
) -> Iterator[pa.RecordBatch]:
    """The rows that one commit changed in one file group, as `captured_schema` of a table of `schema`.

    A row of the commit is an update if it replaces a row of its record key. A row that is gone and was not
    replaced is a delete. A key may have several rows on both sides. Memory: if there are two sides, their
    record keys and sequence numbers and the changed rows. Raises UnsupportedTableError, SourceChangedError,
    CorruptTableError, StorageError.
    """

    sides = _Sides(storage, change, calendars)
    columns = pa.schema([META_SCHEMA.field(COMMIT_TIME), META_SCHEMA.field(RECORD_KEY), *schema])
    is_new = Comparison((COMMIT_TIME,), "=", change.instant_time)
    if change.before is None:
        for batch in sides.after(columns, is_new):
            yield _events(change, INSERT, schema, None, batch)
        return
    if change.after is None:
        for batch in sides.before(columns):
            yield _events(change, DELETE, schema, batch, None)
        return
    written = pa.Table.from_batches(sides.after(columns, is_new), columns)
    removed = _replaced_if_none_deleted(change, sides, columns, written)
    if removed is None:
        removed = _removed_rows(change, sides, columns)
    yield from _difference(change, schema, removed, written)


def _replaced_if_none_deleted(
    change: GroupChange, sides: _Sides, columns: pa.Schema, written: pa.Table
) -> pa.Table | None:
    """The rows of before that the written rows replace; None if the row counts do not prove it."""
    if not _says_that_it_deleted_none(change):
        return None
    keys = written[RECORD_KEY].combine_chunks()
    chosen = (
        batch.filter(pc.is_in(batch.column(RECORD_KEY), value_set=keys)) for batch in sides.before(columns)
    )
    replaced = pa.Table.from_batches(chosen, columns)
    kept = _count(sides.before) - replaced.num_rows
    if kept + written.num_rows != _count(sides.after):
        return None
    # If a key has several rows, the commit may have replaced only one.
    has_single_keys = pc.count_distinct(replaced[RECORD_KEY], mode="all").as_py() == replaced.num_rows
    return replaced if has_single_keys else None


def _removed_rows(change: GroupChange, sides: _Sides, columns: pa.Schema) -> pa.Table:
    """The rows that the commit deleted or replaced: they are no longer in the file group.

    Key and commit sequence number identify a row. If some rows that share both are gone, they are compared by
    value.
    """
    names = (RECORD_KEY, COMMIT_SEQNO)
    identity = pa.schema([META_SCHEMA.field(name) for name in names])
    with_time = identity.append(META_SCHEMA.field(COMMIT_TIME))
    before = pa.Table.from_batches(sides.before(identity), identity)
    after = pa.Table.from_batches(sides.after(with_time), with_time)
    is_kept = np.asarray(pc.fill_null(pc.not_equal(after[COMMIT_TIME], change.instant_time), True))
    numbers, numbers_kept = equal_row_numbers([before, after.select(names).filter(pa.array(is_kept))])
    is_removed = missing_rows(numbers, numbers_kept)
    unclear, unclear_kept = partly_missing_rows(numbers, numbers_kept)
    if not unclear.any():
        return _rows_at(sides.before(columns), columns, is_removed)
    is_unclear_after = np.zeros(len(is_kept), np.bool_)
    is_unclear_after[np.flatnonzero(is_kept)[unclear_kept]] = True
    rows_after = _rows_at(sides.after(columns), columns, is_unclear_after)
    rows_before = _rows_at(sides.before(columns), columns, unclear)
    is_removed[unclear] = missing_rows(*equal_row_numbers([rows_before, rows_after]))
    return _rows_at(sides.before(columns), columns, is_removed)


def _rows_at(
    batches: Iterator[pa.RecordBatch], columns: pa.Schema, is_chosen: npt.NDArray[np.bool_]
) -> pa.Table:
    def chosen_rows() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            yield batch.filter(pa.array(is_chosen[first : first + batch.num_rows]))
            first += batch.num_rows

    return pa.Table.from_batches(chosen_rows(), columns)


@dataclass(frozen=True)
class _Sides:
    """Reads the file slices before and after a change; a missing slice has no rows."""

    _storage: Storage
    _change: GroupChange
    _calendars: CalendarSettings

    def before(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self._read(self._change.before, self._change.before_config, columns, None)

    def after(self, columns: pa.Schema, predicate: Predicate | None = None) -> Iterator[pa.RecordBatch]:
        return self._read(self._change.after, self._change.after_config, columns, predicate)

    def _read(
        self,
        side: FileSlice | None,
        config: LogMergeConfig | None,
        columns: pa.Schema,
        predicate: Predicate | None,
    ) -> Iterator[pa.RecordBatch]:
        if side is None:
            return iter(())
        values = self._change.partition_values
        read = SliceRead(side, columns, values, predicate, None, self._calendars, config)
        return read_file_slice(self._storage, read)


def _says_that_it_deleted_none(change: GroupChange) -> bool:
    """True if the commit rewrote a base file and counts no deleted rows.

    The row counts prove that only without log files, whose rows may be deleted when they are merged.
    """
    slices = (change.before, change.after)
    return change.deleted_rows == 0 and not any(
        file_slice is None or file_slice.has_log_files for file_slice in slices
    )


def _count(read: Callable[[pa.Schema], Iterator[pa.RecordBatch]]) -> int:
    return sum(batch.num_rows for batch in read(pa.schema([])))


def read_change_texts(storage: Storage, change: GroupChange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """`read_changes` as `CAPTURED_TEXTS`, without Spark.

    Raises UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    for batch in read_changes(storage, change, schema):
        images = [render_json(batch.column(name)) for name in (BEFORE, AFTER)]
        yield pa.RecordBatch.from_arrays([batch.column(0), batch.column(1), *images], schema=CAPTURED_TEXTS)


def _difference(
    change: GroupChange, schema: pa.Schema, removed: pa.Table, written: pa.Table
) -> Iterator[pa.RecordBatch]:
    """The events of the removed and written rows; rows of one key are paired in order."""
    keys = equal_row_numbers([removed.select([RECORD_KEY]), written.select([RECORD_KEY])])
    at_removed, at_written = pair_rows(*keys)
    deleted, inserted = (_without(rows, at) for rows, at in ((removed, at_removed), (written, at_written)))
    replaced, updated = removed.take(pa.array(at_removed)), written.take(pa.array(at_written))
    for operation, old, new in (
        (INSERT, None, inserted),
        (UPDATE, replaced, updated),
        (DELETE, deleted, None),
    ):
        rows = old if new is None else new
        assert rows is not None
        size = sum(each.nbytes for each in (old, new) if each is not None)
        count = max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows.num_rows // max(1, size)))
        for start in range(0, rows.num_rows, count):
            yield _events(change, operation, schema, _part(old, start, count), _part(new, start, count))


def _without(rows: pa.Table, positions: RowNumbers) -> pa.Table:
    is_left = np.ones(rows.num_rows, np.bool_)
    is_left[positions] = False
    return rows.filter(pa.array(is_left))


def _part(rows: pa.Table | None, start: int, count: int) -> pa.RecordBatch | None:
    """Some rows as one batch. Raises for more than 2 GB of text, which `combine_chunks` would split."""
    return None if rows is None else pa.concat_batches(rows.slice(start, count).to_batches())


def _events(
    change: GroupChange,
    operation: str,
    schema: pa.Schema,
    before: pa.RecordBatch | None,
    after: pa.RecordBatch | None,
) -> pa.RecordBatch:
    sides = [each for each in (before, after) if each is not None]
    count = sides[0].num_rows
    image = pa.struct(list(schema))
    images = [
        pa.nulls(count, image)
        if side is None
        else pa.StructArray.from_arrays([side.column(name) for name in schema.names], fields=list(schema))
        for side in (before, after)
    ]
    return pa.RecordBatch.from_arrays(
        [pa.repeat(operation, count), pa.repeat(change.instant_time, count), *images],
        schema=pa.schema([(OPERATION, pa.string()), (COMMIT, pa.string()), (BEFORE, image), (AFTER, image)]),
    )
