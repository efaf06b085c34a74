import datetime
import decimal
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.type_safety import (
    TYPE_INCOMPATIBILITIES,
    classify_columns,
)
from hudisql.format.schema.avro_schema import TIMESTAMP


def _classify(array: pa.Array, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": array}), sink, store_schema=False, **options)
    ((name, classified),) = classify_columns(pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.schema)
    assert name == "c"
    return classified.type, set(classified.incompatibilities)


_MOMENT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("array", "options", "table_type", "incompatibilities"),
    [
        (pa.array([1], pa.int8()), {}, pa.int32(), set()),
        (pa.array([1], pa.int16()), {}, pa.int32(), set()),
        (pa.array([1], pa.uint16()), {}, pa.int32(), set()),
        (pa.array([1], pa.uint32()), {}, pa.int64(), {"uint32"}),
        (pa.array([1], pa.uint64()), {}, None, {"uint64"}),
        (pa.array([1.5], pa.float32()), {}, pa.float32(), set()),
        (pa.array([1.5], pa.float16()), {}, None, {"float16"}),
        (pa.array(["x"]), {}, pa.string(), set()),
        (pa.array(["x"]).dictionary_encode(), {}, pa.string(), set()),
        (pa.array(["x"], pa.large_string()), {}, pa.string(), set()),
        (pa.array([b"x"]), {}, pa.binary(), set()),
        (pa.array([b"xyz"], pa.binary(3)), {}, pa.binary(), {"fixed_binary"}),
        (pa.array([datetime.date(2024, 1, 1)]), {}, pa.date32(), set()),
        (pa.array([1], pa.time64("us")), {}, None, {"time"}),
        (pa.nulls(1), {}, None, {"null_type"}),
        (pa.array([_MOMENT], pa.timestamp("us", "UTC")), {}, TIMESTAMP, {"timestamp_micros"}),
        (pa.array([_MOMENT], pa.timestamp("ms", "UTC")), {}, TIMESTAMP, {"timestamp_millis"}),
        (pa.array([_MOMENT], pa.timestamp("ns", "UTC")), {"version": "2.6"}, TIMESTAMP, {"timestamp_nanos"}),
        (pa.array([_MOMENT], pa.timestamp("ns")), {"version": "2.6"}, None, {"timestamp_ntz_nanos"}),
        (pa.array([_MOMENT], pa.timestamp("us")), {}, pa.timestamp("us"), {"timestamp_ntz"}),
        (
            pa.array([_MOMENT], pa.timestamp("us")),
            {"use_deprecated_int96_timestamps": True},
            TIMESTAMP,
            {"int96"},
        ),
        (pa.array([decimal.Decimal("1.20")], pa.decimal128(5, 2)), {}, pa.decimal128(5, 2), set()),
        (
            pa.array([decimal.Decimal("1.20")], pa.decimal128(5, 2)),
            {"store_decimal_as_integer": True},
            pa.decimal128(5, 2),
            {"integer_decimal"},
        ),
        (
            pa.array([decimal.Decimal("1.20")], pa.decimal128(12, 2)),
            {"store_decimal_as_integer": True},
            pa.decimal128(12, 2),
            {"integer_decimal"},
        ),
        (pa.array([decimal.Decimal(1)], pa.decimal256(40, 0)), {}, None, {"unsupported"}),
        (
            pa.array([[{"a": 1}]]),
            {},
            pa.list_(pa.field("element", pa.struct([("a", pa.int64())]))),
            {"single_field_struct_list"},
        ),
        (
            pa.array([[{"a": 1, "b": "x"}]]),
            {},
            pa.list_(pa.field("element", pa.struct([("a", pa.int64()), ("b", pa.string())]))),
            set(),
        ),
        (pa.array([[1]], pa.list_(pa.int32())), {}, pa.list_(pa.field("element", pa.int32())), set()),
        (
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.uint32())),
            {},
            pa.map_(pa.string(), pa.int64()),
            {"uint32"},
        ),
        (pa.array([[(1, 1)]], pa.map_(pa.int32(), pa.int32())), {}, None, {"map_key"}),
        (
            pa.array(
                [{"a": {"t": _MOMENT}}], pa.struct([("a", pa.struct([("t", pa.timestamp("ms", "UTC"))]))])
            ),
            {},
            pa.struct([("a", pa.struct([("t", TIMESTAMP)]))]),
            {"timestamp_millis"},
        ),
    ],
)
def test_a_parquet_type_becomes_the_tables_type_with_its_hazards(
    array, options, table_type, incompatibilities
):
    assert _classify(array, **options) == (table_type, incompatibilities)


def test_columns_after_a_nested_one_keep_their_own_types():
    sink = io.BytesIO()
    table = pa.table(
        {
            "s": [{"a": 1, "l": [["x"]]}],
            "m": pa.array([[("k", 1.0)]], pa.map_(pa.string(), pa.float64())),
            "z": ["z"],
        }
    )
    pq.write_table(table, sink)
    columns = classify_columns(pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.schema)
    assert [(name, str(column.type)) for name, column in columns] == [
        ("s", "struct<a: int64, l: list<element: list<element: string>>>"),
        ("m", "map<string, double>"),
        ("z", "string"),
    ]


def test_two_level_lists_are_told_from_three_level_ones():
    # What Hive and parquet-avro wrote before 3-level lists: the repeated group itself is the element.
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": [[{"a": 1}]]}), sink, use_compliant_nested_type=False)
    schema = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.schema
    assert schema.column(0).path == "c.list.item.a"
    ((_, classified),) = classify_columns(schema)
    assert classified.incompatibilities == {"single_field_struct_list"}


def test_every_hazard_says_who_breaks_and_a_mended_one_is_one_that_stops():
    for name, incompatibility in TYPE_INCOMPATIBILITIES.items():
        assert incompatibility.is_unsafe or not incompatibility.fixed_by_full_record, name
        assert incompatibility.stored, name
        assert incompatibility.consequences, name
        assert all(incompatibility.consequences), name
