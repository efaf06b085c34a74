"""Columns of older files in the names and types that a table's schema has now (schema-on-read).

Follows the conversions of `SparkInternalSchemaConverter` and `HoodieAvroUtils` of Hudi 0.15. Values that
become texts are printed as Java prints them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.encoding.java_text import render_floating
from hudisql.read.files.conform import batch_of
from hudisql.read.files.decimals_and_dates import dates_of_texts, decimals_of_doubles, decimals_of_texts

_TO_BYTES = (pa.string(), pa.binary())


def promote_batch(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The columns of the batch, in their order, as `wanted`.

    Raises UnsupportedTableError for a change of type that has no conversion, pa.ArrowInvalid for values that
    do not fit.
    """
    if batch.schema.equals(wanted):
        return batch
    columns = [
        promote_array(column, field.type, field.name)
        for column, field in zip(batch.columns, wanted, strict=True)
    ]
    return batch_of(columns, wanted, batch.num_rows)


def promote_array(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """The values as the type, whose members stand in the same places; `name` is the column's for errors."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted):
        children = [
            promote_array(array.field(place), field.type, f"{name}.{field.name}")
            for place, field in enumerate(wanted)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_list(wanted) or pa.types.is_map(wanted):
        return _promote_elements(array, wanted, name)
    return _promote_values(array, wanted, name)


def _promote_elements(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_map(wanted):
        items = promote_array(array.items, wanted.item_type, name)
        values = pa.StructArray.from_arrays([array.keys, items], fields=[wanted.key_field, wanted.item_field])
    else:
        values = promote_array(array.values, wanted.value_type, name)
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), [validity, offsets], array.null_count, array.offset, children=[values]
    )


def _promote_values(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    kinds, stored = pa.types, array.type
    is_number = kinds.is_integer(stored) or kinds.is_floating(stored) or kinds.is_decimal(stored)
    if kinds.is_string(wanted):
        if kinds.is_floating(stored):
            return render_floating(array)
        if is_number or kinds.is_date(stored) or kinds.is_binary(stored):
            return pc.cast(array, wanted)
    elif stored == pa.float32() and wanted == pa.float64():
        # The double that has the float's text: 1.1 stays 1.1.
        return pc.cast(render_floating(array), wanted)
    elif kinds.is_integer(stored) and kinds.is_floating(wanted):
        return pc.cast(array, wanted, safe=False)
    elif kinds.is_integer(stored) and (kinds.is_integer(wanted) or kinds.is_decimal(wanted)):
        wide = pc.cast(array, pa.decimal128(19, 0)) if kinds.is_decimal(wanted) else array
        return pc.cast(wide, wanted)
    elif (kinds.is_decimal(stored) and kinds.is_decimal(wanted)) or (stored, wanted) == _TO_BYTES:
        return pc.cast(array, wanted)
    elif stored == pa.float64() and kinds.is_decimal(wanted):
        return decimals_of_doubles(array, wanted, name)
    elif kinds.is_string(stored) and kinds.is_decimal(wanted):
        return decimals_of_texts(array, wanted, name)
    elif kinds.is_string(stored) and kinds.is_date(wanted):
        return dates_of_texts(array, name)
    raise UnsupportedTableError(
        f"the column {name} is {stored} in older files and {wanted} now: this conversion is not supported",
        hint="read the table with Apache Hudi (hoodie.schema.on.read.enable=true)",
    )
