"""Tables of version 9 in SQL: read by name and by path, shown by procedures; what does not change them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.session import Session
from tests.rows import rows
from tests.sources import fingerprint

pytestmark = [pytest.mark.spark, pytest.mark.hms]

NAMES = {
    "logs": "v9_mor_avro_logs_deletes",
    "compacting": "v9_mor_pending_compaction",
    "archived": "v9_mor_archived_lsm",
    "clustered": "v9_cow_clustered",
    "cleaned": "v9_cow_savepoint_clean",
    "skeletons": "v9_cow_bootstrap_meta",
}


@pytest.fixture(scope="module")
def lake(
    session: Session, golden: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Registered copies of golden tables in the database `newer`, by their names."""
    home = tmp_path_factory.mktemp("newer")
    session.sql("CREATE DATABASE newer")
    paths = {}
    for name, golden_name in NAMES.items():
        paths[name] = str(home / name)
        shutil.copytree(golden(golden_name).table, paths[name])
        session.sql(f"CALL hive_sync(table => 'newer.{name}', path => '{paths[name]}')")
    yield paths
    for name in paths:
        session.sql(f"DROP TABLE newer.{name}")
    session.sql("DROP DATABASE newer CASCADE")


@pytest.fixture
def unchanged(lake: dict[str, str]) -> Iterator[None]:
    home = Path(lake["logs"]).parent
    before = fingerprint(home)
    yield
    assert fingerprint(home) == before


def _ids(golden_rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((each["id"], each["seq"], each.get("note")) for each in golden_rows)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_that_hudi_reads(
    session: Session, golden: Callable[[str], Any], lake: dict[str, str], name: str
) -> None:
    expected = _ids(golden(NAMES[name]).rows)
    assert sorted(rows(session, f"SELECT id, seq, note FROM newer.{name}")) == expected
    assert sorted(rows(session, f"SELECT id, seq, note FROM hudi.`{lake[name]}`")) == expected


@pytest.mark.usefixtures("lake")
def test_further_names_show_base_files_and_all(session: Session, golden: Callable[[str], Any]) -> None:
    found = golden(NAMES["logs"])
    of_base_files = rows(session, "SELECT _hoodie_record_key, _hoodie_commit_time FROM newer.logs_ro")
    assert sorted(map(list, of_base_files)) == sorted(found.read_optimized)
    assert len(rows(session, "SELECT id FROM newer.logs_rt")) == len(found.rows)


@pytest.mark.usefixtures("lake")
def test_past_states_and_changes(session: Session) -> None:
    commits = sorted(row[0] for row in rows(session, "CALL show_commits(table => 'newer.logs', limit => 99)"))
    first = rows(session, f"SELECT count(*), max(fare) < 1000 FROM newer.logs TIMESTAMP AS OF '{commits[0]}'")
    assert first == [(30, True)]
    changes = "SELECT op, count(*) FROM hudi_table_changes('newer.logs', 'cdc', 'earliest') GROUP BY op"
    assert dict(rows(session, changes)) == {"i": 30, "u": 15, "d": 5}


SHOWN = [
    ("show_commits", "logs", 4),
    ("show_commits_metadata", "logs", 10),
    ("show_timeline", "compacting", 4),
    ("show_compaction", "compacting", 1),
    ("show_clustering", "clustered", 1),
    ("show_archived_commits", "archived", None),
    ("show_archived_commits_metadata", "archived", None),
    ("show_cleans", "cleaned", None),
    ("show_clean_plans", "cleaned", None),
    ("show_cleans_metadata", "cleaned", None),
    ("show_savepoints", "cleaned", None),
    ("show_fsview_all", "logs", None),
    ("show_fsview_latest", "logs", None),
    ("show_table_properties", "logs", None),
    ("show_rollbacks", "logs", 0),
    ("show_services", "logs", None),
    ("stats_file_sizes", "logs", None),
    ("stats_wa", "logs", None),
    ("show_bootstrap_mapping", "skeletons", None),
    ("show_bootstrap_partitions", "skeletons", None),
]


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(("procedure", "name", "count"), SHOWN)
def test_procedures_show_the_table(session: Session, procedure: str, name: str, count: int | None) -> None:
    found = rows(session, f"CALL {procedure}(table => 'newer.{name}')")
    assert len(found) == count if count is not None else found


@pytest.mark.usefixtures("lake")
def test_the_timeline_function_shows_archived_instants(session: Session) -> None:
    active, every = (
        {tuple(row) for row in rows(session, f"SELECT * FROM hudi_query_timeline('newer.archived', {flag})")}
        for flag in ("false", "true")
    )
    archived = {row[0] for row in rows(session, "CALL show_archived_commits(table => 'newer.archived')")}
    assert active < every
    assert {row[0] for row in every - active if "commit" in row[1]} == archived - {row[0] for row in active}


CHANGES = [
    "ALTER TABLE newer.logs SET TBLPROPERTIES (preCombineField = 'id')",
    "ALTER TABLE newer.logs UNSET TBLPROPERTIES (payloadClass)",
    "ALTER TABLE newer.logs SET TBLPROPERTIES ('hoodie.write.table.version' = '8')",
    "CALL delete_marker(table => 'newer.logs', instant_time => '20240101000000000')",
    "CALL repair_corrupted_clean_files(table => 'newer.cleaned')",
    "CALL ingest_table(table => 'newer.logs', topic => 't', bootstrap_servers => 'localhost:1')",
]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("statement", CHANGES)
def test_what_would_change_the_table_is_refused(session: Session, statement: str) -> None:
    with pytest.raises(UnsupportedTableError, match="version 9"):
        session.sql(statement).rows  # noqa: B018


def test_a_partition_without_its_marker_is_marked(
    session: Session, golden: Callable[[str], Any], lake: dict[str, str]
) -> None:
    next(Path(lake["skeletons"]).glob("*/.hoodie_partition_metadata")).unlink()
    expected = _ids(golden(NAMES["skeletons"]).rows)
    query = "SELECT id, seq, note FROM newer.skeletons"
    assert len(rows(session, query)) < len(expected)
    repaired = rows(session, "CALL repair_add_partition_meta(table => 'newer.skeletons', dry_run => false)")
    assert [action for _, _, action in repaired].count("Repaired") == 1
    assert sorted(rows(session, query)) == expected


@pytest.mark.usefixtures("unchanged")
def test_versions_change_in_one_direction_by_each_procedure(session: Session) -> None:
    for statement in (
        "CALL upgrade_table(table => 'newer.clustered', to_version => 'SIX')",
        "CALL downgrade_table(table => 'newer.clustered', to_version => 'TEN')",
        "CALL downgrade_table(table => 'newer.clustered', to_version => 'EIGHT')",
    ):
        with pytest.raises(InvalidArgumentError, match="version"):
            rows(session, statement)
    statement = "CALL upgrade_table(table => 'newer.clustered', to_version => '9')"
    assert rows(session, statement) == [(True, "nothing: the table has version 9")]
