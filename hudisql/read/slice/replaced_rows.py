"""A slice with log files in two parts: the base rows that are replaced, and the log records' rows.

With the other base rows the result equals that of `merge_log_records`, in another order. Of the base only
record keys (and ordering values, if they decide) are read, once; all columns only if log records lack some of
them. Works without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.read.merge.log_merge import BATCH_ROWS, LogMerge, merge_schema
from hudisql.read.merge.merge_mode import RecordMergeMode
from hudisql.read.merge.merged_log_scanner import LogRecords, read_log_records
from hudisql.read.slice.slice_reader import SliceRead, complete_rows, read_base_rows
from hudisql.storage import Storage


@dataclass(frozen=True, slots=True)
class LogMatch:
    """The match of a slice's log records with its base, as row numbers that hold for all columns.

    `replaced` are the positions of replaced base rows, ascending, among the `base_rows` rows of the base file
    or external file. `shown` are the rows of `LogRecords.rows` that replace them or have new keys.
    """

    base_rows: int
    replaced: npt.NDArray[np.int64]
    shown: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SeparatedRows:
    """A slice apart from the base rows that stay: `replaced` as in `LogMatch`, and the merged `rows`, which
    replace them or have new keys.
    """

    replaced: npt.NDArray[np.int64]
    rows: tuple[pa.RecordBatch, ...]


def match_log_records(storage: Storage, read: SliceRead) -> LogMatch:
    """Match the slice's log records with the keys of its base.

    Raises UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    merge = LogMerge(_records_of(storage, read, pa.schema([])), _mode_of(read))
    schema = merge_schema(pa.schema([]), merge.mode)
    replaced, shown = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first = 0
    for batch in read_base_rows(storage, replace(read, predicate=None, split=None), schema):
        touched, rows = merge.match(batch)
        replaced.append(touched + first)
        shown.append(rows[rows >= 0])
        first += batch.num_rows
    return LogMatch(first, np.concatenate(replaced), np.concatenate([*shown, merge.rows_of_new_keys()]))


def read_log_rows(
    storage: Storage, read: SliceRead, shown: npt.NDArray[np.int64] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of log records that replace base rows or have new keys, as `read.schema`.

    `shown` comes from `match_log_records`; without it keys are matched here. Rows for which `read.predicate`
    is not TRUE are left out. Raises UnsupportedTableError, SourceChangedError, CorruptTableError,
    StorageError.
    """
    if shown is None:
        shown = match_log_records(storage, read).shown
    rows = _records_of(storage, read, read.file_schema).rows if len(shown) else None
    for start in range(0, len(shown), BATCH_ROWS):
        assert rows is not None
        yield from complete_rows(rows.take(pa.array(shown[start : start + BATCH_ROWS])), read)


def separate_rows(storage: Storage, read: SliceRead) -> SeparatedRows:
    """Merge the slice's log records with the base rows of their keys; `rows` have the columns `read.schema`.

    Log records may have only some of the columns. Memory: the slice's log records, twice. Raises
    UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    schema = read.file_schema
    merge = LogMerge(_records_of(storage, read, schema), _mode_of(read))
    base_schema = merge_schema(pa.schema([]) if merge.is_whole else schema, merge.mode)
    replaced, merged = [np.empty(0, np.int64)], []
    first = 0
    for batch in read_base_rows(storage, replace(read, predicate=None, split=None), base_schema):
        touched, rows = merge.replace_rows(batch)
        replaced.append(touched + first)
        merged.append(rows)
        first += batch.num_rows
    merged.append(merge.rows(merge.rows_of_new_keys()))
    complete = tuple(rows for batch in merged for rows in complete_rows(batch, read))
    return SeparatedRows(np.concatenate(replaced), complete)


def _records_of(storage: Storage, read: SliceRead, schema: pa.Schema) -> LogRecords:
    config = read.log_merge_config
    assert config is not None  # the plan has one if a slice has log files
    return read_log_records(storage, read.file_slice, config, merge_schema(schema, config.merge_mode))


def _mode_of(read: SliceRead) -> RecordMergeMode:
    assert read.log_merge_config is not None
    return read.log_merge_config.merge_mode
