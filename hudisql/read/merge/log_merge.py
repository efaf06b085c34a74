"""Merge the records of a slice's log files with its base rows.

Follows the merging iterators of Hudi 0.15 (`HoodieMergeOnReadRDD`): base rows keep their order and are
replaced in place; keys that only the logs have come last. Knows batches and keys, no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.keys.key_table import KeyTable
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.read.merge.merge_mode import RecordMergeMode
from hudisql.read.merge.merged_log_scanner import LogRecords
from hudisql.read.merge.partial_update import merge_rows
from hudisql.read.merge.precombine import come_after

BATCH_ROWS = 64 * 1024
"""The most rows of the log records in one batch."""


def merge_schema(schema: pa.Schema, mode: RecordMergeMode) -> pa.Schema:
    """`schema` with the columns that a merge needs: the record key and the ordering columns."""
    fields = list(schema)
    if RECORD_KEY not in schema.names:
        fields.append(pa.field(RECORD_KEY, pa.string()))
    if mode.keeps_newer_base_rows:
        fields += [
            ordering_field
            for ordering_field in mode.ordering_fields
            if ordering_field.name not in schema.names
        ]
    return pa.schema(fields)


class LogMerge:
    """Finds the rows of base batches that log records replace, and remembers the keys of these."""

    def __init__(self, records: LogRecords, mode: RecordMergeMode) -> None:
        self.mode = mode
        self._records = records
        self._keys = KeyTable(records.keys)
        self._seen = np.zeros(len(records.keys), np.bool_)

    @property
    def is_whole(self) -> bool:
        """True if records and base rows replace each other with all their columns."""
        return self._records.lacks is None and self.mode.partial_update_mode is None

    def match(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers of the batch's replaced rows, and for each the record's row, -1 for a delete.

        The batch has the columns that `merge_schema` adds.
        """
        touched, rows, is_newer = self._match(batch)
        return touched[~is_newer], rows[~is_newer]

    def _match(
        self, batch: pa.RecordBatch
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The batch's rows that have a record, its row or -1, and whether the base row is the newer one."""
        records, mode = self._records, self.mode
        found = self._keys.find(batch.column(RECORD_KEY))
        touched = np.flatnonzero(found >= 0)
        key_numbers = found[touched]
        self._seen[key_numbers] = True
        is_newer = np.zeros(len(touched), np.bool_)
        if mode.keeps_newer_base_rows and records.ordering_values and len(touched):
            at, of_keys = pa.array(touched), pa.array(key_numbers)
            base = [batch.column(ordering_field.name).take(at) for ordering_field in mode.ordering_fields]
            others = [ordering_value.take(of_keys) for ordering_value in records.ordering_values]
            is_newer = ~come_after(others, base) if mode.keeps_equal_rows else come_after(base, others)
            is_newer &= records.may_yield[key_numbers]
        return touched, self._without_deletes(records.row_of_key[key_numbers]), is_newer

    def merge_parts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch merged with its records; the winner takes missing columns from the other side."""
        touched, rows, is_newer = self._match(batch)
        if not len(touched):
            return batch
        records = self._records
        has_row = rows >= 0
        places = touched[has_row]
        base, own = batch.take(pa.array(places)), records.rows.take(pa.array(rows[has_row]))
        lacks = np.zeros((len(places), batch.num_columns), np.bool_)
        if records.lacks is not None:
            lacks = records.lacks[rows[has_row]]
        changed = merge_rows(base, own, lacks, is_newer[has_row], self.mode)
        order = np.arange(batch.num_rows)
        order[touched[~is_newer & ~has_row]] = -1
        order[places] = batch.num_rows + np.arange(len(places))
        return pa.concat_batches([batch, changed]).take(pa.array(order[order >= 0]))

    def replace_rows(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """The numbers of the batch's rows that records change or delete, and the merged rows in their place.

        The batch has the columns of `merge_schema` alone if the merge `is_whole`, else all of the records'.
        """
        if self.is_whole:
            touched, rows = self.match(batch)
            return touched, self.rows(rows)
        touched, _, _ = self._match(batch)
        return touched, self.merge_parts(batch.take(pa.array(touched)))

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
    """Base batches with the log records merged in; both have the columns of `merge_schema`."""
    merge = LogMerge(records, mode)
    for batch in base:
        merged = _merge_batch(batch, merge)
        if merged.num_rows:
            yield merged
    new = merge.rows_of_new_keys()
    for start in range(0, len(new), BATCH_ROWS):
        yield merge.rows(new[start : start + BATCH_ROWS])


def _merge_batch(batch: pa.RecordBatch, merge: LogMerge) -> pa.RecordBatch:
    if not merge.is_whole:
        return merge.merge_parts(batch)
    touched, rows = merge.match(batch)
    if not len(touched):
        return batch
    replaced = rows >= 0
    order = np.arange(batch.num_rows)
    order[touched] = -1
    order[touched[replaced]] = batch.num_rows + np.arange(np.count_nonzero(replaced))
    both = pa.concat_batches([batch, merge.rows(rows)])
    return both.take(pa.array(order[order >= 0]))
