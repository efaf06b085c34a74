"""Metadata tables of version 6 that hudisql makes: their form, who made the statistics, killed writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.log_file.log_block import LOG_WITHOUT_ROWS
from hudisql.format.metadata_table import metadata_writing
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, RECORD_INDEX
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.format.table_properties import WRITE_VERSION
from hudisql.storage import Storage
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.metadata_table.statistics_columns import statistics_columns
from hudisql.table.properties.table_configuration import (
    COLUMN_STATS_ENABLE,
    drop_indexes,
    drop_metadata_table,
    update_table_properties,
)
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.new_metadata_table import NewMetadataTable, create_metadata_table
from hudisql.write.transaction.schema_change import commit_schema
from tests.opened import open_at, open_kept
from tests.write.crashed_commits import commit_a_file
from tests.write.metadata_table.test_kept_metadata_table import assert_kept

Golden = Callable[[str], Any]


def _copy(golden: Golden, name: str, tmp_path: Path) -> str:
    return str(shutil.copytree(golden(name).table, tmp_path / "table"))


def _make(path: str, *, with_record_index: bool = False) -> NewMetadataTable:
    return create_metadata_table(open_at(path), with_record_index=with_record_index)


@pytest.mark.parametrize(
    "name",
    ["cow_bootstrap_meta", "cow_bootstrap_meta_nonpart", "cow_insert_overwrite", "mor_upsert_only_updates"],
)
def test_it_is_made_after_the_last_instant_with_all_columns(
    golden: Golden, tmp_path: Path, name: str
) -> None:
    path = _copy(golden, name, tmp_path)
    last = open_at(path).timeline.completed[-1].timestamp
    made = _make(path, with_record_index=True)
    assert made.indexes == (COLUMN_STATS, FILES, RECORD_INDEX)
    assert_kept(path)
    (instant,) = Path(path, ".hoodie/metadata/.hoodie").glob("*.deltacommit")
    assert instant.name == f"{last}010.deltacommit"
    stats = json.loads(instant.read_text())["partitionToWriteStats"]
    assert {index: len(found) for index, found in stats.items()} == {
        "files": 1,
        "column_stats": 2,
        "record_index": 10,
    }
    # Hudi 0.15 leaves out files that have records of some of a filter's columns only.
    table = open_at(path)
    columns = {field.name for field in table.schema if not pa.types.is_nested(field.type)}
    assert {*(statistics_columns(table, ()) or ())} == {*META_COLUMNS, *columns}


@pytest.mark.parametrize("content", [b"", LOG_WITHOUT_ROWS])
def test_log_files_that_lost_their_rows_are_not_listed(
    golden: Golden, tmp_path: Path, content: bytes
) -> None:
    path = _copy(golden, "mor_upsert_only_updates", tmp_path)
    log_file = next(Path(path, "dt=2024-03-01").glob(".[!.]*.log.1_*[!c]"))
    log_file.with_name(log_file.name.replace(".log.1_", ".log.9_")).write_bytes(content)
    _make(path)
    assert not any(found.differs for found in compare_listings(open_kept(path)))


def test_deltacommits_are_compacted_on_top_of_the_first_base_files(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 2)
    path = _copy(golden, "cow_bootstrap_meta", tmp_path)
    _make(path)
    for _ in range(5):
        commit_a_file(Storage(), path)
        assert_kept(path)
    assert list(Path(path, ".hoodie/metadata/.hoodie").glob("*001.commit"))


def test_the_properties_tell_writers_of_hudi_about_the_statistics(golden: Golden, tmp_path: Path) -> None:
    """No statistics, right ones of a table that keeps its version, and none again."""
    path = _copy(golden, "cow_bootstrap_meta", tmp_path)

    def said() -> tuple[str | None, str | None]:
        properties = open_at(path).properties
        return properties.get(COLUMN_STATS_ENABLE), properties.get(WRITE_VERSION)

    assert said() == (None, None)
    commit_a_file(Storage(), path)
    assert said() == ("false", None)
    _make(path, with_record_index=True)
    assert said() == ("true", "6")
    # As of a table whose statistics an earlier version has made.
    update_table_properties(Storage(), path, {COLUMN_STATS_ENABLE: None, WRITE_VERSION: None})
    commit_a_file(Storage(), path)
    assert said() == ("true", "6")
    drop_indexes(open_at(path), {RECORD_INDEX})
    assert said() == ("true", "6")
    drop_indexes(open_at(path), {COLUMN_STATS})
    assert said() == ("false", None)
    _make(path)
    assert drop_metadata_table(open_at(path))
    assert said() == ("false", None)
    update_table_properties(Storage(), path, {WRITE_VERSION: "6"})
    commit_a_file(Storage(), path)
    assert said() == ("false", "6")


def test_statistics_that_another_writer_has_made_again_are_dropped(golden: Golden, tmp_path: Path) -> None:
    """As after a writer of Hudi 0.15, which drops them, and one of 1.2, which makes those of skeletons."""
    path = _copy(golden, "cow_bootstrap_meta", tmp_path)
    _make(path)
    metadata = open_kept(path)
    assert metadata.has_statistics_of_sources
    marker = Path(path, ".hoodie/metadata/column_stats/.hoodie_partition_metadata")
    marker.write_text(marker.read_text().replace("commitTime=", "commitTime=2"))
    assert find_kept(open_at(path)) is None
    commit_a_file(Storage(), path)
    assert open_at(path).properties.metadata_partitions == (FILES,)
    # A writer that has dropped them.
    _make(path)
    update_table_properties(Storage(), path, {"hoodie.table.metadata.partitions": FILES})
    shutil.rmtree(Path(path, ".hoodie/metadata/column_stats"))
    metadata = open_kept(path)
    assert not metadata.has_statistics_of_sources
    commit_a_file(Storage(), path)
    assert open_at(path).properties.metadata_partitions == (FILES,)


def test_without_statistics_of_a_column_there_are_none_of_any(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _copy(golden, "cow_bootstrap_meta", tmp_path)
    monkeypatch.setattr(metadata_writing, "FIRST_DIGITS", -2)
    made = _make(path, with_record_index=True)
    assert made.indexes == (FILES, RECORD_INDEX)
    assert made.statistics == 0
    assert find_kept(open_at(path)) is not None


def test_none_is_made_beside_register_only_partitions(golden: Golden, tmp_path: Path) -> None:
    path = _copy(golden, "cow_bootstrap_meta", tmp_path)
    update_table_properties(Storage(), path, {"hudisql.bootstrap.register.only": "true"})
    with pytest.raises(UnsupportedTableError, match="rows of its register-only partitions"):
        _make(path)


def test_a_column_of_a_type_without_statistics_drops_those_of_all(golden: Golden, tmp_path: Path) -> None:
    path = _copy(golden, "cow_bootstrap_meta", tmp_path)
    _make(path)
    table = open_at(path)
    schema = table.schema.append(pa.field("added", pa.decimal128(38, 18)))
    commit_schema(table, schema)
    assert open_at(path).properties.metadata_partitions == (FILES,)
