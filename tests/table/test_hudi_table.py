from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import CorruptTableError, NoSuchTableError, UnsupportedTableError
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.storage import Storage
from hudisql.table.hudi_table import find_table_root, open_table
from hudisql.write.transaction.writable_tables import check_writable

VERSION_6 = [
    "cow_bootstrap_meta",
    "cow_bootstrap_2part",
    "cow_bootstrap_meta_mdt",
    "cow_bootstrap_meta_nonpart",
    "cow_bootstrap_mixed",
    "cow_bootstrap_then_upsert_delete",
    "cow_savepoint_clean",
    "mor_bootstrap_meta",
    "mor_compacted",
    "mor_parquet_log",
    "mor_rollback",
    "mor_upsert_only_updates",
]


@pytest.mark.parametrize("name", VERSION_6)
def test_golden_tables_open_with_the_schema_they_were_read_with(golden, storage: Storage, name: str) -> None:
    described = golden(name)
    table = open_table(storage, described.table)
    assert table.version == 6
    assert table.schema.names == [field["name"] for field in described.schema["fields"]]
    assert table.full_schema.names == [*META_COLUMNS, *table.schema.names]
    assert table.is_merge_on_read == name.startswith("mor")
    assert table.is_bootstrapped


@pytest.mark.parametrize(
    "name", ["v6_complexkeygen_hivestyle", "v6_nonpartitioned", "v6_nonpartitioned_rollback", "v6_trips_8i1u"]
)
def test_tables_of_other_writers_open(third_party, storage: Storage, name: str) -> None:
    table = open_table(storage, third_party(name))
    assert table.name == name
    assert not table.is_bootstrapped
    assert len(table.schema) > 5


def test_partition_columns_have_the_types_of_the_schema(third_party, storage: Storage) -> None:
    table = open_table(storage, third_party("v6_complexkeygen_hivestyle"))
    assert table.partition_columns == (pa.field("byteField", pa.int32()), pa.field("shortField", pa.int32()))


@pytest.mark.parametrize("version", ["7", "10"])
def test_versions_that_are_not_known_are_refused(make_table, storage: Storage, version: str) -> None:
    directory = make_table(hoodie__table__version=version)
    with pytest.raises(
        UnsupportedTableError, match=f"table version {version}; hudisql reads versions 6, 8, 9"
    ):
        open_table(storage, str(directory.path))


@pytest.mark.parametrize("name", ["v8_nonpartitioned", "v9_mor_parquet_log"])
def test_services_do_not_write_newer_versions_and_the_way_back_is_named(
    golden, third_party, storage: Storage, name: str
) -> None:
    path = third_party(name) if name.startswith("v8_non") else golden(name).table
    with pytest.raises(UnsupportedTableError) as caught:
        check_writable(open_table(storage, path))
    text = str(caught.value)
    assert f"table version {name[1]}" in text
    assert "hoodie.write.auto.upgrade" in text
    assert "downgrade_table" in text
    assert "SIX" in text
    assert "hoodie.write.table.version=6" in text


def test_a_version_8_table_of_another_writer_is_opened(third_party, storage: Storage) -> None:
    table = open_table(storage, third_party("v8_nonpartitioned"))
    assert table.version == 8
    assert all(each.completion_time > each.timestamp for each in table.timeline.commits)


def test_another_table_format_is_refused_by_name(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__table__version="9", hoodie__table__format="ICEBERG")
    directory.file(".hoodie/timeline/20260101000000000.commit.requested")
    with pytest.raises(UnsupportedTableError, match="table format 'iceberg'"):
        open_table(storage, str(directory.path))


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("hoodie__table__version", "5", "upgrade_table"),
        ("hoodie__table__base__file__format", "ORC", "ORC"),
        ("hoodie__table__type", "VIEW", "VIEW"),
        ("hoodie__timeline__layout__version", "2", "layout"),
        ("hoodie__table__multiple__base__file__formats__enable", "true", "several formats"),
    ],
)
def test_what_is_not_known_is_refused_by_name(
    make_table, storage: Storage, key: str, value: str, named: str
) -> None:
    directory = make_table(**{key: value})
    with pytest.raises(UnsupportedTableError, match=named):
        open_table(storage, str(directory.path))


def test_a_bootstrap_index_of_another_class_is_refused(make_table, storage: Storage) -> None:
    directory = make_table(
        hoodie__bootstrap__base__path="/src", hoodie__bootstrap__index__class="com.acme.OtherIndex"
    )
    with pytest.raises(UnsupportedTableError, match="OtherIndex"):
        open_table(storage, str(directory.path))


def test_the_metadata_table_is_not_opened_on_its_own(golden, storage: Storage) -> None:
    with pytest.raises(UnsupportedTableError, match="metadata table of"):
        open_table(storage, f"{golden('cow_bootstrap_meta_mdt').table}/.hoodie/metadata")


def test_a_partition_path_leads_to_its_table(golden, storage: Storage) -> None:
    table = golden("cow_bootstrap_2part").table
    assert find_table_root(storage, f"file:{table}/region=eu/dt=2024-03-01") == table
    assert open_table(storage, f"{table}/region=eu/").base_path == table


def test_the_path_of_a_data_file_leads_to_its_table(golden, storage: Storage) -> None:
    path = golden("cow_bootstrap_meta").table
    file = next(Path(path).glob("dt=*/*.parquet"))
    assert open_table(storage, str(file)).base_path == path


def test_a_directory_without_a_table_above_it_is_named(storage: Storage, tmp_path: Path) -> None:
    assert find_table_root(storage, str(tmp_path)) is None
    with pytest.raises(NoSuchTableError, match="no Hudi table at"):
        open_table(storage, str(tmp_path))
    with pytest.raises(NoSuchTableError, match="no such path"):
        open_table(storage, str(tmp_path / "absent"))


def test_the_schema_is_the_one_of_the_latest_commit_that_carries_one(make_table, storage: Storage) -> None:
    directory = make_table()
    narrow = (
        '{"type":"record","name":"t","fields":[{"name":"id","type":"int"},{"name":"dt","type":"string"}]}'
    )
    wide = narrow.replace('"int"', '"long"')
    directory.commit("20260101000000000", schema=narrow)
    directory.commit("20260102000000000", schema=wide)
    directory.commit("20260103000000000", schema=None)
    table = open_table(storage, str(directory.path))
    assert table.schema.field("id").type == pa.int64()
    assert table.schema_as_of("20260101000000000").field("id").type == pa.int32()


def test_a_table_without_commits_has_the_schema_it_was_created_with(make_table, storage: Storage) -> None:
    created = (
        '{"type":"record","name":"t","fields":[{"name":"_hoodie_commit_time","type":["null","string"]},'
        '{"name":"id","type":["int","null"]},{"name":"dt","type":["string","null"]}]}'
    )
    directory = make_table(hoodie__table__create__schema=created)
    assert open_table(storage, str(directory.path)).schema == pa.schema(
        [("id", pa.int32()), ("dt", pa.string())]
    )


def test_a_table_that_has_no_schema_yet_says_so(make_table, storage: Storage) -> None:
    table = open_table(storage, str(make_table().path))
    with pytest.raises(CorruptTableError, match="carries a schema"):
        _ = table.schema


def test_dropped_partition_columns_are_added_as_strings(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.commit(
        "20260101000000000", schema='{"type":"record","name":"t","fields":[{"name":"id","type":"int"}]}'
    )
    table = open_table(storage, str(directory.path))
    assert table.schema == pa.schema([("id", pa.int32()), ("dt", pa.string())])
    assert table.partition_columns == (pa.field("dt", pa.string()),)


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie__table__keygenerator__class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
        {"hoodie__table__keygenerator__type": "TIMESTAMP"},
    ],
)
def test_partition_columns_that_directories_hold_transformed_are_read_from_the_files(
    make_table, storage: Storage, properties: dict[str, str]
) -> None:
    directory = make_table(**properties)
    directory.commit("20260101000000000")
    table = open_table(storage, str(directory.path))
    assert table.partition_columns == ()
    assert "dt" in table.schema.names


def test_bootstrapped_tables_with_transformed_directory_names_are_refused(
    make_table, storage: Storage
) -> None:
    directory = make_table(
        hoodie__table__keygenerator__class="org.apache.hudi.keygen.CustomKeyGenerator",
        hoodie__bootstrap__base__path="/src",
    )
    with pytest.raises(UnsupportedTableError, match="CustomKeyGenerator"):
        open_table(storage, str(directory.path))


def test_tables_without_meta_columns_show_none(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__populate__meta__fields="false")
    directory.commit("20260101000000000")
    table = open_table(storage, str(directory.path))
    assert table.full_schema == table.schema


def test_an_open_table_travels_to_tasks(golden, storage: Storage) -> None:
    table = open_table(storage, golden("cow_bootstrap_meta").table)
    assert pickle.loads(pickle.dumps(table)).schema == table.schema
