"""The index `bloom_filters` is kept by commits and cleans, and dropped where a base file has no filter."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.metadata_records import BLOOM_FILTERS
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table import kept_metadata_table
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.metadata_table import bloom_filters, metadata_compaction
from hudisql.write.metadata_table.bloom_filters import bloom_filter_key
from hudisql.write.metadata_table.deltacommit_files import write_base_file
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.opened import open_at
from tests.write.crashed_commits import PARTITION, commit_a_file

VERSIONS = ["v6_mor_mdt_logs", "v9_cow_mdt_compacted"]


@pytest.fixture(params=VERSIONS)
def path(request: pytest.FixtureRequest, golden: Callable[[str], Any], tmp_path: Path) -> str:
    """A table whose metadata table has an index `bloom_filters` with two file groups and no records."""
    path = str(shutil.copytree(golden(request.param).table, tmp_path / "table"))
    table = open_at(path)
    metadata = find_kept(table)
    assert metadata is not None
    instant_time = metadata.own.timeline.completed[0].timestamp
    for number in range(2):
        file_id = f"bloom-filters-{number:04}-0"
        base_path = metadata.own.base_path
        Path(base_path, BLOOM_FILTERS).mkdir(exist_ok=True)
        write_base_file(Storage(), base_path, BLOOM_FILTERS, file_id, instant_time, cells_of({}))
    indexes = ",".join(sorted({*metadata.indexes, BLOOM_FILTERS}))
    update_table_properties(Storage(), path, {"hoodie.table.metadata.partitions": indexes})
    return path


def _open(path: str) -> tuple[HudiTable, MetadataTable]:
    table = open_at(path)
    metadata = find_kept(table)
    assert metadata is not None
    return table, metadata


def _filters(metadata: MetadataTable) -> dict[str, bytes]:
    records = metadata.read_records(BLOOM_FILTERS)
    return {
        key: value["bloomFilter"]
        for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
    }


def _new_file(path: str) -> str:
    before = {*Path(path, PARTITION).glob("*.parquet")}
    commit_a_file(Storage(), path, overwrites=True)
    (name,) = {file.name for file in {*Path(path, PARTITION).glob("*.parquet")} - before}
    return name


def test_a_base_file_has_a_record_with_its_filter_until_it_is_cleaned(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
    names = [_new_file(path) for _ in range(3)]
    table, metadata = _open(path)
    footers = [pq.read_metadata(Path(path, PARTITION, name)).metadata for name in names]
    expected = {
        bloom_filter_key(PARTITION, name): footer[b"org.apache.hudi.bloomfilter"]
        for name, footer in zip(names, footers, strict=True)
    }
    assert _filters(metadata) == expected
    options = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)
    clean_table(table, options, SINGLE_WRITER)
    _, metadata = _open(path)
    left = {file.name for file in Path(path, PARTITION).glob("*.parquet")}
    assert names[-1] in left
    assert names[0] not in left
    keys = {bloom_filter_key(PARTITION, name) for name in left}
    assert _filters(metadata) == {key: content for key, content in expected.items() if key in keys}


def test_a_base_file_without_a_filter_drops_the_index_alone(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = open_at(path).properties.metadata_partitions
    monkeypatch.setattr(bloom_filters, "FOOTER_BLOOM_FILTER", "none")
    commit_a_file(Storage(), path, overwrites=True)
    assert _open(path)[1].indexes == tuple(index for index in kept if index != BLOOM_FILTERS)


def test_large_filters_are_not_kept(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _new_file(path)
    _open(path)
    monkeypatch.setattr(kept_metadata_table, "MOST_BLOOM_BYTES", 100)
    assert find_kept(open_at(path)) is None
