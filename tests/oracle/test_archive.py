"""Archiving: hudisql archives what Apache Hudi would archive, and each reads the other's archives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.timeline.instant import Instant
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, bootstrap_shape

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

OPTIONS = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))
ARGUMENTS = "min_commits=>2, max_commits=>3, retain_commits=>1, enable_metadata=>false"


def _records(table: HudiTable) -> dict[Instant, dict[str, Any]]:
    """What is archived, without what differs by the moment at which files were copied."""
    found = {}
    for entry in read_archived_entries(table):
        fields = {name: value for name, value in entry.record.items() if value is not None}
        found[entry.instant] = {**fields, "stateTransitionTime": None}
    return found


@pytest.mark.soak
def test_both_archive_the_same_instants_and_go_on(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(each for each in SHAPES if each.table_type == "MERGE_ON_READ")
    made = bootstrap_shape(session, shape, tmp_path)
    name, path = f"oracle.{shape.name}", made.path
    session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('hoodie.cleaner.commits.retained' = '1')")
    session.sql(f"UPDATE {name} SET note = 'first' WHERE seq % 3 = 0")
    at_once = "hoodie.compact.inline.max.delta.commits=1"
    session.sql(f"CALL run_compaction(op => 'scheduleandexecute', table => '{name}', options => '{at_once}')")
    session.sql(f"ALTER TABLE {name} DROP PARTITION (dt = '2024-03-02')")
    for number in (6, 9):
        session.sql(f"DELETE FROM {name} WHERE seq = {number}")
    session.sql(f"CALL run_compaction(op => 'scheduleandexecute', table => '{name}', options => '{at_once}')")
    session.sql(f"DELETE FROM {name} WHERE seq = 3")
    saved = f"{path}_saved"
    shutil.copytree(path, saved)

    oracle_015.sql(f"call archive_commits(path=>'{path}', {ARGUMENTS})")
    theirs = open_at(path)
    records, left = _records(theirs), theirs.timeline.instants
    assert {each.action for each in records} >= {"deltacommit", "commit", "compaction", "replacecommit"}
    rows = oracle_015.read(path)
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), rows, sort_by=["seq"])

    shutil.rmtree(path)
    shutil.copytree(saved, path)
    archive_table(open_at(path), OPTIONS, SINGLE_WRITER)
    ours = open_at(path)
    assert ours.timeline.instants == left
    assert _records(ours) == records
    for reader in (oracle_015, oracle_120):
        assert_same_rows(reader.read(path), rows, sort_by=["seq"])
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), rows, sort_by=["seq"])

    # Apache Hudi shows what hudisql has archived, and both write and archive on.
    oracle_015.sql("create database if not exists oracle")
    oracle_015.sql(f"create table if not exists {name} using hudi location '{path}'")
    bounds = "start_ts=>'00000000000000', end_ts=>'29990101000000000', limit=>50"
    shown = oracle_015.sql(f"call show_archived_commits(table=>'{name}', {bounds})").to_pylist()
    mine = session.sql(f"CALL show_archived_commits(table => '{name}', limit => 50)").rows
    compared = ("commit_time", "total_bytes_written", "total_files_added", "total_records_written")
    assert [[row[column] for column in compared] for row in shown] == [
        [row[column] for column in compared] for row in mine
    ]
    session.sql(f"UPDATE {name} SET note = 'on' WHERE seq % 3 = 0")
    oracle_015.sql(f"call archive_commits(path=>'{path}', {ARGUMENTS})")
    session.sql(f"UPDATE {name} SET note = 'and on' WHERE seq % 3 = 0")
    session.sql(
        f"CALL archive_commits(table => '{name}', min_commits => 2, max_commits => 3, retain_commits => 1)"
    )
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), oracle_015.read(path), sort_by=["seq"])
    session.sql(f"CALL hive_sync(table => '{name}')")


@pytest.mark.soak
@pytest.mark.parametrize("version", [6, 9])
def test_hudi_reads_the_latest_rows_whatever_is_to_be_archived_beyond_a_savepoint(
    session: Any, oracle_015: HudiOracle, oracle_120: HudiOracle, version: int, tmp_path: Path
) -> None:
    """What is archived after an active commit Hudi takes for never committed."""
    name, path = f"oracle.saved{version}", str(tmp_path / "table")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, n INT, p STRING) USING hudi PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.table.version' = '{version}', "
        "'hoodie.archive.beyond.savepoint' = 'true')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 0, 'a'), (2, 0, 'a')")
    session.sql(f"CALL create_savepoint(table => '{name}')")
    for _ in range(3):
        session.sql(f"UPDATE {name} SET n = n + 1 WHERE id = 1")
    for number in range(4):
        session.sql(f"INSERT INTO {name} VALUES ({number}, 0, 'b')")
    session.sql(
        f"CALL archive_commits(table => '{name}', min_commits => 2, max_commits => 3, retain_commits => 1)"
    )
    for hudi in (oracle_015, oracle_120) if version == 6 else (oracle_120,):
        found = hudi.read(path, where="p = 'a'")
        assert sorted(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == [(1, 3), (2, 0)]


@pytest.mark.soak
def test_hudi_015_alone_reads_rows_that_it_replaced_once_it_archives_beyond_a_savepoint(
    oracle_015: HudiOracle, tmp_path: Path
) -> None:
    """A fault of Apache Hudi's own: hudisql has no part in this table."""
    path = str(tmp_path / "table")
    options = {
        "hoodie.table.name": "saved",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    cleans = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    archives = {
        "hoodie.archive.automatic": "true",
        "hoodie.archive.beyond.savepoint": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }

    def rows(id_: int, note: str, ts: int) -> pa.Table:
        return pa.table({"id": [id_], "note": [note], "ts": [ts], "dt": ["a"]})

    oracle_015.upsert(rows(1, "saved", 1), path, options)
    saved = open_at(path).timeline.commits[0].timestamp
    oracle_015.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{saved}')")
    overwrite = {"hoodie.datasource.write.operation": "insert_overwrite"}
    oracle_015.write(rows(1, "overwritten", 2), path, {**options, **overwrite})
    for number in range(4):
        oracle_015.upsert(rows(2, "other", 3 + number), path, {**options, **cleans})
    assert sorted(oracle_015.read(path)["note"].to_pylist()) == ["other", "overwritten"]
    oracle_015.upsert(rows(2, "other", 7), path, {**options, **cleans, **archives})
    actions = [each.action for each in open_at(path).timeline.commits]
    assert "replacecommit" not in actions
    assert sorted(oracle_015.read(path)["note"].to_pylist()) == ["other", "overwritten", "saved"]
