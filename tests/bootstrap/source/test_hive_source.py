from dataclasses import replace

import pytest

from hudisql.bootstrap.source.hive_source import load_source_table, protection_for, scan_hive_source
from hudisql.catalog.metastore_table import (
    PARQUET_INPUT_FORMAT,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
)
from hudisql.errors import SourceError
from hudisql.storage import Storage


class _Metastore:
    """As much of the metastore as a source needs."""

    def __init__(self, table: MetastoreTable, partitions=()):
        self.table = table
        self.partitions = list(partitions)

    def get_table(self, _database, _name):
        return self.table

    def list_partitions(self, _database, _name):
        return self.partitions


@pytest.fixture
def table(tmp_path):
    return MetastoreTable(
        database="db",
        name="t",
        table_type="EXTERNAL_TABLE",
        location=f"file:{tmp_path}/t",
        columns=(MetastoreColumn("id", "string"),),
        partition_columns=(MetastoreColumn("day", "string"),),
        input_format=PARQUET_INPUT_FORMAT,
    )


def _file(tmp_path, name: str) -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"data")
    return f"file:{path.parent}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"transactional": "true"}}, "a Hive ACID"),
        ({"parameters": {"table_type": "iceberg"}}, "an Iceberg table"),
        ({"parameters": {"spark.sql.sources.provider": "delta"}}, "a Delta table"),
        ({"parameters": {"spark.sql.sources.provider": "csv"}}, "a CSV table"),
        ({"parameters": {"spark.sql.sources.provider": "hudi"}}, "a Hudi table"),
        ({"input_format": "org.apache.hudi.hadoop.HoodieParquetInputFormat"}, "a Hudi table"),
        ({"input_format": "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"}, "an ORC table"),
        ({"input_format": "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat"}, "an Avro table"),
        ({"input_format": "org.apache.hadoop.mapred.TextInputFormat"}, "a text table"),
        ({"table_type": "VIRTUAL_VIEW", "input_format": None}, "a view"),
    ],
)
def test_tables_that_are_not_plain_parquet_are_refused_by_name(table, changes, words):
    with pytest.raises(SourceError, match=words):
        load_source_table(_Metastore(replace(table, **changes)), "db", "t")


def test_sparks_own_parquet_tables_are_taken_whatever_their_input_format_says(table):
    spark_table = replace(
        table,
        input_format="org.apache.hadoop.mapred.SequenceFileInputFormat",
        parameters={"spark.sql.sources.provider": "parquet"},
    )
    assert load_source_table(_Metastore(spark_table), "db", "t") == spark_table


def test_what_keeps_drop_table_from_deleting_the_files(table):
    assert protection_for(table) is None
    assert protection_for(replace(table, table_type="MANAGED_TABLE", parameters={"EXTERNAL": "TRUE"})) is None
    managed = protection_for(replace(table, table_type="MANAGED_TABLE"))
    assert managed.statement == "ALTER TABLE db.t SET TBLPROPERTIES('EXTERNAL'='TRUE')"
    purged = protection_for(replace(table, parameters={"external.table.purge": "TRUE"}))
    assert purged.statement == "ALTER TABLE db.t SET TBLPROPERTIES('external.table.purge'='false')"


def test_partition_paths_come_from_the_values_wherever_the_partitions_lie(table, tmp_path):
    partitions = [
        MetastorePartition(("2024-03-01",), _file(tmp_path, "t/Day=2024-03-01/000000_0")),
        MetastorePartition(("a:b",), _file(tmp_path, "t/Day=a%3Ab/x")),
        MetastorePartition(
            ("__HIVE_DEFAULT_PARTITION__",), _file(tmp_path, "t/Day=__HIVE_DEFAULT_PARTITION__/x")
        ),
    ]
    source = scan_hive_source(Storage(), _Metastore(table, partitions), table)
    assert [column.name for column in source.partition_columns] == ["Day"]
    assert [(each.path, each.source_path, each.values) for each in source.partitions] == [
        ("Day=2024-03-01", "Day=2024-03-01", ("2024-03-01",)),
        ("Day=__HIVE_DEFAULT_PARTITION__", "Day=__HIVE_DEFAULT_PARTITION__", (None,)),
        ("Day=a%3Ab", "Day=a%3Ab", ("a:b",)),
    ]
    assert source.is_url_encoded
    outside = MetastorePartition(("z",), _file(tmp_path, "other/x"))
    source = scan_hive_source(Storage(), _Metastore(table, [*partitions, outside]), table)
    assert source.partitions[-1].path == "day=z"
    assert source.partitions[-1].location == f"{tmp_path}/other"
    assert source.base_path == f"{tmp_path}/t"


def test_partitions_that_cannot_be_taken_are_findings(table, tmp_path):
    shared = _file(tmp_path, "t/day=1/x")
    partitions = [
        MetastorePartition(("1",), shared),
        MetastorePartition(("2",), shared),
        MetastorePartition(("3",), f"file:{tmp_path}/t/day=3"),
        MetastorePartition(("4",), _file(tmp_path, "t/day=4/deeper/x").removesuffix("/deeper")),
        MetastorePartition(("5",), _file(tmp_path, "t/day=5/x"), input_format="org.apache.x.OrcInputFormat"),
    ]
    source = scan_hive_source(Storage(), _Metastore(table, partitions), table)
    blockers = [finding.message for finding in source.findings if finding.is_blocker]
    assert any("share a location" in text for text in blockers)
    assert any("deeper than the table's partitions" in text for text in blockers)
    assert any("another format than parquet" in text for text in blockers)
    (warning,) = [finding.message for finding in source.findings if not finding.is_blocker]
    assert warning == f"registered partitions without a directory, left out: 1 directory: {tmp_path}/t/day=3"


def test_files_that_no_partition_has_are_told_and_left_out(table, tmp_path):
    two = replace(table, partition_columns=(*table.partition_columns, MetastoreColumn("hr", "int")))
    partitions = [
        MetastorePartition(("1", "1"), _file(tmp_path, "t/day=1/hr=1/x")),
        MetastorePartition(("1", "2"), _file(tmp_path, "elsewhere/x")),
        MetastorePartition(("1", "3"), f"file:{tmp_path}/t/day=1/hr=3"),
    ]
    for name in ("t/day=1/hr=2/x", "t/day=2/hr=1/x", "t/stray", "t/_SUCCESS", "t/.staging/hr=1/x"):
        _file(tmp_path, name)
    (tmp_path / "t/day=3/hr=1").mkdir(parents=True)
    source = scan_hive_source(Storage(), _Metastore(two, partitions), two)
    assert [each.location for each in source.partitions] == [
        f"{tmp_path}/t/day=1/hr=1",
        f"{tmp_path}/elsewhere",
    ]
    missing, stray = sorted(finding.message for finding in source.findings)[::-1]
    assert (
        missing
        == f"registered partitions without a directory, left out: 1 directory: {tmp_path}/t/day=1/hr=3"
    )
    assert stray.endswith(f"3 directories: {tmp_path}/t, {tmp_path}/t/day=1/hr=2, {tmp_path}/t/day=2/hr=1")


def test_only_chosen_partitions_are_looked_at(table, tmp_path):
    partitions = [
        MetastorePartition(("1",), _file(tmp_path, "t/day=1/x")),
        MetastorePartition(("2",), "s3://bucket/never/looked/at"),
    ]
    source = scan_hive_source(
        Storage(),
        _Metastore(table, partitions),
        table,
        lambda _columns, values: [each == ("1",) for each in values],
    )
    assert [each.path for each in source.partitions] == ["day=1"]
    assert source.other_locations == ("s3://bucket/never/looked/at",)


def test_a_table_without_partition_columns_may_hold_no_directories_of_files(table, tmp_path):
    plain = replace(table, partition_columns=())
    (finding,) = scan_hive_source(Storage(), _Metastore(plain), plain).findings
    assert "does not exist" in finding.message
    _file(tmp_path, "t/x")
    (partition,) = scan_hive_source(Storage(), _Metastore(plain), plain).partitions
    assert partition.path == ""
    _file(tmp_path, "t/sub/x")
    (finding,) = scan_hive_source(Storage(), _Metastore(plain), plain).findings
    assert finding.is_blocker
