from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.bootstrap.source.source_files import PartitionColumn, scan_path_source
from hudisql.errors import SourceError, StorageError
from hudisql.format.paths.file_names import is_hidden
from hudisql.storage import Storage


@pytest.fixture
def tree(tmp_path: Path):
    """Makes files with some content (never read here) below a source directory and gives that directory."""

    def make(*names: str, content: bytes = b"data") -> str:
        for name in names:
            path = tmp_path / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return str(tmp_path / "source")

    return make


def _scan(path: str, partition_by=None, choose=None):
    return scan_path_source(Storage(), path, partition_by, choose)


def _blockers(source):
    return [finding.message for finding in source.findings if finding.is_blocker]


def _columns(*names, type=None):
    return tuple(PartitionColumn(name, type or pa.string()) for name in names)


def test_files_at_the_root_are_one_unpartitioned_partition(tree):
    source = _scan(tree("b.parquet", "a.parquet"))
    (partition,) = source.partitions
    assert (partition.path, partition.values, source.partition_columns) == ("", (), ())
    assert [file.path.rsplit("/", 1)[-1] for file in partition.files] == ["a.parquet", "b.parquet"]
    assert partition.files[0].length == 4
    assert not source.is_hive_style
    assert not source.findings


def test_key_value_directories_give_string_partition_columns_in_order(tree):
    source = _scan(tree("region=eu/dt=2024-03-02/x.parquet", "region=eu/dt=2024-03-01/x.parquet"))
    assert source.partition_columns == _columns("region", "dt")
    assert [partition.path for partition in source.partitions] == [
        "region=eu/dt=2024-03-01",
        "region=eu/dt=2024-03-02",
    ]
    assert source.partitions[0].values == ("eu", "2024-03-01")
    assert source.is_hive_style
    assert not source.is_url_encoded


def test_escaped_directories_keep_their_name_and_give_plain_values(tree):
    source = _scan(tree("dt=a b%3Ac%2Fd%25e/x.parquet", "dt=__HIVE_DEFAULT_PARTITION__/x.parquet"))
    assert [(partition.path, partition.values) for partition in source.partitions] == [
        ("dt=__HIVE_DEFAULT_PARTITION__", (None,)),
        ("dt=a b%3Ac%2Fd%25e", ("a b:c/d%e",)),
    ]
    assert source.is_url_encoded


def test_bare_directories_need_their_columns_named(tree):
    path = tree("2024/03/01/x.parquet", "2024/03/02/x.parquet")
    (message,) = _blockers(_scan(path))
    assert "not key=value" in message
    source = _scan(path, _columns("year", "month", "day", type=pa.int32()))
    assert source.partitions[1].values == ("2024", "03", "02")
    assert source.partitions[1].path == "2024/03/02"
    assert not source.is_hive_style
    assert not source.findings
    (message,) = _blockers(_scan(path, _columns("dt")))
    assert "3 deep" in message


def test_partition_by_types_key_value_directories_and_must_name_them(tree):
    path = tree("year=2024/month=3/x.parquet")
    source = _scan(path, (PartitionColumn("YEAR", pa.int32()), PartitionColumn("month", pa.int64())))
    assert source.partition_columns == (
        PartitionColumn("year", pa.int32()),
        PartitionColumn("month", pa.int64()),
    )
    (message,) = _blockers(_scan(path, _columns("month", "year")))
    assert message == "partition_by names month, year, but the directories are year=…/month=…"
    assert _blockers(_scan(tree("x.parquet").replace("source", "source"), _columns("dt")))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("dt=1/x.parquet", "dt=2/hr=1/x.parquet"), "different depths"),
        (("x.parquet", "dt=2/x.parquet"), "different depths"),
        (("dt=1/x.parquet", "day=2/x.parquet"), "do not agree"),
        (("dt=1/x.parquet", "2/x.parquet"), "do not agree"),
        (("dt=1/DT=2/x.parquet",), "repeat a column"),
        (("_SUCCESS",), "no data files"),
    ],
)
def test_layouts_that_no_table_can_have_are_blockers(tree, names, words):
    (message,) = _blockers(_scan(tree(*names)))
    assert words in message


def test_hidden_files_and_directories_are_left_out_as_spark_does(tree):
    path = tree("a.parquet", "_x.parquet", ".y.parquet", "_SUCCESS", "_temporary/0/z.parquet", "w._COPYING_")
    (partition,) = _scan(path).partitions
    assert [file.path for file in partition.files] == [f"{path}/a.parquet"]
    assert not is_hidden("_day=3")


def test_zero_byte_files_are_left_out_with_a_warning(tree):
    path = tree("dt=1/a.parquet")
    tree("dt=1/empty.parquet", "dt=2/empty.parquet", content=b"")
    source = _scan(path)
    assert [partition.path for partition in source.partitions] == ["dt=1"]
    (finding,) = source.findings
    assert not finding.is_blocker
    assert "2 files: dt=1/empty.parquet, dt=2/empty.parquet" in finding.message


def test_only_chosen_partitions_are_taken(tree):
    path = tree("dt=1/a.parquet", "dt=2/a.parquet")
    source = _scan(path, choose=lambda _columns, values: [value == ("2",) for value in values])
    assert [partition.path for partition in source.partitions] == ["dt=2"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("_delta_log/00000000000000000000.json", "part-0.parquet"), "a Delta table"),
        (("metadata/v1.metadata.json", "data/part-0.parquet"), "an Iceberg table"),
        (("events/_delta_log/0.json", "events/part-0.parquet"), "holds the Delta table .*/source/events"),
        (("dt=1/.hoodie/hoodie.properties", "dt=1/part-0.parquet"), "holds the Hudi table .*/source/dt=1"),
        ((".hoodie/hoodie.properties", "dt=1/part-0.parquet"), "a Hudi table"),
        (("base_0000001/bucket_00000",), "a Hive ACID"),
        (("dt=1/delta_0000002_0000002_0000/bucket_00000",), "a Hive ACID"),
        (("dt=1/delete_delta_0000002_0000002/bucket_00000",), "a Hive ACID"),
    ],
)
def test_directories_of_other_table_formats_are_refused_by_name(tree, names, words):
    with pytest.raises(SourceError, match=words):
        _scan(tree(*names))


def test_a_directory_named_metadata_alone_is_no_iceberg_table(tree):
    assert not _scan(tree("dt=1/a.parquet", "_metadata")).findings


def test_a_partition_of_a_hudi_or_delta_table_is_refused(tree):
    path = tree(".hoodie/hoodie.properties", "dt=1/part-0.parquet")
    with pytest.raises(SourceError, match="lies in the Hudi table"):
        _scan(f"{path}/dt=1")


def test_the_data_directory_of_an_iceberg_table_is_refused(tree):
    path = tree("metadata/v1.metadata.json", "data/dt=1/part-0.parquet")
    with pytest.raises(SourceError, match=r"lies in the Iceberg table .*/source"):
        _scan(f"{path}/data")


def test_directories_above_the_source_need_not_be_readable(tree, monkeypatch):
    path = tree("dt=1/part-0.parquet")
    look = Storage.info

    def refuse_above(self, asked):
        if not asked.startswith(path):
            raise StorageError(f"cannot look at {asked}: Forbidden")
        return look(self, asked)

    monkeypatch.setattr(Storage, "info", refuse_above)
    assert [partition.path for partition in _scan(path).partitions] == ["dt=1"]


def test_a_source_that_is_not_there_or_a_file_is_refused(tree):
    path = tree("a.parquet")
    with pytest.raises(SourceError, match="no such source"):
        _scan(path + "/missing")
    with pytest.raises(SourceError, match="is a file"):
        _scan(path + "/a.parquet")
