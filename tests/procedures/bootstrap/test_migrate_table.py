"""`CALL migrate_table`: the Hudi table under the plain one's name, and `CALL revert_migration` back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from hudisql.bootstrap.migrate_table.migration_lock import hold_migration_lock
from hudisql.bootstrap.migrate_table.migration_state import MIGRATION_PROPERTY, MigrationNames
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import (
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
    TableGrant,
    is_hudi_table,
)
from hudisql.errors import (
    BootstrapBlockedError,
    NoSuchTableError,
    RollbackRefusedError,
    SourceChangedError,
    TableExistsError,
    TableLockedError,
)
from tests.fault_injection import run_with_fault
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]
GRANTS = {TableGrant("ann", "USER", "SELECT"), TableGrant("bob", "USER", "SELECT", True, "amount")}


@dataclass
class PlainTables:
    """Plain parquet tables of the metastore, made without a Spark job."""

    metastore: MetastoreClient
    database_directory: Path

    def make(
        self, full_name: str, *, partitioned: bool = False, kind: str = "MANAGED_TABLE", **properties: str
    ) -> Path:
        """A table of 40 rows in the database's directory; partitioned into two days."""
        database, name = full_name.split(".")
        directory = self.database_directory / name
        days = ("dt=2024-03-01", "dt=2024-03-02") if partitioned else ("",)
        for number in range(2):
            write_parquet(directory / days[number % len(days)] / f"{number}.parquet", orders(number * 20))
        table = MetastoreTable(
            database=database,
            name=name,
            table_type=kind,
            location=f"file:{directory}",
            columns=(
                MetastoreColumn("id", "string", "the key"),
                MetastoreColumn("seq", "bigint"),
                MetastoreColumn("amount", "double"),
            ),
            partition_columns=(MetastoreColumn("dt", "string", "the day"),) if partitioned else (),
            owner="ann",
            input_format=PARQUET_INPUT_FORMAT,
            output_format=PARQUET_OUTPUT_FORMAT,
            serde=PARQUET_SERDE,
            parameters={"comment": "all orders", "team": "sales", "numRows": "40", **properties},
        )
        self.metastore.create_table(table)
        if partitioned:
            self.metastore.add_partitions(table, [_partition(table, directory, day) for day in days])
        return directory

    def entry(self, full_name: str, suffix: str = "") -> MetastoreTable:
        found = self.metastore.get_table(*(full_name + suffix).split("."))
        assert found is not None, f"there is no {full_name}{suffix}"
        return found


def _partition(table: MetastoreTable, directory: Path, day: str) -> MetastorePartition:
    return MetastorePartition(
        (day.partition("=")[2],),
        f"file:{directory / day}",
        columns=table.columns,
        input_format=table.input_format,
        output_format=table.output_format,
        serde=table.serde,
    )


@pytest.fixture
def plain(session: Any) -> PlainTables:
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    location = session.context.metastore.get_database("store").location
    return PlainTables(session.context.metastore, Path(location.removeprefix("file:").replace("///", "/")))


def _described(entry: MetastoreTable) -> dict[str, object]:
    """What a user sees of an entry, without the times that the metastore writes."""
    parameters = {key: value for key, value in entry.parameters.items() if "DdlTime" not in key}
    return {
        "type": entry.table_type,
        "location": entry.location,
        "columns": entry.columns,
        "partition_columns": entry.partition_columns,
        "owner": entry.owner,
        "parameters": {
            key: value for key, value in parameters.items() if not key.startswith("last_modified")
        },
    }


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_managed_table_becomes_a_hudi_table_of_its_name_and_back(call, session, plain, name, partitioned):
    name = f"{name}_managed"
    directory = plain.make(name, partitioned=partitioned)
    plain.metastore.add_grants(plain.entry(name), sorted(GRANTS, key=str))
    session.sql(f"CREATE VIEW {name}_view AS SELECT id, amount FROM {name} WHERE seq < 30")
    before, files = _described(plain.entry(name)), fingerprint(directory)

    shown = call("migrate_table", table=name, record_key="id", dry_run=True)
    assert ("would rename", name, f"{name}__source") in [
        (row["action"], row["name"], row["detail"]) for row in shown
    ]
    assert _described(plain.entry(name)) == before

    call("migrate_table", table=name, record_key="id", precombine="seq")
    entry, source = plain.entry(name), plain.entry(name, "__source")
    assert is_hudi_table(entry)
    assert not is_hudi_table(source)
    assert (entry.owner, entry.parameters["comment"], entry.parameters["team"]) == (
        "ann",
        "all orders",
        "sales",
    )
    assert not {"numRows", "COLUMN_STATS_ACCURATE"} & set(entry.parameters)
    assert [column.comment for column in entry.columns if column.name == "id"] == ["the key"]
    assert set(plain.metastore.list_grants(entry)) == GRANTS
    assert source.is_external
    assert source.location == before["location"]
    assert session.sql(f"SELECT count(*), sum(seq) FROM {name}").rows == [(40, sum(range(40)))]
    assert session.sql(f"SELECT count(*) FROM {name}_view").rows == [(30,)]
    assert session.sql(f"SELECT count(*) FROM {name}__source").rows == [(40,)]
    assert [row["action"] for row in call("migrate_table", table=name, record_key="id")] == ["found"]

    rows = call("revert_migration", table=name, dry_run=True)
    assert [row["action"] for row in rows] == ["would rename", "would remove"]
    call("revert_migration", table=name)
    assert _described(plain.entry(name)) == before
    assert plain.metastore.get_table(*f"{name}__source".split(".")) is None
    assert not Path(f"{directory}__hudi").exists()
    assert fingerprint(directory) == files
    assert set(plain.metastore.list_grants(plain.entry(name))) == GRANTS
    assert session.sql(f"SELECT count(*) FROM {name}_view").rows == [(30,)]
    with pytest.raises(NoSuchTableError, match="was not migrated"):
        call("revert_migration", table=name)


def test_a_migration_stops_at_names_that_others_have_and_at_another_run(call, session, plain, name):
    directory = plain.make(name)
    before, files = _described(plain.entry(name)), fingerprint(directory)
    plain.make(f"{name}__source", kind="EXTERNAL_TABLE", EXTERNAL="TRUE")
    with pytest.raises(TableExistsError, match="a name that the migration"):
        call("migrate_table", table=name, record_key="id")
    plain.metastore.drop_table(*f"{name}__source".split("."))
    plain.make(f"{name}_ro", kind="EXTERNAL_TABLE", EXTERNAL="TRUE")
    rows = call(
        "migrate_table", table=name, record_key="id", table_type="mor", dry_run=True, fail_on_error=False
    )
    assert f"{name}_ro already" in next(row["detail"] for row in rows if row["action"] == "blocker")
    with pytest.raises(TableExistsError, match="_ro already"):
        call("migrate_table", table=name, record_key="id", table_type="mor")
    with pytest.raises(BootstrapBlockedError, match="no record key column"):
        call("migrate_table", table=name, record_key="nothing")
    with hold_migration_lock(session.context, MigrationNames(*name.split("."))):
        with pytest.raises(TableLockedError, match="another run"):
            call("migrate_table", table=name, record_key="id")
        with pytest.raises(TableLockedError, match="another run"):
            call("revert_migration", table=name)
    assert _described(plain.entry(name)) == before
    assert fingerprint(directory) == files


def test_changes_since_a_migration_are_lost_only_by_force_and_new_files_stop_the_exchange(
    call, session, plain, name, monkeypatch
):
    directory = plain.make(name)
    monkeypatch.setattr(
        "hudisql.bootstrap.migrate_table.convert_table.bootstrap_table",
        _then(lambda: write_parquet(directory / "late.parquet", orders(90, 1))),
    )
    with pytest.raises(SourceChangedError, match="new 1 file") as raised:
        call("migrate_table", table=name, record_key="id", table_type="mor")
    monkeypatch.undo()
    assert "resync_bootstrap" in str(raised.value.hint)
    assert not is_hudi_table(plain.entry(name))
    call("resync_bootstrap", table=f"{name}__hudi", source_table=name)
    call("migrate_table", table=name, record_key="id", table_type="mor")
    assert {plain.entry(name, each).name for each in ("", "_ro", "_rt", "__source")}
    session.sql(f"UPDATE {name} SET amount = 0 WHERE seq = 90")
    assert session.sql(f"SELECT count(*), min(amount) FROM {name}").rows == [(41, 0.0)]
    rows = call("revert_migration", table=name, dry_run=True, fail_on_error=False)
    assert [row["action"] for row in rows][:2] == ["would lose", "would lose"]
    with pytest.raises(RollbackRefusedError, match="would lose 2 commits"):
        call("revert_migration", table=name)
    assert is_hudi_table(plain.entry(name))
    call("revert_migration", table=name, force=True)
    assert plain.entry(name).table_type == "MANAGED_TABLE"
    assert (
        plain.metastore.get_tables("store", [f"{name.split('.')[1]}{each}" for each in ("_ro", "_rt")]) == []
    )
    assert session.sql(f"SELECT count(*) FROM {name}").rows == [(41,)]


def _then(act: Callable[[], object]) -> Callable[..., Any]:
    """The bootstrap, and then something else."""
    from hudisql.bootstrap.run.verified_bootstrap import bootstrap_table

    def call(*arguments: Any, **named: Any) -> Any:
        report = bootstrap_table(*arguments, **named)
        act()
        return report

    return call


def _killed(session: Any, uri: str, statement: str, step: int, counted: str = "metastore") -> bool:
    """Kill the statement before its `step`-th change; False if it ended before that."""
    ended = run_with_fault(session.spark, uri, statement=statement, step=step, counted=counted)
    assert ended.returncode in (0, -9), ended.stderr
    return ended.returncode == -9


def test_a_kill_between_the_two_renames_is_ended_by_the_next_call_either_way(
    call, session, plain, name, metastore_uri
):
    directory = plain.make(name)
    before, files = _described(plain.entry(name)), fingerprint(directory)
    migrate = f"CALL migrate_table(table => '{name}', record_key => 'id')"
    # The mark, the Hudi entry and its partitions, the first rename: the second one is killed.
    assert _killed(session, metastore_uri, migrate, step=4)
    assert plain.metastore.get_table(*name.split(".")) is None
    call("migrate_table", table=name, record_key="id")
    assert session.sql(f"SELECT count(*) FROM {name}").rows == [(40,)]
    assert _killed(session, metastore_uri, f"CALL revert_migration(table => '{name}')", step=1)
    assert plain.metastore.get_table(*name.split(".")) is None
    call("revert_migration", table=name)
    assert (_described(plain.entry(name)), fingerprint(directory)) == (before, files)


@pytest.mark.soak
@pytest.mark.parametrize("counted", ["metastore", "write", "create", "delete_file", "delete_directory"])
@pytest.mark.parametrize("ends_by", ["migrate", "revert"])
def test_a_kill_at_any_step_loses_nothing_and_is_ended_by_the_next_call(
    call, session, plain, name, metastore_uri, counted, ends_by
):
    for statement in ("migrate", "revert"):
        for step in range(60):
            table = f"{name}_{counted}_{ends_by}_{statement}_{step}"
            directory = plain.make(table, partitioned=True)
            before, files = _described(plain.entry(table)), fingerprint(directory)
            text = f"CALL migrate_table(table => '{table}', record_key => 'id')"
            if statement == "revert":
                call("migrate_table", table=table, record_key="id")
                text = f"CALL revert_migration(table => '{table}')"
            was_killed = _killed(session, metastore_uri, text, step, counted)
            if ends_by == "migrate":
                call("migrate_table", table=table, record_key="id")
                assert session.sql(f"SELECT count(*), sum(seq) FROM {table}").rows == [(40, 780)]
            if plain.metastore.get_table(*f"{table}__source".split(".")) or MIGRATION_PROPERTY in (
                plain.entry(table).parameters
            ):
                call("revert_migration", table=table)
            assert _described(plain.entry(table)) == before
            assert fingerprint(directory) == files
            assert not Path(f"{directory}__hudi").exists()
            if not was_killed:
                break


def test_the_metastore_moves_directories_of_managed_tables_only(plain, name):
    for kind, moves in (("MANAGED_TABLE", True), ("EXTERNAL_TABLE", False)):
        table = f"{name}_{kind.lower()}"
        external = {"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {}
        directory = plain.make(table, partitioned=True, kind=kind, **external)
        entry = plain.entry(table)
        plain.metastore.alter_table(replace(entry, name=f"{entry.name}_new"), name=entry.name)
        renamed = plain.entry(f"{table}_new")
        assert directory.exists() is not moves
        assert renamed.location.endswith("_new") is moves
        locations = [each.location for each in plain.metastore.list_partitions("store", renamed.name)]
        assert all(f"{entry.name}_new/" in location for location in locations) is moves
        plain.metastore._connection.call(methodcaller("drop_table", "store", renamed.name, True))
        assert directory.exists() is not moves
        assert not Path(f"{directory}_new").exists()
