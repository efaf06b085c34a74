"""A slice with log files in two parts: which rows of its base are replaced, and what the records put there.

Together with the base's other rows these give what `merge_log_records` gives, in another order; of the base
only record keys (and ordering values, where these decide) are read. Without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.read.log_merge import BATCH_ROWS, LogMerge, merge_schema
from hudisql.read.merged_log_scanner import read_log_records
from hudisql.read.slice_reader import SliceRead, complete_rows, read_base_rows
from hudisql.storage import Storage


def read_replaced_positions(storage: Storage, read: SliceRead) -> npt.NDArray[np.int64]:
    """The positions of the base's rows that log records replace or delete, ascending.

    Positions count the rows of the base file, or of the external file, from 0. Raises as `read_file_slice`.
    """
    merge = _merge_of(storage, read, pa.schema([]))
    found = [touched + first for first, touched, _ in _matches(storage, read, merge)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def read_log_rows(storage: Storage, read: SliceRead) -> Iterator[pa.RecordBatch]:
    """The rows of log records that stand for rows of the base, and those of new keys, as `read.schema`.

    Rows for which `read.predicate` is not TRUE are left out. Raises as `read_file_slice`.
    """
    schema = pa.schema([each for each in read.schema if each.name not in read.partition_values])
    merge = _merge_of(storage, read, schema)
    for _, _, rows in _matches(storage, read, merge):
        yield from complete_rows(merge.rows(rows), read)
    new = merge.rows_of_new_keys()
    for start in range(0, len(new), BATCH_ROWS):
        yield from complete_rows(merge.rows(new[start : start + BATCH_ROWS]), read)


def _merge_of(storage: Storage, read: SliceRead, schema: pa.Schema) -> LogMerge:
    config = read.log_merge_config
    assert config is not None  # the plan has one wherever a slice has log files
    merged_schema = merge_schema(schema, config.merge_mode)
    records = read_log_records(storage, read.file_slice.log_files, config, merged_schema)
    return LogMerge(records, config.merge_mode)


def _matches(
    storage: Storage, read: SliceRead, merge: LogMerge
) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """For each batch of the base: its first row's position, and what `LogMerge.match` gives."""
    schema = merge_schema(pa.schema([]), merge.mode)
    first = 0
    for batch in read_base_rows(storage, replace(read, predicate=None, split=None), schema):
        touched, rows = merge.match(batch)
        if len(touched):
            yield first, touched, rows
        first += batch.num_rows
