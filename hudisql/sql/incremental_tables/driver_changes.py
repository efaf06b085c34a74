"""Finds the changes of a refresh on the driver: for few rows Spark runs only the query, without a MERGE.

The slice reader reads the stored rows with their locations; they are compared with the query's rows as Arrow
columns. Cases that the driver cannot decide, such as a repeated key, are left to the MERGE, which reports
errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.schema import meta_columns
from hudisql.read.changes.row_multisets import equal_row_numbers
from hudisql.read.files.conform import conform_batch
from hudisql.read.files.few_batches import few_batches
from hudisql.read.files.predicates import InSet, IsNull, Or, Predicate
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.read.scan.arrow_scan import calendar_settings, read_plan
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.spark.few_rows import with_stored_types
from hudisql.spark.versions import to_arrow
from hudisql.sql.dml.statement_scope import StatementScope
from hudisql.sql.incremental_tables.changed_rows import refresh_driver_bytes
from hudisql.sql.incremental_tables.maintained_columns import MaintainedValues
from hudisql.storage.parallel_reads import read_small
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.write.changes import (
    FILE_GROUP,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    SEQUENCE_NUMBER,
    RowOperation,
    change_schema,
)
from hudisql.write.index.key_encoding import uses_complex_key_encoding
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys, possible_keys, read_key_footer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Tasks read the footers of more files faster.
_MOST_FOOTERS: Final = 500
_MOST_BYTES: Final = 512 << 20
"""Limit of stored rows in memory: files may be much smaller than their rows."""


@dataclass(frozen=True)
class DriverChanges:
    """The changes of a refresh: columns of `change_schema`. `query` is the number of new rows, `stored_rows`
    that of rows read from the table.
    """

    rows: pa.Table
    query: DataFrame
    stored_rows: int

    def counts(self) -> tuple[int, int]:
        """The numbers of rows to write and to delete."""
        operations = [RowOperation(operation) for operation in self.rows.column(OPERATION).to_pylist()]
        return sum(not operation.removes for operation in operations), operations.count(RowOperation.DELETE)


def changes_on_driver(
    scope: StatementScope, new: DataFrame, key: Sequence[str], values: MaintainedValues
) -> DriverChanges | None:
    """The changes that turn the stored rows with these values into `new`.

    `new` has the table's columns and types. None if MERGE has to do it: the rows may be many, or of nested
    types, or a key occurs twice. Raises CorruptTableError, StorageError, and Spark's own exceptions.
    """
    table = scope.table
    in_case = {name.lower(): name for name in table.schema.names}
    key = [in_case[column.lower()] for column in key]
    maintained = [in_case[column.lower()] for column in values.columns]
    # With the key there are at most as many rows as values.
    if values.few is None or not set(key) <= set(maintained) or not _is_comparable(table, key):
        return None
    few = with_stored_types(values.few)
    stored = _stored_rows(scope, maintained, few)
    if stored is None:
        return None
    old = _with_values(stored, maintained, few)
    batches = to_arrow(new).combine_chunks().to_batches()
    fresh = pa.Table.from_batches([conform_batch(batch, table.schema) for batch in batches], table.schema)
    new_keys, old_keys = equal_row_numbers([fresh.select(key), old.select(key)])
    if _repeats(new_keys) or _repeats(old_keys):
        return None
    inserted = fresh.filter(pa.array(~np.isin(new_keys, old_keys)))
    if not set(maintained) <= set(key) and _may_be_stored(scope, inserted):
        return None
    deleted = old.filter(pa.array(~np.isin(old_keys, new_keys)))
    _, at_new, at_old = np.intersect1d(new_keys, old_keys, assume_unique=True, return_indices=True)
    changes = [
        _changes(table, RowOperation.INSERT, inserted, None),
        _changes(table, RowOperation.DELETE, deleted, deleted),
        *_updates(table, fresh.take(pa.array(at_new)), old.take(pa.array(at_old))),
    ]
    return DriverChanges(pa.concat_tables(changes), new, stored.num_rows)


def _is_comparable(table: HudiTable, key: Sequence[str]) -> bool:
    if table.properties.has_register_only_partitions or table.properties.generates_record_keys:
        return False
    types = [field.type for field in table.schema]
    keys = [table.schema.field(column).type for column in key]
    return not any(map(pa.types.is_nested, types)) and not any(map(pa.types.is_floating, keys))


def _repeats(numbers: npt.NDArray[np.int64]) -> bool:
    return len(np.unique(numbers)) < len(numbers)


def _stored_rows(scope: StatementScope, columns: Sequence[str], values: pa.Table) -> pa.Table | None:
    """The stored rows with these values and some others, with meta columns; None if they are large."""
    table = scope.table
    one_of = (_one_of(name, values.column(at)) for at, name in enumerate(columns))
    predicates = [predicate for predicate in one_of if predicate is not None]
    plan = plan_scan(
        ScanRequest(table, table.full_schema, predicates, driver_bytes=refresh_driver_bytes(scope))
    )
    if not plan.on_driver:
        return None
    batches = few_batches(read_plan(plan, calendar_settings(scope.context.spark)), _MOST_BYTES)
    if batches is None:
        return None
    return pa.Table.from_batches(
        [conform_batch(batch, table.full_schema) for batch in batches], table.full_schema
    )


def _with_values(rows: pa.Table, columns: Sequence[str], values: pa.Table) -> pa.Table:
    sides = [rows.select(columns), values.rename_columns(list(columns))]
    of_rows, of_values = equal_row_numbers([_as_compared(side) for side in sides])
    return rows.filter(pa.array(np.isin(of_rows, of_values)))


def _one_of(name: str, values: pa.ChunkedArray) -> Predicate | None:
    """The column has one of the values, or NULL for empty text. None if file statistics cannot decide it."""
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_decimal)
    if not any(is_kind(values.type) for is_kind in kinds):
        return None
    known = pc.unique(values.combine_chunks()).drop_null()
    chosen = InSet((name,), known.take(pc.array_sort_indices(known)))
    has_empty = pa.types.is_string(known.type) and pc.any(pc.equal(known, "")).as_py()
    return Or((chosen, IsNull((name,)))) if values.null_count or has_empty else chosen


def _as_compared(rows: pa.Table) -> pa.Table:
    """Convert values as `changed_rows.rows_of_values` compares them: integers of all sizes, '' as NULL."""
    columns = []
    for column in rows.columns:
        if pa.types.is_integer(column.type):
            columns.append(column.cast(pa.int64()))
        elif pa.types.is_timestamp(column.type):
            columns.append(column.cast(pa.timestamp("us", column.type.tz and "UTC")))
        else:
            columns.append(pc.fill_null(column, "") if pa.types.is_string(column.type) else column)
    return pa.table(columns, names=rows.schema.names)


def _may_be_stored(scope: StatementScope, rows: pa.Table) -> bool:
    """True if a record key of the rows is anywhere in the table, or finding out would read too much."""
    table = scope.table
    if not rows.num_rows:
        return False
    fields = table.properties.record_key_fields
    complex_keys = uses_complex_key_encoding(table)
    keys = render_record_keys(rows.combine_chunks(), fields, complex_keys=complex_keys).keys
    keys = pc.unique(keys).drop_null()
    slices = load_file_slices(table, list_partitions(table))
    if len(slices) > _MOST_FOOTERS:
        return True

    def keys_to_find(file_slice: FileSlice) -> pa.StringArray:
        if file_slice.has_log_files or file_slice.base_file is None:
            return keys
        return possible_keys(read_key_footer(table.storage, file_slice.base_file.path), keys)

    wanted = zip(slices, read_small(keys_to_find, slices, table.base_path), strict=True)
    candidates = [(file_slice, some) for file_slice, some in wanted if len(some)]
    if sum(file_slice.length for file_slice, _ in candidates) > refresh_driver_bytes(scope):
        return True
    config = log_merge_config_for(table, [file_slice for file_slice, _ in candidates])
    return any(
        batch.num_rows
        for file_slice, some in candidates
        for batch in find_keys(
            table.storage, SliceLookup(file_slice, log_merge_config=config), some, prunes_by_footer=False
        )
    )


def _updates(table: HudiTable, new: pa.Table, old: pa.Table) -> list[pa.Table]:
    """The changes of rows on both sides; one whose key or partition changes is deleted and inserted."""
    differs = _differs(new, old, table.schema.names)
    fields = {*table.properties.record_key_fields, *table.properties.partition_fields}
    roots = {field.split(".")[0].lower() for field in fields}
    moves = _differs(new, old, [name for name in table.schema.names if name.lower() in roots])
    updates, moved = differs & ~moves, differs & moves
    return [
        _changes(table, RowOperation.UPDATE, new.filter(pa.array(updates)), old.filter(pa.array(updates))),
        _changes(table, RowOperation.MOVE_OUT, new.filter(pa.array(moved)), old.filter(pa.array(moved))),
        _changes(table, RowOperation.MOVE_IN, new.filter(pa.array(moved)), None),
    ]


def _differs(new: pa.Table, old: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    found = np.zeros(new.num_rows, np.bool_)
    for one, two in ((new.column(name), old.column(name)) for name in names):
        equal = pc.fill_null(pc.equal(one, two), False)
        both = [pc.and_(pc.is_null(one), pc.is_null(two))]
        if pa.types.is_floating(one.type):
            both.append(pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(two)), False))
        found |= ~np.asarray(reduce(pc.or_, both, equal).to_numpy(), np.bool_)
    return found


def _changes(table: HudiTable, operation: RowOperation, rows: pa.Table, stored: pa.Table | None) -> pa.Table:
    """The rows with their operations, and the locations of the stored rows that they change."""
    schema = change_schema(table.schema)
    columns = {name: rows.column(name) for name in table.schema.names}
    columns[OPERATION] = pa.repeat(pa.scalar(int(operation), pa.int8()), rows.num_rows)
    if stored is None:
        columns |= dict.fromkeys(
            (PARTITION, FILE_GROUP, RECORD_KEY, SEQUENCE_NUMBER), pa.nulls(rows.num_rows, pa.string())
        )
    else:
        names = stored.column(meta_columns.FILE_NAME)
        columns[PARTITION] = stored.column(meta_columns.PARTITION_PATH)
        columns[FILE_GROUP] = pc.replace_substring_regex(names, pattern="_.*$", replacement="")
        columns[RECORD_KEY] = stored.column(meta_columns.RECORD_KEY)
        columns[SEQUENCE_NUMBER] = pc.fill_null(stored.column(meta_columns.COMMIT_SEQNO), "")
    return pa.table([columns[name] for name in schema.names], schema=schema)
