"""What the procedures show of metadata tables that Apache Hudi wrote, by path."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError

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
