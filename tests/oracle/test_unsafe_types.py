"""Types that Apache Hudi is incompatible with, fixed by a rewrite: read, upserted and read again.

The source files are as no reader should meet them in a bootstrapped table; each entry of the table of types
that leases to be mended is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.type_safety import TYPE_INCOMPATIBILITIES
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import call_bootstrap
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

START = datetime(2020, 1, 1, 12, 34, 56, 789000, tzinfo=UTC)
MICROS = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Hazard:
    """A column as the source stores it and as the table must show it."""

    stored: pa.DataType
    shown: pa.DataType
    value_of: Callable[[int], object]
    options: dict[str, Any] = field(default_factory=dict)

    def rows(self, first: int, last: int, note: str, *, shown: bool) -> pa.Table:
        """Rows `first` to `last` in the stored or in the shown type."""
        values = pa.array([self.value_of(n) for n in range(first, last)], self.shown)
        return pa.table(
            {
                "id": [f"k{n:04d}" for n in range(first, last)],
                "seq": pa.array(range(first, last), pa.int32()),
                "note": [note] * (last - first),
                "odd": values if shown else values.cast(self.stored),
            }
        )


HAZARDS = {
    "integer_decimal": Hazard(
        pa.decimal128(12, 2),
        pa.decimal128(12, 2),
        lambda n: Decimal(n * 33).scaleb(-2),
        {"store_decimal_as_integer": True},
    ),
    "integer_decimal_of_32_bits": Hazard(
        pa.decimal128(7, 3),
        pa.decimal128(7, 3),
        lambda n: Decimal(n * 33 - 500).scaleb(-3),
        {"store_decimal_as_integer": True},
    ),
    "timestamp_millis": Hazard(
        pa.timestamp("ms", "UTC"), MICROS, lambda n: START + timedelta(seconds=n, milliseconds=n)
    ),
    "timestamp_nanos": Hazard(
        pa.timestamp("ns", "UTC"), MICROS, lambda n: START + timedelta(seconds=n, microseconds=n)
    ),
    "int96": Hazard(
        pa.timestamp("ns"),
        MICROS,
        lambda n: START + timedelta(seconds=n, microseconds=n),
        {"use_deprecated_int96_timestamps": True},
    ),
    "uint32": Hazard(pa.uint32(), pa.int64(), lambda n: 2**32 - 1 - n),
    "fixed_binary": Hazard(pa.binary(4), pa.binary(), lambda n: n.to_bytes(4, "big")),
}


def test_every_type_that_claims_to_be_mended_is_tried_here() -> None:
    mended = {
        name
        for name, incompatibility in TYPE_INCOMPATIBILITIES.items()
        if incompatibility.fixed_by_full_record
    }
    elsewhere = {
        "older_calendar",
        "unknown_calendar",
        "binary_decimal",
        "small_integer",
        "uuid",
    }  # test_old_dates, test_edge_cases
    assert mended - elsewhere == {name.removesuffix("_of_32_bits") for name in HAZARDS}


@pytest.mark.parametrize(
    "name",
    parameters(HAZARDS, in_ci=["timestamp_millis"]),
)
def test_a_rewritten_type_is_read_and_upserted_right_by_both_versions(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, name: str
) -> None:
    incompatibility = HAZARDS[name]
    (tmp_path / "source").mkdir()
    pq.write_table(
        incompatibility.rows(0, 60, "first", shown=False),
        tmp_path / "source" / "a.parquet",
        row_group_size=25,
        store_schema=False,
        **incompatibility.options,
    )
    table, path = f"mended_{name}", str(tmp_path / "table")
    arguments = {
        "table": f"oracle.{table}",
        "source": str(tmp_path / "source"),
        "record_key": "id",
        "target_path": path,
        "precombine": "seq",
        "on_unsafe_type": "full_record",
    }
    call_bootstrap(session, arguments)
    expected = incompatibility.rows(0, 60, "first", shown=True)
    for oracle in (oracle_015, oracle_120):
        assert_same_rows(oracle.read(path).select(expected.column_names), expected, sort_by=["seq"])
    options = {
        "hoodie.table.name": table,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "",
    }
    # Each merges the file that is there, ours or the other's, and must leave the untouched rows as they were.
    oracle_015.upsert(incompatibility.rows(50, 65, "second", shown=True), path, options)
    oracle_120.upsert(incompatibility.rows(60, 70, "third", shown=True), path, options)
    expected = pa.concat_tables(
        [
            incompatibility.rows(0, 50, "first", shown=True),
            incompatibility.rows(50, 60, "second", shown=True),
            incompatibility.rows(60, 70, "third", shown=True),
        ]
    )
    for oracle in (oracle_015, oracle_120):
        assert_same_rows(oracle.read(path).select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql(f"SELECT id, seq, note, odd FROM oracle.{table}").arrow()
    assert_same_rows(ours, expected, sort_by=["seq"])


OLD_DAYS = (date(1, 1, 1), date(1500, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(9999, 12, 31))


@pytest.mark.parametrize("rebase_mode", ["LEGACY", "CORRECTED"])
def test_rewritten_dates_before_1582_are_read_right_by_both_versions(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, rebase_mode: str
) -> None:
    days = pa.table(
        {
            "id": [f"k{n}" for n in range(len(OLD_DAYS))],
            "seq": pa.array(range(len(OLD_DAYS)), pa.int32()),
            "note": ["first"] * len(OLD_DAYS),
            "day": pa.array(OLD_DAYS, pa.date32()),
            "at": pa.array([datetime(*day.timetuple()[:3], 1, 2, 3, tzinfo=UTC) for day in OLD_DAYS], MICROS),
        }
    )
    spark = session.context.spark
    settings = {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": rebase_mode,
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.createDataFrame(days).coalesce(1).write.parquet(str(tmp_path / "source"))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    table, path = f"old_days_{rebase_mode.lower()}", str(tmp_path / "table")
    call_bootstrap(
        session,
        {
            "table": f"oracle.{table}",
            "source": str(tmp_path / "source"),
            "record_key": "id",
            "target_path": path,
            "precombine": "seq",
            "mode": "full_record",
        },
    )
    for oracle in (oracle_015, oracle_120):
        assert_same_rows(oracle.read(path).select(days.column_names), days, sort_by=["seq"])
    ours = session.sql(f"SELECT id, seq, note, day, at FROM oracle.{table}").arrow()
    assert_same_rows(ours, days, sort_by=["seq"])


@pytest.mark.parametrize("kind", parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["MERGE_ON_READ"]))
def test_int96_is_read_as_it_is_and_upserted_once_its_file_groups_are_rewritten(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, kind: str
) -> None:
    int96, micros = HAZARDS["int96"], Hazard(MICROS, MICROS, HAZARDS["int96"].value_of)
    for day, incompatibility, first in (("1", int96, 0), ("2", micros, 60)):
        (tmp_path / "source" / f"dt={day}").mkdir(parents=True)
        pq.write_table(
            incompatibility.rows(first, first + 60, "first", shown=False),
            tmp_path / "source" / f"dt={day}" / "a.parquet",
            store_schema=False,
            coerce_timestamps=None if incompatibility is int96 else "us",
            **incompatibility.options,
        )
    name, path = f"int96_{kind.lower()}", str(tmp_path / "table")
    arguments = {
        "table": f"oracle.{name}",
        "source": str(tmp_path / "source"),
        "record_key": "id",
        "target_path": path,
        "precombine": "seq",
        "table_type": kind,
        "on_unsafe_type": "warn",
    }
    call_bootstrap(session, arguments)
    rows = micros.rows(0, 120, "first", shown=True)
    days = pa.array(["1"] * 60 + ["2"] * 60)
    expected = rows.append_column("dt", days)
    ours = f"SELECT id, seq, note, odd, dt FROM oracle.{name}"

    def check() -> None:
        for oracle in (oracle_015, oracle_120):
            found = oracle.read(path).select(expected.column_names)
            assert_same_rows(found, expected, sort_by=["seq"])
        assert_same_rows(session.sql(ours).arrow(), expected, sort_by=["seq"])

    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    check()
    for oracle in (oracle_015, oracle_120):
        early = micros.rows(10, 12, oracle.version, shown=True).append_column("dt", days.slice(10, 2))
        if kind == "COPY_ON_WRITE":
            with pytest.raises(OracleError):
                oracle.upsert(early, path, options)
        else:
            oracle.upsert(early, path, options)
            expected = pa.concat_tables([expected.slice(0, 10), early, expected.slice(12)])
    check()
    done = session.sql(f"CALL rewrite_bootstrap_files(table => 'oracle.{name}')").rows
    assert [row[0] for row in done] == ["dt=1"]
    check()
    second = micros.rows(50, 70, "second", shown=True).append_column("dt", days.slice(50, 20))
    oracle_015.upsert(second, path, options)
    expected = pa.concat_tables([expected.slice(0, 50), second, expected.slice(70)])
    check()
