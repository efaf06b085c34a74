"""Tables with `hudisql.iceberg.sync` are published after each commit, whatever statement makes it."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.iceberg import snapshot_manifests, snapshot_write
from hudisql.iceberg.recent_files import forget_contents
from tests.fault_injection import run_with_fault
from tests.iceberg.readers import (
    check_history,
    check_shown,
    duckdb_rows,
    hudisql_rows,
    metadata_of,
    publish,
    shown_file,
)
from tests.oracle.shapes import Shape, bootstrap_shape

pytestmark = [pytest.mark.spark, pytest.mark.hms]

FOLLOW = "ALTER TABLE {t} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')"
CITIES = ("a%2Fb%3Dc%2520ü", "x", "__HIVE_DEFAULT_PARTITION__")
COMPACT = (
    "CALL run_compaction(op => 'scheduleandexecute', table => '{t}', "
    "options => 'hoodie.compact.inline.max.delta.commits=1')"
)
STATEMENTS = (
    "UPDATE {t} SET note = 'ours', price = -1.5 WHERE seq IN (3, 14, 40)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "INSERT INTO {t} SELECT 'new', 900, total, fare, price, is_even, day, at, note, place, labels, extra, "
    "'z' FROM {t} WHERE seq = 5",
    "MERGE INTO {t} AS t USING (SELECT * FROM {t} WHERE seq = 6) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'merged'",
    COMPACT,
    "UPDATE {t} SET note = 'again' WHERE seq < 12",
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'there' WHERE seq = 7",
    "CALL run_clustering(table => '{t}')",
    "CALL rewrite_bootstrap_files(table => '{t}', only_unsafe => false)",
    "UPDATE {t} SET price = 3 WHERE seq > 50",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
    "ALTER TABLE {t} DROP PARTITION (city = 'x')",
    "INSERT OVERWRITE {t} PARTITION (city = 'z') SELECT id, seq, total, fare, price, is_even, day, at, "
    "note, place, labels, extra, extra_note FROM {t} WHERE seq = 9",
    "TRUNCATE TABLE {t}",
)


def _rolled_back(session: Any, name: str) -> str:
    [row] = session.sql(f"CALL show_commits(table => '{name}', limit => 1)").rows
    return f"CALL rollback_to_instant(table => '{name}', instant_time => '{row.commit_time}')"


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_each_kind_of_commit_is_published(
    session: Any, tmp_path: Path, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Shape(
        f"follows_{table_type[0].lower()}",
        rows=60,
        files=1,
        partition_columns={"city": lambda n: CITIES[n % 3]},
        table_type=table_type,
    )
    table, name = bootstrap_shape(session, shape, tmp_path), f"oracle.{shape.name}"
    session.sql(FOLLOW.format(t=name))
    check_shown(session, name, table.path)
    rows = {metadata_of(table.path)["current-snapshot-id"]: hudisql_rows(session, name)}
    session.sql(f"CALL sync_iceberg(table => '{name}', register => true)")
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 2)
    monkeypatch.setattr(snapshot_manifests, "_LEAST_ENTRIES", 1)
    kept: list[list[int]] = []
    for statement in STATEMENTS:
        if statement == COMPACT and table_type == "COPY_ON_WRITE":
            continue
        session.sql(statement.format(t=name))
        check_shown(session, name, table.path)
        rows[metadata_of(table.path)["current-snapshot-id"]] = hudisql_rows(session, name)
        if "DROP PARTITION" in statement:
            session.sql(_rolled_back(session, name))
            check_shown(session, name, table.path)
            rows[metadata_of(table.path)["current-snapshot-id"]] = hudisql_rows(session, name)
        if "run_clean" in statement or "DROP PARTITION" in statement:
            kept.append(check_history(table.path, rows))
    kept.append(check_history(table.path, rows))
    assert [len(some) for some in kept] == [2, 3, 5]
    entry = session.context.metastore.get_table("oracle", f"{shape.name}_iceberg")
    assert entry.parameters["metadata_location"].endswith(shown_file(table.path).removeprefix("file:"))
    session.sql(f"DROP TABLE {name}")


def test_created_tables_follow_from_their_first_commit(session: Any) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        "CREATE TABLE oracle.made (id BIGINT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', 'hudisql.iceberg.sync' = 'true')"
    )
    path = path_of(session, "made")
    check_shown(session, "oracle.made", path)
    session.sql("INSERT INTO oracle.made VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    check_shown(session, "oracle.made", path)
    session.sql("SET hudisql.iceberg.sync = false")
    try:
        session.sql("UPDATE oracle.made SET name = 'c' WHERE id = 2")
    finally:
        session.sql("RESET hudisql.iceberg.sync")
    shown = shown_file(path)
    session.sql(COMPACT.format(t="oracle.made"))
    assert shown_file(path) != shown
    check_shown(session, "oracle.made", path)
    session.sql("DROP TABLE oracle.made")


def test_a_bootstrap_lets_all_commits_be_published(session: Any, tmp_path: Path) -> None:
    shape = Shape("from_start", rows=12, files=1, table_type="MERGE_ON_READ")
    table = bootstrap_shape(session, shape, tmp_path, iceberg_sync="true")
    check_shown(session, "oracle.from_start", table.path)
    session.sql("UPDATE oracle.from_start_rt SET note = 'ours' WHERE seq = 3")
    check_shown(session, "oracle.from_start", table.path)
    with pytest.raises(InvalidArgumentError, match="sync => false makes none"):
        session.sql(
            f"CALL bootstrap_table(table => 'oracle.other', source => '{table.source}', record_key => 'id', "
            "iceberg_sync => true, sync => false)"
        )
    for suffix in ("", "_ro", "_rt"):
        session.sql(f"DROP TABLE IF EXISTS oracle.from_start{suffix}")


@pytest.mark.soak
def test_a_migrated_table_is_published_under_its_name(session: Any) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql("CREATE TABLE oracle.moved USING parquet AS SELECT 1L AS id, 'a' AS name")
    session.sql("CALL migrate_table(table => 'oracle.moved', record_key => 'id', iceberg_sync => true)")
    path = path_of(session, "moved")
    check_shown(session, "oracle.moved", path)
    session.sql("UPDATE oracle.moved SET name = 'b'")
    check_shown(session, "oracle.moved", path)
    session.sql("CALL revert_migration(table => 'oracle.moved', force => true)")
    session.sql("DROP TABLE oracle.moved")


def published_with_warnings(session: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Make a table of one row that is published with each commit; gives the warnings from then on."""
    warnings: list[str] = []
    monkeypatch.setattr(type(session.context.console), "warning", lambda _, text: warnings.append(text))
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} USING hudi TBLPROPERTIES (primaryKey = 'id', "
        "'hudisql.iceberg.sync' = 'true') AS SELECT 1L AS id, 'a' AS name"
    )
    return warnings


def test_a_failed_publication_is_a_warning_and_the_next_one_catches_up(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = published_with_warnings(session, monkeypatch, "oracle.fails")
    path = path_of(session, "fails")
    check_shown(session, "oracle.fails", path)
    shown = shown_file(path)
    for error in (ValueError("no reason"), KeyboardInterrupt()):
        with monkeypatch.context() as patched:

            def fail(*_arguments: object, error: BaseException = error) -> None:
                raise error

            patched.setattr(snapshot_write, "_metadata_document", fail)
            if isinstance(error, KeyboardInterrupt):
                with pytest.raises(KeyboardInterrupt):
                    session.sql("INSERT INTO oracle.fails VALUES (3, 'c')")
            else:
                session.sql("INSERT INTO oracle.fails VALUES (2, 'b')")
                [warning] = warnings
                assert "its Iceberg table does not show it yet: ValueError: no reason" in warning
                assert "CALL sync_iceberg(table => 'oracle.fails')" in warning
        assert shown_file(path) == shown
    session.sql("UPDATE oracle.fails SET name = 'd' WHERE id = 1")
    check_shown(session, "oracle.fails", path)
    assert publish(session, "oracle.fails")["rows"] == 3
    session.sql("DROP TABLE oracle.fails")


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_statement_killed_at_any_step_is_published_with_the_next(
    session: Any, spark: Any, metastore_uri: str, table_type: str
) -> None:
    name = "oracle.killed"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{table_type}', "
        "'hudisql.iceberg.sync' = 'true') AS SELECT id, 0 AS n FROM range(3)"
    )
    path = path_of(session, "killed")
    states, is_killed, step = list[tuple[bool, bool]](), True, 0
    while is_killed:
        before, shown = hudisql_rows(session, name), duckdb_rows(shown_file(path))
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=f"UPDATE {name} SET n = n + 1 WHERE id = 1",
            target=path,
            process="driver",
            step=step,
        )
        is_killed = ended.returncode != 0
        assert not is_killed or ended.returncode == -signal.SIGKILL, ended.stderr
        now = hudisql_rows(session, name)
        assert duckdb_rows(shown_file(path)) in (before, now)
        states.append((now != before, duckdb_rows(shown_file(path)) != shown))
        session.sql(f"UPDATE {name} SET n = n + 1 WHERE id = 2")
        check_shown(session, name, path)
        step += 1
    # Killed before the commit, between it and its publication, and after that.
    assert list(dict.fromkeys(states)) == [(False, False), (True, False), (True, True)]
    session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
@pytest.mark.parametrize("is_registered", [False, True])
def test_services_after_a_statement_are_published(session: Any, is_registered: bool) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        "CREATE TABLE oracle.served USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', "
        "'hoodie.compact.inline' = 'true', 'hoodie.compact.inline.max.delta.commits' = '2', "
        "'hoodie.cleaner.commits.retained' = '1', 'hudisql.iceberg.sync' = 'true') "
        "AS SELECT 1L AS id, 0 AS n"
    )
    path = path_of(session, "served")
    if is_registered:
        session.sql("CALL sync_iceberg(table => 'oracle.served', register => true)")
    for number in range(5):
        session.sql(f"UPDATE oracle.served SET n = {number + 1}")
        if is_registered:
            entry = session.context.metastore.get_table("oracle", "served_iceberg")
            assert entry.parameters["metadata_location"] == shown_file(path)
        check_shown(session, "oracle.served", path)
    actions = {file.suffix for file in Path(path, ".hoodie").glob("2*")}
    assert {".commit", ".clean"} <= actions
    session.sql("DROP TABLE oracle.served")


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_what_happens_without_the_property_is_shown_once_it_is_set_again(
    session: Any, table_type: str
) -> None:
    name, rows = "oracle.off_and_on", dict[int, list[str]]()
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} USING hudi PARTITIONED BY (p) TBLPROPERTIES (primaryKey = 'id', "
        f"type = '{table_type}', 'hudisql.iceberg.sync' = 'true') "
        "AS SELECT id, 0 AS n, cast(id % 3 AS string) AS p FROM range(9)"
    )
    path = path_of(session, "off_and_on")

    def run(*statements: str) -> None:
        for statement in statements:
            session.sql(statement)
            check_shown(session, name, path)
            rows[metadata_of(path)["current-snapshot-id"]] = hudisql_rows(session, name)

    run(f"UPDATE {name} SET n = 1 WHERE id = 1")
    [saved] = session.sql(f"CALL show_commits(table => '{name}', limit => 1)").rows
    for statement in (
        f"CALL create_savepoint(table => '{name}', commit_time => '{saved.commit_time}')",
        f"DELETE FROM {name} WHERE p = '2'",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'false')",
        f"UPDATE {name} SET n = 7 WHERE id = 0",
        f"CALL rollback_to_savepoint(table => '{name}', instant_time => '{saved.commit_time}')",
        f"UPDATE {name} SET n = 8 WHERE id = 3",
        f"ALTER TABLE {name} DROP PARTITION (p = '1')",
        f"INSERT INTO {name} VALUES (31, 1, '1')",
    ):
        session.sql(statement)
    run(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true')",
        f"CALL delete_savepoint(table => '{name}', instant_time => '{saved.commit_time}')",
        f"CALL upgrade_table(table => '{name}', to_version => 'NINE')",
        f"UPDATE {name} SET n = 9 WHERE id = 5",
        f"INSERT OVERWRITE {name} PARTITION (p = '0') VALUES (40, 4)",
        f"CALL downgrade_table(table => '{name}', to_version => 'SIX')",
        f"TRUNCATE TABLE {name}",
        f"INSERT INTO {name} VALUES (1, 1, '1')",
    )
    file = shown_file(path)
    kept = [each["snapshot-id"] for each in metadata_of(path)["snapshots"] if each["snapshot-id"] in rows]
    assert len(kept) > 4
    assert all(duckdb_rows(file, snapshot=each) == rows[each] for each in kept)
    session.sql(f"DROP TABLE {name}")


def test_settings_that_are_no_flag_and_missing_manifests_are_warnings(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = published_with_warnings(session, monkeypatch, "oracle.wrong")
    for manifest in Path(path_of(session, "wrong"), ".hoodie/iceberg/metadata").glob("*-m0.avro"):
        manifest.unlink()
    forget_contents()
    session.sql("UPDATE oracle.wrong SET name = 'b'")
    assert "m0.avro of the Iceberg table is missing (delete the table's directory" in warnings.pop()
    entry = session.context.metastore.get_table("oracle", "wrong")
    parameters = {**entry.parameters, "hudisql.iceberg.sync": "maybe"}
    session.context.metastore.alter_table(replace(entry, parameters=parameters))
    session.sql("UPDATE oracle.wrong SET name = 'c'")
    [warning] = warnings
    assert "does not show it yet: hudisql.iceberg.sync must be true or false, not 'maybe'" in warning
    assert "CALL sync_iceberg(table => 'oracle.wrong')" in warning
    assert session.sql("CALL run_clustering(table => 'oracle.wrong')").rows
    session.sql("DROP TABLE oracle.wrong")


def path_of(session: Any, name: str) -> str:
    """The directory of a table of the database `oracle`."""
    return str(session.context.metastore.get_table("oracle", name).location.removeprefix("file:"))
