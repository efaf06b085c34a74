from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError, InvalidArgumentError, UnsupportedTableError
from hudisql.format.avro.avro_rows import decode_framed_rows, encode_rows
from hudisql.format.schema.avro_schema import arrow_from_avro, avro_from_arrow

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))

# Arrow types as `format.schema` knows them, each with a strategy of its values.
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(max_size=8)),
    (pa.binary(), st.binary(max_size=8)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
    (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (pa.date32(), st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1))),
    (pa.timestamp("us", tz="UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC))),
    (pa.timestamp("us"), MOMENTS),
]


@st.composite
def types_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "list", "map", "struct"])) if depth else "leaf"
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    inner, values = draw(types_and_values(depth=depth - 1))
    nullable = st.none() | values
    if kind == "list":
        return pa.list_(pa.field("element", inner)), st.lists(nullable, max_size=3)
    if kind == "map":
        pairs = st.dictionaries(st.text(max_size=4), nullable, max_size=3).map(
            lambda found: list(found.items())
        )
        return pa.map_(pa.string(), inner), pairs
    other, other_values = draw(types_and_values(depth=depth - 1))
    struct = pa.struct([pa.field("a", inner), pa.field("b", other)])
    return struct, st.fixed_dictionaries({"a": nullable, "b": st.none() | other_values})


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(0, 6))
    columns, fields = [], []
    for number in range(draw(st.integers(1, 4))):
        field_type, values = draw(types_and_values())
        column = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns.append(pa.array(column, field_type))
        fields.append(pa.field(f"c{number}", field_type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _avro_value(value: Any, field_type: pa.DataType) -> Any:
    """A value as fastavro takes it."""
    if value is None:
        return None
    if pa.types.is_map(field_type):
        return {key: _avro_value(each, field_type.item_type) for key, each in value}
    if pa.types.is_list(field_type):
        return [_avro_value(each, field_type.value_type) for each in value]
    if pa.types.is_struct(field_type):
        return {each.name: _avro_value(value[each.name], each.type) for each in field_type}
    return value


def _framed(rows: list[Any], schema_text: str) -> bytes:
    parsed = fastavro.parse_schema(json.loads(schema_text))
    framed = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        framed.append(len(stream.getvalue()).to_bytes(4, "big") + stream.getvalue())
    return b"".join(framed)


@given(batches())
def test_rows_are_those_of_fastavro_both_ways(batch: pa.RecordBatch) -> None:
    schema_text = avro_from_arrow(batch.schema, "t")
    rows = [
        {field.name: _avro_value(row[field.name], field.type) for field in batch.schema}
        for row in batch.to_pylist()
    ]
    expected = _framed(rows, schema_text)
    assert encode_rows(batch, schema_text) == expected
    decoded = decode_framed_rows(expected, batch.num_rows, schema_text)
    decoded.validate(full=True)
    assert decoded.to_pylist() == batch.to_pylist()
    assert decoded.schema.types == arrow_from_avro(schema_text).types


@given(batches(), st.data())
def test_slices_of_batches_and_chosen_columns_are_the_same_rows(
    batch: pa.RecordBatch, data: st.DataObject
) -> None:
    schema_text = avro_from_arrow(batch.schema, "t")
    start = data.draw(st.integers(0, batch.num_rows))
    sliced = batch.slice(start, data.draw(st.integers(0, batch.num_rows - start)))
    names = data.draw(st.sets(st.sampled_from(batch.schema.names)))
    decoded = decode_framed_rows(encode_rows(sliced, schema_text), sliced.num_rows, schema_text, names)
    assert decoded.num_rows == sliced.num_rows
    chosen = [name for name in batch.schema.names if name in names]
    assert decoded.to_pylist() == (sliced.select(chosen).to_pylist() if chosen else [{}] * sliced.num_rows)


@given(batches(), st.data())
def test_damaged_rows_never_crash(batch: pa.RecordBatch, data: st.DataObject) -> None:
    schema_text = avro_from_arrow(batch.schema, "t")
    content = bytearray(encode_rows(batch, schema_text))
    if not content:
        return
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        decoded = decode_framed_rows(cut, batch.num_rows, schema_text)
    except CorruptTableError:
        return
    assert decoded.num_rows == batch.num_rows


def _record(*fields: tuple[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    )


def _decoded(rows: list[Any], schema_text: str) -> list[Any]:
    return decode_framed_rows(_framed(rows, schema_text), len(rows), schema_text).to_pylist()


def test_unions_may_name_null_last_or_not_at_all() -> None:
    schema = _record(("a", ["string", "null"]), ("b", "long"), ("c", ["null", "int"]))
    rows = [{"a": "x", "b": 1, "c": None}, {"a": None, "b": -1, "c": 7}]
    assert _decoded(rows, schema) == rows
    batch = decode_framed_rows(_framed(rows, schema), 2, schema)
    assert encode_rows(batch, schema) == _framed(rows, schema)


def test_unions_of_numbers_have_the_wider_type() -> None:
    schema = _record(("a", ["null", "int", "long"]), ("b", {"type": "array", "items": ["float", "double"]}))
    rows = [{"a": None, "b": []}, {"a": 1, "b": [1.5, ("double", 2.5)]}, {"a": 2**40, "b": [("float", 0.5)]}]
    assert _decoded(rows, schema) == [
        {"a": None, "b": []},
        {"a": 1, "b": [1.5, 2.5]},
        {"a": 2**40, "b": [0.5]},
    ]


def test_branches_of_a_union_within_lists_end_where_they_should() -> None:
    branch = {
        "type": "record",
        "name": "x",
        "fields": [{"name": "v", "type": {"type": "array", "items": "int"}}],
    }
    other = {"type": "record", "name": "y", "fields": [{"name": "w", "type": ["null", "string"]}]}
    item = {"type": "record", "name": "i", "fields": [{"name": "u", "type": ["null", branch, other]}]}
    schema = _record(("l", {"type": "array", "items": item}), ("after", "int"))
    rows = [
        {"l": [{"u": ("x", {"v": [1, 2]})}, {"u": None}, {"u": ("y", {"w": "z"})}], "after": 5},
        {"l": [], "after": 6},
        {"l": [{"u": ("y", {"w": None})}, {"u": ("x", {"v": []})}], "after": 7},
    ]
    found = _decoded(rows, schema)
    assert [row["after"] for row in found] == [5, 6, 7]
    assert [each["u"] for each in found[0]["l"]] == [
        {"1": {"v": [1, 2]}, "2": None},
        None,
        {"1": None, "2": {"w": "z"}},
    ]
    batch = decode_framed_rows(_framed(rows, schema), 3, schema)
    assert encode_rows(batch, schema) == _framed(rows, schema)


def test_enums_fixed_and_milliseconds_become_column_types() -> None:
    schema = _record(
        ("e", {"type": "enum", "name": "e", "symbols": ["RED", "BLUE"]}),
        ("again", ["null", "e"]),
        ("f", {"type": "fixed", "name": "f", "size": 3}),
        ("m", {"type": "long", "logicalType": "timestamp-millis"}),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    )
    moment = EPOCH + datetime.timedelta(milliseconds=-1234567)
    rows = [{"e": "BLUE", "again": "RED", "f": b"abc", "m": moment, "d": decimal.Decimal("-12.34")}]
    assert _decoded(rows, schema) == rows
    batch = decode_framed_rows(_framed(rows, schema), 1, schema)
    again = decode_framed_rows(encode_rows(batch, schema), 1, schema)
    assert again.to_pylist() == rows


def test_blocks_of_arrays_with_their_length_are_read() -> None:
    # Avro lets a writer split arrays into blocks and state their bytes (negative counts).
    schema = _record(("l", {"type": "array", "items": "int"}))
    row = bytes([0x03, 0x04, 0x02, 0x04, 0x02, 0x06, 0x00])  # -2 items of 2 bytes: 1, 2; then 1 item: 3
    content = len(row).to_bytes(4, "big") + row
    assert decode_framed_rows(content, 1, schema).to_pylist() == [{"l": [1, 2, 3]}]


def test_nan_and_signed_zero_keep_their_bits() -> None:
    schema = pa.schema([pa.field("d", pa.float64()), pa.field("f", pa.float32())])
    values = np.array([np.nan, -0.0, np.inf])
    batch = pa.record_batch([pa.array(values), pa.array(values.astype(np.float32))], schema=schema)
    text = avro_from_arrow(schema, "t")
    found = decode_framed_rows(encode_rows(batch, text), 3, text)
    assert found.column(0).buffers()[1].to_pybytes()[:24] == values.tobytes()
    assert found.column(1).buffers()[1].to_pybytes()[:12] == values.astype(np.float32).tobytes()


def test_rows_that_are_not_of_the_schema_are_refused() -> None:
    schema = _record(("a", "int"))
    with pytest.raises(InvalidArgumentError, match="their schema"):
        encode_rows(pa.record_batch([pa.array([1], pa.int32())], names=["b"]), schema)
    with pytest.raises(InvalidArgumentError, match="its schema says int32"):
        encode_rows(pa.record_batch([pa.array([1], pa.int64())], names=["a"]), schema)
    with pytest.raises(InvalidArgumentError, match="row 1 has a null"):
        encode_rows(pa.record_batch([pa.array([1, None], pa.int32())], names=["a"]), schema)
    with pytest.raises(UnsupportedTableError, match="the type null"):
        decode_framed_rows(b"", 0, _record(("a", ["null"])))
    with pytest.raises(CorruptTableError, match="cannot hold"):
        decode_framed_rows(b"", 5, schema)
