"""CALL hive_sync, against a real Hive Metastore 2.3.10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.sync_settings import SYNC_PREFIX, SYNC_SETTINGS, SyncSetting, Treatment
from hudisql.console import SilentConsole
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError, NoSuchTableError, SyncFailedError
from hudisql.procedures.binder import bind_arguments
from hudisql.procedures.registry import find_procedure
from tests.catalog.table_maker import TableMaker

pytestmark = pytest.mark.hms

SCHEMA = pa.schema([("id", pa.string()), ("dt", pa.string())])


def _call(client: MetastoreClient, **named: object) -> list[Sequence[object]]:
    # Names are given in full, so that no Spark is asked for the current database.
    context = Context(cast(Any, None), client, console=SilentConsole())
    procedure = find_procedure("hive_sync")
    return list(procedure.call(context, bind_arguments(procedure, (), list(named.items()))).rows)


def test_a_table_that_no_metastore_knows_is_synced_by_its_path_and_then_by_name(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(SCHEMA, ["dt"]).commit(SCHEMA, ["dt=a", "dt=b"])
    name = f"{database}.made"
    assert _call(client, table=name, path=str(maker.base_path)) == [("hive sync success.",)]
    maker.commit(SCHEMA, ["dt=c"])
    assert _call(client, table=name, dry_run=True)[-1] == (f"ALTER TABLE {name} ADD 1 PARTITIONS: dt=c",)
    assert len(client.list_partition_names(database, "made")) == 2
    assert _call(client, TABLE=name) == [("hive sync success.",)]
    assert len(client.list_partition_names(database, "made")) == 3
    assert _call(client, table=name, dry_run=True) == [("nothing to change",)]


def test_an_entry_of_a_merge_on_read_table_syncs_the_whole_family(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(SCHEMA, ["dt"], hoodie__table__type="MERGE_ON_READ").commit(SCHEMA, ["dt=a"])
    _call(client, table=f"{database}.made", path=str(maker.base_path))
    assert client.list_tables(database) == ["made", "made_ro", "made_rt"]
    maker.commit(SCHEMA, ["dt=b"])
    _call(client, table=f"{database}.made_rt")
    assert client.list_tables(database) == ["made", "made_ro", "made_rt"]
    assert client.list_partition_names(database, "made_ro") == ["dt=a", "dt=b"]


def test_strategy_and_options_of_hudi_count(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(SCHEMA, hoodie__table__type="MERGE_ON_READ")
    options = {"hoodie.datasource.hive_sync.skip_ro_suffix": "true"}
    _call(client, table=f"{database}.a", path=str(maker.base_path), strategy="ro")
    _call(client, table=f"{database}.b", path=str(maker.base_path), options=options)
    assert client.list_tables(database) == ["a", "b", "b_rt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "jdbc"}, "only Hudi's mode hms"),
        ({"use_jdbc": "true"}, "only Hudi's mode hms"),
        ({"partition_fields": "region"}, "partitioned by dt"),
        ({"strategy": "both"}, "unknown sync strategy"),
        ({"sync_incremental": "often"}, "neither true nor false"),
        ({"partition_extractor_class": "com.example.Mine"}, "does not know the partition_extractor_class"),
        ({"metastore_url": "thrift://h:1"}, "metastore_uri"),
    ],
)
def test_what_hive_sync_cannot_do_is_refused_before_anything_is_changed(
    client: MetastoreClient, maker: TableMaker, arguments: dict[str, object], message: str
) -> None:
    maker.create(SCHEMA, ["dt"])
    with pytest.raises(InvalidArgumentError, match=message):
        _call(client, table="refused.made", path=str(maker.base_path), **arguments)
    assert client.get_database("refused") is None


def test_a_table_that_is_not_there_is_named(client: MetastoreClient, maker: TableMaker) -> None:
    with pytest.raises(NoSuchTableError, match=r"default\.absent"):
        _call(client, table="default.absent")
    with pytest.raises(NoSuchTableError, match="no such path"):
        _call(client, table="default.absent", path=str(maker.base_path))


def test_another_metastore_that_is_down_fails_with_the_call_that_names_it(
    client: MetastoreClient, maker: TableMaker
) -> None:
    maker.create(SCHEMA)
    with pytest.raises(SyncFailedError, match=r"metastore_uri => 'thrift://127\.0\.0\.1:1'"):
        _call(client, table="db.made", path=str(maker.base_path), metastore_uri="thrift://127.0.0.1:1")


@pytest.mark.parametrize(
    "setting",
    [each for each in SYNC_SETTINGS if each.treatment is Treatment.ONE_VALUE],
    ids=lambda each: each.name,
)
def test_settings_that_are_not_followed_are_refused_by_name(
    client: MetastoreClient, maker: TableMaker, database: str, setting: SyncSetting
) -> None:
    maker.create(SCHEMA, ["dt"]).commit(SCHEMA, ["dt=a"])
    value = {"true": "false", "false": "true"}.get(setting.only[0], "another")
    arguments = {"table": f"{database}.made", "path": str(maker.base_path)}
    with pytest.raises(InvalidArgumentError, match=setting.name):
        _call(client, **arguments, options={SYNC_PREFIX + setting.name: value})
    assert client.get_database(database) is None


def test_settings_of_entries_are_followed_and_those_without_effect_are_taken(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(SCHEMA, ["dt"]).commit(SCHEMA, ["dt=a", "dt=b", "dt=c"])
    arguments = {"table": f"{database}.made", "path": str(maker.base_path)}
    ignored = {
        SYNC_PREFIX + each.name: "x" for each in SYNC_SETTINGS if each.treatment is Treatment.WITHOUT_EFFECT
    }
    given = {"table_properties": "team=sales\nno=", "serde_properties": "field.delim=,", "batch_num": "2"}
    options = ignored | {SYNC_PREFIX + key: value for key, value in given.items()}
    lost = {**options, f"{SYNC_PREFIX}auto_create_database": "false"}
    with pytest.raises(SyncFailedError, match="no database"):
        _call(client, **arguments, options=lost)
    (said,) = _call(client, **arguments, options={**lost, f"{SYNC_PREFIX}ignore_exceptions": "true"})
    assert str(said[0]).startswith("hive sync failed")
    assert client.get_database(database) is None
    assert _call(client, **arguments, options=options) == [("hive sync success.",)]
    entry = client.get_table(database, "made")
    assert entry is not None
    assert (entry.parameters["team"], entry.parameters["no"], entry.serde_properties["field.delim"]) == (
        "sales",
        "",
        ",",
    )
    assert len(client.list_partition_names(database, "made")) == 3
    assert _call(client, **arguments, options=options, dry_run=True) == [("nothing to change",)]
    for wrong, message in (({"nothing": "1"}, "no setting"), ({"table_properties": "team"}, "key=value")):
        with pytest.raises(InvalidArgumentError, match=message):
            _call(client, **arguments, options={SYNC_PREFIX + key: value for key, value in wrong.items()})
