"""Partition directories of new rows: as the table names them, and only where readers find the values
again.
"""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError, WriteRefusedError
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.table_properties import CREATE_SCHEMA
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.listed_partitions import TablePartition, partition_of
from hudisql.table.properties.new_table import (
    NewTable,
    make_timeline_directories,
    new_table_properties,
    publish_properties,
)
from hudisql.write.keygen.key_generator import KeyGenerator
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.keygen.timestamp_directories import unwritten_timestamps
from tests.requests.counted_requests import counted_requests

TYPES = {"day": pa.date32(), "region": pa.string(), "at": pa.timestamp("us", "UTC")}
STORAGE = Storage()


def _paths(directory: Path, columns: tuple[str, ...], *, hive: bool, encoded: bool) -> PartitionPaths:
    base_path = str(directory)
    made = NewTable("t", "d", "COPY_ON_WRITE", ("id",), columns, is_hive_style=hive, is_url_encoded=encoded)
    schema = pa.schema([pa.field("id", pa.int32()), *(pa.field(name, TYPES[name]) for name in columns)])
    properties = {**new_table_properties(made), CREATE_SCHEMA: avro_from_arrow(schema, "t")}
    make_timeline_directories(STORAGE, base_path)
    publish_properties(STORAGE, base_path, properties, datetime(2024, 1, 1, tzinfo=UTC))
    return PartitionPaths(open_table(STORAGE, base_path))


@pytest.mark.parametrize("region", ["eu", "a b", "a%2Fb", "100%", "a=b", "größe", "a:b?c*", "..x"])
@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("hive", [True, False])
def test_the_directory_of_a_new_partition_is_read_as_its_values(
    tmp_path: Path, region: str, encoded: bool, hive: bool
) -> None:
    paths = _paths(tmp_path, ("day", "region"), hive=hive, encoded=encoded)
    values = (date(2024, 3, 1), region)
    table = open_table(STORAGE, str(tmp_path))
    assert partition_of(table, paths.path(values)).values == values


@pytest.mark.parametrize("region", ["a/b", "/a", "a/", "../../x", "region=eu"])
def test_values_that_no_reader_would_find_again_are_refused(tmp_path: Path, region: str) -> None:
    paths = _paths(tmp_path, ("day", "region"), hive=False, encoded=False)
    with pytest.raises(WriteRefusedError, match="cannot be a partition"):
        paths.path((date(2024, 3, 1), region))


@pytest.mark.parametrize("region", [".hoodie", "..", "a//b", "a/../b", "/", ".hoodie/x"])
def test_no_value_leads_out_of_the_table(tmp_path: Path, region: str) -> None:
    paths = _paths(tmp_path, ("region",), hive=False, encoded=False)
    with pytest.raises(WriteRefusedError, match="cannot be a partition"):
        paths.path((region,))


def test_one_column_may_spread_over_directories_but_partitions_never_lie_in_each_other(
    tmp_path: Path,
) -> None:
    paths = _paths(tmp_path, ("region",), hive=False, encoded=False)
    assert paths.path(("americas/brazil",)) == "americas/brazil"
    assert paths.path(("americas/peru",)) == "americas/peru"
    for region in ("americas", "americas/peru/lima"):
        with pytest.raises(WriteRefusedError, match="cannot be a partition"):
            paths.path((region,))
    with pytest.raises(WriteRefusedError, match="one directory"):
        paths.refuse_nested({"europe", "europe/france"})


@pytest.mark.parametrize("path", ["..", "eu/../../x", ".hoodie", "eu/2024/03", "eu"])
def test_directories_of_a_key_generator_lead_neither_out_of_the_table_nor_into_each_other(
    tmp_path: Path, path: str
) -> None:
    _paths(tmp_path, ("region",), hive=False, encoded=False)
    generator = KeyGenerator((("region", None),), False, False)
    paths = PartitionPaths(open_table(STORAGE, str(tmp_path)), generator)
    assert paths.path(("eu/2024",)) == "eu/2024"
    with pytest.raises(WriteRefusedError, match="nothing was written"):
        paths.path((path,))


def test_null_and_empty_values_share_the_default_partition(tmp_path: Path) -> None:
    paths = _paths(tmp_path, ("region",), hive=True, encoded=False)
    assert paths.path((None,)) == paths.path(("",)) == "region=__HIVE_DEFAULT_PARTITION__"
    with pytest.raises(WriteRefusedError, match="region = '__HIVE_DEFAULT_PARTITION__' cannot be") as raised:
        paths.path(("__HIVE_DEFAULT_PARTITION__",))
    assert "write NULL" in str(raised.value.hint)


def _mark(directory: Path, *paths: str) -> None:
    for path in paths:
        (directory / path).mkdir(parents=True)
        (directory / path / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")


def test_a_partition_of_the_store_is_found_by_its_values_however_it_is_named(tmp_path: Path) -> None:
    _mark(tmp_path, "eu", "region=us", "asia/japan", "region=asia/china")
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    paths = _paths(tmp_path, ("region",), hive=True, encoded=False)
    assert [paths.path((region,)) for region in ("eu", "us", "asia/china", "_temporary")] == [
        "eu",
        "region=us",
        "region=asia/china",
        "region=_temporary",
    ]
    assert paths.existing("eu") == TablePartition("eu", ("eu",))
    assert paths.existing("asia/japan") == TablePartition("asia/japan", ("asia/japan",))
    assert paths.existing("region=africa") is None
    assert paths.existing("_temporary") is None
    assert [each.path for each in paths.all_existing(["region=us", "nowhere", "eu"])] == ["eu", "region=us"]


@pytest.mark.parametrize("is_pickled", [False, True])
def test_no_partition_is_made_in_or_above_one_of_the_store(tmp_path: Path, is_pickled: bool) -> None:
    _mark(tmp_path, "eu/france", "us")
    paths = _paths(tmp_path, ("region",), hive=False, encoded=False)
    paths = pickle.loads(pickle.dumps(paths)) if is_pickled else paths
    for region in ("eu", "us/texas"):
        with pytest.raises(WriteRefusedError, match="nothing was written"):
            paths.path((region,))
    assert paths.path(("eu/spain",)) == "eu/spain"


def test_a_write_asks_only_for_the_directories_of_its_rows(tmp_path: Path) -> None:
    _mark(tmp_path, *(f"region=r{number}" for number in range(50)))
    _paths(tmp_path, ("region",), hive=True, encoded=False)
    table = open_table(STORAGE, str(tmp_path)).listed_once()
    with counted_requests(tmp_path) as requests:
        paths = PartitionPaths(table)
        assert paths.paths_of([("r3",), ("r60",)]) == {("r3",): "region=r3", ("r60",): "region=r60"}
        assert [each.path for each in paths.all_existing(["region=r3", "region=r60"])] == ["region=r3"]
    assert requests.counts() == {"list_directory": 3}


@pytest.mark.parametrize("names", [["2024-03-01", "2024-03-02"], ["2024/03/01", "19784"]])
def test_a_date_keeps_the_directory_that_it_has(tmp_path: Path, names: list[str]) -> None:
    _mark(tmp_path, *names)
    paths = _paths(tmp_path, ("day",), hive=True, encoded=False)
    days = [date(2024, 3, 1), date(2024, 3, 2)]
    assert [paths.path((day,)) for day in days] == names
    assert paths.path((date(2024, 3, 9),)) == "day=2024-03-09"


@pytest.mark.parametrize("column", ["day", "region"])
def test_a_directory_without_marker_takes_no_rows_of_a_partition(tmp_path: Path, column: str) -> None:
    _mark(tmp_path, "2024-03-01")
    for path in (f"{column}=2024-03-01", f"{column}=2024-03-02"):
        # As Hive makes it by ADD PARTITION.
        (tmp_path / path).mkdir()
    paths = _paths(tmp_path, (column,), hive=False, encoded=False)
    for name in ("2024-03-01", "2024-03-02"):
        assert paths.path((date.fromisoformat(name) if column == "day" else name,)) == name


@pytest.mark.parametrize("hive", [True, False])
def test_a_partition_of_several_directories_is_found_however_it_is_named(tmp_path: Path, hive: bool) -> None:
    _mark(tmp_path, "asia/japan", "region=africa/egypt")
    paths = _paths(tmp_path, ("region",), hive=hive, encoded=False)
    found = paths.paths_of([("asia/japan",), ("africa/egypt",), ("asia/china",)])
    assert list(found.values()) == [
        "asia/japan",
        "region=africa/egypt",
        "region=asia/china" if hive else "asia/china",
    ]


@pytest.mark.parametrize("encoded", [True, False])
def test_timestamps_are_named_as_by_hudis_sql(tmp_path: Path, encoded: bool) -> None:
    paths = _paths(tmp_path, ("at", "region"), hive=True, encoded=encoded)
    values = (datetime(24, 3, 1, 2, 3, 4, tzinfo=UTC), "a b")
    assert paths.path(values) == "at=0024-03-01 02%3A03%3A04/region=a b"
    table = open_table(STORAGE, str(tmp_path))
    assert partition_of(table, paths.path(values)).values == values
    with pytest.raises(WriteRefusedError, match=r"at = '2024-03-01 00:00:00\.000500' cannot be a partition"):
        paths.path((datetime(2024, 3, 1, 0, 0, 0, 500, tzinfo=UTC), "eu"))


def test_directories_of_microseconds_and_other_time_zones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _paths(tmp_path, ("at",), hive=True, encoded=False)
    table = open_table(STORAGE, str(tmp_path))
    assert unwritten_timestamps(table) is None
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert "time zone is Europe/Berlin" in (unwritten_timestamps(table) or "")
    partition = partition_of(table, "at=2024-01-02 03%3A04%3A05")
    assert partition.values == (datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC),)
    (tmp_path / "at=1704164645000000").mkdir()
    (tmp_path / "at=1704164645000000" / ".hoodie_partition_metadata").touch()
    with pytest.raises(UnsupportedTableError, match="'at=1704164645000000' names the timestamp at"):
        PartitionPaths(open_table(STORAGE, str(tmp_path)))
