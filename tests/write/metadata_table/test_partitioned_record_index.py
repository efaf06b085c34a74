"""A partitioned record index is kept by all changes; Apache Hudi's own is in `tests/oracle`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import StorageError, UnsupportedStatementError, UnsupportedTableError
from hudisql.read.scan.record_skipping import look_up_keys
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.write.index import key_lookup
from hudisql.write.metadata_table import metadata_commit, metadata_compaction
from hudisql.write.metadata_table.deltacommit_files import write_deltacommit
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.metadata_table.secondary_index_files import define_secondary_index
from tests.opened import open_at, open_kept
from tests.soak import parameters
from tests.sql.changed_tables import setting
from tests.write.metadata_table.kept_indexes import assert_finds_all_rows_by_partition

pytestmark = [pytest.mark.spark, pytest.mark.hms]
CHANGES = (
    "INSERT INTO {t} VALUES (1, 2, 'x/y=%'), (50, 2, 'x/y=%'), (51, 2, 'p0')",
    "UPDATE {t} SET dt = 'p1' WHERE id IN (2, 50)",
    "DELETE FROM {t} WHERE id IN (1, 3) AND dt = 'p0'",
    "INSERT OVERWRITE {t} PARTITION (dt = 'p0') SELECT id, seq + 1 FROM {t} WHERE dt = 'p0' AND id < 10",
    "ALTER TABLE {t} DROP PARTITION (dt = 'p1')",
    "INSERT INTO {t} VALUES (2, 5, 'p1'), (1, 5, 'p0')",
)


def _with_partitioned_index(session: Any, path: Path, table_type: str) -> str:
    """A table with one partition and an index with its file group."""
    name = f"by_partition.{table_type}"
    session.sql("CREATE DATABASE IF NOT EXISTS by_partition")
    session.sql(
        f"CREATE TABLE {name} (id INT, seq INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        f"TBLPROPERTIES (type = '{table_type}', primaryKey = 'id', preCombineField = 'seq', "
        "'hoodie.write.table.version' = '9')"
    )
    session.sql(f"INSERT INTO {name} SELECT CAST(id AS INT), 1, 'p0' FROM range(40)")
    session.sql(f"CALL create_metadata_table(table => '{name}', indexes => 'record_level_index')")
    return name


def test_tables_that_cannot_have_one_are_refused_before_anything_is_dropped(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    for name, problem in (
        ("v6_mor_mdt_logs", "version 6"),
        ("v9_cow_mdt_compacted", "by_name needs a record"),
    ):
        table = open_at(shutil.copytree(golden(name).table, tmp_path / name))
        secondary = [] if table.version == 6 else [define_secondary_index(table, "by_name", "name")]
        with pytest.raises(UnsupportedTableError, match=problem):
            create_metadata_table(table, with_record_index=True, by_partition=True, secondary=secondary)
        assert table.reopened().properties.metadata_partitions == table.properties.metadata_partitions


def test_partitions_whose_paths_have_an_underscore_or_are_long_are_refused(
    session: Any, tmp_path: Path
) -> None:
    name = _with_partitioned_index(session, tmp_path / "t", "cow")
    for value in ("NULL", "'a_b'", f"'{'x' * 161}'"):
        with pytest.raises(UnsupportedTableError, match="has no place for the partition"):
            session.sql(f"INSERT INTO {name} VALUES (1, 2, {value})")
    _checked(tmp_path / "t")
    assert session.sql(f"SELECT count(*) FROM {name}").rows == [(40,)]
    session.sql(f"DROP TABLE {name}")
    session.sql(
        f"CREATE TABLE {name} (id INT, seq INT, my_p STRING) USING hudi PARTITIONED BY (my_p) LOCATION "
        f"'{tmp_path / 'u'}' TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.table.version' = '9')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 1, 'a')")
    with pytest.raises(UnsupportedTableError, match="has no place for the partition 'my_p=a'"):
        session.sql(f"CALL create_metadata_table(table => '{name}', indexes => 'record_level_index')")
    assert session.sql(f"SELECT seq FROM {name} WHERE id = 1").rows == [(1,)]
    session.sql(f"DROP TABLE {name}")


def _checked(path: Path) -> MetadataTable:
    metadata = open_kept(path)
    assert_finds_all_rows_by_partition(metadata)
    return metadata


@pytest.mark.parametrize("table_type", parameters(["cow", "mor"], in_ci=["mor"]))
def test_changes_keep_the_place_of_each_key_in_each_partition(
    session: Any, tmp_path: Path, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 3)
    said: list[str] = []
    monkeypatch.setattr(SilentConsole, "warning", lambda _, text: said.append(text))
    path = tmp_path / "t"
    name = _with_partitioned_index(session, path, table_type)
    for statement in CHANGES:
        session.sql(statement.replace("{t}", name))
        metadata = _checked(path)
    groups = {file_slice.file_id for file_slice in metadata.latest_slices("record_index")}
    assert len(groups) == 1 + 2
    _fail_in_a_new_partition(session, name, monkeypatch)
    session.sql(f"INSERT INTO {name} VALUES (80, 1, 'p9')")
    _checked(path)
    assert said == []
    _upsert_by_the_index(session, name, monkeypatch)
    _checked(path)
    session.sql(f"CALL create_metadata_table(table => '{name}')")
    _checked(path)
    for columns, reason in (
        ("(seq)", "a secondary index needs one of the whole table"),
        ("USING column_stats (seq) OPTIONS (expr = 'from_unixtime')", "makes expression indexes only beside"),
    ):
        with pytest.raises(UnsupportedStatementError, match=f"is partitioned, and .*{reason}") as refused:
            session.sql(f"CREATE INDEX by_seq ON {name} {columns}")
        assert f"(table => '{name}', indexes => 'record_index')" in str(refused.value.hint)
    session.sql(f"CALL create_metadata_table(table => '{name}', indexes => 'files')")
    assert "record_index" not in open_kept(path).indexes
    session.sql(f"DROP TABLE {name}")


def _fail_in_a_new_partition(session: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change fails after it has written the file group of the partition, before it completes."""

    def write_and_fail(*arguments: Any) -> None:
        write_deltacommit(*arguments)
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(metadata_commit, "write_deltacommit", write_and_fail)
        with pytest.raises(StorageError, match="the disk is full"):
            session.sql(f"INSERT INTO {name} VALUES (80, 1, 'p9'), (81, 1, 'p9')")


def _upsert_by_the_index(session: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in another partition is another row."""
    answers: list[Any] = []

    def looked_up(*arguments: Any) -> Any:
        answers.append(look_up_keys(*arguments))
        return answers[-1]

    monkeypatch.setattr(key_lookup, "look_up_keys", looked_up)
    rows = [(1, 9, "p0"), (4, 9, "p0"), (4, 9, "p1"), (70, 9, "p5")]
    frame = session.spark.createDataFrame(rows, "id int, seq int, dt string")
    with setting(session, "hudisql.driver.max.bytes", "0"):
        session.write(frame, name, "upsert", **{"hoodie.index.type": "RECORD_LEVEL_INDEX"})
    assert [len(locations.groups) for locations in answers] == [1]
    found = session.sql(f"SELECT id, seq, dt FROM {name} WHERE seq = 9 OR id IN (1, 4, 70)").rows
    assert sorted(tuple(row) for row in found) == [
        *[(1, 2, "x/y=%"), (1, 9, "p0"), (4, 9, "p0"), (4, 9, "p1"), (70, 9, "p5")]
    ]
