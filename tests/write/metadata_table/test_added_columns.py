"""Columns that a commit adds have statistics of all files and partitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.column_statistics import column_statistics
from hudisql.format.metadata_table.metadata_keys import key_parts
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, PARTITION_STATS
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.index_definitions import set_index_columns
from hudisql.table.metadata_table.kept_metadata_table import has_trusted_statistics
from hudisql.table.metadata_table.statistics_columns import MAX_COLUMNS, statistics_columns
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.transaction.schema_change import commit_schema
from tests.opened import open_at, open_kept
from tests.write.crashed_commits import commit_a_file
from tests.write.metadata_table.test_kept_metadata_table import assert_kept


def _table(golden: Callable[[str], Any], name: str, tmp_path: Path) -> str:
    path = str(shutil.copytree(golden(name).table, tmp_path / "table"))
    create_metadata_table(open_at(path))
    return path


def _add(path: str, *columns: str) -> None:
    table = open_at(path)
    added = [pa.field(column, pa.decimal128(12, 2)) for column in columns]
    commit_schema(table, pa.schema([*table.schema, *added]))


@pytest.mark.parametrize(
    "name",
    ["cow_bootstrap_meta", "v8_mor_avro_logs_deletes", "v9_cow_upsert_delete", "v9_cow_bootstrap_meta"],
)
def test_an_added_column_has_statistics_of_all_files(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    """Apache Hudi leaves out files that have records of the other columns of a filter only."""
    path = _table(golden, name, tmp_path)
    _add(path, "added")
    assert "added" in (statistics_columns(open_at(path), ()) or ())
    assert_kept(path)
    if name != "v8_mor_avro_logs_deletes":
        commit_a_file(Storage(), path)
    assert_kept(path)
    metadata = open_kept(path)
    assert has_trusted_statistics(metadata)
    found = [
        statistics
        for statistics in column_statistics(metadata.read_records(COLUMN_STATS))
        if statistics.column_name == "added"
    ]
    assert len(found) >= len(load_file_slices(open_at(path)))
    assert all(statistics.nulls == statistics.values for statistics in found)
    if PARTITION_STATS not in metadata.indexes:
        return
    (part,) = key_parts(["added"]).values()
    records = metadata.read_records(PARTITION_STATS)
    of_added = [
        stored
        for key, stored in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        if key.startswith(part)
    ]
    partitions = {each.partition_path for each in load_file_slices(open_at(path))}
    assert {stored["fileName"] for stored in of_added} == partitions
    assert all(stored["nullCount"] > 0 and stored["maxValue"] is None for stored in of_added)


def test_columns_beyond_those_that_hudi_measures_have_none(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = _table(golden, "v9_cow_upsert_delete", tmp_path)
    _add(path, *(f"c{number:02}" for number in range(MAX_COLUMNS)))
    columns = statistics_columns(open_at(path), ())
    assert columns is not None
    assert "c00" in columns
    assert f"c{MAX_COLUMNS - 1:02}" not in columns
    before = columns
    _add(path, "later")
    assert statistics_columns(open_at(path), ()) == before
    assert_kept(path)


def test_a_column_beside_chosen_ones_has_none(golden: Callable[[str], Any], tmp_path: Path) -> None:
    """Apache Hudi with `hoodie.metadata.index.column.stats.column.list` adds none either."""
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    chosen = statistics_columns(open_at(path), ())
    assert chosen
    set_index_columns(open_at(path), COLUMN_STATS, chosen[:-1])
    _add(path, "added")
    assert statistics_columns(open_at(path), ()) == chosen[:-1]
