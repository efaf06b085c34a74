"""Merge-on-read: whether new rows can go to the log files of the slice that deleted their record keys.

Hudi appends such a row to the log whatever its ordering values are; a statement's new row must not lose
against older records of its key. Works on Arrow tables inside one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema.meta_columns import META_SCHEMA, RECORD_KEY
from hudisql.read.files.predicates import And, Comparison
from hudisql.read.merge.merge_mode import LogMergeConfig, RecordMergeMode
from hudisql.read.merge.merged_log_scanner import marked_deletes, read_log_records
from hudisql.read.merge.precombine import come_after
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.write.changes import RECORD_KEY as KEY_OF_CHANGE
from hudisql.write.handle.merge_handle import MergeTask

KEY_SCHEMA: Final = pa.schema([META_SCHEMA.field(RECORD_KEY)])
"""The record key alone."""


def inserts_hold(storage: Storage, task: MergeTask, inserts: pa.Table, other_keys: pa.ChunkedArray) -> bool:
    """True if readers get these new rows (columns of `change_schema`) from the slice's next log file.

    Their record keys must be deleted by the log files before, all different, none of the `other_keys` that
    the same commit changes, and once in the base file. Where ordering values decide, neither a delete of such
    a value nor the base file's row may be newer than the new row. Rows that readers take for deletes do not
    hold, nor do rows on top of a pending compaction, whose base file will lack the keys. Reads the keys of
    the log files, and those of the base file with the ordering columns. Raises CorruptTableError,
    StorageError.
    """
    keys = inserts.column(KEY_OF_CHANGE).combine_chunks()
    config, file_slice = task.log_merge_config, task.file_slice
    if keys.null_count or config is None or not file_slice.has_log_files or file_slice.compaction_instant:
        return False
    if marked_deletes(inserts, task.merge_mode).any():
        return False
    if len(pc.unique(keys)) < len(keys) or pc.any(pc.is_in(keys, value_set=other_keys)).as_py():
        return False
    values = [inserts.column(field.name).combine_chunks() for field in config.merge_mode.ordering_fields]
    return _holds_in_log(storage, task, config, keys, values) and _holds_over_base(
        storage, task, config.merge_mode, keys, values
    )


def _holds_in_log(
    storage: Storage,
    task: MergeTask,
    config: LogMergeConfig,
    keys: pa.StringArray,
    values: Sequence[pa.Array],
) -> bool:
    """True if the log files delete all keys, by records that give way to rows with these values."""
    records = read_log_records(storage, task.file_slice, config, KEY_SCHEMA)
    found = pc.index_in(keys, value_set=records.keys)
    if found.null_count:
        return False
    places = found.to_numpy()
    rows = records.row_of_key[places]
    has_row = rows >= 0
    if not records.is_delete[rows[has_row]].all():
        return False
    # A delete block without ordering values gives way to each later row.
    is_compared = np.flatnonzero(has_row | records.may_yield[places])
    at, compared = pa.array(places[is_compared]), pa.array(is_compared)
    stored = [column.take(at) for column in records.ordering_values]
    return not _stay(config.merge_mode, stored, [column.take(compared) for column in values]).any()


def _holds_over_base(
    storage: Storage,
    task: MergeTask,
    mode: RecordMergeMode,
    keys: pa.StringArray,
    values: Sequence[pa.Array],
) -> bool:
    """True if the base file has no key twice, and no row that is newer by these values."""
    fields = mode.ordering_fields if mode.keeps_newer_base_rows else ()
    file_slice = task.file_slice
    read = SliceRead(
        file_slice if fields else replace(file_slice, external_file=None),
        pa.schema([*KEY_SCHEMA, *fields]),
        task.partition_values,
        calendars=task.calendars,
    )
    met = np.zeros(len(keys), np.int64)
    for found, rows in base_rows_of_keys(storage, read, keys):
        met += np.bincount(found, minlength=len(keys))
        incoming = [column.take(pa.array(found)) for column in values]
        if fields and _stay(mode, rows.columns[1:], incoming).any():
            return False
    return not (met > 1).any()


def base_rows_of_keys(
    storage: Storage, read: SliceRead, keys: pa.StringArray
) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
    """The base file's rows of these keys, batch by batch, each with the number of its key.

    `read` names the slice, whose log files are left out, and the columns, the record key first. Raises
    CorruptTableError, StorageError.
    """
    bounds, key = pc.min_max(keys).as_py(), (RECORD_KEY,)
    between = And((Comparison(key, ">=", bounds["min"]), Comparison(key, "<=", bounds["max"])))
    base = replace(read.file_slice, log_files=())
    for batch in read_file_slice(storage, replace(read, file_slice=base, predicate=between)):
        number = pc.index_in(batch.column(0), value_set=keys)
        yield number.drop_null().to_numpy(), batch.filter(number.is_valid())


def _stay(
    mode: RecordMergeMode, stored: Sequence[pa.Array], incoming: Sequence[pa.Array]
) -> npt.NDArray[np.bool_]:
    """True for stored values over which a later record with the incoming ones does not hold, as in reads."""
    if not incoming or not stored:
        return np.zeros(0, np.bool_)
    return ~come_after(incoming, stored) if mode.keeps_equal_rows else come_after(stored, incoming)
