"""What the metastore says of a table once a statement has changed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudisql.catalog.metastore_table import HUDI_REALTIME_INPUT_FORMAT, is_read_optimized
from hudisql.session import Session
from tests.sql.changed_tables import ChangedTable, database_fixture

pytestmark = pytest.mark.spark


database = database_fixture("followed")


def shown_by(session: Session, database: str) -> dict[str, tuple[bool, bool]]:
    """Of each entry: whether Hive merges its logs, and whether it is declared to show base files only."""
    metastore = session.context.metastore
    entries = [metastore.get_table(database, name) for name in metastore.list_tables(database)]
    return {
        entry.name: (entry.input_format == HUDI_REALTIME_INPUT_FORMAT, is_read_optimized(entry))
        for entry in entries
        if entry is not None
    }


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ("strategy => 'RT'", "k"),
        ("options => map('hoodie.datasource.hive_sync.skip_ro_suffix', 'true')", "k_rt"),
    ],
)
def test_a_change_leaves_the_entries_what_they_were_registered_as(
    merge_on_read_table: ChangedTable, database: str, options: str, written: str
) -> None:
    session = merge_on_read_table.session
    session.sql(f"CALL hive_sync(table => '{database}.k', path => '{merge_on_read_table.path}', {options})")
    before = shown_by(session, database)
    session.sql(f"UPDATE {database}.{written} SET price = 500 WHERE seq = 1")
    assert shown_by(session, database) == before
    latest = merge_on_read_table.instants()[-1].split()[0]
    for name in before:
        entry = session.context.metastore.get_table(database, name)
        assert entry is not None
        assert entry.parameters["last_commit_time_sync"] == latest
    session.sql(f"MSCK REPAIR TABLE {database}.{written}")
    assert shown_by(session, database) == before


def test_a_name_that_ends_as_a_further_name_does_is_the_tables_own(
    session: Session, database: str, tmp_path: Path
) -> None:
    session.sql(
        f"CREATE TABLE {database}.art_rt (id INT, v STRING) USING hudi LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    session.sql(f"INSERT INTO {database}.art_rt VALUES (1, 'a')")
    assert sorted(shown_by(session, database)) == ["art_rt", "art_rt_ro", "art_rt_rt"]
