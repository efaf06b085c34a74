"""Partition directories of new rows: as the table names them, and only where readers find the values
again.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import WriteRefusedError
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.table_properties import CREATE_SCHEMA
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.table.properties.new_table import (
    NewTable,
    make_timeline_directories,
    new_table_properties,
    publish_properties,
)
from hudisql.write.keygen.key_generator import KeyGenerator
from hudisql.write.keygen.partition_paths import PartitionPaths

TYPES = {"day": pa.date32(), "region": pa.string()}
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
