"""Dates and timestamps of the older calendar: the slice reader gives what Spark's own code and scan give."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import HudisqlError, UnsupportedTableError
from hudisql.read.calendar.hybrid_calendar import (
    Calendar,
    CalendarSettings,
    julian_day_shifts,
    rebase_micros,
    rebases_of,
)
from hudisql.read.calendar.legacy_time_zones import legacy_zone
from hudisql.read.files.parquet_rows import ParquetRows
from hudisql.read.files.predicates import Comparison
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanPlan
from hudisql.spark.task_errors import translate_task_error
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice

DAY_MICROS = 86_400_000_000
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Africa/Monrovia",
    "GMT+05:30",
    "GMT-8",
    "+05:30",
    "Z",
)


@pytest.mark.spark
def test_days_are_those_of_sparks_own_rebase(spark: Any) -> None:
    rebase = spark._jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime.rebaseJulianToGregorianDays
    choose = random.Random(1)
    days = [-141_429, -141_428, -141_427, -719_164, -719_165, -1_000_000, 0, 2_932_896]
    # 28 February to 2 March of 1500, a leap year of the Julian calendar alone, and of other years.
    days += [*range(-171_600, -171_590), *(choose.randrange(-900_000, -100_000) for _ in range(200))]
    found = np.array(days) + julian_day_shifts(np.array(days))
    assert found.tolist() == [rebase(day) for day in days]


@pytest.mark.spark
@pytest.mark.parametrize("zone", ZONES)
def test_moments_are_those_of_sparks_own_rebase(spark: Any, zone: str) -> None:
    rebase = spark._jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime.rebaseJulianToGregorianMicros
    choose = random.Random(2)
    micros = [
        choose.randrange(-900_000, 10_000) * DAY_MICROS + choose.randrange(DAY_MICROS) for _ in range(200)
    ]
    micros += [-62_135_769_600_000_000 + choose.randrange(-DAY_MICROS, DAY_MICROS) for _ in range(50)]
    micros += [-12_219_292_800_000_000 + choose.randrange(-DAY_MICROS, DAY_MICROS) for _ in range(100)]
    micros += [-2_208_988_800_000_000 - step for step in (-1, 0, 1)] + [253_402_300_799_999_999]
    found = rebase_micros(np.array(micros, dtype=np.int64), zone)
    assert found.tolist() == [rebase(zone, each) for each in micros]


def test_a_zone_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(UnsupportedTableError, match="'Europe/Atlantis'"):
        legacy_zone("Europe/Atlantis")


LEGACY = Calendar.LEGACY
VERSION, DATETIME, INT96 = (
    b"org.apache.spark.version",
    b"org.apache.spark.legacyDateTime",
    b"org.apache.spark.legacyINT96",
)


@pytest.mark.parametrize(
    ("key_values", "settings", "rebased"),
    [
        (None, CalendarSettings(), set()),
        ({}, CalendarSettings(of_dates=LEGACY), {"d", "t", "s"}),
        ({}, CalendarSettings(of_int96=LEGACY), {"old"}),
        ({VERSION: b"2.4.8"}, CalendarSettings(), {"d", "t", "s", "old"}),
        ({VERSION: b"3.0.3"}, CalendarSettings(), {"old"}),
        ({VERSION: b"3.1.0"}, CalendarSettings(LEGACY, LEGACY), set()),
        ({VERSION: b"4.3.0", DATETIME: b""}, CalendarSettings(), {"d", "t", "s"}),
        ({VERSION: b"4.3.0", INT96: b""}, CalendarSettings(), {"old"}),
    ],
)
def test_the_footer_says_which_columns_are_rebased_and_settings_only_where_it_is_silent(
    tmp_path: Path, key_values: dict[bytes, bytes] | None, settings: CalendarSettings, rebased: set[str]
) -> None:
    kinds = {"id": pa.int32(), "d": pa.date32(), "t": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}
    columns = {name: pa.array([0], kind) for name, kind in kinds.items()}
    columns["s"] = pa.array(
        [[{"d": 0, "n": 1}]], pa.list_(pa.struct([("d", pa.date32()), ("n", pa.int32())]))
    )
    pq.write_table(pa.table(columns), tmp_path / "a", store_schema=False)
    moments = pa.table({"old": pa.array([0], pa.timestamp("us"))})
    pq.write_table(moments, tmp_path / "b", use_deprecated_int96_timestamps=True, store_schema=False)
    found: set[str] = set()
    for name in ("a", "b"):
        file = pq.ParquetFile(tmp_path / name)
        found |= rebases_of(file.metadata.schema, file.schema_arrow, key_values, settings).keys()
    assert found == rebased


OLD_ROWS = """
SELECT id, d, t, named_struct('n', id, 'd', d, 'deep', array(named_struct('t', t, 'x', id))) AS st,
       map('k', d) AS m, array(t, NULL, t) AS ts, CAST(t AS TIMESTAMP_NTZ) AS local
FROM VALUES (0, DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00'),
    (1, DATE'1500-02-28', TIMESTAMP'1500-03-01 12:00:00.123456'),
    (2, DATE'1582-10-04', TIMESTAMP'1582-10-15 00:00:00'),
    (3, NULL, NULL),
    (4, DATE'1582-10-15', TIMESTAMP'1891-03-01 00:00:00'),
    (5, DATE'1899-12-31', TIMESTAMP'1899-12-31 23:59:59'),
    (6, DATE'2024-02-29', TIMESTAMP'2024-02-29 12:34:56.789'),
    (7, DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999') AS rows(id, d, t)
"""
NAMES = ["id", "d", "t", "st", "m", "ts", "local"]
TABLE = pa.schema(
    [
        ("id", pa.int32()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        (
            "st",
            pa.struct(
                [
                    ("n", pa.int32()),
                    ("d", pa.date32()),
                    (
                        "deep",
                        pa.list_(
                            pa.field(
                                "element", pa.struct([("t", pa.timestamp("us", "UTC")), ("x", pa.int32())])
                            )
                        ),
                    ),
                ]
            ),
        ),
        ("m", pa.map_(pa.string(), pa.date32())),
        ("ts", pa.list_(pa.field("element", pa.timestamp("us", "UTC")))),
        ("local", pa.timestamp("us")),
    ]
)


@contextmanager
def _settings(spark: Any, **settings: str) -> Iterator[None]:
    names = {
        "write": "spark.sql.parquet.datetimeRebaseModeInWrite",
        "write96": "spark.sql.parquet.int96RebaseModeInWrite",
        "read": "spark.sql.parquet.datetimeRebaseModeInRead",
        "read96": "spark.sql.parquet.int96RebaseModeInRead",
        "stored": "spark.sql.parquet.outputTimestampType",
        "zone": "spark.sql.session.timeZone",
    }
    before = {name: spark.conf.get(names[name]) for name in settings}
    for name, value in settings.items():
        spark.conf.set(names[name], value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(names[name], value)


def _old_slice(
    spark: Any,
    directory: Path,
    write_slice: Callable[..., FileSlice],
    key_values: dict[str, str] | None = None,
) -> FileSlice:
    """A bootstrapped slice whose source Spark wrote; `key_values` replace what it says of itself."""
    spark.sql(OLD_ROWS).orderBy("id").coalesce(1).write.parquet(str(directory / "spark"))
    (path,) = (directory / "spark").glob("part-*.parquet")
    made = write_slice(directory, pa.table({"id": range(8)}))
    assert made.external_file is not None
    target = Path(made.external_file.path)
    if key_values is None:
        target.write_bytes(path.read_bytes())
    else:
        stored = pq.ParquetFile(path)
        table = stored.read().replace_schema_metadata(None)
        with pq.ParquetWriter(target, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(key_values)
    found = target.stat()
    recorded = replace(
        made.external_file, length=found.st_size, modification_time_ms=found.st_mtime_ns // 1_000_000
    )
    return replace(made, external_file=recorded)


def _both(
    spark: Any, plan_of: Callable[..., ScanPlan], file_slice: FileSlice, where: str = "true"
) -> list[Any]:
    """The rows by Spark's scan and by the slice reader, as whole numbers: Python has no year 0."""
    found = []
    for mode, columns in (("native", NAMES), ("stitched", [*NAMES, "_hoodie_record_key"])):
        frame = scan_to_dataframe(spark, plan_of([(file_slice, {})], TABLE, (), columns, mode=mode))
        frame.where(where).createOrReplaceTempView("old_rows")
        found.append(
            [
                tuple(row)
                for row in spark.sql(
                    "SELECT id, unix_date(d), unix_micros(t), st.n, unix_date(st.d),"
                    " unix_micros(st.deep[0].t), st.deep[0].x, unix_date(m['k']),"
                    " transform(ts, x -> unix_micros(x)), CAST(local AS STRING) FROM old_rows ORDER BY id"
                ).collect()
            ]
        )
    spark.catalog.dropTempView("old_rows")
    return found


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
@pytest.mark.parametrize("stored", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_both_scans_give_what_spark_wrote_in_either_calendar(
    spark: Any,
    tmp_path: Path,
    write_slice: Callable[..., FileSlice],
    plan_of: Callable[..., ScanPlan],
    mode: str,
    stored: str,
    zone: str,
) -> None:
    with _settings(spark, write=mode, write96=mode, stored=stored, zone=zone):
        file_slice = _old_slice(spark, tmp_path, write_slice)
        native, stitched = _both(spark, plan_of, file_slice)
        assert native == stitched
        spark.sql(OLD_ROWS).createOrReplaceTempView("given_rows")
        given = spark.sql(
            "SELECT unix_date(d) AS d, unix_micros(t) AS t FROM given_rows ORDER BY id"
        ).collect()
        spark.catalog.dropTempView("given_rows")
    micros = 1000 if stored == "TIMESTAMP_MILLIS" else 1
    expected = [(row.d, None if row.t is None else row.t // micros * micros) for row in given]
    assert [(row[1], row[2]) for row in stitched] == expected
    assert [(row[4], row[5]) for row in stitched] == expected


@pytest.mark.spark
@pytest.mark.parametrize("read", ["LEGACY", "CORRECTED"])
def test_settings_decide_for_files_that_do_not_tell_as_hives(
    spark: Any,
    tmp_path: Path,
    write_slice: Callable[..., FileSlice],
    plan_of: Callable[..., ScanPlan],
    read: str,
) -> None:
    with _settings(spark, write="LEGACY", stored="TIMESTAMP_MICROS", read=read):
        file_slice = _old_slice(spark, tmp_path, write_slice, {"writer": "another"})
        native, stitched = _both(spark, plan_of, file_slice)
    assert native == stitched
    assert stitched[1][1] == {"LEGACY": -171_606, "CORRECTED": -171_597}[read]


@pytest.mark.spark
def test_files_of_spark_2_are_of_the_older_calendar_and_of_the_drivers_zone(
    spark: Any, tmp_path: Path, write_slice: Callable[..., FileSlice], plan_of: Callable[..., ScanPlan]
) -> None:
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/Los_Angeles"))
    try:
        with _settings(spark, write="LEGACY", stored="TIMESTAMP_MICROS"):
            file_slice = _old_slice(spark, tmp_path, write_slice, {"org.apache.spark.version": "2.4.8"})
            native, stitched = _both(spark, plan_of, file_slice)
    finally:
        zones.setDefault(before)
    assert native == stitched
    # The dates are those of the calendar alone; moments of Los Angeles are 422 seconds off besides.
    assert [row[1] for row in stitched][:3] == [-719_162, -171_606, -141_438]
    assert (stitched[0][2] - -62_135_596_800_000_000) % DAY_MICROS == DAY_MICROS - 422_000_000


@pytest.mark.spark
def test_an_unknown_calendar_is_an_error_where_the_settings_say_so(
    spark: Any, tmp_path: Path, write_slice: Callable[..., FileSlice], plan_of: Callable[..., ScanPlan]
) -> None:
    with _settings(spark, write="LEGACY", stored="TIMESTAMP_MICROS", read="EXCEPTION"):
        file_slice = _old_slice(spark, tmp_path, write_slice, {"writer": "another"})
        plan = plan_of([(file_slice, {})], TABLE, (), ["id", "d", "_hoodie_record_key"])
        with pytest.raises(Exception, match="does not name the calendar") as raised:
            scan_to_dataframe(spark, plan).collect()
        known = translate_task_error(raised.value)
        assert isinstance(known, HudisqlError)
        assert "datetimeRebaseModeInRead" in str(known.hint)
        new = plan_of([(file_slice, {})], TABLE, (), ["id", "_hoodie_record_key"])
        assert scan_to_dataframe(spark, new).count() == 8


@pytest.mark.spark
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("d = DATE'1500-02-28'", [1]),
        ("d < DATE'1582-10-05' AND d > DATE'1500-01-01'", [1, 2]),
        ("t = TIMESTAMP'1582-10-15 00:00:00'", [2]),
        ("t < TIMESTAMP'1891-03-01 00:00:01' AND t >= TIMESTAMP'1600-01-01'", [4]),
        ("st.d = DATE'0001-01-01'", [0]),
        ("d >= DATE'2024-02-29'", [6, 7]),
    ],
)
def test_filters_lose_no_rows_of_the_older_calendar(
    spark: Any,
    tmp_path: Path,
    write_slice: Callable[..., FileSlice],
    plan_of: Callable[..., ScanPlan],
    where: str,
    ids: list[int],
) -> None:
    with _settings(spark, write="LEGACY", stored="TIMESTAMP_MICROS"):
        file_slice = _old_slice(spark, tmp_path, write_slice)
        native, stitched = _both(spark, plan_of, file_slice, where)
    assert native == stitched
    assert [row[0] for row in stitched] == ids


@pytest.mark.parametrize(
    ("first", "day", "groups"),
    [
        # 1500-02-28 is stored as the day that today's calendar calls 1500-03-09.
        (-171_597, datetime.date(1500, 2, 28), 1),
        (-171_597, datetime.date(1997, 5, 19), 2),
        (-100_000, datetime.date(1696, 3, 17), 1),
        (-100_000, datetime.date(1997, 5, 19), 1),
    ],
)
def test_row_groups_are_skipped_by_bounds_only_where_no_value_moves(
    tmp_path: Path, first: int, day: datetime.date, groups: int
) -> None:
    days = pa.table({"d": pa.array([first, 10_000], pa.int32()).cast(pa.date32())})
    with pq.ParquetWriter(tmp_path / "a", days.schema, store_schema=False) as writer:
        writer.write_table(days, row_group_size=1)
        writer.add_key_value_metadata({"org.apache.spark.version": "2.4.8"})
    with ParquetRows(Storage(), str(tmp_path / "a"), days.schema) as rows:
        ranges = rows.choose_ranges(None, Comparison(("d",), "=", day))
        found = [each for batch in rows.read(ranges) for each in batch.column("d").to_pylist()]
    assert day in found
    assert len(ranges) == groups


def test_years_that_python_does_not_have_are_read_and_filtered(tmp_path: Path) -> None:
    days = pa.table({"d": pa.array([-800_000, 0, 4_000_000], pa.int32()).cast(pa.date32())})
    pq.write_table(days, tmp_path / "a", store_schema=False)
    with ParquetRows(Storage(), str(tmp_path / "a"), days.schema) as rows:
        ranges = rows.choose_ranges(None, Comparison(("d",), ">", datetime.date(1969, 1, 1)))
        assert pa.Table.from_batches(rows.read(ranges)) == days
