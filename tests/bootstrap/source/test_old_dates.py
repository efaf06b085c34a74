"""Which columns hold dates that the two calendars disagree on, told from footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.source.old_dates import old_date_incompatibilities
from hudisql.bootstrap.type_safety import TYPE_HAZARDS

OLD_DAY, NEW_DAY = -141_428, -141_427
OLD_SECOND, NEW_SECOND = -2_208_988_801, -2_208_988_800


def _hazards(path: Path, key_values: dict[str, str] | None = None, *, old: bool = True, **options: object):
    day, second = (OLD_DAY, OLD_SECOND) if old else (NEW_DAY, NEW_SECOND)
    days = pa.array([None, 0, day], pa.int32()).cast(pa.date32())
    columns = {"id": pa.array([OLD_DAY] * 3, pa.int32()), "d": days}
    for name, unit, times in (("ms", "ms", 1_000), ("us", "us", 1_000_000), ("ns", "ns", 1_000_000_000)):
        columns[name] = pa.array([None, 0, second * times], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    columns["local"] = columns["us"].cast(pa.timestamp("us"))
    columns["st"] = pa.StructArray.from_arrays([days, pa.array([1, 2, 3])], names=["d", "n"])
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, store_schema=False, version="2.6", **options) as writer:
        writer.write_table(table, row_group_size=2)
        writer.add_key_value_metadata(key_values or {})
    return dict(old_date_incompatibilities(pq.read_metadata(path)))


@pytest.mark.parametrize(
    ("key_values", "incompatibility"),
    [
        (None, "unknown_calendar"),
        ({"org.apache.spark.version": "2.4.8"}, "older_calendar"),
        ({"org.apache.spark.version": "3.0.3"}, "old_dates"),
        ({"org.apache.spark.version": "4.3.0"}, "old_dates"),
        ({"org.apache.spark.version": "4.3.0", "org.apache.spark.legacyDateTime": ""}, "older_calendar"),
    ],
)
def test_old_values_are_found_in_every_unit_and_inside_structs(tmp_path, key_values, incompatibility):
    found = _hazards(tmp_path / "a", key_values)
    assert found == dict.fromkeys(("d", "ms", "us", "ns", "st"), incompatibility)
    assert incompatibility in TYPE_HAZARDS
    assert _hazards(tmp_path / "b", key_values, old=False) == {}


def test_without_statistics_only_files_of_the_older_calendar_are_suspect(tmp_path):
    assert _hazards(tmp_path / "a", old=False, write_statistics=False) == {}
    marked = _hazards(
        tmp_path / "b", {"org.apache.spark.version": "2.4.8"}, old=False, write_statistics=False
    )
    assert set(marked.values()) == {"older_calendar"}


def test_files_without_rows_or_of_nulls_alone_hold_no_old_values(tmp_path):
    for rows in ([], [None, None]):
        with pq.ParquetWriter(tmp_path / "a", pa.schema([("d", pa.date32())])) as writer:
            writer.write_table(pa.table({"d": pa.array(rows, pa.date32())}))
            writer.add_key_value_metadata({"org.apache.spark.version": "2.4.8"})
        assert dict(old_date_incompatibilities(pq.read_metadata(tmp_path / "a"))) == {}
