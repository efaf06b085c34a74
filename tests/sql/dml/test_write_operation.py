"""`hoodie.datasource.write.operation` of the session: what contradicts the statement is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, SettingsError, UnsupportedTableError
from hudisql.sql.schema.merge_mode_property import with_payload_of_mode
from tests.sql.changed_tables import ROWS, ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

OPERATION = "hoodie.datasource.write.operation"
PARTITION = "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') (id, seq) SELECT 'o1', 1"
DYNAMIC = "INSERT OVERWRITE {t} (id, seq, dt) SELECT 'o1', 1, '2024-03-02'"


@pytest.mark.parametrize(
    ("operation", "statement", "said"),
    [
        ("delete", "INSERT INTO {t} (id, dt) VALUES ('x', 'y')", "must be one of .*, not 'delete'"),
        ("delete_partition", PARTITION, "must be one of .*, not 'delete_partition'"),
        ("upsert", PARTITION, "= upsert replaces no rows in Apache Hudi"),
        ("insert", DYNAMIC, "= insert replaces no rows in Apache Hudi"),
        ("insert_overwrite_table", PARTITION, "= insert_overwrite_table replaces all partitions"),
        ("upsert", "CREATE TABLE changes.made USING hudi AS SELECT 1 AS id", "= upsert combines rows"),
    ],
)
def test_what_contradicts_the_statement_is_refused(
    table: ChangedTable, operation: str, statement: str, said: str
) -> None:
    with (
        setting(table.session, OPERATION, operation),
        setting(table.session, "hoodie.datasource.overwrite.mode", "dynamic"),
        pytest.raises(SettingsError, match=f"{OPERATION} {said}"),
    ):
        table.run(statement)
    assert len(table.rows()) == ROWS


def test_statements_other_than_insert_do_not_follow_it(table: ChangedTable) -> None:
    with setting(table.session, OPERATION, "insert_overwrite"):
        assert table.run("UPDATE {t} SET seq = 100 WHERE id = 'k01'")["updated"] == 1
        assert table.run("DELETE FROM {t} WHERE id = 'k02'")["deleted"] == 1
        frame = table.session.spark.sql("SELECT 'n' AS id, 1 AS seq, '2024-03-01' AS dt")
        table.session.write(frame, table.name, "upsert")
    assert len(table.rows()) == ROWS


@pytest.mark.parametrize(
    ("version", "mode", "kept"),
    [("9", "COMMIT_TIME_ORDERING", 99), ("6", "EVENT_TIME_ORDERING", 100), ("6", "COMMIT_TIME_ORDERING", 99)],
)
def test_a_new_table_keeps_the_rows_that_its_merge_mode_says(
    table: ChangedTable, version: str, mode: str, kept: int
) -> None:
    name, run = f"changes.mode_{version}_{mode}", table.session.sql
    run(
        f"CREATE TABLE {name} (id INT, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        f"preCombineField = 'ts', recordMergeMode = '{mode}', 'hoodie.write.table.version' = '{version}')"
    )
    for ts in (100, 99):
        run(f"INSERT INTO {name} VALUES (1, {ts})")
    assert [tuple(row) for row in run(f"SELECT id, ts FROM {name}").rows] == [(1, kept)]
    other = "COMMIT_TIME_ORDERING" if mode.startswith("EVENT") else "EVENT_TIME_ORDERING"
    with (
        setting(table.session, "hoodie.write.record.merge.mode", other),
        pytest.raises(SettingsError, match=f"contradicts the table, which has {mode}"),
    ):
        run(f"INSERT INTO {name} VALUES (1, 101)")


def test_a_dataframe_makes_a_table_with_its_merge_mode(table: ChangedTable) -> None:
    name, mode = "changes.frame_mode", "hoodie.write.record.merge.mode"
    options = {"primaryKey": "id", "preCombineField": "ts", mode: "EVENT_TIME_ORDERING"}
    for ts in (100, 99):
        frame = table.session.spark.sql(f"SELECT 1 AS id, {ts} AS ts")
        table.session.write(frame, name, "upsert", **options)
    assert [tuple(row) for row in table.session.sql(f"SELECT id, ts FROM {name}").rows] == [(1, 100)]
    with pytest.raises(InvalidArgumentError, match=f"{mode} = 'COMMIT_TIME_ORDERING' contradicts"):
        table.session.write(frame, name, "upsert", **{mode: "COMMIT_TIME_ORDERING"})


def test_a_merge_mode_that_no_payload_class_stands_for_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="recordMergeMode = CUSTOM is not supported"):
        with_payload_of_mode({"recordMergeMode": "CUSTOM"})
    event_time = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    both = {"payloadClass": event_time, "hoodie.record.merge.mode": "commit_time_ordering"}
    with pytest.raises(InvalidArgumentError, match="contradicts the payload class"):
        with_payload_of_mode(both)
    both["hoodie.record.merge.mode"] = "event_time_ordering"
    assert with_payload_of_mode(both) == both


@pytest.mark.parametrize("driver_bytes", ["8388608", "0"])
def test_inserts_replace_rows_of_the_small_file_that_takes_them(
    table: ChangedTable, driver_bytes: str
) -> None:
    rows = "VALUES ('k00', 100, '2024-03-01'), ('new', 2, '2024-03-01'), ('new', 1, '2024-03-01'), "
    rows += "('k00', 7, '2024-03-09')"
    with (
        setting(table.session, "hudisql.driver.max.bytes", driver_bytes),
        setting(table.session, "hoodie.spark.sql.insert.into.operation", "insert"),
        setting(table.session, "hoodie.combine.before.insert", "false"),
        setting(table.session, "hoodie.merge.allow.duplicate.on.inserts", "false"),
    ):
        counts = table.run(f"INSERT INTO {{t}} (id, seq, dt) {rows}")
    assert (counts["inserted"], counts["updated"], counts["combined"]) == (2, 1, 1)
    assert table.rows("id, seq, dt", "id IN ('k00', 'new')") == [
        ("k00", 100, "2024-03-01"),
        ("k00", 7, "2024-03-09"),
        ("new", 2, "2024-03-01"),
    ]
    assert len(table.rows()) == ROWS + 2


@pytest.mark.usefixtures("lake_database")
@pytest.mark.parametrize("driver_bytes", ["8388608", "0"])
def test_inserts_that_are_marked_as_deletes_delete_rows_of_the_small_file(
    session: Any, driver_bytes: str
) -> None:
    name = f"lake.marked_{driver_bytes}"
    session.sql(
        f"CREATE TABLE {name} (id STRING, seq BIGINT, _hoodie_is_deleted BOOLEAN) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq')"
    )
    session.sql(f"INSERT INTO {name} VALUES ('a', 1L, false), ('b', 1L, false)")
    with (
        setting(session, "hudisql.driver.max.bytes", driver_bytes),
        setting(session, "hoodie.spark.sql.insert.into.operation", "insert"),
        setting(session, "hoodie.merge.allow.duplicate.on.inserts", "false"),
    ):
        session.sql(f"INSERT INTO {name} VALUES ('a', 2L, true), ('c', 2L, true), ('d', 2L, false)")
    assert [row[0] for row in session.sql(f"SELECT id FROM {name} ORDER BY id").rows] == ["b", "d"]
