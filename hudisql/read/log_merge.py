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

BATCH_ROWS = 64 * 1024
"""The most rows of the log records in one batch."""


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


class LogMerge:
    """Finds for base batches which of their rows the log records replace; it remembers which keys it met."""

    def __init__(self, records: LogRecords, mode: RecordMergeMode) -> None:
        self.mode = mode
        self._records = records
        self._keys = KeyTable(records.keys)
        self._seen = np.zeros(len(records.keys), np.bool_)

    def match(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers of the batch's rows that give way, and for each the record's row, -1 for a delete.

        The batch has the columns that `merge_schema` adds.
        """
        records, mode = self._records, self.mode
        found = self._keys.find(batch.column(RECORD_KEY))
        touched = np.flatnonzero(found >= 0)
        key_numbers = found[touched]
        self._seen[key_numbers] = True
        rows = records.row_of_key[key_numbers]
        orders = mode.keeps_newer_base_rows and records.ordering_values is not None and len(touched) > 0
        if orders and mode.ordering_field is not None and records.ordering_values is not None:
            base = batch.column(mode.ordering_field.name).take(pa.array(touched))
            newer = is_higher(base, records.ordering_values.take(pa.array(key_numbers)), null_is_lowest=True)
            is_older = ~(newer & records.may_yield[key_numbers])
            touched, rows = touched[is_older], rows[is_older]
        return touched, self._without_deletes(rows)

    def rows_of_new_keys(self) -> npt.NDArray[np.int64]:
        """The records' rows whose keys no batch had, deletes left out. Called after all batches."""
        rows = self._without_deletes(self._records.row_of_key[~self._seen])
        return rows[rows >= 0]

    def rows(self, numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Rows of the records by their numbers; -1 is left out."""
        return self._records.rows.take(pa.array(numbers[numbers >= 0]))

    def _without_deletes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        held = rows >= 0
        kept = rows.copy()
        kept[held] = np.where(self._records.is_delete[rows[held]], -1, rows[held])
        return kept


def merge_log_records(
    base: Iterable[pa.RecordBatch], records: LogRecords, mode: RecordMergeMode
) -> Iterator[pa.RecordBatch]:
    """Base batches (of `merge_schema`, as the records' rows are) with the log records in their places."""
    merge = LogMerge(records, mode)
    for batch in base:
        merged = _merge_batch(batch, merge)
        if merged.num_rows:
            yield merged
    new = merge.rows_of_new_keys()
    for start in range(0, len(new), BATCH_ROWS):
        yield merge.rows(new[start : start + BATCH_ROWS])


def _merge_batch(batch: pa.RecordBatch, merge: LogMerge) -> pa.RecordBatch:
    touched, rows = merge.match(batch)
    if not len(touched):
        return batch
    replaced = rows >= 0
    order = np.arange(batch.num_rows)
    order[touched] = -1
    order[touched[replaced]] = batch.num_rows + np.arange(np.count_nonzero(replaced))
    both = pa.concat_batches([batch, merge.rows(rows)])
    return both.take(pa.array(order[order >= 0]))
