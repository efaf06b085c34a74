"""Record keys and partition paths of parsed rows; rows without them are bad records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import WriteRefusedError
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch
from hudisql.write.execution.driver_upsert import with_keys
from hudisql.write.keygen.partition_paths import PartitionPaths

_NO_PLACE = "the delete has no partition value"
_NO_KEY = "the delete cannot find its row: the table has no record key"
_FEW_ROWS: Final = 64
_MOST_KNOWN: Final = 10_000
_Keyed = tuple[pa.Table, npt.NDArray[np.bool_] | None, list[BadRecord]]


def keyed_rows(parsed: ParsedBatch, target: IngestTarget, paths: PartitionPaths) -> _Keyed:
    """The rows with RECORD_KEY and PARTITION, the marks of those to delete, and the records refused.

    Refused are rows whose key is null or empty, partition values that cannot name a directory, and deletes
    whose row cannot be found: without a partition value in a table with partitions, or without record key.
    """
    kept: list[pa.Table] = []
    at: list[npt.NDArray[np.int64]] = []
    refused: list[BadRecord] = []
    numbers = np.arange(parsed.rows.num_rows)
    _split(parsed.rows, numbers, target, paths, kept, at, refused)
    chosen = np.concatenate(at) if at else np.zeros(0, np.int64)
    bad = [BadRecord(int(parsed.positions[bad_record.position]), bad_record.reason) for bad_record in refused]
    rows = pa.concat_tables(kept) if kept else _no_rows(parsed.rows, target, paths)
    if parsed.is_deleted is None:
        return rows, None, bad
    is_deleted = parsed.is_deleted[chosen]
    lacks_place, reason = is_deleted & _lacks_partition(rows, target), _NO_PLACE
    if target.table.properties.generates_record_keys:
        lacks_place, reason = is_deleted, _NO_KEY
    bad += [BadRecord(int(parsed.positions[row]), reason) for row in chosen[lacks_place]]
    return rows.filter(pa.array(~lacks_place)), is_deleted[~lacks_place], bad


class RefusedRows:
    """Finds the rows that `keyed_rows` refuses, for many small batches, from several threads.

    It remembers checked partition values: checking each again would take three times as long.
    """

    def __init__(self, target: IngestTarget, paths: PartitionPaths) -> None:
        self._target, self._paths = target, paths
        self._key_fields = target.table.properties.record_key_fields
        self._partition_columns = [
            partition_column.name for partition_column in target.table.partition_columns
        ]
        self._known: set[tuple[object, ...]] = set()

    def __call__(self, parsed: ParsedBatch) -> Sequence[BadRecord]:
        """The records that cannot become rows of the table."""
        partitions = self._partitions(parsed)
        if partitions is not None and partitions <= self._known:
            return ()
        refused = keyed_rows(parsed, self._target, self._paths)[2]
        if partitions is not None and not refused and len(self._known) < _MOST_KNOWN:
            self._known |= partitions
        return refused

    def _partitions(self, parsed: ParsedBatch) -> set[tuple[object, ...]] | None:
        """The partition values of a few rows that all have keys and are not deletes; None for other rows."""
        rows = parsed.rows
        if parsed.is_deleted is not None or not 0 < rows.num_rows <= _FEW_ROWS:
            return None
        if not {*self._key_fields, *self._partition_columns} <= set(rows.schema.names):
            return None
        if any(not all(rows.column(name).to_pylist()) for name in self._key_fields):
            return None
        values = [rows.column(name).to_pylist() for name in self._partition_columns]
        return set(zip(*values, strict=True)) or {()}


def _lacks_partition(rows: pa.Table, target: IngestTarget) -> npt.NDArray[np.bool_]:
    """True for rows without a partition value."""
    lacks = np.zeros(rows.num_rows, dtype=bool)
    for column in target.table.partition_columns:
        if column.name in rows.schema.names:
            lacks |= rows.column(column.name).is_null().to_numpy()
    return lacks


def _split(
    rows: pa.Table,
    numbers: npt.NDArray[np.int64],
    target: IngestTarget,
    paths: PartitionPaths,
    kept: list[pa.Table],
    at: list[npt.NDArray[np.int64]],
    refused: list[BadRecord],
) -> None:
    """Add the rows that can be written to `kept`; refused rows are found by bisection."""
    if not rows.num_rows:
        return
    try:
        keyed, null_keys = with_keys(_one_batch(rows), target.table, target.options, paths)
    except WriteRefusedError as error:
        if rows.num_rows == 1:
            refused.append(BadRecord(int(numbers[0]), error.message))
            return
        half = rows.num_rows // 2
        _split(rows[:half], numbers[:half], target, paths, kept, at, refused)
        _split(rows[half:], numbers[half:], target, paths, kept, at, refused)
        return
    found = pa.Table.from_batches([keyed])
    if null_keys.count:
        fields = ", ".join(target.table.properties.record_key_fields)
        refused += [
            BadRecord(int(numbers[row]), f"its key ({fields}) is null or empty") for row in null_keys.rows
        ]
        has_key = np.ones(rows.num_rows, dtype=bool)
        has_key[null_keys.rows] = False
        found, numbers = found.filter(pa.array(has_key)), numbers[has_key]
    kept.append(found)
    at.append(numbers)


def _no_rows(rows: pa.Table, target: IngestTarget, paths: PartitionPaths) -> pa.Table:
    keyed, _ = with_keys(_one_batch(rows[:0]), target.table, target.options, paths)
    return pa.Table.from_batches([keyed])


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    combined = rows.combine_chunks().to_batches()
    return combined[0] if combined else pa.RecordBatch.from_pylist([], schema=rows.schema)
