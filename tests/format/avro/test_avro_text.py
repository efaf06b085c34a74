"""The text of rows as Avro's records have it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from hudisql.format.avro.avro_text import avro_texts


def test_values_of_each_type_are_written_as_avro_writes_them() -> None:
    columns = {
        "s": pa.array(['a "quoted"\n', None]),
        "i": pa.array([7, None], pa.int64()),
        "b": pa.array([True, None]),
        "f": pa.array([1e10, float("nan")]),
        "d": pa.array([date(1970, 1, 3), None]),
        "t": pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "n": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "y": pa.array([b"\x01A", None]),
        "l": pa.array([[1, None], []], pa.list_(pa.int32())),
        "m": pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
        "r": pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())])),
    }
    assert avro_texts(pa.record_batch(columns)) == [
        r'{"s": "a \"quoted\"\n", "i": 7, "b": true, "f": 1.0E10, "d": 2, "t": 1000000, "n": 1.50, '
        r'"y": {"bytes": "\u0001A"}, "l": [1, null], "m": {"k": "v"}, "r": {"x": 1}}',
        '{"s": null, "i": null, "b": null, "f": "NaN", "d": null, "t": null, "n": null, "y": null, '
        '"l": [], "m": null, "r": null}',
    ]


def test_slices_of_nested_columns_begin_where_they_begin() -> None:
    batch = pa.record_batch(
        {
            "l": pa.array([[1], None, [2, 3]]),
            "m": pa.array([[("a", 1)], [], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    assert avro_texts(batch.slice(1, 2)) == ['{"l": null, "m": {}}', '{"l": [2, 3], "m": {"b": 2}}']
