"""`CALL copy_to_table` and `CALL copy_to_temp_view`: targets, views and bad calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchTableError,
    QueryError,
    SourceProtectedError,
    UnsupportedStatementError,
)
from hudisql.session import Session
from tests.sql.changed_tables import ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def target(session: Session, tmp_path: Path) -> Iterator[str]:
    """A plain table of two partitions, with columns in another order than the Hudi table's."""
    session.sql(
        "CREATE TABLE changes.target (seq INT, id STRING, dt STRING) USING parquet PARTITIONED BY (dt) "
        f"LOCATION '{tmp_path / 'target'}'"
    )
    session.sql("INSERT INTO changes.target VALUES (-1, 'old', '2000-01-01')")
    yield "changes.target"
    session.sql("DROP TABLE changes.target")


def test_columns_of_a_table_that_is_there_are_looked_up_by_name_and_all_its_rows_overwritten(
    table: ChangedTable, target: str
) -> None:
    session = table.session
    expected = [(row[1], row[0]) for row in table.rows("id, seq")]
    call = f"CALL copy_to_table(table => '{table.name}', new_table => '{target}'"
    session.sql(f"{call}, save_mode => 'append')")
    found = [tuple(row) for row in session.sql(f"SELECT seq, id FROM {target} ORDER BY seq").rows]
    assert found == [(-1, "old"), *expected]
    with setting(session, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        session.sql(f"{call})")
    found = [tuple(row) for row in session.sql(f"SELECT seq, id FROM {target} ORDER BY seq").rows]
    assert found == expected


def test_a_global_view_is_made_replaced_only_on_request_and_reads_a_bootstrapped_table(
    table: ChangedTable,
) -> None:
    session = table.session
    call = f"CALL copy_to_temp_view(table => '{table.name}', view_name => 'copied_globally', global => true"
    try:
        session.sql(f"{call})")
        assert session.sql("SELECT count(*) FROM global_temp.copied_globally").rows == [(30,)]
        with pytest.raises(QueryError, match="already exists"):
            session.sql(f"{call})")
        table.run("DELETE FROM {t} WHERE seq < 10")
        assert session.sql("SELECT count(*) FROM global_temp.copied_globally").rows == [(30,)]
        session.sql(f"{call}, replace => true)")
        assert session.sql("SELECT min(seq) FROM global_temp.copied_globally").rows == [(10,)]
    finally:
        session.sql("DROP VIEW IF EXISTS global_temp.copied_globally")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ("new_table => 'x', query_type => 'cdc'", InvalidArgumentError, "query_type 'cdc' is unknown"),
        ("new_table => 'x', save_mode => 'ignore'", InvalidArgumentError, "save_mode 'ignore' is unknown"),
        ("query_type => 'snapshot'", InvalidArgumentError, "required and not given: new_table"),
        (
            "new_table => 'x', query_type => 'incremental'",
            InvalidArgumentError,
            "begin_instance_time and end",
        ),
        ("new_table => 'a.b.c'", InvalidArgumentError, "is not a table name"),
        ("new_table => '{t}'", UnsupportedStatementError, "{t} is a Hudi table: nothing was run"),
        ("new_table => 'changes.seen'", UnsupportedStatementError, "changes.seen is a view: nothing was run"),
        ("new_table => 'changes.plain_source'", SourceProtectedError, "source"),
        ("new_table => 'x', columns => 'id,nope'", QueryError, "nope"),
    ],
)
def test_bad_copies_write_nothing(
    table: ChangedTable,
    bootstrapped_original: Path,
    arguments: str,
    kind: type[HudisqlError],
    message: str,
) -> None:
    session = table.session
    session.sql(f"CREATE VIEW changes.seen AS SELECT id FROM {table.name}")
    session.sql(f"CREATE TABLE changes.plain_source USING parquet LOCATION '{bootstrapped_original}/source'")
    try:
        given = arguments.format(t=table.name)
        with pytest.raises(kind, match=message.format(t=table.name)):
            session.sql(f"CALL copy_to_table(table => '{table.name}', {given})")
        assert session.context.metastore.get_table("default", "x") is None
        assert len(table.instants()) == 1
    finally:
        session.sql("DROP VIEW changes.seen")
        session.sql("DROP TABLE changes.plain_source")


def test_only_hudi_tables_are_copied(session: Session, table: ChangedTable, target: str) -> None:
    assert table.name
    with pytest.raises(NoSuchTableError, match="is not a Hudi table"):
        session.sql(f"CALL copy_to_temp_view(table => '{target}', view_name => 'v')")
