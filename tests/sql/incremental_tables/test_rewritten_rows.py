"""Meta columns in an incremental table's query: those that a rewrite changes are not followed by changes."""

from __future__ import annotations

import pytest

from hudisql.errors import HudisqlError
from hudisql.session import Session
from tests.soak import parameters
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def make_source(session: Session, kind: str, version: int = 6) -> None:
    session.sql(
        "CREATE TABLE src (id INT, v INT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES "
        f"(primaryKey = 'id', type = '{kind}', 'hoodie.write.table.version' = '{version}')"
    )
    session.sql("INSERT INTO src VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 3, 'b')")


@pytest.mark.parametrize(
    ("kind", "version"), parameters([("cow", 6), ("mor", 6), ("cow", 9), ("mor", 9)], in_ci=[])
)
def test_columns_of_a_write_are_run_as_a_whole(layers: Session, kind: str, version: int) -> None:
    make_source(layers, kind, version)
    query = (
        "SELECT id, v, _hoodie_file_name AS file, _hoodie_commit_time AS written, "
        "_hoodie_commit_seqno AS number FROM src"
    )
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) AS {query}")
    # One row changes, one gets the values that it has; in a copy-on-write table the third is in a new file.
    layers.sql("UPDATE src SET v = CASE id WHEN 1 THEN 9 ELSE v END WHERE id IN (1, 3)")
    row = refresh(layers)
    assert row["way"] == "whole"
    assert "the query reads _hoodie_" in row["reason"]
    assert_fresh(layers, query)
    if kind == "mor":
        layers.sql("CALL run_compaction(op => 'run', table => 'layers.src')")
    else:
        layers.sql("CALL run_clustering(table => 'layers.src')")
    refresh(layers)
    assert_fresh(layers, query)
    assert refresh(layers)["way"] == "nothing"


QUERIES = [
    ("SELECT id, _hoodie_record_key AS k, _hoodie_partition_path AS p, v FROM src", "rows"),
    ("SELECT * FROM src", "rows"),
    ("SELECT * FROM (SELECT *, v + 1 AS w FROM src WHERE v > 0)", "rows"),
    ("SELECT id, v FROM written_view", "rows"),
    ("SELECT id, max(v) AS v FROM (SELECT * FROM src UNION ALL SELECT * FROM src) GROUP BY id", "groups"),
    ("SELECT id, v, written FROM written_view", "whole"),
    ("SELECT id, v FROM src WHERE _hoodie_commit_time > '2'", "whole"),
    ("SELECT dt, max(_hoodie_commit_time) AS written FROM src GROUP BY dt", "whole"),
    ("WITH c AS (SELECT id, _hoodie_file_name AS f FROM src) SELECT id, f FROM c", "whole"),
    ("SELECT id, v, hash(*) AS h FROM src", "whole"),
    ("SELECT o.id, o.v, c.name FROM src o LEFT JOIN customers c ON o.id = c.id", "joined rows"),
    (
        "SELECT o.id, o.v, c._hoodie_commit_time AS at FROM src o LEFT JOIN customers c ON o.id = c.id",
        "joined rows",
    ),
]


@pytest.mark.parametrize(("query", "way"), parameters(QUERIES, in_ci=[QUERIES[0], QUERIES[11]]))
def test_only_what_the_rows_depend_on_counts(layers: Session, query: str, way: str) -> None:
    make_source(layers, "cow")
    layers.sql("CREATE VIEW written_view AS SELECT id, v, _hoodie_commit_time AS written FROM src")
    keys = "dt" if query.startswith("SELECT dt") else "id"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY ({keys}) AS {query}")
    layers.sql("UPDATE src SET v = 9 WHERE id = 1")
    row = refresh(layers)
    assert row["way"] == way, row["reason"]
    layers.sql("DROP VIEW written_view")


def test_the_choice_of_one_row_for_each_key_depends_on_no_file(layers: Session) -> None:
    make_source(layers, "cow")
    layers.sql("CREATE INCREMENTAL TABLE t KEY (dt) ORDERING v AS SELECT * FROM src")
    layers.sql("UPDATE src SET v = 9 WHERE id = 1")
    row = refresh(layers)
    assert row["way"] == "window partitions", row["reason"]
    assert sorted(layers.sql("SELECT dt, v FROM t").rows) == [("a", 9), ("b", 3)]


@pytest.mark.soak
def test_functions_that_name_files_are_run_each_time_or_refused(layers: Session) -> None:
    make_source(layers, "cow")
    layers.sql("CREATE INCREMENTAL TABLE t KEY (id) AS SELECT id, v, input_file_name() AS f FROM src")
    row = refresh(layers)
    assert (row["way"], row["reason"]) == ("whole", "the query is not deterministic")
    with pytest.raises(HudisqlError, match="_metadata"):
        layers.sql("CREATE INCREMENTAL TABLE u KEY (id) AS SELECT id, _metadata.file_path AS f FROM src")
