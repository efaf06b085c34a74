"""The changes of a column's type that every reader of Hudi tables reads correctly.

Measured with Apache Hudi 0.15 and 1.2, Spark and Hive (tests/oracle/test_schema_drift.py). Works on Arrow
types only.
"""

from __future__ import annotations

import pyarrow as pa


def is_same_type(declared: pa.DataType, stored: pa.DataType) -> bool:
    """True if the metastore's type and the file's are the same for every reader (nested names in any case).

    Hive's tinyint and smallint are parquet's INT32; Hive's timestamp says nothing about time zones.
    """
    if declared == stored:
        return True
    if pa.types.is_timestamp(declared) and pa.types.is_timestamp(stored):
        return True
    if pa.types.is_integer(declared) and declared.bit_width < 32 and stored == pa.int32():
        return True
    if pa.types.is_list(declared) and pa.types.is_list(stored):
        return is_same_type(declared.value_type, stored.value_type)
    if pa.types.is_map(declared) and pa.types.is_map(stored):
        return is_same_type(declared.key_type, stored.key_type) and is_same_type(
            declared.item_type, stored.item_type
        )
    if pa.types.is_struct(declared) and pa.types.is_struct(stored):
        return declared.num_fields == stored.num_fields and all(
            one.name.lower() == other.name.lower() and is_same_type(one.type, other.type)
            for one, other in zip(declared, stored, strict=True)
        )
    return False


def is_safe_widening(stored: pa.DataType, declared: pa.DataType) -> bool:
    """True if every reader reads a file's `stored` values correctly in a table that declares the wider type.

    Apache Hudi reads and merges int → bigint, float → double and a decimal that gains digits correctly
    if the commit schema has the wider type.
    """
    if pa.types.is_decimal(stored) and pa.types.is_decimal(declared):
        return bool(declared.scale == stored.scale and declared.precision > stored.precision)
    return (stored, declared) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def widest_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds both columns' values for every reader, or None if there is none.

    Inside lists, maps and structs only added struct fields are possible: Apache Hudi 0.15 cannot widen values
    there. Fields are matched by their exact name, as in Apache Hudi; the fields of `one` come first.
    """
    if pa.types.is_decimal(one) and pa.types.is_decimal(other) and one.scale == other.scale:
        return max(one, other, key=lambda value_type: value_type.precision)
    if is_safe_widening(one, other):
        return other
    if is_safe_widening(other, one):
        return one
    return _with_added_fields(one, other)


def _with_added_fields(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one == other:
        return one
    if pa.types.is_list(one) and pa.types.is_list(other):
        element = _with_added_fields(one.value_type, other.value_type)
        return None if element is None else pa.list_(one.value_field.with_type(element))
    if pa.types.is_map(one) and pa.types.is_map(other):
        item = _with_added_fields(one.item_type, other.item_type)
        if item is None or one.key_type != other.key_type:
            return None
        return pa.map_(one.key_field, one.item_field.with_type(item))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _merged_struct(one, other)
    return None


def _merged_struct(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    added = {field.name: field for field in other}
    fields = []
    for field in one:
        match = added.pop(field.name, None)
        merged = field.type if match is None else _with_added_fields(field.type, match.type)
        if merged is None:
            return None
        fields.append(field.with_type(merged))
    folded = {field.name.lower() for field in one}
    if any(name.lower() in folded for name in added):
        return None
    return pa.struct([*fields, *added.values()])
