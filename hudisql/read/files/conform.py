"""Convert Arrow columns of parquet files to the exact types of a table's schema.

Files of one table differ: in names of list items, required or missing columns, widths of decimals and
timestamps, fields of pruned structs. Spark accepts only the announced schema, so every column is converted,
without a copy of the values if the physical type is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.read.calendar.hybrid_calendar import Rebase


def find_field(fields: pa.Schema | pa.StructType, name: str) -> int:
    """The position of a field by exact name, else by case-insensitive name if that is unique, else -1."""
    names = [field.name for field in fields]
    if name in names:
        return names.index(name)
    folded = [index for index, other in enumerate(names) if other.lower() == name.lower()]
    return folded[0] if len(folded) == 1 else -1


def conform_array(array: pa.Array, wanted: pa.DataType, rebase: Rebase | None = None) -> pa.Array:
    """`array` as the type `wanted`: struct fields by name, missing ones null, leaves cast without loss.

    `rebase` is the column's rebase by `hybrid_calendar`. Timestamps of nanoseconds are cut to microseconds.
    Raises pa.ArrowInvalid if a value does not fit, pa.ArrowNotImplementedError if no cast exists,
    UnsupportedTableError for dates that cannot be rebased.
    """
    if array.type == wanted and not rebase:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return conform_array(array.storage, wanted, rebase)
    if pa.types.is_dictionary(array.type):
        return conform_array(array.dictionary_decode(), wanted, rebase)
    inner = rebase if isinstance(rebase, Mapping) else {}
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        return _conform_struct(array, wanted, inner)
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        return _conform_map(array, wanted, inner)
    if pa.types.is_list(wanted) and is_list_like(array.type):
        return _conform_list(array, wanted, inner)
    if callable(rebase):
        array = rebase(array)
    return pc.cast(array, options=pc.CastOptions(wanted, allow_time_truncate=True))


def rebase_batch(batch: pa.RecordBatch, rebases: Mapping[str, Rebase]) -> pa.RecordBatch:
    """The batch of a file with its dates and timestamps in today's calendar; see `hybrid_calendar`."""
    if not rebases:
        return batch
    columns = [
        conform_array(column, column.type, rebases.get(name))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=batch.schema)


def constant_column(value: object, column_type: pa.DataType, rows: int) -> pa.Array:
    """A column that holds one value in every row; None gives nulls."""
    if value is None:
        return pa.nulls(rows, column_type)
    return pa.repeat(pa.scalar(value, column_type), rows)


def batch_of(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record batch of the columns, with its number of rows even if there are no columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def conform_batch(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The columns of `wanted`, found by name, with its types."""
    columns = [conform_array(batch.column(each.name), each.type) for each in wanted]
    return batch_of(columns, wanted, batch.num_rows)


def with_dictionaries(wanted: pa.Schema, found: pa.Schema) -> pa.Schema:
    """`wanted` with dictionary types for the columns that are dictionaries in `found`."""
    kinds = {each.name: each.type for each in found if pa.types.is_dictionary(each.type)}
    return pa.schema([each.with_type(kinds.get(each.name, each.type)) for each in wanted])


def is_list_like(data_type: pa.DataType) -> bool:
    """True for lists of any length, large ones and those of a fixed size."""
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    )


def _conform_struct(
    array: pa.StructArray, wanted: pa.StructType, rebases: Mapping[str, Rebase]
) -> pa.StructArray:
    children = []
    for field in wanted:
        index = find_field(array.type, field.name)
        if index < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            rebase = rebases.get(array.type.field(index).name)
            children.append(conform_array(array.field(index), field.type, rebase))
    mask = array.is_null() if array.null_count else None
    if not children:
        return pa.nulls(len(array), wanted)
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _conform_list(array: pa.Array, wanted: pa.ListType, rebases: Mapping[str, Rebase]) -> pa.ListArray:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    values = conform_array(array.values, wanted.value_type, rebases.get("element"))
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), [validity, offsets], array.null_count, array.offset, children=[values]
    )


def _conform_map(array: pa.MapArray, wanted: pa.MapType, rebases: Mapping[str, Rebase]) -> pa.MapArray:
    keys = conform_array(array.keys, wanted.key_type, rebases.get("key"))
    items = conform_array(array.items, wanted.item_type, rebases.get("value"))
    entries = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), [validity, offsets], array.null_count, array.offset, children=[entries]
    )
