"""Merge the records of a slice's log files with its base rows.

Follows the merging iterators of Hudi 0.15 (`HoodieMergeOnReadRDD`): base rows keep their order and are
replaced where they stand; keys that only the logs have come last. Knows batches and keys, no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.meta_columns import RECORD_KEY
from hudisql.read.key_table import KeyTable
from hudisql.read.merge_mode import RecordMergeMode
from hudisql.read.merged_log_scanner import LogRecords
from hudisql.read.precombine import is_higher

_BATCH_ROWS = 64 * 1024


def merge_schema(schema: pa.Schema, mode: RecordMergeMode) -> pa.Schema:
    """`schema` with the columns that a merge looks at: the record key, and what orders rows."""
    fields = list(schema)
    if RECORD_KEY not in schema.names:
        fields.append(pa.field(RECORD_KEY, pa.string()))
    if (
        mode.keeps_newer_base_rows
        and mode.ordering_field is not None
        and mode.ordering_field.name not in schema.names
    ):
        fields.append(mode.ordering_field)
    return pa.schema(fields)


def merge_log_records(
    base: Iterable[pa.RecordBatch], records: LogRecords, mode: RecordMergeMode
) -> Iterator[pa.RecordBatch]:
    """Base batches (of `merge_schema`, as the records' rows are) with the log records in their places."""
    seen = np.zeros(len(records.keys), np.bool_)
    keys = KeyTable(records.keys)
    for batch in base:
        merged = _merge_batch(batch, keys, records, mode, seen)
        if merged.num_rows:
            yield merged
    rows = records.row_of_key[~seen]
    rows = rows[rows >= 0]
    rows = rows[~records.is_delete[rows]]
    for start in range(0, len(rows), _BATCH_ROWS):
        yield records.rows.take(pa.array(rows[start : start + _BATCH_ROWS]))


def _merge_batch(
    batch: pa.RecordBatch,
    keys: KeyTable,
    records: LogRecords,
    mode: RecordMergeMode,
    seen: npt.NDArray[np.bool_],
) -> pa.RecordBatch:
    found = keys.find(batch.column(RECORD_KEY))
    touched = np.flatnonzero(found >= 0)
    if not len(touched):
        return batch
    key_numbers = found[touched]
    seen[key_numbers] = True
    rows = records.row_of_key[key_numbers]
    if mode.keeps_newer_base_rows and mode.ordering_field is not None and records.ordering_values is not None:
        base = batch.column(mode.ordering_field.name).take(pa.array(touched))
        newer = is_higher(base, records.ordering_values.take(pa.array(key_numbers)), null_is_lowest=True)
        is_older = ~(newer & records.may_yield[key_numbers])
        touched, rows = touched[is_older], rows[is_older]
    replaced = rows >= 0
    replaced[replaced] = ~records.is_delete[rows[replaced]]
    order = np.arange(batch.num_rows)
    order[touched] = -1
    order[touched[replaced]] = batch.num_rows + np.arange(np.count_nonzero(replaced))
    both = pa.concat_batches([batch, records.rows.take(pa.array(rows[replaced]))])
    return both.take(pa.array(order[order >= 0]))
