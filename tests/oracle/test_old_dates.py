"""Dates before 1582-10-15 and timestamps before 1900: what Apache Hudi makes of each calendar's files.

Every entry of the table of types that has to do with calendars is tried here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import BootstrapBlockedError
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import call_bootstrap

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

MICROS = pa.timestamp("us", "UTC")
READ_MODE = "spark.sql.parquet.datetimeRebaseModeInRead"
DAYS = (date(2, 1, 1), date(1500, 2, 28), date(1582, 10, 4), date(1891, 3, 1), date(2024, 2, 29))


def _rows(days: tuple[date, ...], first: int = 0) -> pa.Table:
    numbers = range(first, first + len(days))
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "seq": pa.array(numbers, pa.int32()),
            "day": pa.array(days, pa.date32()),
            "at": pa.array([datetime(*day.timetuple()[:3], 1, 2, 3, tzinfo=UTC) for day in days], MICROS),
        }
    )


def _source(session: Any, directory: Path, calendar: str) -> Path:
    """One file by Spark in the calendar named, `UNKNOWN` by a writer that names none."""
    directory.mkdir()
    if calendar == "UNKNOWN":
        pq.write_table(_rows(DAYS), directory / "a.parquet", store_schema=False)
        return directory
    spark = session.context.spark
    settings = {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": calendar,
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.createDataFrame(_rows(DAYS)).coalesce(1).write.mode("overwrite").parquet(str(directory))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    return directory


@contextmanager
def _told_to_read(oracle: HudiOracle, mode: str) -> Iterator[None]:
    oracle.sql(f"SET {READ_MODE}={mode}")
    try:
        yield
    finally:
        oracle.sql(f"RESET {READ_MODE}")


def _bootstrap(session: Any, source: Path, table: str, policy: str | None) -> tuple[str, dict[str, str]]:
    path = str(source.parent / table)
    arguments = {
        "table": f"oracle.{table}",
        "source": str(source),
        "record_key": "id",
        "target_path": path,
        "precombine": "seq",
    }
    call_bootstrap(session, arguments | ({"on_unsafe_type": policy} if policy else {}))
    return path, {
        "hoodie.table.name": table,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "",
    }


def _ours(session: Any, table: str) -> pa.Table:
    names = "id, seq, day, at"
    native = session.sql(f"SELECT {names} FROM oracle.{table}").arrow()
    stitched = session.sql(f"SELECT {names}, _hoodie_record_key AS k FROM oracle.{table}").arrow()
    assert_same_rows(stitched.select(native.column_names), native, sort_by=["seq"])
    return native


CHANGES = _rows((date(2025, 1, 1), date(2025, 1, 2)), first=4)


@pytest.mark.soak
def test_the_older_calendar_is_read_right_but_every_merge_moves_untouched_days(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    source = _source(session, tmp_path / "source", "LEGACY")
    with pytest.raises(
        BootstrapBlockedError, match=r"column day \(date\): dates before 1582-10-15"
    ) as raised:
        _bootstrap(session, source, "old_refused", None)
    assert "move untouched values by days in every merge" in raised.value.message
    for oracle in (oracle_015, oracle_120):
        table = f"old_legacy_{oracle.version.replace('.', '')}"
        path, options = _bootstrap(session, source, table, "warn")
        expected = _rows(DAYS)
        assert_same_rows(_ours(session, table), expected, sort_by=["seq"])
        for columns in (expected.column_names, [*expected.column_names, "_hoodie_record_key"]):
            theirs = oracle.read(path, columns=columns)
            assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
        oracle.upsert(CHANGES, path, options)
        with pytest.raises(OracleError, match="READ_ANCIENT_DATETIME"):
            oracle.read(path)
        with _told_to_read(oracle, "CORRECTED"):
            merged = oracle.read(path, columns=expected.column_names)
        moved = merged.filter(pa.array([key == "k1" for key in merged["id"].to_pylist()]))
        assert moved["day"].to_pylist() == [date(1500, 3, 9)]
        assert_same_rows(_ours(session, table), merged, sort_by=["seq"])


@pytest.mark.parametrize("calendar", ["LEGACY", "UNKNOWN"])
def test_rewritten_old_dates_survive_the_merges_of_both_versions(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, calendar: str
) -> None:
    table = f"old_mended_{calendar.lower()}"
    path, options = _bootstrap(session, _source(session, tmp_path / "source", calendar), table, "full_record")
    for oracle in (oracle_015, oracle_120):
        theirs = oracle.read(path, columns=["id", "seq", "day", "at"])
        assert_same_rows(theirs, _rows(DAYS), sort_by=["seq"])
    oracle_015.upsert(CHANGES.slice(0, 1), path, options)
    oracle_120.upsert(CHANGES.slice(1), path, options)
    expected = pa.concat_tables([_rows(DAYS[:4]), CHANGES])
    for oracle in (oracle_015, oracle_120):
        with _told_to_read(oracle, "CORRECTED"):
            theirs = oracle.read(path, columns=expected.column_names)
        assert_same_rows(theirs, expected, sort_by=["seq"])
    assert_same_rows(_ours(session, table), expected, sort_by=["seq"])


def test_old_dates_of_spark_3_are_only_told_of_and_merged_right(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    source = _source(session, tmp_path / "source", "CORRECTED")
    path, options = _bootstrap(session, source, "old_corrected", None)
    assert_same_rows(oracle_015.read(path, columns=["id", "seq", "day", "at"]), _rows(DAYS), sort_by=["seq"])
    oracle_015.upsert(CHANGES, path, options)
    with pytest.raises(OracleError, match="READ_ANCIENT_DATETIME"):
        oracle_015.read(path)
    expected = pa.concat_tables([_rows(DAYS[:4]), CHANGES])
    assert_same_rows(_ours(session, "old_corrected"), expected, sort_by=["seq"])


def test_a_calendar_that_files_do_not_name_stops_hudi_until_it_is_told(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    source = _source(session, tmp_path / "source", "UNKNOWN")
    with pytest.raises(BootstrapBlockedError, match="in a calendar that the files do not name"):
        _bootstrap(session, source, "old_unnamed_refused", None)
    path, _ = _bootstrap(session, source, "old_unnamed", "warn")
    assert_same_rows(_ours(session, "old_unnamed"), _rows(DAYS), sort_by=["seq"])
    for oracle in (oracle_015, oracle_120):
        with pytest.raises(OracleError, match="READ_ANCIENT_DATETIME"):
            oracle.read(path)
        with _told_to_read(oracle, "CORRECTED"):
            theirs = oracle.read(path, columns=["id", "seq", "day", "at"])
        assert_same_rows(theirs, _rows(DAYS), sort_by=["seq"])
