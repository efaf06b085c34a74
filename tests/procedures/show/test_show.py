"""Procedures that show a table's own files, on tables of Apache Hudi and on one of ours."""

from __future__ import annotations

import json

import pytest

from hudisql.errors import InvalidArgumentError, NoSuchInstantError, NoSuchTableError

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_the_bootstrap_mapping_names_the_source_file_of_every_file_group(call, golden):
    table = golden("cow_bootstrap_2part")
    rows = call("show_bootstrap_mapping", path=table.table, limit=100)
    assert list(rows[0]) == ["partition", "file_id", "source_base_path", "source_partition", "source_file"]
    assert len(rows) == 8
    assert [row["partition"] for row in rows] == sorted(row["partition"] for row in rows)
    for row in rows:
        assert row["source_base_path"] == table.source
        assert row["source_partition"] == row["partition"]
        assert row["source_file"].startswith(f"file:{table.source}/{row['partition']}/part-")


def test_the_bootstrap_mapping_can_be_narrowed_sorted_and_filtered(call, golden):
    table = golden("cow_bootstrap_2part").table
    everything = call("show_bootstrap_mapping", path=table, limit=100)
    assert len(call("show_bootstrap_mapping", path=table)) == 8
    assert len(call("show_bootstrap_mapping", path=table, limit=3)) == 3
    one = call("show_bootstrap_mapping", path=table, partition_path="region=eu/dt=2024-03-01")
    assert {row["partition"] for row in one} == {"region=eu/dt=2024-03-01"}
    wanted = [everything[0]["file_id"], everything[5]["file_id"]]
    picked = call("show_bootstrap_mapping", path=table, file_ids=",".join(wanted))
    assert sorted(row["file_id"] for row in picked) == sorted(wanted)
    upside_down = call("show_bootstrap_mapping", path=table, sort_by="file_id", desc=True, limit=100)
    assert [row["file_id"] for row in upside_down] == sorted(
        (row["file_id"] for row in everything), reverse=True
    )
    filtered = call("show_bootstrap_mapping", path=table, filter="partition LIKE '%us%'", limit=100)
    assert len(filtered) == 4
    with pytest.raises(InvalidArgumentError, match="cannot sort by 'size'"):
        call("show_bootstrap_mapping", path=table, sort_by="size")
    with pytest.raises(InvalidArgumentError, match="cannot be evaluated"):
        call("show_bootstrap_mapping", path=table, filter="size > 3")


def test_the_indexed_partitions_are_those_of_the_index(call, golden):
    rows = call("show_bootstrap_partitions", path=golden("cow_bootstrap_2part").table)
    assert [row["indexed_partitions"] for row in rows] == [
        f"region={region}/dt=2024-03-0{day}" for region in ("eu", "us") for day in (1, 2)
    ]


def test_table_properties_are_the_tables_own(call, golden):
    table = golden("mor_bootstrap_meta")
    rows = {row["key"]: row["value"] for row in call("show_table_properties", path=table.table, limit=100)}
    assert rows["hoodie.table.type"] == "MERGE_ON_READ"
    assert rows["hoodie.bootstrap.base.path"] == table.source
    assert len(call("show_table_properties", path=table.table)) == 10
    (row,) = call("show_table_properties", path=table.table, filter="key = 'hoodie.table.version'")
    assert row == {"key": "hoodie.table.version", "value": "6"}


def test_the_timeline_shows_every_action_newest_first(call, golden):
    table = golden("cow_savepoint_clean").table
    rows = call("show_timeline", path=table)
    assert list(rows[0]) == [
        "instant_time",
        "action",
        "state",
        "requested_time",
        "inflight_time",
        "completed_time",
        "timeline_type",
        "rollback_info",
    ]
    assert [row["instant_time"] for row in rows] == sorted(
        (row["instant_time"] for row in rows), reverse=True
    )
    assert {"clean", "savepoint", "commit"} <= {row["action"] for row in rows}
    assert rows[-1]["instant_time"] == "00000000000001"
    assert all(row["completed_time"] for row in rows)
    later = call("show_timeline", path=table, startTime="2", limit=2)
    assert len(later) == 2
    (first,) = call("show_timeline", path=table, endTime="00000000000002")
    assert first["action"] == "commit"
    assert len(call("show_timeline", path=table, showArchived=True, filter="action = 'clean'")) == 1


def test_a_rollback_says_what_it_undid(call, golden):
    rows = call("show_timeline", path=golden("mor_rollback").table, filter="action = 'rollback'")
    assert rows
    assert all(row["rollback_info"].startswith("Rolled back 2") for row in rows)


def test_commits_show_what_they_wrote(call, daily_orders, tmp_path, name):
    call("bootstrap_table", table=name, source=daily_orders, record_key="id", target_path=tmp_path / "t")
    (row,) = call("show_commits", table=name)
    state_time = row.pop("state_transition_time")
    assert len(state_time) == 17
    skeletons = list((tmp_path / "t").rglob("*_00000000000001.parquet"))
    assert row == {
        "commit_time": "00000000000001",
        "action": "commit",
        "total_bytes_written": sum(path.stat().st_size for path in skeletons),
        "total_files_added": 4,
        "total_files_updated": 0,
        "total_partitions_written": 2,
        "total_records_written": 80,
        "total_update_records_written": 0,
        "total_errors": 0,
    }


def test_a_table_is_found_by_name_or_path_and_must_be_hudis(call, session, tmp_path):
    with pytest.raises(InvalidArgumentError, match="give table or path"):
        call("show_timeline")
    with pytest.raises(NoSuchTableError, match="no table store"):
        call("show_timeline", table="store.nowhere")
    with pytest.raises(NoSuchTableError, match="no Hudi table"):
        call("show_timeline", path=tmp_path)
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    session.spark.sql("CREATE TABLE IF NOT EXISTS store.plain (id int) USING parquet")
    with pytest.raises(NoSuchTableError, match=r"store.plain is not a Hudi table"):
        call("show_timeline", table="store.plain")


def test_the_metadata_of_commits_is_shown(call, daily_orders, tmp_path, name):
    call("bootstrap_table", table=name, source=daily_orders, record_key="id", target_path=tmp_path / "t")
    instant = "00000000000001"
    files = call("show_commit_files", table=name, instant_time=instant)
    assert [row["total_records_written"] for row in files] == [20] * 4
    assert {row["previous_commit"] for row in files} == {"null"}
    partitions = call("show_commit_partitions", table=name, instant_time=instant)
    assert [row["total_files_added"] for row in partitions] == [2, 2]
    (stats,) = call("show_commit_write_stats", table=name, instant_time=instant)
    written = sum(row["total_bytes_written"] for row in files)
    expected = {"total_bytes_written": written, "total_records_written": 80}
    assert stats == {"action": "commit", **expected, "avg_record_size": -(-written // 80)}
    (schema,) = call("show_commit_extra_metadata", table=name, metadata_key="schema")
    assert (schema["instant_time"], schema["action"]) == (instant, "commit")
    assert json.loads(schema["metadata_value"])["type"] == "record"
    groups = call("show_commits_metadata", table=name)
    assert [row["file_id"] for row in groups] == [row["file_id"] for row in files]
    assert len(call("show_commits_metadata", table=name, limit=3)) == 3
    with pytest.raises(NoSuchInstantError, match="no completed commit 20200101"):
        call("show_commit_files", table=name, instant_time="20200101")
