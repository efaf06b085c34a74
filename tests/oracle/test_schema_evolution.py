"""Tables whose schema a write of hudisql has widened: Apache Hudi reads the same rows and writes on."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import read_by_both
from tests.oracle.shapes import Shape, call_bootstrap
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

COLUMN_DROP = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
NARROW = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float32()),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        ("dt", pa.string()),
    ]
)


def _narrow_rows(first: int, after: int) -> pa.Table:
    numbers = range(first, after)
    return pa.table(
        {
            "id": [f"k{n:03d}" for n in numbers],
            "seq": list(numbers),
            "n": list(numbers),
            "f": [n + 0.5 for n in numbers],
            "price": [Decimal(n) for n in numbers],
            "tags": [[f"t{n}"] for n in numbers],
            "dt": [f"2024-03-0{n % 2 + 1}" for n in numbers],
        },
        schema=NARROW,
    )


def _bootstrap(session: Any, directory: Path, table: str, table_type: str) -> str:
    import pyarrow.parquet as pq

    rows = _narrow_rows(0, 40)
    for day in ("2024-03-01", "2024-03-02"):
        place = directory / "source" / f"dt={day}"
        place.mkdir(parents=True)
        part = rows.filter(pa.compute.equal(rows["dt"], day)).drop_columns(["dt"])
        pq.write_table(part, place / "part-0.parquet", store_decimal_as_integer=False)
    path = str(directory / "table")
    arguments = {"table": table, "source": str(directory / "source"), "record_key": "id", "precombine": "seq"}
    call_bootstrap(session, {**arguments, "target_path": path, "table_type": table_type})
    return path


def _evolve(session: Any, table: str, precision: int) -> None:
    """A few rows change in the narrow schema, others bring wider types and new columns."""
    session.sql(f"UPDATE {table} SET n = n + 1 WHERE seq IN (1, 2)")
    columns = (
        f"extra struct<a:int,b:array<string>>, n bigint, f double, price decimal({precision},2), id string, "
        "seq bigint, flag boolean, dt string"
    )
    rows = [
        ((1, ["x"]), 1 << 40, 1e100, Decimal("1" * (precision - 2) + ".25"), "k002", 100, True, "2024-03-01"),
        (None, 5, 0.5, Decimal("1.25"), "k100", 101, None, "2024-03-02"),
        ((2, None), 6, 1.5, None, "k101", 102, False, "2024-03-09"),
    ]
    session.write(session.spark.createDataFrame(rows, columns), table)
    session.sql(f"DELETE FROM {table} WHERE seq = 5")


def _assert_hudi_goes_on(
    oracle: HudiOracle, session: Any, tmp_path: Path, table_type: str, name: str
) -> None:
    table = f"oracle.{name}"
    path = _bootstrap(session, tmp_path, table, table_type)
    # With log files on it a decimal keeps its bytes: Apache Hudi could not read the logs else.
    precision = 20 if table_type == "COPY_ON_WRITE" else 14
    _evolve(session, table, precision)
    rows = read_by_both(oracle, session, table, path, sort_by=["seq", "id"])
    assert rows.num_rows == 41
    assert rows.schema.field("n").type == pa.int64()
    assert rows.schema.field("price").type == pa.decimal128(precision, 2)

    shape = Shape(name, partition_columns={"dt": lambda n: f"2024-03-0{n % 2 + 1}"}, table_type=table_type)
    wide = rows.filter(pa.compute.is_in(rows["id"], pa.array(["k003", "k100"])))
    wide = wide.drop_columns([column for column in wide.column_names if column.startswith("_hoodie")])
    changed = wide.set_column(wide.schema.get_field_index("n"), "n", pa.array([7, 8], pa.int64()))
    oracle.upsert(changed, path, {**shape.write_options(), "hoodie.table.name": name})
    after = read_by_both(oracle, session, table, path, sort_by=["seq", "id"])
    assert after.num_rows == 41
    assert sorted(row for row in after["n"].to_pylist() if row in (7, 8))[-1] == 8

    # A Hive Metastore lets the last column go.
    gone = [column for column in changed.column_names if column != "dt"][-1]
    narrower = session.spark.createDataFrame(changed.drop_columns([gone]))
    session.write(narrower, table, **{COLUMN_DROP: "true"})
    assert gone not in read_by_both(oracle, session, table, path, sort_by=["seq", "id"]).column_names


@pytest.mark.parametrize(
    "table_type", parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["MERGE_ON_READ"])
)
def test_hudi_015_reads_and_writes_on_what_a_write_has_widened(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, table_type: str
) -> None:
    _assert_hudi_goes_on(oracle_015, session, tmp_path, table_type, f"evolved_{table_type[:1].lower()}")


@pytest.mark.soak
def test_hudi_120_reads_and_writes_on_what_a_write_has_widened(
    oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    _assert_hudi_goes_on(oracle_120, session, tmp_path, "COPY_ON_WRITE", "evolved_120")
