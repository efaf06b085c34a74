"""EXPLAIN of statements that change Hudi tables says what they would do, and does none of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hudisql.errors import HudisqlError, QueryError, WriteRefusedError
from hudisql.session import Session
from hudisql.sql.dml import dml_execution
from hudisql.sql.dml.dml_plan import DmlPlan
from hudisql.write.execution.commit_files import WriteResult
from tests.sql.changed_tables import ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def contents(directory: str) -> dict[str, str]:
    """A hash of each file below the directory."""
    files = [path for path in Path(directory).rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def explained(table: ChangedTable, text: str) -> tuple[dict[str, list[str]], str]:
    """The facts of the first block by their labels, and the whole text; the table must stay as it was."""
    before = contents(table.path)
    [row] = table.session.sql(text.replace("{t}", table.name)).rows
    assert contents(table.path) == before
    assert "__hudisql_0" not in row.plan
    assert "== Physical Plan ==" in row.plan
    heading, *lines = row.plan.split("\n\n")[0].splitlines()
    assert heading == "== Hudi Change =="
    facts: dict[str, list[str]] = {}
    for line in lines:
        label, _, value = line.strip().partition("  ")
        facts.setdefault(label, []).append(value.strip())
    return facts, row.plan


def test_explain_of_a_change_names_its_match_and_the_file_groups_that_it_can_touch(
    table: ChangedTable,
) -> None:
    text = "DELETE FROM {t} WHERE dt = '2024-03-02' AND seq > 15"
    facts, plan = explained(table, f"EXPLAIN EXTENDED {text}")
    assert facts["table"] == [f"changes.t (copy-on-write) at {table.path}"]
    assert facts["commit"] == ["DELETE: new base files"]
    assert facts["rows"] == ["WHERE dt = '2024-03-02' AND seq > 15"]
    assert (facts["file groups"], facts["partitions"]) == (["up to 1 of 3"], ["up to 1 of 3"])
    assert "== Hudi Tables ==\n(1) changes.t" in plan
    facts, _ = explained(table, f"EXPLAIN {text}")
    assert facts["file groups"] == ["up to 1"]

    text = "EXPLAIN EXTENDED UPDATE {t} SET dt = '2024-03-09', st.a = 1 WHERE id IN (SELECT id FROM {t})"
    facts, plan = explained(table, text)
    assert facts["assigns"] == ["dt, st.a"]
    assert facts["moves rows"] == ["whose dt changes"]
    assert facts["file groups"] == ["up to 3 of 3"]
    assert "== Analyzed Logical Plan ==" in plan

    facts, _ = explained(
        table,
        "EXPLAIN FORMATTED WITH c AS (SELECT id FROM {t} WHERE dt = '2024-03-01') MERGE INTO {t} AS t "
        "USING c ON t.id = c.id AND t.dt >= '2024-03-02' WHEN MATCHED AND t.seq = 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET seq = 1, st.b = c.id "
        "WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (c.id, '2024-03-05')",
    )
    assert facts["matched by"] == ["t.id = c.id AND t.dt >= '2024-03-02'"]
    assert facts["when"] == [
        "MATCHED AND t.seq = 1 THEN DELETE",
        "MATCHED THEN UPDATE seq, st.b",
        "NOT MATCHED THEN INSERT id, dt",
    ]
    assert facts["newest by"] == ["seq"]
    assert facts["file groups"] == ["up to 2"]
    assert facts["new rows"][0].startswith("fill file groups below 104857600 bytes")


def test_explain_of_an_insert_says_how_rows_are_written_and_what_they_replace(table: ChangedTable) -> None:
    with setting(table.session, "hoodie.spark.sql.insert.into.operation", "insert"):
        facts, _ = explained(table, "EXPLAIN INSERT INTO {t} (id, dt) SELECT 'x', '2024-03-01'")
    assert facts["commit"] == ["INSERT: new base files"]
    assert facts["matched by"] == ["(nothing: every row is added)"]
    facts, _ = explained(table, "EXPLAIN INSERT INTO {t} (id, dt) SELECT id, dt FROM {t}")
    assert facts["commit"] == ["UPSERT: new base files"]
    assert facts["matched by"] == ["equal id, dt"]
    text = "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') (id) SELECT id FROM {t}"
    facts, _ = explained(table, f"EXPLAIN EXTENDED {text}")
    assert facts["replaces"] == ["1 file groups in 1 of 3 partitions"]
    facts, _ = explained(table, f"EXPLAIN {text}")
    assert facts["replaces"] == ["the file groups of partitions with dt = 2024-03-02"]
    facts, _ = explained(table, "EXPLAIN EXTENDED INSERT OVERWRITE {t} SELECT * FROM {t}")
    assert facts["commit"][0].startswith("INSERT_OVERWRITE_TABLE")
    assert facts["replaces"] == ["3 file groups in 3 of 3 partitions"]
    facts, _ = explained(table, "EXPLAIN INSERT OVERWRITE {t} SELECT * FROM {t}")
    assert facts["replaces"] == ["all file groups"]


def test_explain_of_create_table_as_makes_nothing(session: Session, table: ChangedTable) -> None:
    text = (
        "EXPLAIN CREATE TABLE changes.made USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id') "
        f"AS SELECT id, seq, dt FROM {table.name}"
    )
    facts, plan = explained(table, text)
    assert facts["columns"] == ["id, seq, dt"]
    assert facts["record key"] == ["id"]
    assert "(1) changes.t" in plan
    assert session.context.metastore.get_table("changes", "made") is None
    place = facts["table"][0].partition(" at ")[2]
    assert not Path(place).exists()


@pytest.mark.parametrize("kind", ["table", "merge_on_read_table"])
@pytest.mark.parametrize(
    "text",
    [
        "MERGE INTO {t} AS t USING (SELECT id, dt, 5L AS seq FROM {t} WHERE seq < 3) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET seq = s.seq WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (s.id, s.dt)",
        "UPDATE {t} SET seq = seq + 1 WHERE dt = '2024-03-02'",
        "DELETE FROM {t} WHERE seq = 4",
        "INSERT INTO {t} (id, dt) SELECT concat(id, 'x'), dt FROM {t} WHERE seq > 27",
    ],
)
def test_explain_shows_the_query_that_runs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, text: str
) -> None:
    table: ChangedTable = request.getfixturevalue(kind)
    executed: list[tuple[str, list[str]]] = []
    execute = dml_execution.execute

    def record(plan: DmlPlan) -> WriteResult:
        """The query's text, and Spark's logical plan of the rows without the ids of expressions."""
        assert plan.query is not None
        analyzed = plan.frame._jdf.queryExecution().optimizedPlan().toString()
        executed.append(
            (plan.query.text, [line.strip("+-: ").split(" ")[0] for line in analyzed.splitlines()])
        )
        return execute(plan)

    _, explanation = explained(table, f"EXPLAIN EXTENDED {text}")
    monkeypatch.setattr(dml_execution, "execute", record)
    assert table.run(text)
    [(query, operators)] = executed
    blocks = explanation.split("\n\n")
    assert blocks[1] == f"== Change Query ==\n{query}"
    shown = explanation.partition("== Optimized Logical Plan ==\n")[2].partition("\n\n")[0]
    assert [line.strip("+-: ").split(" ")[0] for line in shown.splitlines()] == operators


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("EXPLAIN UPDATE {t} SET seq = 'a'", WriteRefusedError, "column 'seq' of changes.t is bigint"),
        ("EXPLAIN UPDATE {t} SET seq = ghost", QueryError, "line 1, column 36"),
    ],
)
def test_explain_refuses_what_the_statement_would_refuse(
    table: ChangedTable, text: str, kind: type[HudisqlError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        table.run(text)
    assert said in str(caught.value)
