"""What the procedures show of metadata tables that Apache Hudi wrote, by path."""

from __future__ import annotations

from dataclasses import astuple
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.format.metadata_table.column_statistics import ColumnStatistics
from hudisql.procedures.show.show_metadata_column_stats_overlap import _overlap

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.mark.parametrize("name", ["v6_mor_mdt_logs", "v9_cow_mdt_compacted"])
def test_statistics_are_shown_as_values_of_the_column(call: Any, golden: Any, name: str) -> None:
    rows = call(
        "show_metadata_table_column_stats",
        path=golden(name).table,
        partition="dt=2024-03-01",
        targetColumns="d, ts, amt, name",
    )
    shown = {row["column_name"]: (row["min_value"], row["max_value"]) for row in rows}
    assert shown["d"][0] == "2024-01-01"
    assert shown["ts"][0] == "2024-01-01 00:00:00+00:00"
    assert float(shown["amt"][0]) == 0.25
    assert {row["null_number"] for row in rows if row["column_name"] == "name"} == {1}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"partition": "dt=2024-01-01"}, "does not list the partition 'dt=2024-01-01'"),
        ({"targetColumns": "name, nom"}, "has no column 'nom'"),
    ],
)
def test_statistics_of_unknown_partitions_and_columns_are_refused(
    call: Any, golden: Any, arguments: dict[str, str], problem: str
) -> None:
    table = golden("v9_cow_mdt_compacted").table
    with pytest.raises(InvalidArgumentError, match=problem):
        call("show_metadata_table_column_stats", path=table, **arguments)
    known = call("show_metadata_table_column_stats", path=table, targetColumns="_hoodie_file_name")
    assert known == []


@pytest.mark.parametrize("name", ["v6_mor_mdt_logs", "v9_cow_mdt_compacted"])
def test_overlaps_count_the_files_that_may_have_a_bound(call: Any, golden: Any, name: str) -> None:
    table = golden(name).table
    rows = call("show_metadata_column_stats_overlap", path=table)
    places = [(row["Partition path"], row["Field name"]) for row in rows]
    assert places == sorted(set(places))
    assert {"d", "ts", "amt", "name", "_hoodie_record_key"} <= {column for _, column in places}
    for row in rows:
        shown = call(
            "show_metadata_table_column_stats",
            path=table,
            partition=row["Partition path"],
            targetColumns=row["Field name"],
        )
        assert row["Total file number"] == len(shown) > 0
        assert 1 <= row["50% overlap"] <= row["99% overlap"] <= row["Maximum file overlap"] <= len(shown)
        assert row["Total value number"] == len(
            {each[end] for each in shown for end in ("min_value", "max_value")}
        )
    with pytest.raises(InvalidArgumentError, match="has no column 'nom'"):
        call("show_metadata_column_stats_overlap", path=table, targetColumns="nom")


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(1, 5), (3, 8), (10, 10), (1, 10)], (2.4, 3, 4, 2, 3, 3, 3, 5)),
        (
            [(1, 100), (10, 90), (20, 80), (30, 70), (30, 31), (200, 300)],
            (28 / 11, 5, 6, 2, 3, 5, 5, 11),
        ),
        ([(False, True), (True, True)], (1.5, 2, 2, 1, 1, 1, 1, 2)),
        ([("s1", "s5"), ("s10", "s10"), (None, None)], (4 / 3, 2, 3, 1, 1, 1, 1, 3)),
        ([(None, None)], (0.0, 0, 1, 0, 0, 0, 0, 0)),
        ([(Decimal("1.50"), Decimal("2.25")), (Decimal("2.25"), None)], (1.0, 1, 2, 1, 1, 1, 1, 2)),
        (
            [(date(2024, 1, 1), date(2024, 1, 2)), (date(2024, 1, 2), date(2024, 1, 3))],
            (4 / 3, 2, 2, 1, 1, 1, 1, 3),
        ),
        ([(b"a", b"c"), (b"b", b"b")], (4 / 3, 2, 2, 1, 1, 1, 1, 3)),
        ([(timedelta(hours=1), timedelta(hours=2))], (1.0, 1, 1, 1, 1, 1, 1, 2)),
    ],
)
def test_overlaps_are_those_of_hudi(ranges: list[tuple[Any, Any]], expected: tuple[float, ...]) -> None:
    """The first two as Hudi 1.2 gives them; of a file of nulls it counts 0."""
    statistics = [ColumnStatistics("f", "c", least, greatest, 2, 0) for least, greatest in ranges]
    row = _overlap("", "c", statistics)
    assert astuple(row)[2:] == expected


def test_sizes_of_each_index_are_shown(call: Any, golden: Any) -> None:
    table = golden("v9_cow_mdt_compacted").table
    stats = {row["stat_key"]: int(row["stat_value"]) for row in call("show_metadata_table_stats", path=table)}
    assert (stats["files.baseFileCount"], stats["files.logFileCount"]) == (1, 3)
    assert stats["record_index.baseFileCount"] == 2
    assert stats["column_stats.totalBaseFileSizeInBytes"] > 0
    assert [row["index_name"] for row in call("show_indexes", path=table)] == [
        "column_stats",
        "partition_stats",
        "record_index",
    ]


def test_a_table_without_a_metadata_table_is_named(call: Any, golden: Any) -> None:
    table = golden("mor_compacted").table
    with pytest.raises(InvalidArgumentError, match="has no metadata table"):
        call("show_metadata_table_files", path=table)
    assert call("show_indexes", path=table) == []
    bootstrap = golden("v9_cow_bootstrap_default_stats").table
    assert len(call("show_metadata_table_files", path=bootstrap, partition="dt=2024-03-01", limit=1)) == 1
