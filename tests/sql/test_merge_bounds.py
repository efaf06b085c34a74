"""What a MERGE reads of its target: the partitions and key range that its source can match."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hudisql.session import Session
from hudisql.sql import clauses as cl
from hudisql.sql import query
from hudisql.sql.change_queries import merge_query, source_query
from hudisql.sql.merge_bounds import find_merge_bounds
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.snapshot import load_file_slices
from hudisql.write.index_lookup import slices_without
from tests.sql.changed_tables import ROWS, ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

SOURCE = (
    "(SELECT * FROM VALUES ('k03', 1L, 1.0, '2024-03-01'), "
    "('k07', 2L, 2.0, '2024-03-01') AS v(id, seq, price, dt))"
)


def _plan(session: Session, table: ChangedTable, text: str) -> Any:
    """The scan of the target that the MERGE makes, and its bounds."""
    opened = open_table(Storage(), table.path)
    merge = cl.read_merge(text.replace("{t}", table.name))
    frame = query.run_query(session.context, source_query(merge).text)
    bounds = find_merge_bounds(session.spark, opened, merge, "t", "s", lambda: frame)
    columns = [*frame.columns, *(name for name in opened.schema.names if name not in frame.columns)]
    made = merge_query(merge, opened.schema, columns, (), None, table.name, bounds)
    prepared = query.prepare_query(session.context, made.text.text)
    (scan,) = [each.plan for each in prepared.scans if each.plan is not None]
    return scan, bounds


def test_a_small_source_leaves_out_partitions_and_row_groups(session: Session, table: ChangedTable) -> None:
    on = "t.id = s.id AND s.dt = t.dt AND t.seq >= 0"
    delete = f"MERGE INTO {{t}} t USING {SOURCE} s ON {on} WHEN MATCHED THEN DELETE"
    scan, bounds = _plan(session, table, delete)
    assert bounds.target == "t.`id` BETWEEN 'k03' AND 'k07' AND t.`dt` IN ('2024-03-01')"
    assert bounds.keys.to_pylist() == ["k03", "k07"]
    assert (scan.partitions_read, scan.partitions_total) == (1, 3)
    assert "k03" in str(scan.predicate)
    insert = delete.replace(
        "WHEN MATCHED THEN DELETE", "WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (s.id, s.dt)"
    )
    assert _plan(session, table, insert)[0].partitions_read == 1


def test_files_whose_footers_rule_out_all_keys_are_not_read(session: Session, table: ChangedTable) -> None:
    for day in ("2024-03-01", "2024-03-04"):
        values = ", ".join(f"('x{number:03d}', 1, '{day}')" for number in range(0, 100, 2))
        with setting(session, "hoodie.parquet.small.file.limit", "0"):
            table.run(f"INSERT INTO {{t}} (id, seq, dt) VALUES {values}")
    opened = open_table(Storage(), table.path)
    assert len(load_file_slices(opened)) == 5

    def spared(*keys: str, **values: set[str]) -> list[str]:
        found = slices_without(session.spark, opened, pa.array(keys), values)
        return sorted(path for path, _ in found)

    march = [f"dt=2024-03-0{number}" for number in (1, 1, 2, 3, 4)]
    assert spared("nothing") == march
    assert spared("x001", "x007") == march
    assert spared("k03", "x002") == ["dt=2024-03-02", "dt=2024-03-03"]
    assert spared("k03", dt={"2024-03-01"}) == []
    source = "(SELECT 'x004' AS id UNION ALL SELECT 'k29')"
    merge = f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET seq = 9"
    assert table.run(merge)["updated"] == 3
    assert sorted(table.rows("id, dt", "seq = 9 AND id <> 'k09'")) == [
        ("k29", "2024-03-03"),
        ("x004", "2024-03-01"),
        ("x004", "2024-03-04"),
    ]
    again = "MERGE INTO {t} t USING {t} s ON t.id = s.id AND s.id = 'x006' WHEN MATCHED THEN DELETE"
    assert table.run(again)["deleted"] == 2


def test_the_statement_does_what_it_did(table: ChangedTable) -> None:
    source = (
        "(SELECT id, seq, price, dt FROM VALUES ('k03', 1L, 100.0BD, '2024-03-01'), "
        "('k13', 2L, 200.0BD, '2024-03-01'), (NULL, 3L, 300.0BD, '2024-03-01') AS v(id, seq, price, dt))"
    )
    merge = (
        f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE "
        "SET price = s.price WHEN NOT MATCHED AND s.id IS NOT NULL THEN INSERT (id, seq, price, dt) "
        "VALUES (s.id, s.seq, s.price, s.dt)"
    )
    counts = table.run(merge)
    assert (counts["updated"], counts["inserted"]) == (1, 1)
    assert len(table.rows()) == ROWS + 1


@pytest.mark.parametrize(
    ("source", "on", "actions"),
    [
        (SOURCE, "t.id = s.id", "WHEN NOT MATCHED BY SOURCE THEN DELETE"),
        (SOURCE, "t.id = s.id OR t.dt = s.dt", "WHEN MATCHED THEN DELETE"),
        (SOURCE, "t.id = s.seq", "WHEN MATCHED THEN DELETE"),
        (SOURCE, "t.price = s.price", "WHEN MATCHED THEN DELETE"),
        ("(SELECT concat(id, rand()) AS id FROM range(3))", "t.id = s.id", "WHEN MATCHED THEN DELETE"),
        ('(SELECT "it\'s" AS id)', "t.id = s.id", "WHEN MATCHED THEN DELETE"),
        ("(SELECT 'k' AS id WHERE false)", "t.id = s.id", "WHEN MATCHED THEN DELETE"),
    ],
)
def test_what_says_nothing_of_the_target_bounds_nothing(
    session: Session, table: ChangedTable, source: str, on: str, actions: str
) -> None:
    opened = open_table(Storage(), table.path)
    merge = cl.read_merge(f"MERGE INTO {table.name} t USING {source} s ON {on} {actions}")

    def read() -> Any:
        return query.run_query(session.context, source_query(merge).text)

    assert find_merge_bounds(session.spark, opened, merge, "t", "s", read) is None


def test_a_source_that_changes_meanwhile_is_an_error(session: Session, table: ChangedTable) -> None:
    opened = open_table(Storage(), table.path)
    merge = cl.read_merge(
        f"MERGE INTO {table.name} t USING {SOURCE} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    earlier = session.spark.sql("SELECT 'k03' AS id, 1L AS seq, 1.0 AS price, '2024-03-01' AS dt")
    bounds = find_merge_bounds(session.spark, opened, merge, "t", "s", lambda: earlier)
    made = merge_query(merge, opened.schema, earlier.columns, (), None, table.name, bounds)
    with pytest.raises(Exception, match="gave other rows when it was read again"):
        query.run_query(session.context, made.text.text).collect()
