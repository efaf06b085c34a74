"""Procedures that show files, log files, sizes and directories, beyond what Hudi 0.15 answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.archived_log_files import archived_entry, encode_archive_file
from hudisql.format.timeline.instant import InstantState
from hudisql.procedures.show.shown_rows import find_paths
from hudisql.services.clean.clean_metadata import read_clean_metadata
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_blocks_of_all_types_are_counted(call, golden, tmp_path):
    table = tmp_path / "table"
    shutil.copytree(golden("mor_rollback").table, table)
    rows = call("show_logfile_metadata", path=table, log_file_path_pattern="*/.*.log.*", limit=100)
    assert {row["block_type"] for row in rows} == {"AVRO_DATA_BLOCK", "COMMAND_BLOCK"}
    assert all(row["record_count"] > 0 for row in rows if row["block_type"] == "AVRO_DATA_BLOCK")
    (rollback, *_) = [row for row in rows if row["block_type"] == "COMMAND_BLOCK"]
    assert rollback["record_count"] == 0
    assert "TARGET_INSTANT_TIME" in json.loads(rollback["header_metadata"])
    log = next(path for path in sorted(table.glob("*/.*.log.1_*")) if path.suffix != ".crc")
    log.write_bytes(log.read_bytes() + b"#HUDI#torn")
    rows = call("show_logfile_metadata", path=table, log_file_path_pattern=log)
    assert [row["block_type"] for row in rows] == ["AVRO_DATA_BLOCK", "CORRUPT_BLOCK"]
    assert rows[1]["instant_time"] == "corrupt_block_1"
    assert len(call("show_logfile_metadata", path=table, log_file_path_pattern="*/.*.log.*", limit=1)) == 1


def test_records_of_parquet_blocks_are_shown_and_merged(call, golden):
    table = golden("mor_parquet_log").table
    pattern = "*/.*.log.*"
    blocks = call("show_logfile_metadata", path=table, log_file_path_pattern=pattern, limit=100)
    rows = call("show_logfile_records", path=table, log_file_path_pattern=pattern, limit=1000)
    assert len(rows) == sum(
        row["record_count"] for row in blocks if row["block_type"] == "PARQUET_DATA_BLOCK"
    )
    assert "_hoodie_record_key" in json.loads(rows[0]["records"])
    assert len(call("show_logfile_records", path=table, log_file_path_pattern=pattern, limit=2)) == 2
    merged = call("show_logfile_records", path=table, log_file_path_pattern=pattern, merge=True, limit=1000)
    keys = [json.loads(row["records"])["_hoodie_record_key"] for row in merged]
    assert 0 < len(keys) == len(set(keys)) <= len(rows)
    with pytest.raises(InvalidArgumentError, match=r"there is no log file at dt=\*/none"):
        call("show_logfile_records", path=table, log_file_path_pattern="dt=*/none")


def test_slices_are_shown_as_of_an_instant(call, golden):
    table = golden("mor_compacted").table
    everything = call("show_fsview_all", path=table, limit=1000)
    latest = call("show_fsview_latest", path=table, limit=1000)
    commits = sorted({row["base_instant"] for row in everything})
    assert len(commits) > 1
    before = call("show_fsview_latest", path=table, limit=1000, max_instant=commits[-1])
    assert {row["base_instant"] for row in before} == set(commits[:-1])
    with_it = call("show_fsview_latest", path=table, limit=1000, max_instant=commits[-1], include_max=True)
    assert with_it == latest
    one = latest[0]["partition"]
    assert call("show_fsview_latest", path=table, partition_path=one, limit=1000) == [
        row for row in latest if row["partition"] == one
    ]
    assert call("show_fsview_latest", path=table, filter=f"file_id = '{latest[0]['file_id']}'") == latest[:1]
    with pytest.raises(InvalidArgumentError, match="cannot be used together"):
        call("show_fsview_latest", path=table, partition_path=one, path_regex="*")


def test_the_row_of_totals_stays_whatever_the_limit(call, bootstrap, name):
    bootstrap()
    assert [row["commit_time"] for row in call("stats_file_sizes", table=name, limit=1)] == ["ALL"]
    (commit, total) = call("stats_file_sizes", table=name)
    assert (commit["num_files"], total["num_files"]) == (4, 4)
    assert total["min"] <= total["10th"] <= total["50th"] <= total["95th"] <= total["max"]
    assert [row["commit_time"] for row in call("stats_wa", table=name, limit=1)] == ["Total"]
    (nothing,) = call("stats_file_sizes", table=name, partition_path="dt=1999-*")
    assert nothing.pop("commit_time") == "ALL"
    assert set(nothing.values()) == {0}
    with pytest.raises(InvalidArgumentError, match="has 2 directories, but the table's partitions have 1"):
        call("stats_file_sizes", table=name, partition_path="/2024/*")


def test_paths_are_matched_level_by_level(tmp_path: Path):
    for name in ("a/x/1", "a/y/2", "b/x/3", "b/x/z/4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def found(pattern: str) -> list[str]:
        return [
            each.path.removeprefix(f"{tmp_path}/") for each in find_paths(Storage(), f"{tmp_path}/{pattern}")
        ]

    assert found("*") == ["a", "b"]
    assert found("*/x/*") == ["a/x/1", "b/x/3", "b/x/z"]
    assert found("{a,b}/[xy]/[0-9]") == ["a/x/1", "a/y/2", "b/x/3"]
    assert found("a/x/1") == ["a/x/1"]
    assert found("none/*") == found("a/x/2") == found("*/w/*") == []


def test_directories_are_counted_with_all_that_is_below(call, tmp_path: Path):
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "one" / "two" / "file").write_bytes(b"x" * 2048)
    (tmp_path / "empty").mkdir()
    rows = call("show_fs_path_detail", path=tmp_path, is_sub=True)
    assert [(row["path_num"], row["file_num"], row["storage_size(unit)"]) for row in rows] == [
        (2, 1, "2.00KB"),
        (1, 0, "0B"),
    ]
    (row,) = call("show_fs_path_detail", path=tmp_path, filter="`storage_size(unit)` = '2.00KB'")
    assert (row["path_num"], row["space_consumed"], row["quota"]) == (4, 2048, -1)


def test_a_file_is_there_or_was_deleted_by_an_instant(call, golden, tmp_path):
    table = tmp_path / "table"
    shutil.copytree(golden("cow_savepoint_clean").table, table)
    opened = open_table(Storage(), str(table))
    clean = next(each for each in opened.timeline.completed if each.action == "clean")
    cleaned = next(each for each in read_clean_metadata(opened, clean).partitions if each.deleted)
    place = {"path": table, "partition": cleaned.partition_path}
    answer = {"status": "deleted", "action": "clean", "instant": clean.timestamp, "full_path": ""}
    assert call("show_file_status", **place, file=cleaned.deleted[0]) == [{**answer, "timeline": "active"}]
    there = next((table / cleaned.partition_path).glob("*.parquet"))
    (row,) = call("show_file_status", **place, file=there.name)
    assert (row["status"], row["timeline"], row["full_path"]) == ("exist", "active", str(there))
    rolled_back = {"partitionPath": cleaned.partition_path, "successDeleteFiles": ["/table/dt/gone.parquet"]}
    record = {
        "startRollbackTime": "",
        "timeTakenInMillis": 0,
        "totalFilesDeleted": 1,
        "commitsRollback": [],
        "partitionMetadata": {cleaned.partition_path: {**rolled_back, "failedDeleteFiles": []}},
    }
    rollback = Path(table, ".hoodie/99991231235959999.rollback")
    rollback.write_bytes(load_codec("HoodieRollbackMetadata").encode(record))
    (row,) = call("show_file_status", **place, file="gone.parquet")
    assert (row["action"], row["instant"]) == ("rollback", "99991231235959999")
    rollback.unlink()
    (row,) = call("show_file_status", **place, file="none.parquet")
    assert set(row.values()) == {"unknown", ""}
    assert call("show_file_status", **place, file="none.parquet", filter="status = 'deleted'") == []
    states = [clean.in_state(state) for state in InstantState]
    entries = [
        archived_entry(each, Path(opened.instant_path(each)).read_bytes(), None, opened.instant_path(each))
        for each in states
    ]
    archived = table / ".hoodie/archived/.commits_.archive.99_1-0-1"
    archived.write_bytes(encode_archive_file(entries))
    for each in states:
        Path(opened.instant_path(each)).unlink()
    assert call("show_file_status", **place, file=cleaned.deleted[0]) == [{**answer, "timeline": "archived"}]
    with pytest.raises(InvalidArgumentError, match="is a partitioned table: the file's partition is missing"):
        call("show_file_status", path=table, file="none.parquet")
    with pytest.raises(InvalidArgumentError, match="file must be the name of a file"):
        call("show_file_status", **place, file="../../other/file")
