"""Writes that bring new columns and wider types along: the table's schema follows, old rows stay readable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import HudisqlError, UnsupportedStatementError, UnsupportedTableError, WriteRefusedError
from hudisql.session import Session
from tests.opened import open_at
from tests.soak import parameters
from tests.sql.changed_tables import ROWS, ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

RECONCILE = "hoodie.datasource.write.reconcile.schema"
WIDER = (
    "id string, extra struct<a:int,b:string>, price decimal(20,2), dt string, seq bigint, "
    "st struct<b:string,a:int>"
)


def _columns(session: Session, name: str) -> dict[str, str]:
    rows = session.sql(f"DESCRIBE {name}").rows
    return {row[0]: row[1] for row in rows if not row[0].startswith(("_hoodie", "#"))}


def _committed(path: str) -> list[str]:
    """The names of the columns in the newest commit's own metadata."""
    table = open_at(path)
    document = json.loads(Path(table.instant_path(table.timeline.commits[-1])).read_text())
    return [field["name"] for field in json.loads(document["extraMetadata"]["schema"])["fields"]]


def _frame(session: Session, *rows: tuple[Any, ...], columns: str) -> Any:
    return session.spark.createDataFrame(list(rows), columns)


@pytest.mark.parametrize(
    "operation", parameters(["upsert", "insert", "bulk_insert", "insert_overwrite"], in_ci=["upsert"])
)
def test_a_frame_adds_columns_and_widens_types_and_later_commits_keep_them(
    session: Session, table: ChangedTable, operation: str
) -> None:
    row = ("k01", (7, "x"), Decimal("123456789012345678.25"), "2024-03-01", 100, ("y", 2))
    session.write(_frame(session, row, columns=WIDER), table.name, operation)
    expected = [*("id", "seq", "price", "st", "tags", "at", "extra"), "dt"]
    assert _committed(table.path) == expected
    columns = _columns(session, table.name)
    assert list(columns) == expected
    assert columns["price"] == "decimal(20,2)"
    assert columns["extra"] == "struct<a:int,b:string>"
    assert columns["st"] == "struct<a:bigint,b:string>"
    assert table.rows("seq, price, st, tags, extra", "seq = 100") == [
        (100, Decimal("123456789012345678.25"), (2, "y"), None, (7, "x"))
    ]
    assert table.rows("price, st, tags, extra", "id = 'k25'") == [(25, (25, "s25"), ["t25", None], None)]
    table.run("DELETE FROM {t} WHERE seq = 26")
    assert _committed(table.path) == expected
    table.run("UPDATE {t} SET extra = named_struct('a', 1, 'b', 'z') WHERE id = 'k25'")
    assert table.rows("extra", "id = 'k25'") == [((1, "z"),)]


def test_a_merge_on_read_table_reads_logs_of_the_narrower_schema(
    session: Session, merge_on_read_table: ChangedTable
) -> None:
    table = merge_on_read_table
    table.run("UPDATE {t} SET price = price + 1, st.a = 0 WHERE seq IN (1, 2)")
    row = ("k02", (7, "x"), Decimal("99999999999999.25"), "2024-03-01", 2, ("y", 2))
    # Avro reads no decimal from fewer bytes than its schema says.
    with pytest.raises(WriteRefusedError, match="log files hold it in fewer bytes"):
        session.write(_frame(session, row, columns=WIDER), table.name)
    with pytest.raises(UnsupportedStatementError, match="log files hold it in fewer bytes"):
        session.sql(f"ALTER TABLE {table.name} ALTER COLUMN price TYPE DECIMAL(20,2)")
    row = (*row[:2], Decimal("999999999999.25"), *row[3:])
    session.write(_frame(session, row, columns=WIDER.replace("20,2", "14,2")), table.name)
    assert table.rows("price, st.a, extra.a", "seq IN (1, 2, 3)") == [
        (2, 0, None),
        (Decimal("999999999999.25"), 2, 7),
        (3, 3, None),
    ]
    assert len(table.rows()) == ROWS


def test_types_that_hold_the_rows_stay_as_they_are(session: Session, table: ChangedTable) -> None:
    before = _columns(session, table.name)
    columns = "ID string, seq int, price decimal(5,1), dt string, st struct<b:string>"
    session.write(
        _frame(session, ("n", 1, Decimal("1.5"), "2024-03-01", ("x",)), columns=columns), table.name
    )
    assert _columns(session, table.name) == before
    assert table.rows("seq, price, st", "id = 'n'") == [(1, Decimal("1.50"), (None, "x"))]


@pytest.mark.parametrize(
    ("columns", "value", "kind", "said"),
    [
        ("price double", 1.5, WriteRefusedError, "would lose digits behind the point"),
        ("price decimal(12,4)", Decimal("1.5"), WriteRefusedError, "digits behind the point"),
        ("seq double", 1.5, WriteRefusedError, "would lose its fraction"),
        ("at boolean", True, WriteRefusedError, "the table has (id string, seq bigint"),
        ("st struct<a:string>", ("x",), WriteRefusedError, "the rows have (id string, dt string, st struct"),
        ("more interval day to second", None, UnsupportedTableError, "more"),
        ("seq bigint, SEQ bigint", None, WriteRefusedError, "'SEQ' twice"),
    ],
)
def test_rows_that_would_lose_something_are_refused_with_both_schemas(
    session: Session, table: ChangedTable, columns: str, value: Any, kind: type[HudisqlError], said: str
) -> None:
    values = (value,) * len(columns.split(", "))
    rows = _frame(session, ("k01", "2024-03-01", *values), columns=f"id string, dt string, {columns}")
    with pytest.raises(kind) as caught:
        session.write(rows, table.name)
    assert said in str(caught.value)
    assert len(table.instants()) == 1


@pytest.fixture
def reconciling(session: Session) -> Iterator[None]:
    with setting(session, RECONCILE, "true"):
        yield


def test_sql_adds_columns_only_where_it_is_asked_to(session: Session, table: ChangedTable) -> None:
    source = (
        "SELECT 'k01' AS id, 5 AS seq, CAST(2 AS DECIMAL(20,2)) AS price, '2024-03-01' AS dt, 'u' AS note"
    )
    with pytest.raises(WriteRefusedError, match="no column 'note'"):
        table.run(f"INSERT INTO {{t}} BY NAME {source}")
    text = (
        f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING ({source} UNION ALL SELECT 'n1', 6, 3, "
        "'2024-03-02', 'v') s ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert table.run(text) == {"inserted": 1, "updated": 1, "files_written": 2}
    assert table.rows("id, seq, price, tags, note", "note IS NOT NULL") == [
        ("k01", 5, 2, ["t1", None], "u"),
        ("n1", 6, 3, None, "v"),
    ]
    assert _columns(session, table.name)["price"] == "decimal(20,2)"
    with pytest.raises(WriteRefusedError, match="would gain members"):
        table.run(
            "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 'k01' AS id, named_struct('a', 1L, 'z', 1) "
            "AS st) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        )


@pytest.mark.usefixtures("reconciling")
def test_an_insert_by_name_may_add_columns_by_a_setting(table: ChangedTable) -> None:
    table.run("INSERT INTO {t} BY NAME SELECT 'n1' AS id, '2024-03-02' AS dt, true AS checked")
    assert table.rows("id, checked", "id IN ('k15', 'n1')") == [("k15", None), ("n1", True)]
    assert _committed(table.path)[-2:] == ["checked", "dt"]


@pytest.mark.usefixtures("reconciling")
def test_structs_gain_members_if_the_metastore_need_not_follow(session: Session, table: ChangedTable) -> None:
    text = (
        "INSERT INTO {t} BY NAME SELECT 'n1' AS id, named_struct('z', 1.5D, 'a', 3) AS st, '2024-03-02' AS dt"
    )
    with pytest.raises(WriteRefusedError, match="would gain members"):
        table.run(text)
    with setting(session, "hudisql.sync", "false"):
        table.run(text)
    assert table.rows("id, st", "id IN ('k15', 'n1')") == [("k15", (15, "s15", None)), ("n1", (3, None, 1.5))]


NULL_FOR_MISSING = "hoodie.write.set.null.for.missing.columns"
COLUMN_DROP = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
WITHOUT_AT = (
    "id string, seq int, price decimal(5,1), st struct<a:int,b:string>, tags array<string>, dt string"
)


@pytest.mark.parametrize("kind", ["table", "merge_on_read_table"])
def test_columns_that_a_frame_lacks_go_if_that_is_asked_for(
    session: Session, kind: str, request: pytest.FixtureRequest
) -> None:
    table: ChangedTable = request.getfixturevalue(kind)
    table.run("UPDATE {t} SET price = 0 WHERE seq = 2")
    row = ("k01", 100, Decimal("1.5"), (7, "x"), ["y"], "2024-03-01")
    rows = _frame(session, row, columns=WITHOUT_AT)
    with pytest.raises(WriteRefusedError, match=rf"lack at, and {NULL_FOR_MISSING} is false"):
        session.write(rows, table.name, **{NULL_FOR_MISSING: "false"})
    for missing, said in (("st", "compares columns by their places"), ("dt", "the table needs it")):
        with pytest.raises(WriteRefusedError, match=said):
            session.write(rows.drop(missing), table.name, **{COLUMN_DROP: "true"})
    with pytest.raises(WriteRefusedError, match=r"lack st\.b: a member of a struct stays"):
        session.write(
            rows.selectExpr("*", "struct(st.a) AS st").drop(rows.st), table.name, **{COLUMN_DROP: "true"}
        )
    session.write(rows, table.name, **{COLUMN_DROP: "true"})
    assert _committed(table.path) == ["id", "seq", "price", "st", "tags", "dt"]
    assert list(_columns(session, table.name)) == ["id", "seq", "price", "st", "tags", "dt"]
    assert table.rows("id, seq, price", "dt = '2024-03-01'")[:3] == [
        ("k00", 0, 0),
        ("k01", 100, Decimal("1.50")),
        ("k02", 2, 0),
    ]
    table.run("UPDATE {t} SET price = 7 WHERE id = 'k25'")
    assert len(table.rows("id, price, tags")) == ROWS
