"""Columns of a writer's schema as columns of the table's, by Avro's rules of schema resolution.

Fields are matched by name; int, long, float and double are widened, string and bytes exchanged; what the
writer lacks is null. Times that Kafka Connect and Debezium send as integers are read by their semantic type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.ingest.parse.json_program import EPOCH_UNITS

WIDER: Final[Mapping[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
    pa.binary(): (pa.string(),),
    pa.string(): (pa.binary(),),
}

EPOCHS: Final[Mapping[str, str]] = {
    "io.debezium.time.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
    "org.apache.kafka.connect.data.Timestamp": "millis",
}
"""Semantic types of integers that are times since 1970."""

DATES: Final = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")


def type_of_semantic(name: str | None) -> pa.DataType | None:
    """The type of a new column of that semantic type; None for other types."""
    if name in DATES:
        return pa.date32()
    return pa.timestamp("us", tz="UTC") if name in EPOCHS else None


class UnresolvableError(Exception):
    """A column cannot be read as the table's; the message has the reason."""


class UnresolvableValueError(UnresolvableError):
    """A value cannot be read as the table's column; other values of its writer may be readable."""


def resolve_rows(
    columns: pa.RecordBatch, schema: pa.Schema, semantic: Mapping[str, str]
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], dict[int, str]]:
    """Like `resolve_columns`: the readable rows, their numbers, and the reason for each other number.

    Unreadable rows are found by bisection. Raises UnresolvableError if the columns' types cannot be read.
    """
    kept: list[pa.RecordBatch] = []
    numbers: list[npt.NDArray[np.int64]] = []
    reasons: dict[int, str] = {}
    left = [np.arange(columns.num_rows)]
    while left:
        rows = left.pop()
        whole = len(rows) == columns.num_rows
        try:
            # Taken, not sliced: what is cast are the values below nested columns, too.
            part = columns if whole else columns.take(pa.array(rows))
            kept.append(resolve_columns(part, schema, semantic))
            numbers.append(rows)
        except UnresolvableValueError as error:
            if len(rows) == 1:
                reasons[int(rows[0])] = str(error)
                continue
            half = len(rows) // 2
            left += [rows[half:], rows[:half]]
    if not kept:
        return pa.RecordBatch.from_pylist([], schema=schema), np.zeros(0, np.int64), reasons
    if len(kept) == 1:
        return kept[0], numbers[0], reasons
    return pa.Table.from_batches(kept).combine_chunks().to_batches()[0], np.concatenate(numbers), reasons


def semantic_types(fields: list[Any]) -> dict[str, str]:
    """The `connect.name` of each field of an Avro record that has one."""
    found = {}
    for field in fields:
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for branch in branches:
            if isinstance(branch, dict) and "connect.name" in branch:
                found[field["name"]] = branch["connect.name"]
    return found


def record_fields(schema_text: str) -> list[Any]:
    """The fields of an Avro record schema."""
    document = json.loads(schema_text)
    return list(document["fields"]) if isinstance(document, dict) else []


def resolve_columns(
    columns: pa.RecordBatch, schema: pa.Schema, semantic: Mapping[str, str]
) -> pa.RecordBatch:
    """The table's columns of a writer's. Raises UnresolvableError."""
    arrays = []
    for field in schema:
        number = columns.schema.get_field_index(field.name)
        if number < 0:
            arrays.append(pa.nulls(columns.num_rows, field.type))
        else:
            arrays.append(_resolve(columns.column(number), field.type, field.name, semantic.get(field.name)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _resolve(
    found: pa.Array,
    kind: pa.DataType,
    where: str,
    semantic: str | None = None,
) -> pa.Array:
    types = pa.types
    if types.is_struct(kind) and types.is_struct(found.type):
        inner = pa.RecordBatch.from_arrays(found.flatten(), names=[field.name for field in found.type])
        resolved = resolve_columns(inner, pa.schema(list(kind)), {})
        return pa.StructArray.from_arrays(resolved.columns, fields=list(kind), mask=found.is_null())
    if types.is_list(kind) and types.is_list(found.type):
        items = _resolve(found.values, kind.value_type, f"{where}.element")
        return pa.ListArray.from_arrays(found.offsets, items, type=kind, mask=_mask(found))
    if types.is_map(kind) and types.is_map(found.type):
        items = _resolve(found.items, kind.item_type, f"{where}.value")
        return pa.MapArray.from_arrays(found.offsets, found.keys, items, type=kind, mask=_mask(found))
    if found.type == kind:
        return found
    if kind in WIDER.get(found.type, ()):
        # Bytes may be no text; whole numbers may lose digits as floating ones, as Avro has it.
        if types.is_binary(found.type):
            return _cast(found, kind, where)
        return pc.cast(found, kind, safe=False)
    if types.is_integer(kind) and types.is_integer(found.type) and kind.bit_width < found.type.bit_width:
        raise UnresolvableError(f"column {where} is {found.type}, the table's {kind} is narrower")
    if types.is_decimal(kind) and types.is_decimal(found.type) and found.type.scale <= kind.scale:
        return _cast(found, kind, where)
    unit = EPOCHS.get(semantic or "")
    if types.is_timestamp(kind) and types.is_integer(found.type) and unit is not None:
        return _from_epoch(found, kind, unit, where)
    if types.is_date(kind) and found.type == pa.int32() and semantic in DATES:
        return found.view(kind)
    if types.is_string(found.type) and (types.is_decimal(kind) or types.is_timestamp(kind)):
        return _cast(found, kind, where)
    raise UnresolvableError(f"column {where} is {found.type}, which is not read as the table's {kind}")


def _mask(found: pa.Array) -> pa.Array | None:
    return found.is_null() if found.null_count else None


def _from_epoch(found: pa.Array, kind: pa.DataType, unit: str, where: str) -> pa.Array:
    factor = EPOCH_UNITS[unit]
    wide = pc.cast(found, pa.int64())
    if factor < 0:
        numbers = wide.fill_null(0).to_numpy() // -factor
        wide = pa.array(numbers, mask=np.asarray(wide.is_null()))
    elif factor > 1:
        try:
            wide = pc.multiply_checked(wide, factor)
        except pa.ArrowInvalid as error:
            raise UnresolvableValueError(f"column {where} has a time that {kind} does not hold") from error
    return wide.view(kind)


def _cast(found: pa.Array, kind: pa.DataType, where: str) -> pa.Array:
    try:
        return pc.cast(found, kind)
    except pa.ArrowInvalid as error:
        raise UnresolvableValueError(f"column {where} has a value that is no {kind}: {error}") from error
