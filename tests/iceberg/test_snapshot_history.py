"""The past snapshots of a published table: what cleans, rollbacks and archiving leave of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hudisql.iceberg import metadata_files, publication, snapshot_manifests, snapshot_write
from hudisql.options.table_call import find_table
from hudisql.services.archive.archive_action import archive_instants
from hudisql.services.clean import clean_action
from tests.iceberg.readers import (
    check_history,
    check_shown,
    duckdb_rows,
    hudisql_rows,
    metadata_of,
    shown_file,
)
from tests.opened import open_at

pytestmark = [pytest.mark.spark, pytest.mark.hms]

NAME = "oracle.past"
ARCHIVE = f"CALL archive_commits(table => '{NAME}', min_commits => 2, max_commits => 3, retain_commits => 1)"


@pytest.fixture
def rows(session: Any) -> Iterator[dict[int, list[str]]]:
    """The rows of the snapshots of a new table, which has had three commits; `change` adds more."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {NAME} USING hudi TBLPROPERTIES (primaryKey = 'id', 'hudisql.iceberg.sync' = 'true')"
        " AS SELECT id, 0 AS n FROM range(5)"
    )
    recorded: dict[int, list[str]] = {}
    change(session, recorded, None)
    for number in (1, 2):
        change(session, recorded, f"UPDATE {NAME} SET n = {number} WHERE id < 3")
    yield recorded
    session.sql(f"DROP TABLE {NAME}")


def path_of(session: Any) -> str:
    return str(session.context.metastore.get_table("oracle", "past").location.removeprefix("file:"))


def change(session: Any, recorded: dict[int, list[str]], statement: str | None) -> None:
    """Run the statement, and record the rows of the snapshot that it leaves."""
    if statement is not None:
        session.sql(statement)
    recorded[metadata_of(path_of(session))["current-snapshot-id"]] = hudisql_rows(session, NAME)


def test_a_clean_takes_the_snapshots_that_name_its_files(session: Any, rows: dict[int, list[str]]) -> None:
    path = path_of(session)
    assert check_history(path, rows) == list(rows)
    parents = [snapshot.get("parent-snapshot-id") for snapshot in metadata_of(path)["snapshots"]]
    assert parents == [None, *rows][:-1]
    session.sql(f"CALL run_clean(table => '{NAME}', retain_commits => 1)")
    assert check_history(path, rows) == list(rows)[1:]
    check_shown(session, NAME, path)


@pytest.mark.soak
def test_a_clean_that_knows_of_no_iceberg_table_takes_them_with_the_next_publication(
    session: Any, rows: dict[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(clean_action, "_expire_published", lambda *_: None)
        session.sql(f"CALL run_clean(table => '{NAME}', retain_commits => 1)")
    change(session, rows, f"UPDATE {NAME} SET n = 8 WHERE id = 0")
    assert check_history(path_of(session), rows) == list(rows)[1:]


@pytest.mark.soak
def test_snapshots_of_commits_that_are_undone_or_archived_go(
    session: Any, rows: dict[int, list[str]]
) -> None:
    path = path_of(session)
    [newest, *_] = session.sql(f"CALL show_commits(table => '{NAME}')").rows
    change(
        session,
        rows,
        f"CALL rollback_to_instant(table => '{NAME}', instant_time => '{newest.commit_time}')",
    )
    assert check_history(path, rows) == [*list(rows)[:2], list(rows)[3]]
    for number in range(3):
        change(session, rows, f"UPDATE {NAME} SET n = {number} + 10 WHERE id = 4")
    session.sql(f"CALL run_clean(table => '{NAME}', retain_commits => 1)")
    session.sql(ARCHIVE)
    change(session, rows, f"UPDATE {NAME} SET n = 20 WHERE id = 4")
    assert check_history(path, rows)[-1] == list(rows)[-1]
    check_shown(session, NAME, path)


@pytest.mark.soak
def test_a_table_whose_published_commit_is_archived_is_looked_at_as_a_whole(
    session: Any, rows: dict[int, list[str]]
) -> None:
    path = path_of(session)
    session.sql("SET hudisql.iceberg.sync = false")
    for number in range(4):
        session.sql(f"UPDATE {NAME} SET n = {number} + 10 WHERE id = {number}")
    session.sql(ARCHIVE)
    session.sql("RESET hudisql.iceberg.sync")
    commits = {row.commit_time for row in session.sql(f"CALL show_commits(table => '{NAME}')").rows}
    assert commits.isdisjoint(s["summary"]["hudi.instant"] for s in metadata_of(path)["snapshots"])
    change(session, rows, f"CALL sync_iceberg(table => '{NAME}')")
    assert check_history(path, rows) == list(rows)[-1:]
    check_shown(session, NAME, path)


@pytest.mark.soak
def test_of_two_publications_at_once_one_succeeds_and_the_other_takes_it(
    session: Any, rows: dict[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(session)
    session.sql("SET hudisql.iceberg.sync = false")
    session.sql(f"UPDATE {NAME} SET n = 7 WHERE id = 0")
    session.sql("RESET hudisql.iceberg.sync")
    real = snapshot_manifests.write_manifests

    def after_another(*arguments: Any) -> Any:
        monkeypatch.setattr(snapshot_write, "write_manifests", real)
        change(session, rows, f"CALL sync_iceberg(table => '{NAME}')")
        return real(*arguments)

    monkeypatch.setattr(snapshot_write, "write_manifests", after_another)
    late = publication.publish(find_table(session.context, NAME).listed_once())
    assert (late.is_new, late.metadata_path) == (False, shown_file(path))
    assert check_history(path, rows) == list(rows)
    check_shown(session, NAME, path)


@pytest.mark.soak
@pytest.mark.usefixtures("rows")
def test_a_late_publication_takes_none_that_shows_what_was_rolled_back_meanwhile(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("SET hudisql.iceberg.sync = false")
    for number in (7, 8):
        session.sql(f"UPDATE {NAME} SET n = {number} WHERE id = 0")
    [newest, *_] = session.sql(f"CALL show_commits(table => '{NAME}')").rows
    real, late = metadata_files.commit_metadata, list[publication.Publication]()

    def commit_of_first(*first: Any) -> Any:
        def commit_of_second(*second: Any) -> Any:
            monkeypatch.setattr(snapshot_write, "commit_metadata", real)
            real(*first)
            return real(*second)

        monkeypatch.setattr(snapshot_write, "commit_metadata", commit_of_second)
        session.sql(f"CALL rollback_to_instant(table => '{NAME}', instant_time => '{newest.commit_time}')")
        late.append(publication.publish(find_table(session.context, NAME).listed_once()))

    monkeypatch.setattr(snapshot_write, "commit_metadata", commit_of_first)
    publication.publish(find_table(session.context, NAME).listed_once())
    session.sql("RESET hudisql.iceberg.sync")
    assert duckdb_rows(late[0].metadata_path) == hudisql_rows(session, NAME)
    check_shown(session, NAME, path_of(session))


@pytest.mark.soak
def test_files_of_slices_go_with_the_snapshots_around_one_that_is_undone(session: Any) -> None:
    name, rows = "oracle.undone", dict[int, list[str]]()
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, n INT) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', 'hudisql.iceberg.sync' = 'true')"
    )
    path = str(session.context.metastore.get_table("oracle", "undone").location.removeprefix("file:"))

    def run(*statements: str) -> None:
        for statement in statements:
            session.sql(statement)
            rows[metadata_of(path)["current-snapshot-id"]] = hudisql_rows(session, name)

    run(
        f"INSERT INTO {name} VALUES (1, 0), (2, 0)",
        *(f"UPDATE {name} SET n = {n} WHERE id = 1" for n in (1, 2)),
    )
    [newest, *_] = session.sql(f"CALL show_commits(table => '{name}')").rows
    run(f"CALL rollback_to_instant(table => '{name}', instant_time => '{newest.commit_time}')")
    assert check_history(path, rows) == [*list(rows)[:2], list(rows)[3]]
    for n in (3, 4):
        run(
            f"UPDATE {name} SET n = {n} WHERE id = 1",
            f"CALL run_compaction(op => 'scheduleandexecute', table => '{name}', "
            "options => 'hoodie.compact.inline.max.delta.commits=1')",
        )
    run(f"CALL run_clean(table => '{name}', retain_commits => 1)")
    assert set(check_history(path, rows)).isdisjoint(list(rows)[:4])
    session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
def test_commits_that_are_archived_around_a_savepoint_are_published(session: Any) -> None:
    name = "oracle.savepoint"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} USING hudi PARTITIONED BY (p) TBLPROPERTIES (primaryKey = 'id') "
        "AS SELECT id, 0 AS n, id AS p FROM range(2)"
    )
    path = str(session.context.metastore.get_table("oracle", "savepoint").location.removeprefix("file:"))
    session.sql(f"CALL sync_iceberg(table => '{name}')")
    [created] = session.sql(f"CALL show_commits(table => '{name}')").rows
    session.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{created.commit_time}')")
    for number in range(5):
        session.sql(f"UPDATE {name} SET n = {number + 1} WHERE id = {int(number > 0)}")
    table = open_at(path)
    # As Apache Hudi does with a setting.
    archive_instants(table, [*table.timeline.commits[1:-2]], lambda: None)
    commits = [row.commit_time for row in session.sql(f"CALL show_commits(table => '{name}')").rows]
    assert created.commit_time in commits
    assert len(commits) < 6
    session.sql(f"CALL sync_iceberg(table => '{name}')")
    check_shown(session, name, path)
    session.sql(f"DROP TABLE {name}")
