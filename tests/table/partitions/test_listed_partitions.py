from __future__ import annotations

from datetime import date

import pytest

from hudisql.errors import CorruptTableError
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.listed_partitions import TablePartition, list_data_directories, list_partitions


def schema_of_partition(avro_type: str) -> str:
    return (
        '{"type":"record","name":"t","fields":[{"name":"id","type":"int"},'
        f'{{"name":"dt","type":["null",{avro_type}]}}]}}'
    )


DATE = '{"type":"int","logicalType":"date"}'


@pytest.mark.parametrize(
    "name", ["cow_bootstrap_meta", "cow_bootstrap_2part", "cow_bootstrap_meta_nonpart", "mor_compacted"]
)
def test_golden_partitions_are_those_of_the_rows(golden, storage: Storage, name: str) -> None:
    described = golden(name)
    table = open_table(storage, described.table)
    columns = [column.name for column in table.partition_columns]
    partitions = list_partitions(table)
    assert {partition.path for partition in partitions} == {
        row["_hoodie_partition_path"] for row in described.meta_rows
    }
    assert {partition.values for partition in partitions} == {
        tuple(row[column] for column in columns) for row in described.rows
    }


def test_typed_values_of_another_writers_table(third_party, storage: Storage) -> None:
    assert list_partitions(open_table(storage, third_party("v6_complexkeygen_hivestyle"))) == [
        TablePartition("byteField=10/shortField=300", (10, 300)),
        TablePartition("byteField=20/shortField=100", (20, 100)),
        TablePartition("byteField=30/shortField=100", (30, 100)),
    ]


def test_layouts_other_than_hives_are_found_by_the_marker(make_table, storage: Storage) -> None:
    directory = make_table(hoodie__datasource__write__hive_style_partitioning="false")
    directory.commit("20260101000000000", schema=schema_of_partition(DATE))
    directory.partition("2024/03/01")
    directory.partition("2024/03/02")
    directory.file("2024/04/01/no_marker.parquet")
    directory.file(".hoodie/metadata/files/.hoodie_partition_metadata")
    assert list_partitions(open_table(storage, str(directory.path))) == [
        TablePartition("2024/03/01", (date(2024, 3, 1),)),
        TablePartition("2024/03/02", (date(2024, 3, 2),)),
    ]


def test_a_marker_in_the_base_files_format_counts_where_the_table_says_so(
    make_table, storage: Storage
) -> None:
    directory = make_table(hoodie__partition__metafile__use__base__format="true")
    directory.commit("20260101000000000")
    directory.partition("dt=a", ".hoodie_partition_metadata.parquet")
    assert list_partitions(open_table(storage, str(directory.path))) == [TablePartition("dt=a", ("a",))]


def test_the_null_partition_has_the_value_none(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.commit("20260101000000000", schema=schema_of_partition(DATE))
    directory.partition("dt=__HIVE_DEFAULT_PARTITION__")
    (partition,) = list_partitions(open_table(storage, str(directory.path)))
    assert partition.values == (None,)


def test_escaped_values_are_decoded_where_the_table_encodes_them(make_table, storage: Storage) -> None:
    encoded = make_table(hoodie__datasource__write__partitionpath__urlencode="true")
    encoded.commit("20260101000000000")
    encoded.partition("dt=a%3Ab")
    (partition,) = list_partitions(open_table(storage, str(encoded.path)))
    assert partition.values == ("a:b",)


def test_values_of_tables_that_do_not_encode_stay_as_they_are(make_table, storage: Storage) -> None:
    plain = make_table()
    plain.commit("20260101000000000")
    plain.partition("dt=50%25")
    (partition,) = list_partitions(open_table(storage, str(plain.path)))
    assert partition.values == ("50%25",)


def test_a_directory_that_is_no_value_of_its_column_is_named(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.commit("20260101000000000", schema=schema_of_partition('"int"'))
    directory.partition("dt=x")
    with pytest.raises(CorruptTableError, match=r"partition 'dt=x'.*column dt"):
        list_partitions(open_table(storage, str(directory.path)))


def test_a_table_that_was_never_written_to_has_no_partitions(make_table, storage: Storage) -> None:
    directory = make_table()
    directory.commit("20260101000000000")
    assert list_partitions(open_table(storage, str(directory.path))) == []


def test_markers_of_both_formats_count_where_the_table_has_those_of_parquet(
    make_table, storage: Storage
) -> None:
    directory = make_table(hoodie__partition__metafile__use__base__format="true")
    directory.commit("20260101000000000", schema=schema_of_partition(DATE))
    directory.partition("dt=2024-03-01")
    directory.file("dt=2024-03-02/.hoodie_partition_metadata.parquet")
    found = list_partitions(open_table(storage, str(directory.path)))
    assert [each.path for each in found] == ["dt=2024-03-01", "dt=2024-03-02"]


def test_data_files_of_a_table_inside_a_partition_are_not_its_metadata(make_table, storage: Storage) -> None:
    table = make_table()
    for path in (".hoodie/.temp", "dt=a", "dt=a/.hoodie/metadata/files", "dt=b/nested/.hoodie/.temp"):
        table.base_file(path, "f", "20260101000000000")
    assert list_data_directories(open_table(storage, str(table.path))) == ["dt=a"]
