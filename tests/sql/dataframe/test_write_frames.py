"""DataFrames written into a bootstrapped table by Hudi's operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hudisql
from hudisql.errors import HudisqlError, InvalidArgumentError, NoSuchTableError, WriteRefusedError
from hudisql.session import Session
from tests.sql.changed_tables import ROWS, ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

COLUMNS = "id string, seq bigint, dt string"


def _frame(session: Session, *rows: tuple[Any, ...], columns: str = COLUMNS) -> Any:
    return session.spark.createDataFrame(list(rows), columns)


def test_an_upsert_replaces_known_keys_and_adds_others(session: Session, table: ChangedTable) -> None:
    rows = _frame(session, ("k01", 100, "2024-03-01"), ("k01", 90, "2024-03-01"), ("n", 1, "2024-03-04"))
    result = session.write(rows, table.name)
    assert (result.inserted, result.updated, result.combined) == (1, 1, 1)
    assert table.rows(where="seq = 100 OR id = 'n'") == [
        ("k01", 100, None, "2024-03-01"),
        ("n", 1, None, "2024-03-04"),
    ]
    assert len(table.rows()) == ROWS + 1


def test_what_an_upsert_caches_is_released_when_it_ends(session: Session, table: ChangedTable) -> None:
    def cached() -> int:
        return int(session.spark.sparkContext._jsc.getPersistentRDDs().size())

    before = cached()
    session.write(_frame(session, ("k01", 100, "2024-03-01")), table.name)
    with pytest.raises(WriteRefusedError, match="no record key"):
        session.write(_frame(session, (None, 100, "2024-03-01")), table.name)
    session.write(_frame(session, ("k01", 100, "2024-03-01")), table.name, "delete")
    assert cached() == before


@pytest.mark.usefixtures("merge_on_read_table")
def test_the_name_that_shows_base_files_only_is_not_written_to(session: Session) -> None:
    with pytest.raises(HudisqlError, match=r"name the table itself: changes\.m$"):
        session.write(_frame(session, ("k01", 100, "2024-03-01")), "changes.m_ro")


def test_a_delete_goes_by_key_and_partition_alone(session: Session, table: ChangedTable) -> None:
    rows = _frame(session, ("k01", "2024-03-01"), ("k02", "2024-03-03"), columns="id string, dt string")
    assert session.write(rows, table.name, "delete").deleted == 1
    assert table.rows("id", "seq < 3") == [("k00",), ("k02",)]


def test_options_hold_for_one_write(session: Session, table: ChangedTable) -> None:
    rows = session.spark.sql("SELECT concat('b', id) AS id, id AS seq, '2024-05-01' AS dt FROM range(20000)")
    written = session.write(rows, table.name, "bulk_insert", **{"hoodie.parquet.max.file.size": "100000"})
    assert (written.inserted, written.files > 1) == (20000, True)
    assert session.spark.conf.get("hoodie.parquet.max.file.size", None) is None
    assert session.write(rows.limit(3), table.name, "insert_overwrite").inserted == 3
    assert len(table.rows()) == ROWS + 3
    assert session.write(rows.limit(2), table.name, "insert_overwrite_table").inserted == 2
    assert len(table.rows()) == 2


@pytest.mark.parametrize(
    ("name", "operation", "columns", "kind", "said"),
    [
        ("{t}", "merge", COLUMNS, InvalidArgumentError, "there is no operation 'merge'"),
        ("changes.ghost", "upsert", COLUMNS, NoSuchTableError, "changes.ghost"),
        ("{t}", "upsert", "id string, seq bigint, day string", WriteRefusedError, "column 'dt'"),
        ("{t}", "delete", "id string, seq bigint, day string", WriteRefusedError, "column 'dt'"),
        ("{t}", "insert", "id string, price string, dt string", WriteRefusedError, "column 'price'"),
    ],
)
def test_bad_writes_get_one_clear_error(
    session: Session,
    table: ChangedTable,
    name: str,
    operation: str,
    columns: str,
    kind: type[HudisqlError],
    said: str,
) -> None:
    value: Any = "x" if "price" in columns else 1
    rows = _frame(session, ("a", value, "b"), columns=columns)
    with pytest.raises(kind, match=said):
        session.write(rows, name.replace("{t}", table.name), operation)


KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
}


def test_options_by_hudi_s_names_agree_with_the_table_or_are_refused(
    session: Session, table: ChangedTable
) -> None:
    rows = _frame(session, ("k01", 100, "2024-03-01"))
    operation = {"hoodie.datasource.write.operation": "insert", "hoodie.table.name": "t", "path": table.path}
    assert hudisql.write_table(rows, table.name, **KEYS, **operation).inserted == 1
    assert session.spark.conf.get("hoodie.datasource.write.recordkey.field", None) is None
    for name, value, own in (
        ("hoodie.datasource.write.recordkey.field", "seq", "id"),
        ("hoodie.datasource.write.precombine.field", "ts", "seq"),
        ("hoodie.datasource.write.partitionpath.field", "", "dt"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ", "COPY_ON_WRITE"),
        ("hoodie.table.name", "other", "original"),
        ("path", "/elsewhere", table.path),
    ):
        with pytest.raises(InvalidArgumentError, match=f"{name} = '{value}' contradicts.*'{own}'"):
            session.write(rows, table.name, **{name: value})
    for name, value, said in (
        ("hoodie.table.version", "8", "tables with 6"),
        ("hoodie.datasource.insert.dup.policy", "skip", "none, drop, fail"),
        ("mode", "append", "is not an option"),
        ("hoodie.datasource.write.operation", "delete", "the operation is 'upsert', but"),
    ):
        with pytest.raises(HudisqlError, match=said):
            session.write(rows, table.name, "upsert", **{name: value})
    assert len(table.instants()) == 2


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("operation", "kept"), [("upsert", 2), pytest.param("bulk_insert", 3, marks=pytest.mark.soak)]
)
def test_a_table_that_is_not_there_is_made_of_the_options(
    session: Session, operation: str, kept: int, tmp_path: Path
) -> None:
    rows = _frame(session, ("a", 1, "x"), ("a", 2, "x"), ("b", 1, "y"))
    options = {**KEYS, "hoodie.table.name": "made", "path": str(tmp_path / "made")}
    assert session.write(rows, "changes.made", operation, **options).inserted == kept
    made = ChangedTable(session, "changes.made", str(tmp_path / "made"))
    assert made.rows("id, seq, _hoodie_partition_path")[-1] == ("b", 1, "dt=y")
    assert len(made.rows("id")) == kept
    session.write(_frame(session, ("b", 5, "y")), "changes.made", **options)
    assert made.rows("id, seq", "dt = 'y'") == [("b", 5)]
    session.sql("DROP TABLE changes.made PURGE")
    with pytest.raises(HudisqlError, match="no record key"):
        session.write(_frame(session, (None, 5, "y")), "changes.made", operation, **options)
    assert not (tmp_path / "made").exists()
    assert session.context.metastore.get_table("changes", "made") is None
