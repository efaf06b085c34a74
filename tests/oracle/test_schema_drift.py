"""Files whose columns differ: the widened table reads the same everywhere, and Apache Hudi writes on."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.sources import write_readable

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(16, 2)),
        ("note", pa.string()),
        ("place", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        (
            "lines",
            pa.list_(
                pa.field("element", pa.struct([("x", pa.int64()), ("w", pa.int32()), ("y", pa.string())]))
            ),
        ),
        ("counts", pa.map_(pa.string(), pa.struct([("n", pa.int32()), ("m", pa.string())]))),
    ]
)
# An older writer's columns: narrower, fewer (in structs too), in another order, and some required.
NARROW = pa.schema(
    [
        pa.field("seq", pa.int32(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        ("counts", pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
        ("price", pa.decimal128(9, 2)),
        ("ratio", pa.float32()),
        ("lines", pa.list_(pa.field("element", pa.struct([("x", pa.int64()), ("w", pa.int32())])))),
        ("place", pa.struct([("a", pa.int64())])),
    ]
)
CALL = (
    "CALL bootstrap_table(table => '{table}', source => '{source}', target_path => '{target}',"
    " record_key => 'id', precombine => 'seq', on_schema_drift => '{drift}')"
)


def _row(number: int, *, narrow: bool, note: str = "first") -> dict[str, Any]:
    big = 0 if narrow else 5_000_000_000
    row: dict[str, Any] = {
        "id": f"k{number:04d}",
        "seq": number + big,
        "ratio": number * 0.25,
        "price": Decimal(number * 100 + 7).scaleb(-2),
        "counts": [("a", {"n": number})],
        "place": {"a": number + 5_000_000_000},
        "lines": [{"x": number, "w": -number}],
    }
    if not narrow:
        row |= {"note": f"{note} {number}"}
        row["place"]["b"] = f"s{number}"
        row["lines"][0]["y"] = f"t{number}"
        row["counts"][0][1]["m"] = f"u{number}"
    return row


def _rows(first: int, last: int, *, narrow: bool, note: str = "first") -> pa.Table:
    rows = [_row(number, narrow=narrow, note=note) for number in range(first, last)]
    return pa.Table.from_pylist(rows, schema=NARROW if narrow else WIDE)


def _widened(rows: pa.Table, day: str) -> pa.Table:
    """The rows as the table must give them."""
    return pa.Table.from_pylist(
        [{**row, "dt": day} for row in rows.to_pylist()], schema=WIDE.append(pa.field("dt", pa.string()))
    )


def _bootstrap(session: Any, directory: Path, table: str) -> tuple[str, pa.Table]:
    """A table of two partitions: `old` holds narrow files, `new` one narrow and two wide files."""
    parts = [
        ("old", _rows(0, 40, narrow=True), "a"),
        ("new", _rows(40, 60, narrow=True), "b"),
        ("new", _rows(60, 100, narrow=False), "c"),
        ("new", _rows(100, 130, narrow=False), "d"),
    ]
    for day, rows, name in parts:
        (directory / "source" / f"dt={day}").mkdir(parents=True, exist_ok=True)
        write_readable(rows, directory / "source" / f"dt={day}" / f"{name}.parquet", row_group_size=10)
    session.sql(f"DROP TABLE IF EXISTS {table}")
    target = str(directory / "table")
    session.sql(CALL.format(table=table, source=directory / "source", target=target, drift="widen"))
    return target, pa.concat_tables([_widened(rows, day) for day, rows, _ in parts])


def test_every_reader_gives_the_widened_rows(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    target, expected = _bootstrap(session, tmp_path, "oracle.drift_read")
    for oracle in (oracle_015, oracle_120):
        theirs = oracle.read(target)
        assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["id"])
    names = ", ".join(expected.column_names)
    native = session.sql(f"SELECT {names} FROM oracle.drift_read").arrow()
    assert_same_rows(native, expected, sort_by=["id"])
    stitched = session.sql(f"SELECT {names}, _hoodie_record_key FROM oracle.drift_read").arrow()
    assert_same_rows(stitched.select(expected.column_names), expected, sort_by=["id"])
    assert stitched["_hoodie_record_key"].to_pylist() == stitched["id"].to_pylist()


CONDITIONS = (
    "seq > 3000000000",
    "seq < 3000000000",
    "seq = 50",
    "ratio >= 14.75",
    # More than the narrow files' decimals can hold.
    "price < 100000000.5",
    "price >= 50.07",
    "note IS NULL",
    "note LIKE 'first 6%'",
    "place.a > 5000000050",
    "place.b IS NULL",
    "place.a = 5000000003",
)


@pytest.mark.soak
def test_filters_on_widened_columns_lose_no_rows(session: Any, tmp_path: Path) -> None:
    _bootstrap(session, tmp_path, "oracle.drift_filtered")
    spark = session.context.spark
    rows = session.sql("SELECT * FROM oracle.drift_filtered").arrow()
    spark.createDataFrame(rows).createOrReplaceTempView("drift_rows")
    for condition in CONDITIONS:
        expected = spark.sql(f"SELECT id FROM drift_rows WHERE {condition} ORDER BY id").toArrow()["id"]
        assert len(expected) > 0, condition
        for column in ("id", "_hoodie_record_key"):
            query = f"SELECT {column} FROM oracle.drift_filtered WHERE {condition} ORDER BY 1"
            assert session.sql(query).arrow()[column].to_pylist() == expected.to_pylist(), query
    spark.catalog.dropTempView("drift_rows")


def test_upserts_by_hudi_015_into_narrow_files_change_just_their_rows(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    target, before = _bootstrap(session, tmp_path, "oracle.drift_upserted")
    changes = pa.concat_tables(
        [
            _widened(_rows(10, 20, narrow=False, note="second"), "old"),
            _widened(_rows(50, 70, narrow=False, note="second"), "new"),
        ]
    )
    options = {
        "hoodie.table.name": "drift_upserted",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    oracle_015.upsert(changes, target, options)
    changed = set(changes["id"].to_pylist())
    kept = before.filter(pa.array([key not in changed for key in before["id"].to_pylist()]))
    expected = pa.concat_tables([kept, changes])
    theirs = oracle_015.read(target)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["id"])
    ours = session.sql("SELECT * FROM oracle.drift_upserted").arrow()
    assert_same_rows(ours, theirs, sort_by=["id"])
