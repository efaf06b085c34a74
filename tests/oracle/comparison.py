"""Comparing what two readers say of one table: the same rows, in no promised order, column by column.

Arrow types may differ in form only (large strings, dictionary, time zone spelling), never in kind: an int64
is not an int32, a date is not a string.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.read.scan.arrow_scan import read_task
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.table.hudi_table import HudiTable
from tests.oracle.client import HudiOracle

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
UNIQUE_COLUMN = "_hoodie_commit_seqno"


def our_rows(table: HudiTable) -> pa.Table:
    """The table's latest rows as hudisql reads them, meta columns included."""
    plan = plan_scan(ScanRequest(table, table.full_schema))
    batches = [
        batch
        for task in plan.tasks
        for batch in read_task(plan.storage, task, plan.columns, None, log_merge_config=plan.log_merge_config)
    ]
    return pa.Table.from_batches(batches, plan.columns)


def read_by_both(
    oracle: HudiOracle, session: Any, name: str, path: str, *, sort_by: Sequence[str] = ("seq",)
) -> pa.Table:
    """The rows of a table as Apache Hudi reads them at `path`; hudisql reads the same ones by `name`."""
    theirs = oracle.read(path)
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    assert_same_rows(ours, theirs, sort_by=sort_by)
    return theirs


def assert_same_rows(actual: pa.Table, expected: pa.Table, *, sort_by: Sequence[str]) -> None:
    """Assert that both tables have the same columns, types and rows once sorted by `sort_by` (unique)."""
    assert actual.column_names == expected.column_names
    kinds = [
        (name, actual.schema.field(name).type, expected.schema.field(name).type)
        for name in actual.column_names
    ]
    assert [
        (name, type_kind(ours), type_kind(theirs))
        for name, ours, theirs in kinds
        if type_kind(ours) != type_kind(theirs)
    ] == []
    assert actual.num_rows == expected.num_rows
    order = [(name, "ascending") for name in sort_by]
    ours, theirs = (table.take(pc.sort_indices(table, order)) for table in (actual, expected))
    for name in actual.column_names:
        left, right = ours[name].to_pylist(), theirs[name].to_pylist()
        differing = [
            (row, a, b) for row, (a, b) in enumerate(zip(left, right, strict=True)) if not _equal(a, b)
        ]
        assert not differing, f"{name}: {len(differing)} of {len(left)} rows differ, first {differing[:3]}"


def _equal(left: object, right: object) -> bool:
    # NaN is one value here, as in SQL's grouping; and Arrow gives maps as lists of pairs, in writer's order.
    return left == right or (left != left and right != right)


def type_kind(data_type: pa.DataType) -> str:
    """The type's name without what is only form: nullability, element names, offset width, UTC's spelling."""
    if pa.types.is_dictionary(data_type):
        return type_kind(data_type.value_type)
    if pa.types.is_large_string(data_type) or pa.types.is_string(data_type):
        return "string"
    if pa.types.is_large_binary(data_type) or pa.types.is_binary(data_type):
        return "binary"
    if pa.types.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    if pa.types.is_map(data_type):
        return f"map<{type_kind(data_type.key_type)},{type_kind(data_type.item_type)}>"
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return f"list<{type_kind(data_type.value_type)}>"
    if pa.types.is_struct(data_type):
        return "struct<" + ",".join(f"{field.name}:{type_kind(field.type)}" for field in data_type) + ">"
    return str(data_type)


def golden_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as the golden files hold them: Spark's toJSON in UTC, null fields left out."""
    return [_without_nulls(_json_value(row)) for row in _with_maps(table)]


def _with_maps(table: pa.Table) -> list[dict[str, Any]]:
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row.update({name: dict(row[name]) for name in maps if row[name] is not None})
    return rows


def _json_value(value: Any) -> Any:
    match value:
        case dict():
            return {key: _json_value(item) for key, item in value.items()}
        case list():
            return [_json_value(item) for item in value]
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case _:
            return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
