"""Tables whose files lack the partition columns keep metadata tables, and have several writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, RECORD_INDEX
from hudisql.format.schema.avro_schema import arrow_from_avro
from hudisql.table.timeline.instant_files import read_commit
from hudisql.write.transaction.conflicts import check_no_conflict
from tests.opened import open_at, open_kept
from tests.sql.changed_tables import database_fixture
from tests.write.metadata_table.kept_indexes import assert_bounds_hold, assert_finds_all_keys

pytestmark = [pytest.mark.spark, pytest.mark.hms]
database = database_fixture("dropped_columns")
CHANGES = (
    "INSERT INTO {t} VALUES (5, 5L, 'new', 'd2'), (6, 6L, 'new', 'd1')",
    "UPDATE {t} SET note = 'changed' WHERE dt = 'd1' AND id < 3",
    "DELETE FROM {t} WHERE id = 2",
)


@pytest.fixture(params=["6", "9"])
def table(session: Any, database: str, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The name and the path of a table with four rows in two partitions, whose files lack `dt`."""
    name, path = f"{database}.v{request.param}", str(tmp_path / "t")
    session.sql(
        f"CREATE TABLE {name} (id INT, seq BIGINT, note STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', "
        f"'hoodie.write.table.version' = '{request.param}', "
        f"'hoodie.datasource.write.drop.partition.columns' = 'true') LOCATION '{path}'"
    )
    rows = ", ".join(f"({number}, {number}L, 'first', 'd{number % 2}')" for number in range(4))
    session.sql(f"INSERT INTO {name} VALUES {rows}")
    return name, path


def test_changes_keep_a_metadata_table(session: Any, table: tuple[str, str]) -> None:
    name, path = table
    session.sql(f"CALL create_metadata_table(table => '{name}', indexes => 'record_index')")
    for statement in CHANGES:
        session.sql(statement.replace("{t}", name))
        metadata = open_kept(path)
        assert {COLUMN_STATS, RECORD_INDEX} <= set(metadata.indexes)
        assert_finds_all_keys(metadata)
        assert_bounds_hold(metadata)
    rows = session.sql(f"SELECT id, note, dt FROM {name} WHERE dt >= 'd1' ORDER BY id").rows
    assert [tuple(row) for row in rows] == [
        (1, "changed", "d1"),
        (3, "first", "d1"),
        (5, "new", "d2"),
        (6, "new", "d1"),
    ]


def test_a_commit_of_another_writer_to_other_file_groups_is_no_conflict(
    session: Any, table: tuple[str, str]
) -> None:
    name, path = table
    known = open_at(path)
    session.sql(CHANGES[0].replace("{t}", name))
    now = open_at(path)
    text = read_commit(now, now.timeline.commits[-1]).schema
    assert text is not None
    assert "dt" not in arrow_from_avro(text).names
    check_no_conflict(known, now.timeline, (), known.schema)
