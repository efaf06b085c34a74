from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudisql.errors import InvalidArgumentError
from hudisql.format.encoding.java_text import render_floating
from hudisql.format.keys.record_keys import RepeatedKeys, render_record_keys, repeated_keys
from hudisql.spark.versions import to_arrow
from tests.spark_versions import frame_of_arrow

MOMENT = 1_577_882_096_789_000  # 2020-01-01 12:34:56.789 UTC in microseconds


def _keys(values: pa.Array, **options: bool) -> list[str | None]:
    batch = pa.record_batch({"k": values})
    return render_record_keys(batch, ["k"], complex_keys=False, **options).keys.to_pylist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["é x", "", None]), ["é x", "", None]),
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([12.5, 100.0, 12.5]).dictionary_encode(), ["12.5", "100.0", "12.5"]),
        (pa.array([-128, 127], pa.int8()), ["-128", "127"]),
        (pa.array([-(2**63), 2**63 - 1]), ["-9223372036854775808", "9223372036854775807"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([date(2020, 1, 1), None]), ["2020-01-01", None]),
        (pa.array([2_932_896, 2_932_897], pa.date32()), ["9999-12-31", "+10000-01-01"]),
        (pa.array([-719_529], pa.date32()), ["-0001-12-31"]),
        (pa.array([MOMENT // 10**6], pa.timestamp("s")), ["1577882096000000"]),
        (pa.array([MOMENT // 1000], pa.timestamp("ms", "Europe/Berlin")), ["1577882096789000"]),
        (pa.array([MOMENT, -1, None], pa.timestamp("us", "UTC")), ["1577882096789000", "-1", None]),
        (pa.array([MOMENT * 1000 + 999, -1], pa.timestamp("ns")), ["1577882096789000", "-1"]),
        (pa.array([Decimal("12.30"), Decimal("-0.05")], pa.decimal128(12, 2)), ["12.30", "-0.05"]),
        (pa.array([Decimal("0.0000001"), Decimal("0E-7")], pa.decimal128(9, 7)), ["1E-7", "0E-7"]),
        (pa.array([Decimal(10**30)], pa.decimal128(38, 0)), [str(10**30)]),
    ],
)
def test_each_type_is_rendered_as_by_the_upsert_of_apache_hudi(
    values: pa.Array, expected: list[str | None]
) -> None:
    assert _keys(values) == expected


# Left: the number; right: what Double.toString and Float.toString of Java 17 printed.
DOUBLES = [
    (1e10, "1.0E10"), (1e-5, "1.0E-5"), (100.0, "100.0"), (0.0, "0.0"), (-0.0, "-0.0"),
    (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (0.000999, "9.99E-4"),
    (100000000.5, "1.000000005E8"), (-123456789.125, "-1.23456789125E8"), (1e22, "1.0E22"),
    (1.7976931348623157e308, "1.7976931348623157E308"), (2.2250738585072014e-308, "2.2250738585072014E-308"),
    (5e-324, "4.9E-324"), (3.3528402851590384e25, "3.3528402851590383E25"),
    (18170836935512928.0, "1.8170836935512928E16"), (-1.951284800308241e16, "-1.9512848003082408E16"),
    (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (float("nan"), "NaN"), (4.35, "4.35"),
]  # fmt: skip
FLOATS = [
    (1e10, "1.0E10"), (0.1, "0.1"), (3.4028235e38, "3.4028235E38"), (16777216.0, "1.6777216E7"),
    (33696752.0, "3.3696752E7"), (-35015888.0, "-3.5015888E7"), (2.89307591e11, "2.89307591E11"),
    (-5.0703939e13, "-5.0703939E13"), (12.5, "12.5"), (1e-5, "1.0E-5"),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "number_type"), [(DOUBLES, pa.float64()), (FLOATS, pa.float32())])
def test_floating_numbers_are_printed_as_by_java(
    numbers: list[tuple[float, str]], number_type: pa.DataType
) -> None:
    values = pa.array([number for number, _ in numbers], number_type)
    assert _keys(values) == [text for _, text in numbers]
    assert _keys(pa.array([None, 1.0, None], number_type)) == [None, "1.0", None]


@pytest.mark.spark
@pytest.mark.parametrize("width", [64, 32], ids=["double", "float"])
def test_every_number_has_the_text_that_java_prints(spark: Any, width: int) -> None:
    version = spark.sparkContext._jvm.java.lang.System.getProperty("java.specification.version")
    if version not in ("1.8", "11", "17"):
        pytest.skip(f"Java {version} prints other digits than the Java that Hudi runs on")
    number_type = pa.float64() if width == 64 else pa.float32()
    whole_type = np.uint64 if width == 64 else np.uint32

    @settings(max_examples=15, deadline=None)
    @given(
        st.lists(st.floats(width=width), max_size=50),  # type: ignore[arg-type]
        st.integers(0, 2**32 - 1),
    )
    def check(numbers: list[float], seed: int) -> None:
        random = np.random.default_rng(seed)
        bits = random.integers(0, 2**width, 300, dtype=whole_type, endpoint=False)
        powers = 10.0 ** random.uniform(18, 27, 300)  # where Java's own integers overflow
        values = pa.chunked_array(
            [
                pa.array(numbers, number_type),
                pa.array(bits.view(np.float64 if width == 64 else np.float32)),
                pa.array(powers).cast(number_type, safe=False),
                pa.array(2.0 ** np.arange(-120, 120, 7)).cast(number_type),
            ]
        ).combine_chunks()
        frame = frame_of_arrow(spark, pa.table({"number": values}))
        printed = to_arrow(frame.selectExpr("CAST(number AS STRING) AS text")).column("text")
        assert render_floating(values).to_pylist() == printed.to_pylist()

    check()


def test_consistent_logical_timestamps_are_printed_as_sql_timestamps() -> None:
    values = pa.array([MOMENT, MOMENT // 10**6 * 10**6, None], pa.timestamp("us", "UTC"))
    assert _keys(values, consistent_logical_timestamp=True) == [
        "2020-01-01 12:34:56.789",
        "2020-01-01 12:34:56.0",
        None,
    ]


def test_composite_keys_name_their_fields_and_mark_missing_parts() -> None:
    batch = pa.record_batch({"a": ["x", None, "", None, ""], "b": [1, 2, 3, None, None]})
    rendered = render_record_keys(batch, ["a", "b"], complex_keys=True)
    assert rendered.keys.to_pylist() == [
        "a:x,b:1",
        "a:__null__,b:2",
        "a:__empty__,b:3",
        "a:__null__,b:__null__",
        "a:__empty__,b:__null__",
    ]
    assert rendered.null_keys.rows.tolist() == [3, 4]


def test_one_field_of_a_complex_key_can_be_named() -> None:
    batch = pa.record_batch({"id": ["k1"]})
    assert render_record_keys(batch, ["id"], complex_keys=True).keys.to_pylist() == ["id:k1"]


def test_null_and_empty_single_keys_are_reported_with_their_rows() -> None:
    rendered = render_record_keys(pa.record_batch({"k": ["a", None, "b", ""]}), ["k"], complex_keys=False)
    assert rendered.null_keys.count == 2
    assert rendered.null_keys.rows.tolist() == [1, 3]


def test_nested_fields_are_null_where_their_struct_is() -> None:
    struct = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3]), pa.StructArray.from_arrays([pa.array(["x", "y", "z"])], ["c"])],
        ["b", "d"],
        mask=pa.array([False, True, False]),
    )
    batch = pa.record_batch({"a": struct}).slice(1)
    assert render_record_keys(batch, ["a.b"], complex_keys=False).keys.to_pylist() == [None, "3"]
    rendered = render_record_keys(batch, ["a.b", "a.d.c"], complex_keys=True)
    assert rendered.keys.to_pylist() == ["a.b:__null__,a.d.c:__null__", "a.b:3,a.d.c:z"]
    assert rendered.null_keys.rows.tolist() == [0]


def test_tables_of_several_chunks_and_sliced_batches_are_rendered_row_by_row() -> None:
    table = pa.table({"k": pa.chunked_array([[1, 2], [], [3]], pa.int64())})
    assert render_record_keys(table, ["k"], complex_keys=False).keys.to_pylist() == ["1", "2", "3"]
    batch = pa.record_batch({"k": np.arange(10)}).slice(7)
    assert render_record_keys(batch, ["k"], complex_keys=False).keys.to_pylist() == ["7", "8", "9"]
    assert len(render_record_keys(table.slice(0, 0), ["k"], complex_keys=False).keys) == 0


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        (pa.array([1]), "x", "no key column 'x'"),
        (pa.array([1]), "k.x", "no key field 'k.x'"),
        (pa.array([b"x"]), "k", "binary cannot be a record key"),
        (pa.array([[1]]), "k", "list<.*> cannot be a record key"),
        (pa.array([{"a": 1}]), "k", "struct<.*> cannot be a record key"),
    ],
)
def test_a_key_that_cannot_be_is_refused_by_name(values: pa.Array, field: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        render_record_keys(pa.record_batch({"k": values}), [field], complex_keys=False)


def test_of_any_number_of_repeated_keys_a_task_tells_the_count_and_a_few() -> None:
    keys = pa.array([f"key {number % 50_000}" for number in range(100_001)])
    found = repeated_keys(keys)
    assert (found.count, found.samples[:2]) == (50_000, ("key 0", "key 1"))
    assert len(pickle.dumps(found)) < 1_000
    assert repeated_keys(keys.slice(0, 50_000)) == RepeatedKeys()
