"""Two clients change one entry of a real metastore at once: neither undoes what the other one did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.guarded_alter import GUARDED_PROPERTY, alter_guarded
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.catalog.sync import sync_registered, sync_table
from hudisql.errors import EntryChangedError
from tests.catalog.table_maker import TableMaker
from tests.spark_versions import needs_spark

pytestmark = pytest.mark.hms
GUARD = needs_spark("4.0", "the embedded Hive Metastore 2.3.10 (HIVE-26882)")
SCHEMA = pa.schema([("id", pa.string()), ("fare", pa.float64())])


@pytest.fixture(autouse=True)
def forgotten(client: MetastoreClient, database: str) -> Iterator[None]:
    """Workers of other tests would take what is left for a bad declaration."""
    yield
    client.drop_table(database, "made")


class InterruptedClient(MetastoreClient):
    """Does something else right before it alters, the first times."""

    before: Callable[[], None] = staticmethod(lambda: None)
    times = 1

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        # Known from an earlier change: the first one is under a lock, which the interruption would wait for.
        self.needs_entry_lock = False

    def alter_table(self, table: MetastoreTable, **more: Any) -> None:
        if self.times:
            self.times -= 1
            self.before()
        super().alter_table(table, **more)


def declared(client: MetastoreClient, maker: TableMaker, database: str) -> MetastoreTable:
    sync_table(client, maker.create(SCHEMA).open(), database, "made", parameters={GUARDED_PROPERTY: "0"})
    return entry_of(client, database)


def entry_of(client: MetastoreClient, database: str) -> MetastoreTable:
    entry = client.get_table(database, "made")
    assert entry is not None
    return entry


def with_property(entry: MetastoreTable, value: str) -> MetastoreTable:
    return replace(entry, parameters={**entry.parameters, GUARDED_PROPERTY: value})


@GUARD
def test_a_property_that_is_set_within_a_sync_stays(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    entry = declared(client, maker, database)
    table = maker.commit(SCHEMA.append(pa.field("tip", pa.float64()))).open()
    with closing(InterruptedClient(client.uris)) as syncing:
        syncing.before = lambda: alter_guarded(client, entry, with_property(entry, "1"))
        sync_registered(syncing, table, database, "made")
    found = entry_of(client, database)
    assert found.parameters[GUARDED_PROPERTY] == "1"
    assert [column.name for column in found.columns][-1] == "tip"
    assert found.parameters["last_commit_time_sync"] == table.timeline.commits[-1].timestamp


@GUARD
def test_an_entry_that_others_change_again_and_again_is_a_named_error(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    entry = declared(client, maker, database)
    with closing(InterruptedClient(client.uris)) as altering:
        altering.times = 1000
        altering.before = lambda: client.alter_table(with_property(entry, str(altering.times)))
        mine = replace(entry, parameters={**entry.parameters, "mine": "1"})
        with pytest.raises(EntryChangedError, match="another client has changed it"):
            alter_guarded(altering, entry, mine)
    assert entry_of(client, database).parameters[GUARDED_PROPERTY] == "990"


def test_two_clients_that_set_the_property_at_once_do_not_undo_each_other(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    entry = declared(client, maker, database)
    alter_guarded(client, entry, with_property(entry, "theirs"))
    with pytest.raises(EntryChangedError, match="another client has changed hudisql_ingest"):
        alter_guarded(client, entry, with_property(entry, "mine"))
    assert entry_of(client, database).parameters[GUARDED_PROPERTY] == "theirs"
