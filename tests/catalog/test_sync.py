"""Metastore sync, against a real Hive Metastore 2.3.10."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import (
    HUDI_INPUT_FORMAT,
    HUDI_REALTIME_INPUT_FORMAT,
    MetastoreTable,
    hudi_base_path,
    is_hudi_table,
    is_read_optimized,
)
from hudisql.catalog.sync import SyncResult, read_existing, run_sync, sync_registered, sync_table
from hudisql.catalog.sync_entries import TIMESTAMP_OPTION, SyncOptions, changed_settings, sync_options_from
from hudisql.catalog.sync_plan import SyncPlan, plan_sync
from hudisql.errors import (
    CorruptTableError,
    InvalidArgumentError,
    MetastoreError,
    SyncFailedError,
    TableExistsError,
)
from hudisql.format.paths.partition_path import escape_partition_value
from hudisql.format.schema.avro_schema import commented_field
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.format.schema.spark_schema import arrow_from_spark_json
from hudisql.table.hudi_table import HudiTable
from tests.catalog.table_maker import TableMaker, values_where

pytestmark = pytest.mark.hms

BASIC = pa.schema([("id", pa.string()), ("Fare", pa.float64()), ("dt", pa.date32())])
TIMES = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("dt", pa.date32())])


def _changes(result: SyncResult) -> int:
    return sum(astuple(result)[1:])


def _plan(
    client: MetastoreClient, table: HudiTable, database: str, options: SyncOptions | None = None
) -> SyncPlan:
    options = options or SyncOptions()
    return plan_sync(
        table, database, "made", read_existing(client, table, database, "made", options), options
    )


def _entry(client: MetastoreClient, database: str, name: str = "made") -> MetastoreTable:
    entry = client.get_table(database, name)
    assert entry is not None
    return entry


def _spark_schema(entry: MetastoreTable) -> pa.Schema:
    count = int(entry.parameters["spark.sql.sources.schema.numParts"])
    parts = [entry.parameters[f"spark.sql.sources.schema.part.{number}"] for number in range(count)]
    return arrow_from_spark_json("".join(parts))


def test_a_new_table_is_registered_as_hive_and_spark_and_hudi_expect_it(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    days = [f"dt=2024-03-{day:02}" for day in range(1, 4)]
    table = maker.create(BASIC, ["dt"]).commit(BASIC, days).open()
    result = sync_table(client, table, database, "Made")
    assert (result.created_tables, result.added_partitions) == (1, 3)
    entry = _entry(client, database)
    assert entry.table_type == "EXTERNAL_TABLE"
    assert entry.is_external
    assert is_hudi_table(entry)
    assert table.storage.qualify(str(hudi_base_path(entry))) == table.base_path
    assert not is_read_optimized(entry)
    assert entry.input_format == HUDI_INPUT_FORMAT
    assert str(entry.output_format).endswith("MapredParquetOutputFormat")
    assert str(entry.serde).endswith("ParquetHiveSerDe")
    assert [(column.name, column.type) for column in entry.columns] == [
        *[(name, "string") for name in META_COLUMNS],
        ("id", "string"),
        ("fare", "double"),
    ]
    assert [(column.name, column.type) for column in entry.partition_columns] == [("dt", "date")]
    assert _spark_schema(entry).names == [*META_COLUMNS, "id", "Fare", "dt"]
    assert entry.parameters["spark.sql.sources.provider"] == "hudi"
    assert entry.parameters["spark.sql.sources.schema.partCol.0"] == "dt"
    assert entry.parameters["last_commit_time_sync"] == "20240301000002000"
    partitions = client.list_partitions(database, "made")
    assert [partition.values for partition in partitions] == [(day[3:],) for day in days]
    assert [partition.location for partition in partitions] == [
        f"file:{maker.base_path}/{day}" for day in days
    ]
    assert {partition.input_format for partition in partitions} == {HUDI_INPUT_FORMAT}
    found = values_where(client, database, "made", "dt >= '2024-03-02'")
    assert found == [partition.values for partition in partitions[1:]]


def test_a_second_sync_changes_nothing_and_a_third_only_what_is_new(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01", "dt=2024-03-02"])
    sync_table(client, maker.open(), database, "made")
    before = _entry(client, database)
    assert _plan(client, maker.open(), database).describe() == []
    assert not _changes(sync_table(client, maker.open(), database, "made"))
    assert _entry(client, database) == before

    maker.commit(BASIC, ["dt=2024-03-03"])
    plan = _plan(client, maker.open(), database)
    assert [line.split(": ")[0] for line in plan.describe()] == [
        f"ALTER TABLE {database}.made SET TBLPROPERTIES last_commit_completion_time_sync",
        f"ALTER TABLE {database}.made SET TBLPROPERTIES last_commit_time_sync",
        f"ALTER TABLE {database}.made ADD 1 PARTITIONS",
    ]
    assert run_sync(client, plan).added_partitions == 1
    assert _entry(client, database).parameters["last_commit_time_sync"] == "20240301000003000"


def test_partitions_follow_the_table_when_they_go_or_move(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    days = [f"dt=2024-01-{day:02}" for day in range(1, 29)]
    table = maker.create(BASIC, ["dt"]).commit(BASIC, days).open()
    sync_table(client, table, database, "made")
    entry = _entry(client, database)
    stored = client.list_partitions(database, "made")
    client.alter_partitions(entry, [replace(stored[0], location="file:///elsewhere")])
    client.drop_partitions(entry, [stored[1].values])
    for day in days[2:5]:
        shutil.rmtree(maker.base_path / day)
    result = sync_table(client, maker.open(), database, "made")
    assert (result.changed_partitions, result.added_partitions, result.dropped_partitions) == (1, 1, 3)
    assert [partition.location for partition in client.list_partitions(database, "made")] == [
        f"file:{maker.base_path}/{day}" for day in (*days[:2], *days[5:])
    ]
    assert not _changes(sync_table(client, maker.open(), database, "made"))


@pytest.mark.slow
def test_more_partitions_than_one_call_takes_are_added_and_dropped_in_batches(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int32())])
    paths = [f"n={number}" for number in range(600)]
    maker.create(schema, ["n"]).commit(schema, paths)
    assert sync_table(client, maker.open(), database, "made").added_partitions == 600
    assert len(client.list_partition_names(database, "made")) == 600
    for path in paths[:350]:
        shutil.rmtree(maker.base_path / path)
    assert sync_table(client, maker.open(), database, "made").dropped_partitions == 350
    names = client.list_partition_names(database, "made")
    assert sorted(names) == sorted(paths[350:])


def test_a_new_column_reaches_the_table_its_partitions_and_sparks_schema(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01"])
    sync_table(client, maker.open(), database, "made")
    wider = pa.schema(
        [
            BASIC.field("id"),
            commented_field("Tip", pa.decimal128(12, 2), "what the rider gave; 'cash' too"),
            BASIC.field("Fare"),
            pa.field(
                "st", pa.struct([("aB", pa.int64()), ("c", pa.list_(pa.field("element", pa.string())))])
            ),
            BASIC.field("dt"),
        ]
    )
    maker.commit(wider)
    plan = _plan(client, maker.open(), database)
    assert plan.describe()[0] == (
        f"ALTER TABLE {database}.made ADD COLUMNS (tip decimal(12,2) COMMENT 'what the rider gave; "
        "\\'cash\\' too', st struct<ab:bigint,c:array<string>>) CASCADE"
    )
    run_sync(client, plan)
    entry = _entry(client, database)
    # The metastore keeps its order: it checks types by place. Spark has the table's own.
    assert [column.name for column in entry.columns[5:]] == ["id", "fare", "tip", "st"]
    assert entry.columns[7].comment == "what the rider gave; 'cash' too"
    assert _spark_schema(entry).names[5:] == ["id", "Tip", "Fare", "st", "dt"]
    assert client.list_partitions(database, "made")[0].columns == entry.columns
    assert _plan(client, maker.open(), database).is_empty


def test_a_widened_column_is_changed_in_place(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(pa.schema([("id", pa.string()), ("n", pa.int32())]))
    sync_table(client, maker.open(), database, "made")
    maker.commit(pa.schema([("id", pa.string()), ("n", pa.int64())]))
    sync_table(client, maker.open(), database, "made")
    assert _entry(client, database).columns[-1].type == "bigint"


def test_a_change_that_the_metastore_refuses_is_a_failed_sync_with_the_servers_words(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(pa.schema([("id", pa.string()), ("n", pa.string())]))
    sync_table(client, maker.open(), database, "made")
    maker.commit(pa.schema([("id", pa.string()), ("n", pa.int64())]))
    with pytest.raises(SyncFailedError, match="types incompatible") as raised:
        sync_table(client, maker.open(), database, "made")
    assert f"DROP TABLE {database}.made; then run: CALL hive_sync(table => '{database}.made'" in str(
        raised.value
    )


def test_comments_that_someone_gave_in_hive_stay_where_the_table_has_none(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC)
    sync_table(client, maker.open(), database, "made")
    entry = _entry(client, database)
    commented = (*entry.columns[:-1], replace(entry.columns[-1], comment="by hand"))
    client.alter_table(replace(entry, columns=commented, parameters={**entry.parameters, "owner_team": "x"}))
    assert not _changes(sync_table(client, maker.open(), database, "made"))
    maker.commit(BASIC)
    sync_table(client, maker.open(), database, "made")
    assert _entry(client, database).columns[-1].comment == "by hand"
    assert _entry(client, database).parameters["owner_team"] == "x"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SyncOptions(), {"made": (True, False), "made_ro": (False, True), "made_rt": (True, False)}),
        (
            SyncOptions(snapshot_with_table_name=False),
            {"made_ro": (False, True), "made_rt": (True, False)},
        ),
        (SyncOptions(skip_ro_suffix=True), {"made": (False, True), "made_rt": (True, False)}),
        (SyncOptions(strategy="RO"), {"made": (False, True)}),
        (SyncOptions(strategy="RT"), {"made": (True, False)}),
    ],
)
def test_merge_on_read_tables_get_the_entries_that_strategy_and_suffix_ask_for(
    client: MetastoreClient,
    maker: TableMaker,
    database: str,
    options: SyncOptions,
    expected: dict[str, tuple[bool, bool]],
) -> None:
    database += "_".join(expected)
    database += options.strategy.lower()
    maker.create(BASIC, ["dt"], hoodie__table__type="MERGE_ON_READ").commit(BASIC, ["dt=2024-03-01"])
    sync_table(client, maker.open(), database, "made", options)
    found = {}
    for name in client.list_tables(database):
        entry = _entry(client, database, name)
        partition = client.list_partitions(database, name)[0]
        assert partition.input_format == entry.input_format
        assert partition.serde_properties == entry.serde_properties
        found[name] = (entry.input_format == HUDI_REALTIME_INPUT_FORMAT, is_read_optimized(entry))
    assert found == expected
    assert _plan(client, maker.open(), database, options).is_empty


def test_entries_are_followed_as_what_they_were_registered_as_and_none_is_made(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(TIMES, ["dt"], hoodie__table__type="MERGE_ON_READ").commit(TIMES, ["dt=2024-03-01"])
    declared = SyncOptions(skip_ro_suffix=True, support_timestamp=True)
    sync_table(client, maker.open(), database, "half", declared)
    sync_table(client, maker.open(), database, "own_rt", SyncOptions(strategy="RT"))
    sync_table(client, maker.open(), database, "all")
    client.drop_table(database, "all")
    names = ["all_ro", "all_rt", "half", "half_rt", "own_rt"]
    before = {name: _entry(client, database, name) for name in names}
    later = pa.schema([*TIMES, pa.field("until", pa.timestamp("us", tz="UTC"))])
    maker.commit(later, ["dt=2024-03-02"])
    for name in ("half_rt", "own_rt", "all_ro"):
        sync_registered(client, maker.open(), database, name)
    assert client.list_tables(database) == names
    for name, entry in before.items():
        after = _entry(client, database, name)
        assert (after.input_format, after.serde_properties) == (entry.input_format, entry.serde_properties)
        assert client.list_partition_names(database, name) == ["dt=2024-03-01", "dt=2024-03-02"]
        assert after.columns[-1].type == ("timestamp" if name.startswith("half") else "bigint")


def test_entries_are_followed_by_what_was_written_since(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    days = [f"dt=2024-03-0{day}" for day in range(1, 5)]
    maker.create(BASIC, ["dt"], hoodie__table__type="MERGE_ON_READ").commit(BASIC, days[:3])
    sync_table(client, maker.open(), database, "made")
    client.drop_partitions(_entry(client, database), [("2024-03-01",)])
    maker.commit(BASIC, days[1:])
    result = sync_registered(client, maker.open(), database, "made_rt", incremental=True)
    assert (result.added_partitions, result.changed_partitions, result.dropped_partitions) == (3, 0, 0)
    # What was not written to is not looked at.
    assert client.list_partition_names(database, "made") == days[1:]
    assert client.list_partition_names(database, "made_ro") == days
    maker.drop(days[3:])
    result = sync_registered(client, maker.open(), database, "made", incremental=True)
    assert (result.added_partitions, result.dropped_partitions) == (0, 3)
    # The whole comparison also finds what is missing.
    result = sync_registered(client, maker.open(), database, "made")
    assert (result.added_partitions, result.dropped_partitions) == (1, 0)


def test_an_entry_that_is_added_has_the_settings_of_writes_that_its_siblings_have(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, hoodie__table__type="MERGE_ON_READ")
    settings = {"hoodie.index.type": "BUCKET", "team": "x"}
    rt_only = SyncOptions(strategy="RT")
    sync_table(client, maker.open(), database, "made", rt_only, parameters=settings)
    sync_table(client, maker.open(), database, "made")
    added = _entry(client, database, "made_rt").parameters
    assert added["hoodie.index.type"] == "BUCKET"
    assert "team" not in added


def test_two_thousand_columns_and_deep_nesting_come_back_whole(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    deep: pa.DataType = pa.int64()
    for level in range(60):
        deep = pa.struct([(f"Level_{level}", deep), (f"text_of_level_{level}", pa.string())])
    columns = [(f"Column_{number:04}", pa.decimal128(12, 2)) for number in range(2000)]
    schema = pa.schema([*columns, ("deep", deep), ("dt", pa.date32())])
    maker.create(schema, ["dt"]).commit(schema, ["dt=2024-03-01", "dt=2024-03-02"])
    table = maker.open()
    sync_table(client, table, database, "made")
    entry = _entry(client, database)
    parts = [key for key in entry.parameters if key.startswith("spark.sql.sources.schema.part.")]
    assert len(parts) > 30
    assert max(len(entry.parameters[key]) for key in parts) == 4000
    assert _spark_schema(entry) == table.full_schema
    assert len(entry.columns) == 2006
    assert len(entry.columns[-1].type) > 1500
    assert _plan(client, maker.open(), database).is_empty


def test_a_shorter_schema_leaves_no_stale_part_behind(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    wide = pa.schema([(f"c{number}", pa.string()) for number in range(200)])
    maker.create(wide)
    sync_table(client, maker.open(), database, "made", SyncOptions(schema_part_length=500))
    maker.commit(pa.schema([("c0", pa.string())]))
    sync_table(client, maker.open(), database, "made", SyncOptions(schema_part_length=500))
    entry = _entry(client, database)
    count = int(entry.parameters["spark.sql.sources.schema.numParts"])
    assert len([key for key in entry.parameters if ".schema.part." in key]) == count == 1
    assert _spark_schema(entry).names == [*META_COLUMNS, "c0"]


def test_typed_and_odd_partition_values_are_found_by_their_value(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int32()), ("city", pa.string())])
    cities = [
        "a b",
        "x/y",
        "50%",
        "Zürich",
        "k=v",
        "it's",
        "2024-01-01 00:00:00",
        "__HIVE_DEFAULT_PARTITION__",
    ]
    paths = [f"n={number:02}/city={escape_partition_value(city)}" for number, city in enumerate(cities)]
    maker.create(schema, ["n", "city"]).commit(schema, paths)
    sync_table(client, maker.open(), database, "made")
    found = {partition.values: partition.location for partition in client.list_partitions(database, "made")}
    assert found == {
        (str(number), city): f"file:{maker.base_path}/{path}"
        for number, (city, path) in enumerate(zip(cities, paths, strict=True))
    }
    assert len(values_where(client, database, "made", "n = 3")) == 1
    assert _plan(client, maker.open(), database).is_empty
    for path in paths:
        shutil.rmtree(maker.base_path / path)
    assert sync_table(client, maker.open(), database, "made").dropped_partitions == len(paths)
    assert client.list_partitions(database, "made") == []


def test_timestamps_are_bigints_for_hive_unless_asked_for_and_always_timestamps_for_spark(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("at", pa.timestamp("us", tz="UTC"))])
    maker.create(schema, ["at"]).commit(schema, ["at=2024-03-01 12%3A30%3A00"])
    sync_table(client, maker.open(), database, "made")
    entry = _entry(client, database)
    assert (entry.columns[-1].type, entry.partition_columns[0].type) == ("bigint", "string")
    assert entry.parameters[TIMESTAMP_OPTION] == "false"
    assert client.list_partitions(database, "made")[0].values == ("2024-03-01 12:30:00",)
    assert _spark_schema(entry) == maker.open().full_schema
    declared = SyncOptions(support_timestamp=True)
    # No metastore lets the type of an existing column go from one to the other: it stays.
    assert _plan(client, maker.open(), database, declared).is_empty
    sync_table(client, maker.open(), database, "another", declared)
    another = _entry(client, database, "another")
    assert (another.columns[-1].type, another.partition_columns[0].type) == ("timestamp", "timestamp")
    assert another.parameters[TIMESTAMP_OPTION] == "true"
    assert not sync_table(client, maker.open(), database, "another").dropped_partitions
    assert _entry(client, database, "another").partition_columns[0].type == "timestamp"
    assert _entry(client, database, "another").parameters == another.parameters


def test_two_directories_of_the_same_partition_value_are_refused(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int32())])
    table = maker.create(schema, ["n"]).commit(schema, ["n=3", "n=03"]).open()
    with pytest.raises(CorruptTableError, match="same partition"):
        _plan(client, table, database)


def test_incremental_sync_looks_only_at_what_was_written_since(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01", "dt=2024-03-02"])
    sync_table(client, maker.open(), database, "made")
    client.drop_partitions(_entry(client, database), [("2024-03-01",)])
    incremental = SyncOptions(incremental=True)
    assert _plan(client, maker.open(), database, incremental).is_empty
    maker.commit(BASIC, ["dt=2024-03-02", "dt=2024-03-03"])
    assert sync_table(client, maker.open(), database, "made", incremental).added_partitions == 1
    # The whole comparison also finds what was dropped by hand.
    assert sync_table(client, maker.open(), database, "made").added_partitions == 1


@contextmanager
def _incomplete(commit: Path) -> Iterator[None]:
    """The commit is completed when the block ends."""
    content = commit.read_bytes()
    commit.unlink()
    yield
    commit.write_bytes(content)


def test_incremental_sync_sees_commits_that_were_completed_late_and_drops(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01"]).commit(BASIC, ["dt=2024-03-02"])
    late = maker.base_path / ".hoodie" / "20240301000002000.commit"
    with _incomplete(late):
        sync_table(client, maker.open(), database, "made")
        assert client.list_partition_names(database, "made") == ["dt=2024-03-02"]
    completed = late.stat().st_mtime + 1
    os.utime(late, (completed, completed))
    incremental = SyncOptions(incremental=True)
    assert sync_table(client, maker.open(), database, "made", incremental).added_partitions == 1
    assert _plan(client, maker.open(), database, incremental).is_empty
    maker.drop(["dt=2024-03-02"])
    assert sync_table(client, maker.open(), database, "made", incremental).dropped_partitions == 1
    assert client.list_partition_names(database, "made") == ["dt=2024-03-01"]


def test_incremental_sync_sees_a_commit_completed_in_the_second_of_the_last_sync(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01"]).commit(BASIC, ["dt=2024-03-02"])
    late, early = (maker.base_path / ".hoodie" / f"2024030100000{number}000.commit" for number in (3, 2))
    # As S3 tells it.
    second = int(late.stat().st_mtime) + 1
    os.utime(late, (second, second))
    with _incomplete(early):
        sync_table(client, maker.open(), database, "made")
    os.utime(early, (second, second))
    incremental = SyncOptions(incremental=True)
    assert sync_table(client, maker.open(), database, "made", incremental).added_partitions == 1
    assert _plan(client, maker.open(), database, incremental).is_empty


def test_an_entry_that_tells_no_completion_time_is_compared_as_a_whole(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01"]).commit(BASIC, ["dt=2024-03-02"])
    late = maker.base_path / ".hoodie" / "20240301000002000.commit"
    with _incomplete(late):
        sync_table(client, maker.open(), database, "made")
    entry = _entry(client, database)
    del (kept := dict(entry.parameters))["last_commit_completion_time_sync"]
    client.alter_table(replace(entry, parameters=kept))
    incremental = SyncOptions(incremental=True)
    assert sync_table(client, maker.open(), database, "made", incremental).added_partitions == 1


def test_an_interrupted_sync_is_not_taken_for_a_finished_one(
    client: MetastoreClient, maker: TableMaker, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01"])

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(client, "add_partitions", die)
        with pytest.raises(KeyboardInterrupt):
            sync_table(client, maker.open(), database, "made")
    assert "last_commit_time_sync" not in _entry(client, database).parameters
    incremental = SyncOptions(incremental=True)
    assert sync_table(client, maker.open(), database, "made", incremental).added_partitions == 1
    assert "last_commit_time_sync" in _entry(client, database).parameters


def test_a_name_taken_by_something_else_is_refused_and_left_alone(
    client: MetastoreClient, maker: TableMaker, tmp_path: Path, database: str
) -> None:
    table = maker.create(BASIC, ["dt"]).open()
    client.create_database(database)
    plain = MetastoreTable(database, "made", "EXTERNAL_TABLE", f"file:{tmp_path}/plain", ())
    client.create_table(plain)
    with pytest.raises(TableExistsError, match="not a Hudi table"):
        _plan(client, table, database)
    client.drop_table(database, "made")
    other = TableMaker(tmp_path / "other").create(BASIC, ["dt"]).open()
    sync_table(client, other, database, "made")
    with pytest.raises(SyncFailedError, match="another Hudi table") as raised:
        sync_table(client, table, database, "made")
    assert "drop that entry first" in str(raised.value)
    assert _plan(client, other, database).is_empty


def test_other_partition_columns_are_refused_with_the_way_out(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    table = maker.create(BASIC, ["dt"]).open()
    sync_table(client, table, database, "made")
    entry = _entry(client, database)
    client.drop_table(database, "made")
    client.create_table(
        replace(entry, raw=None, partition_columns=(replace(entry.partition_columns[0], type="string"),))
    )
    with pytest.raises(TableExistsError, match=f"DROP TABLE {database}.made"):
        _plan(client, table, database)


def test_a_metastore_that_is_down_fails_the_sync_and_says_which_call_to_run_again(
    maker: TableMaker,
) -> None:
    table = maker.create(BASIC).open()
    options = SyncOptions(strategy="RT", skip_ro_suffix=True)
    with (
        MetastoreClient("thrift://127.0.0.1:1", attempts=1) as down,
        pytest.raises(SyncFailedError) as raised,
    ):
        sync_table(down, table, "db", "made", options)
    text = str(raised.value)
    assert "is committed and complete" in text
    assert "127.0.0.1:1" in text
    assert (
        f"CALL hive_sync(table => 'db.made', path => '{maker.base_path}', options => "
        "map('hoodie.datasource.hive_sync.table.strategy', 'RT', "
        "'hoodie.datasource.hive_sync.skip_ro_suffix', 'true'))"
    ) in text


def test_a_table_that_could_not_be_registered_is_registered_by_the_hint_with_its_properties(
    client: MetastoreClient, maker: TableMaker, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = maker.create(BASIC, hoodie__table__type="MERGE_ON_READ").open()
    parameters = {"hoodie.index.type": "BUCKET", "comment": "it's"}
    create = client.create_table
    made: list[str] = []

    def fail_at(count: int) -> str:
        def make_some(entry: MetastoreTable) -> None:
            if len(made) == count:
                raise MetastoreError("the metastore is full")
            made.append(entry.name)
            create(entry)

        monkeypatch.setattr(client, "create_table", make_some)
        with pytest.raises(SyncFailedError) as raised:
            sync_table(client, table, database, "made", parameters=parameters)
        monkeypatch.setattr(client, "create_table", create)
        return str(raised.value.hint)

    assert fail_at(0).endswith(
        f"run: CREATE TABLE {database}.made USING hudi LOCATION '{maker.base_path}' COMMENT 'it\\'s' "
        "TBLPROPERTIES ('hoodie.index.type' = 'BUCKET')"
    )
    assert "run: CALL hive_sync" in fail_at(1)
    sync_table(client, table, database, "made")
    assert _entry(client, database, "made_rt").parameters["hoodie.index.type"] == "BUCKET"


def test_the_plan_prints_what_it_would_create(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    table = maker.create(BASIC, ["dt"]).commit(BASIC, ["dt=2024-03-01"]).open()
    text = "\n".join(_plan(client, table, database).describe())
    assert text.startswith(f"CREATE DATABASE {database}\nCREATE EXTERNAL TABLE {database}.made (")
    assert "PARTITIONED BY (dt date)" in text
    assert f"LOCATION 'file:{table.base_path}'" in text
    assert text.endswith("ADD 1 PARTITIONS: dt=2024-03-01")
    assert client.get_database(database) is None


def test_entries_that_hudis_own_sync_wrote_are_taken_as_they_are(
    client: MetastoreClient, maker: TableMaker, database: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("arr", pa.list_(pa.field("element", pa.int32())))])
    table = maker.create(schema).open()
    sync_table(client, table, database, "made")
    entry = _entry(client, database)
    # Hudi 0.15 writes a plain path, another Spark's version and its own spelling of the JSON.
    key = "spark.sql.sources.schema.part.0"
    theirs = entry.parameters[key].replace('"type":"array",', '"type":"array", ')
    theirs = theirs.replace('"containsNull":true', '"containsNull":false')
    assert theirs != entry.parameters[key]
    client.alter_table(
        replace(
            entry,
            serde_properties={**entry.serde_properties, "path": table.base_path},
            parameters={**entry.parameters, key: theirs, "spark.sql.create.version": "3.5.9"},
        )
    )
    assert _plan(client, table, database).describe() == []


def test_options_of_hudi_are_read_and_written_back() -> None:
    options = SyncOptions(strategy="RO", support_timestamp=True, schema_part_length=100, incremental=True)
    assert sync_options_from(changed_settings(options)) == options
    assert changed_settings(SyncOptions()) == {}
    with pytest.raises(InvalidArgumentError, match="strategy"):
        sync_options_from({"hoodie.datasource.hive_sync.table.strategy": "BOTH"})
    with pytest.raises(InvalidArgumentError, match="neither true nor false"):
        sync_options_from({"hoodie.datasource.hive_sync.skip_ro_suffix": "yes"})
