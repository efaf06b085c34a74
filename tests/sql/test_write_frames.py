"""DataFrames written into a bootstrapped table by Hudi's operations."""

from __future__ import annotations

from typing import Any

import pytest

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
    assert (result.inserted, result.updated) == (1, 1)
    assert table.rows(where="seq = 100 OR id = 'n'") == [
        ("k01", 100, None, "2024-03-01"),
        ("n", 1, None, "2024-03-04"),
    ]
    assert len(table.rows()) == ROWS + 1


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
        ("{t}", "upsert", "id string, seq bigint, day string", WriteRefusedError, "no column 'day'"),
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
