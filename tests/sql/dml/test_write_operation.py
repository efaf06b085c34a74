"""`hoodie.datasource.write.operation` of the session: what contradicts the statement is refused by name."""

from __future__ import annotations

import pytest

from hudisql.errors import SettingsError
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
