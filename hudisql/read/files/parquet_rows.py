"""One open parquet file as a source of row ranges: leaf selection, row-group choice, bounded batches.

Rows are addressed by their absolute position in the file, so that a skeleton and its external file stay
aligned (RFC-12) even if their row groups differ. Memory: the compressed bytes of the chosen columns of one
row group, and one decoded batch. Knows nothing of Hudi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.schema.column_path import ColumnPath
from hudisql.read.calendar.hybrid_calendar import (
    DEFAULT_CALENDARS,
    CalendarSettings,
    rebases_of,
    statistics_valid_after_rebase,
)
from hudisql.read.files.conform import batch_of, conform_array, find_field
from hudisql.read.files.predicates import ColumnStatistics, Predicate, may_match
from hudisql.read.files.splits import Split
from hudisql.storage import Storage

_BATCH_BYTES = 16 * 1024 * 1024
_MAX_BATCH_ROWS = 64 * 1024
_MIN_BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows [start, stop) of a file by absolute position."""

    start: int
    stop: int


def read_footer(storage: Storage, path: str, length: int | None = None) -> pq.FileMetaData:
    """The footer of a parquet file; `length`: see `Storage.open_input`.

    Raises NoSuchPathError, StorageError, and ArrowInvalid for a file that is not parquet.
    """
    with storage.open_input(path, length) as stream:
        return pq.read_metadata(stream)


class ParquetRows:
    """A parquet file opened for reading the columns of `schema`; a context manager.

    `calendars` is the calendar of files that do not name the calendar of their dates. `content`, if given, is
    the file itself (a block inside the file at `path`). Raises pa.ArrowInvalid (not a readable parquet file)
    and the storage's errors.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        *,
        calendars: CalendarSettings = DEFAULT_CALENDARS,
        content: pa.Buffer | None = None,
    ) -> None:
        self.path = path
        self._stream = storage.open_input(path) if content is None else pa.BufferReader(content)
        try:
            self._file = pq.ParquetFile(self._stream, coerce_int96_timestamp_unit="us")
            self._metadata = self._file.metadata
            self._schema = schema
            self._physical = self._file.schema_arrow
            self._first_leaf = _first_leaves(self._physical)
            self._leaves = self._choose_leaves()
            self._rebases = rebases_of(
                self._metadata.schema, self._physical, self._metadata.metadata, calendars
            )
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close(force=True)
        self._stream.close()

    @property
    def rows(self) -> int:
        """The number of rows that the footer states."""
        return int(self._metadata.num_rows)

    @property
    def physical_schema(self) -> pa.Schema:
        """The file's own columns in the types that it stores."""
        return self._physical

    def choose_ranges(self, split: Split | None, predicate: Predicate | None) -> list[RowRange]:
        """The rows of the row groups of the split that may match the predicate, in file order.

        A row group belongs to the split that holds the middle of its bytes (as in Spark and parquet-mr).
        """
        ranges = []
        for index, rows in enumerate(self._row_group_ranges()):
            if split is not None and not split.holds(self.middle_of(index)):
                continue
            if predicate is not None and not self._may_match(index, predicate):
                continue
            ranges.append(rows)
        return ranges

    def read(self, ranges: Sequence[RowRange]) -> Iterator[pa.RecordBatch]:
        """Batches of exactly the rows of the ranges (sorted, disjoint) in order, conformed to the schema."""
        batch_rows = self._batch_rows()
        for index, group in enumerate(self._row_group_ranges()):
            wanted = [rows for rows in ranges if rows.start < group.stop and rows.stop > group.start]
            if not wanted:
                continue
            if not self._leaves:
                for rows in wanted:
                    count = min(rows.stop, group.stop) - max(rows.start, group.start)
                    nulls = [pa.nulls(count, field.type) for field in self._schema]
                    yield batch_of(nulls, self._schema, count)
                continue
            position, last = group.start, wanted[-1].stop
            for batch in self._file.iter_batches(
                batch_rows, row_groups=[index], columns=self._leaves, use_threads=False
            ):
                for rows in wanted:
                    start, stop = max(rows.start - position, 0), min(rows.stop - position, batch.num_rows)
                    if start < stop:
                        yield self._conform(batch.slice(start, stop - start))
                position += batch.num_rows
                if position >= last:
                    break

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for field in self._schema:
            index = find_field(batch.schema, field.name)
            if index < 0:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            try:
                rebase = self._rebases.get(batch.schema.field(index).name)
                arrays.append(conform_array(batch.column(index), field.type, rebase))
            except pa.ArrowException as error:
                physical = batch.schema.field(index).type
                message = f"column '{field.name}' is {physical}, but the table has {field.type}: {error}"
                raise pa.ArrowInvalid(message) from error
        return batch_of(arrays, self._schema, batch.num_rows)

    def _row_group_ranges(self) -> list[RowRange]:
        ranges, start = [], 0
        for index in range(self._metadata.num_row_groups):
            stop = start + self._metadata.row_group(index).num_rows
            ranges.append(RowRange(start, stop))
            start = stop
        return ranges

    def middle_of(self, index: int) -> int:
        """The byte in the middle of a row group: the split that holds it has the group."""
        group = self._metadata.row_group(index)
        chunks = [group.column(column) for column in range(group.num_columns)]
        if not chunks:
            return 0
        first = min(
            chunk.dictionary_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset
            else chunk.data_page_offset
            for chunk in chunks
        )
        return int(first + sum(chunk.total_compressed_size for chunk in chunks) // 2)

    def _may_match(self, index: int, predicate: Predicate) -> bool:
        group = self._metadata.row_group(index)
        return may_match(predicate, lambda path: self._statistics(group, path))

    def _statistics(self, group: Any, path: ColumnPath) -> ColumnStatistics | None:
        if self._schema.get_field_index(path[0]) < 0:
            return None
        field = find_field(self._physical, path[0])
        if field < 0:
            return ColumnStatistics(group.num_rows, null_count=group.num_rows)
        leaf, current = self._first_leaf[field], self._physical.field(field).type
        for name in path[1:]:
            child = find_field(current, name) if pa.types.is_struct(current) else -1
            if child < 0:
                return None
            leaf += sum(_leaf_count(current.field(before).type) for before in range(child))
            current = current.field(child).type
        if pa.types.is_nested(current):
            return None
        statistics = group.column(leaf).statistics
        # The footer's bounds do not hold for values that lose digits in the conversion to the table's type.
        lossy = pa.types.is_timestamp(current) and current.unit == "ns"
        if statistics is None or lossy or group.column(leaf).physical_type == "INT96":
            return None
        least, greatest = _bounds(statistics)
        if self._physical.field(field).name in self._rebases and pa.types.is_temporal(current):
            least, greatest = (least, greatest) if statistics_valid_after_rebase(least) else (None, None)
        return ColumnStatistics(
            group.num_rows, statistics.null_count if statistics.has_null_count else None, least, greatest
        )

    def _choose_leaves(self) -> list[str]:
        chosen: list[int] = []
        for field in self._schema:
            found = find_field(self._physical, field.name)
            if found >= 0:
                physical = self._physical.field(found).type
                chosen += _wanted_leaves(physical, field.type, self._first_leaf[found])
        return [self._metadata.schema.column(leaf).path for leaf in chosen]

    def _batch_rows(self) -> int:
        rows = max(self.rows, 1)
        leaves = set(self._leaves)
        decoded = 0
        for index in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(index)
            for column in range(group.num_columns):
                chunk = group.column(column)
                if chunk.path_in_schema in leaves:
                    decoded += chunk.total_uncompressed_size
        fitting = _BATCH_BYTES * rows // max(decoded, 1)
        return max(_MIN_BATCH_ROWS, min(_MAX_BATCH_ROWS, fitting))


def _bounds(statistics: Any) -> tuple[Any, Any]:
    if not statistics.has_min_max:
        return None, None
    try:
        return statistics.min, statistics.max
    except (OverflowError, ValueError):
        return None, None  # a year outside of Python's dates


def _first_leaves(schema: pa.Schema) -> list[int]:
    starts, leaf = [], 0
    for field in schema:
        starts.append(leaf)
        leaf += _leaf_count(field.type)
    return starts


def _leaf_count(data_type: pa.DataType) -> int:
    if isinstance(data_type, pa.BaseExtensionType):
        return _leaf_count(data_type.storage_type)
    if pa.types.is_struct(data_type):
        return sum(_leaf_count(field.type) for field in data_type)
    if pa.types.is_map(data_type):
        return _leaf_count(data_type.key_type) + _leaf_count(data_type.item_type)
    if pa.types.is_nested(data_type):
        return _leaf_count(data_type.value_type)
    return 1


def _wanted_leaves(physical: pa.DataType, wanted: pa.DataType, first: int) -> list[int]:
    """Numbers of the physical type's leaves that `wanted` needs, counted from `first`."""
    if pa.types.is_struct(physical) and pa.types.is_struct(wanted):
        names = {find_field(physical, field.name): field.type for field in wanted}
        chosen: list[int] = []
        leaf = first
        for index, field in enumerate(physical):
            if index in names:
                chosen += _wanted_leaves(field.type, names[index], leaf)
            leaf += _leaf_count(field.type)
        # Any leaf of a struct without wanted fields shows which rows have a struct.
        return chosen or [first]
    if pa.types.is_map(physical) and pa.types.is_map(wanted):
        keys = _leaf_count(physical.key_type)
        return [
            *range(first, first + keys),
            *_wanted_leaves(physical.item_type, wanted.item_type, first + keys),
        ]
    if pa.types.is_nested(physical) and pa.types.is_list(wanted) and not pa.types.is_struct(physical):
        return _wanted_leaves(physical.value_type, wanted.value_type, first)
    return list(range(first, first + _leaf_count(physical)))
