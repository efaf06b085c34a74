"""Which target rows a MERGE reads, and that it reads enough of them, whatever its condition looks like."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hudisql.read.files.predicates import InSet, columns_of
from hudisql.sql.dml.runtime_filter import runtime_filter
from tests.sql.changed_tables import ROWS, ChangedTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("ratio", pa.float64()),
    ]
)


@pytest.fixture(scope="module")
def source(spark: Any) -> Any:
    return spark.sql(
        "SELECT * FROM VALUES ('k2', 2L, 1, 0.5D), ('k1', 1L, 1, 0.5D), (NULL, 1L, 1, 0.5D) "
        "AS s(key, seq, price, ratio)"
    )


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("t.id = s.key", {"id"}),
        ("s.key = T.ID AND t.seq = s.seq", {"id", "seq"}),
        ("id = key AND t.seq > s.seq", {"id"}),
        ("(t.id = s.key) AND (s.price > 0)", {"id"}),
        # Nothing is known of casts, other types, doubles, alternatives, nulls that match, and doubtful names.
        ("t.id = upper(s.key)", set()),
        ("t.price = s.price AND t.ratio = s.ratio", set()),
        ("t.id = s.key OR t.seq = s.seq", set()),
        ("NOT (t.id = s.key)", set()),
        ("t.id <=> s.key", set()),
        ("t.seq <=> s.seq", {"seq"}),
        ("seq = seq", set()),
        ("x.id = s.key", set()),
        ("t.id = 'k1'", set()),
        ("t.id =", set()),
    ],
)
def test_plain_equalities_say_which_values_can_match(source: Any, condition: str, columns: set[str]) -> None:
    found = runtime_filter(source, "s", "t", SCHEMA, condition)
    assert {path[0] for path in columns_of(found)} == columns
    if columns == {"id"}:
        assert found == InSet(("id",), pa.array(["k1", "k2"]))


@pytest.mark.hms
@pytest.mark.parametrize(
    "condition",
    [
        "t.id = s.id",
        "t.id = s.id AND t.dt = s.dt",
        "t.id <=> s.id",
        "lower(t.id) = s.id",
        "t.id = s.id AND t.seq IN (SELECT seq FROM {t})",
    ],
)
def test_a_merge_finds_all_rows_that_match(table: ChangedTable, condition: str) -> None:
    merge = (
        "MERGE INTO {t} t USING (SELECT concat('k', lpad(id, 2, '0')) AS id, dt FROM VALUES "
        "(3, '2024-03-01'), (21, '2024-03-03'), (77, '2024-03-02') v(id, dt)) s ON "
        f"{condition} WHEN MATCHED THEN UPDATE SET price = -1 "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, 100, s.dt)"
    )
    assert table.run(merge) == {"updated": 2, "inserted": 1, "files_written": 3}
    assert table.seqs("price = -1") == [3, 21]
    assert len(table.rows()) == ROWS + 1


@pytest.mark.hms
def test_a_target_without_an_alias_goes_by_its_name(table: ChangedTable) -> None:
    database, name = table.name.split(".")
    rest = "WHEN MATCHED THEN UPDATE SET price = -1 WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (s.key, 'x')"
    source = "(VALUES ('k05'), ('new')) s(key)"
    expected = {"updated": 1, "inserted": 1, "files_written": 2}
    assert table.run(f"MERGE INTO {{t}} USING {source} ON {name}.id = s.key {rest}") == expected
    assert table.run("DELETE FROM {t} WHERE id = 'new'") == {"deleted": 1, "files_written": 1}
    assert table.run(f"MERGE INTO {{t}} USING {source} ON {database}.{name}.id = s.key {rest}") == expected
    assert table.seqs("price = -1") == [5]


@pytest.mark.hms
def test_a_source_that_changes_with_each_look_is_looked_at_once(table: ChangedTable) -> None:
    merge = (
        "MERGE INTO {t} t USING (SELECT id, uuid() AS mark FROM {t} WHERE seq < 20) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET st.b = s.mark WHEN NOT MATCHED THEN INSERT (id) VALUES (s.mark)"
    )
    assert table.run(merge)["updated"] == 20
    assert len(table.rows()) == ROWS
