from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import col

from hudisql.read.changes import json_text
from hudisql.read.changes.json_text import render_json
from tests.oracle.sources import sample_rows
from tests.spark_versions import frame_of_arrow

STRINGS = ["plain", 'a "quoted" \\ text', "\x00\x01\x1f\t\r\n\b\f /", "名 é", "", None]
BINARY = [b"", b"a", b"ab", b"abc", b"\x00\xff\xfe\xfd\xfc", None]
DOUBLES = [0.0, -1e-10, 1.5e300, float("nan"), float("inf"), None]
MOMENTS = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), None, datetime.datetime(2024, 1, 2)] * 2
LISTS = [[None, 1], [], None, [2], [3, 4], [5]]


def rows_of_many_types() -> pa.Table:
    sample = sample_rows(0, 6)
    strings = pa.array(STRINGS)
    columns = {
        'na"me': strings,
        "bytes": pa.array(BINARY),
        "double": pa.array(DOUBLES),
        "single": pa.array(DOUBLES).cast(pa.float32(), safe=False),
        "local": pa.array(MOMENTS, pa.timestamp("us")),
        "lists": pa.array(LISTS, pa.list_(pa.int64())),
        "maps": pa.array(
            [[(text or "", number)] for number, text in enumerate(STRINGS)], pa.map_(pa.string(), pa.int64())
        ),
        "structs": pa.array([None, *({"a": each} for each in LISTS[1:])]),
        "tiny": pa.array([Decimal(n).scaleb(-9) for n in range(6)], pa.decimal128(20, 9)),
    }
    for name, column in columns.items():
        sample = sample.append_column(name, column)
    return sample


def test_a_column_with_a_part_of_it_has_the_texts_of_that_part() -> None:
    rows = rows_of_many_types().to_struct_array().combine_chunks()
    whole = render_json(rows).to_pylist()
    assert render_json(rows.slice(2, 3)).to_pylist() == whole[2:5]
    assert render_json(rows.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.map_(pa.string(), pa.string())], ids=str)
def test_a_part_of_a_column_costs_what_the_part_has(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = ["a", "b"] if pa.types.is_list(kind) else [("a", "b"), ("c", "d")]
    rows = pa.array([value] * 100, kind)
    rendered: list[int] = []
    render = json_text._RENDERERS["text"]

    def count(values: pa.Array) -> pa.Array:
        rendered.append(len(values))
        return render(values)

    monkeypatch.setitem(json_text._RENDERERS, "text", count)
    assert len(json_text.render_json(rows.slice(50, 3))) == 3
    assert rendered == [6]


def test_a_null_is_no_text_and_null_inside_of_others() -> None:
    struct = pa.struct([("a", pa.int32())])
    assert render_json(pa.array([None, {"a": None}], struct)).to_pylist() == [None, '{"a":null}']
    with pytest.raises(NotImplementedError, match="time32"):
        render_json(pa.array([1], pa.time32("s")))


@pytest.mark.spark
def test_the_texts_are_those_of_spark(spark: Any) -> None:
    rows = rows_of_many_types()
    named = ", ".join(f"`{name}`" for name in rows.column_names)
    # Spark takes Arrow's local time stamps for those of its session.
    frame = frame_of_arrow(spark, rows).withColumn("local", col("local").cast("timestamp_ntz"))
    expected = frame.selectExpr(f"to_json(struct({named}), map('ignoreNullFields', 'false')) AS text")
    found = render_json(rows.to_struct_array().combine_chunks()).to_pylist()
    assert sorted(found) == sorted(row.text for row in expected.collect())
