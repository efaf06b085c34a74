"""Sources in which a record key stands several times: their changes, and the tables that follow them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.session import Session
from tests.soak import parameters
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]

QUERY = "SELECT p, count(*) AS n, sum(v) AS total FROM repeated GROUP BY p"
STATEMENTS = (
    "INSERT INTO repeated VALUES (1, 10, 'x'), (2, 20, 'y')",
    "INSERT INTO repeated VALUES (1, 11, 'y'), (2, 21, 'x'), (3, 30, 'x')",
    "DELETE FROM repeated WHERE v = 11",
    "UPDATE repeated SET p = 'z', v = 22 WHERE v = 21",
    "MERGE INTO repeated t USING (SELECT 20 AS v, 23 AS w) s ON t.v = s.v "
    "WHEN MATCHED THEN UPDATE SET v = s.w",
    "DELETE FROM repeated WHERE v IN (10, 22)",
)


def _values(session: Session) -> Counter[int]:
    return Counter(row.v for row in session.sql("SELECT v FROM repeated").rows)


def _assert_followed(session: Session, statement: str) -> None:
    before = _values(session)
    instant = session.sql(statement).rows[0].instant
    changes = "hudi_table_changes('repeated', 'cdc', 'earliest')"
    events = session.sql(f"SELECT before, after FROM {changes} WHERE ts_ms = '{instant}'").rows
    gone = Counter(json.loads(row.before)["v"] for row in events if row.before)
    come = Counter(json.loads(row.after)["v"] for row in events if row.after)
    assert gone <= before, statement
    assert before - gone + come == _values(session), statement
    refresh(session)
    assert_fresh(session, QUERY)


@pytest.mark.parametrize(
    ("kind", "version"),
    parameters([("cow", 6), ("mor", 6), ("cow", 9), ("mor", 9)], in_ci=[]),
)
def test_changes_of_inserted_rows(layers: Session, kind: str, version: int) -> None:
    layers.sql(
        "CREATE TABLE repeated (id INT, v INT, p STRING) USING hudi "
        f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id', 'hoodie.write.table.version' = '{version}')"
    )
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    for statement in STATEMENTS:
        _assert_followed(layers, statement)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "version"),
    parameters(
        [
            ("COPY_ON_WRITE", 6),
            ("MERGE_ON_READ", 6),
            ("COPY_ON_WRITE", 9),
            ("MERGE_ON_READ", 9),
        ],
        in_ci=[("MERGE_ON_READ", 6)],
    ),
)
def test_changes_of_bootstrapped_rows(layers: Session, tmp_path: Path, kind: str, version: int) -> None:
    source = tmp_path / "source"
    source.mkdir()
    rows = {"id": [1, 1, 2, 2, 2], "v": [10, 11, 20, 21, 22], "p": ["x", "y", "x", "y", "x"]}
    types = pa.schema([("id", pa.int32()), ("v", pa.int32()), ("p", pa.string())])
    pq.write_table(pa.table(rows, schema=types), source / "a.parquet")
    layers.sql(
        "CALL bootstrap_table(table => 'layers.repeated', "
        f"source => '{source}', target_path => '{tmp_path / 'b'}', "
        f"table_type => '{kind}', record_key => 'id', key_check => 'none', table_version => {version})"
    )
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    for statement in STATEMENTS[2:]:
        _assert_followed(layers, statement)
