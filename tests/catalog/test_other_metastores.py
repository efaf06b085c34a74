"""Real Hive Metastores 3.1.3 and 4.0.1, on Derby and PostgreSQL: calls, and two clients on one entry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.entry_lock import LOCK_DATABASE, entry_lock
from hudisql.catalog.guarded_alter import GUARDED_PROPERTY, alter_guarded
from hudisql.catalog.metastore_lock import MetastoreLock
from hudisql.catalog.metastore_table import (
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
    PrincipalGrant,
    TableGrant,
)
from hudisql.catalog.sync import sync_table
from hudisql.errors import (
    EntryChangedError,
    MetastoreError,
    NoSuchTableError,
    TableExistsError,
    TableLockedError,
)
from tests.catalog.metastores.server import OtherMetastore, metastore_on_postgres, other_metastore
from tests.catalog.table_maker import TableMaker, values_where

pytestmark = [pytest.mark.hms, pytest.mark.oracle]
ON_POSTGRES = "4.0.1 on PostgreSQL"
VALUES = ("plain", "a b", "x=y", "50%", "a/b", "ünder", 'quo"te', "it's")
GRANTS = [TableGrant("ann", "USER", "SELECT"), TableGrant("bob", "USER", "SELECT", True, "a")]


@pytest.fixture(scope="module", params=["3.1.3", "4.0.1", pytest.param(ON_POSTGRES, marks=pytest.mark.soak)])
def metastore(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtherMetastore]:
    """A real metastore, started once for this file."""
    version = request.param.split()[0]
    run = metastore_on_postgres if request.param == ON_POSTGRES else other_metastore
    with run(version, tmp_path_factory.mktemp("metastore")) as started:
        yield started


@pytest.fixture
def client(metastore: OtherMetastore, database: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore.uri) as client:
        client.create_database(database)
        yield client


@pytest.fixture
def declared(client: MetastoreClient, maker: TableMaker, database: str) -> MetastoreTable:
    """The entry of a Hudi table whose events are declared."""
    schema = pa.schema([("id", pa.string()), ("fare", pa.float64())])
    sync_table(client, maker.create(schema).open(), database, "made", parameters={GUARDED_PROPERTY: "0"})
    return entry_of(client, database)


class InterruptedClient(MetastoreClient):
    """Does something else right before it alters for the first time."""

    before: Callable[[], None] = staticmethod(lambda: None)

    def alter_table(self, table: MetastoreTable, **more: Any) -> None:
        before, self.before = self.before, lambda: None
        before()
        super().alter_table(table, **more)


def entry_of(client: MetastoreClient, database: str, name: str = "made") -> MetastoreTable:
    entry = client.get_table(database, name)
    assert entry is not None
    return entry


def with_properties(entry: MetastoreTable, **properties: str) -> MetastoreTable:
    return replace(entry, parameters={**entry.parameters, **properties})


def plain_table(database: str, directory: Path, **changes: Any) -> MetastoreTable:
    table = MetastoreTable(
        database,
        "plain",
        "EXTERNAL_TABLE",
        f"file:{directory}",
        (MetastoreColumn("a", "int", "größer als 0"), MetastoreColumn("b", "struct<c:int,d:array<string>>")),
        (MetastoreColumn("p", "string"),),
        owner="me",
        input_format=PARQUET_INPUT_FORMAT,
        output_format=PARQUET_OUTPUT_FORMAT,
        serde=PARQUET_SERDE,
        parameters={"EXTERNAL": "TRUE", "note": "x"},
    )
    return replace(table, **changes)


def test_a_declaration_that_is_changed_within_another_alter_stays(
    metastore: OtherMetastore, client: MetastoreClient, declared: MetastoreTable, database: str
) -> None:
    changing = threading.Thread(
        target=alter_guarded, args=(client, declared, with_properties(declared, **{GUARDED_PROPERTY: "1"}))
    )

    def change_meanwhile() -> None:
        changing.start()
        changing.join(1)

    with closing(InterruptedClient(metastore.uri)) as other:
        other.before = change_meanwhile
        alter_guarded(other, declared, with_properties(declared, mine="1"))
    changing.join()
    found = entry_of(client, database).parameters
    assert (found[GUARDED_PROPERTY], found["mine"]) == ("1", "1")
    assert client.list_locks(LOCK_DATABASE) == []


@pytest.mark.soak
def test_two_writers_at_once_lose_no_change(
    metastore: OtherMetastore, client: MetastoreClient, declared: MetastoreTable, database: str
) -> None:
    if metastore.version == "4.0.1" and metastore.is_on_derby:
        pytest.skip("on Derby the server's own transactions wait for each other, more than ten minutes")
    lost: list[str] = []

    def declare() -> None:
        with MetastoreClient(metastore.uri) as own:
            for number in range(1, 41):
                entry = entry_of(own, database)
                if entry.parameters[GUARDED_PROPERTY] != str(number - 1):
                    lost.append(entry.parameters[GUARDED_PROPERTY])
                alter_guarded(own, entry, with_properties(entry, **{GUARDED_PROPERTY: str(number)}))

    declaring = threading.Thread(target=declare)
    declaring.start()
    number = 0
    while declaring.is_alive():
        number += 1
        alter_guarded(client, declared, with_properties(declared, mine=str(number)))
    declaring.join()
    assert not lost
    found = entry_of(client, database).parameters
    assert (found[GUARDED_PROPERTY], found["mine"]) == ("40", str(number))


@pytest.mark.soak
def test_clients_that_change_the_declaration_do_not_undo_each_other(
    client: MetastoreClient, declared: MetastoreTable, database: str
) -> None:
    alter_guarded(client, declared, with_properties(declared, **{GUARDED_PROPERTY: "theirs"}))
    with pytest.raises(EntryChangedError, match="another client has changed hudisql_ingest"):
        alter_guarded(client, declared, with_properties(declared, **{GUARDED_PROPERTY: "mine"}))
    assert entry_of(client, database).parameters[GUARDED_PROPERTY] == "theirs"


@pytest.mark.soak
def test_an_entry_lock_waits_for_others_but_not_for_those_that_have_ended(
    metastore: OtherMetastore, client: MetastoreClient
) -> None:
    with MetastoreClient(metastore.uri) as other, entry_lock(other, "db.t"):
        refused = pytest.raises(TableLockedError, match=r"cannot alter DB\.T")
        with refused, entry_lock(client, "DB.T", wait_seconds=0.1):
            pass
        with entry_lock(client, "db.u") as is_locked:
            assert is_locked
        with entry_lock(client, "db.t", dead_seconds=1) as is_locked:
            assert is_locked
    assert client.list_locks(LOCK_DATABASE) == []


@pytest.mark.soak
def test_databases_and_tables_come_and_go(
    metastore: OtherMetastore, client: MetastoreClient, database: str
) -> None:
    directory = metastore.warehouse / "elsewhere"
    assert not client.create_database(database)
    assert database in client.list_databases()
    made = plain_table(database, directory)
    client.create_table(made)
    with pytest.raises(TableExistsError, match="exists already"):
        client.create_table(made)
    with pytest.raises(MetastoreError, match="absent"):
        client.create_table(plain_table("absent", directory))
    found = entry_of(client, database, "plain")
    assert set(found.parameters.items()) >= set(made.parameters.items())
    assert replace(found, parameters=made.parameters, raw=None) == made
    assert client.list_tables(database) == ["plain"]
    assert [each.name for each in client.get_tables(database, ["plain", "absent"])] == ["plain"]
    assert [each.full_name for each in client.find_tables_with_property("note")] == [f"{database}.plain"]
    client.alter_table(replace(found, columns=(*found.columns, MetastoreColumn("e", "int"))), cascade=True)
    assert [each.name for each in entry_of(client, database, "plain").columns] == ["a", "b", "e"]
    renamed = replace(entry_of(client, database, "plain"), name="renamed")
    client.alter_table(renamed, name="plain")
    assert client.get_table(database, "plain") is None
    assert entry_of(client, database, "renamed").location == f"file:{directory}"
    client.add_grants(renamed, GRANTS)
    assert set(client.list_grants(renamed)) >= set(GRANTS)
    for grant in GRANTS:
        listed = client.list_principal_grants(grant.principal, grant.principal_type)
        on_the_table = PrincipalGrant(grant.privilege, database, "renamed")
        assert (on_the_table in listed) == (grant.column is None)
        assert client.list_principal_grants(grant.principal.upper(), grant.principal_type) == []
    assert client.list_roles_of("nobody", "USER") == ["public"]
    assert client.drop_table(database, "renamed")
    assert not client.drop_table(database, "renamed")
    assert client.drop_database(database)
    assert client.get_database(database) is None
    assert not client.drop_database(database)


@pytest.mark.soak
def test_partitions_come_and_go(metastore: OtherMetastore, client: MetastoreClient, database: str) -> None:
    directory = metastore.warehouse / "partitioned"
    table = plain_table(database, directory)
    client.create_table(table)
    numbers = [f"{number:04}" for number in range(1200)]
    partitions = [
        MetastorePartition((value,), f"file:{directory}/{number}", columns=table.columns)
        for number, value in enumerate([*VALUES, *numbers])
    ]
    client.add_partitions(table, partitions[:4])
    client.add_partitions(table, partitions)
    assert len(client.list_partition_names(database, "plain")) == len(partitions)
    listed = {found.values: found.location for found in client.list_partitions(database, "plain")}
    assert listed == {partition.values: partition.location for partition in partitions}
    assert values_where(client, database, "plain", 'p = "0007"') == [("0007",)]
    found = client.find_partitions(table, [("a/b",), ("absent",), ("0001",)])
    assert {each.values for each in found} == {("a/b",), ("0001",)}
    moved = [replace(each, location=f"file:{directory}/moved") for each in found]
    client.alter_partitions(table, moved)
    assert {each.location for each in client.find_partitions(table, [("a/b",)])} == {
        f"file:{directory}/moved"
    }
    client.drop_partitions(table, [(value,) for value in (*VALUES, "absent", *numbers[:1190])])
    assert len(client.list_partition_names(database, "plain")) == 10
    with pytest.raises(NoSuchTableError):
        client.list_partitions(database, "absent")


@pytest.mark.soak
def test_one_client_at_a_time_has_the_lock_on_a_table(
    metastore: OtherMetastore, client: MetastoreClient
) -> None:
    mine = MetastoreLock(client, "db", "locked")
    with MetastoreClient(metastore.uri) as other:
        theirs = MetastoreLock(other, "DB", "Locked")
        assert mine.try_lock(0)
        assert not theirs.try_lock(0)
        assert mine.is_held()
        mine.unlock()
        assert theirs.try_lock(0)
        theirs.unlock()
        assert not theirs.is_held()
