"""An index built from file slices: base files, skeletons and logs, and what of them counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.key_hashes import xxhash64
from hudisql.ingest.index import partition_index, rebuild
from hudisql.ingest.index.partition_index import PartitionIndex
from hudisql.ingest.index.rebuild import build_partition_index
from hudisql.ingest.index.sorted_index import SortedIndex
from hudisql.ingest.index.tag import find_in_partition, tag_keys
from hudisql.read.merge.merge_mode import log_merge_config_of
from hudisql.storage import Storage
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partition_paths
from hudisql.write.index.slice_key_lookup import SliceLookup, read_keys
from tests.ingest.small_tables import SmallTable
from tests.opened import open_at

KEYS = [f"k{number:02d}" for number in range(20)]


def groups_of(index: PartitionIndex, keys: list[str]) -> list[str | None]:
    found: list[str | None] = index.file_ids_of(index.keys.look_up(xxhash64(pa.array(keys)))).to_pylist()
    return found


def lookups_of(table: HudiTable, path: str) -> dict[str, SliceLookup]:
    config = log_merge_config_of(table)
    slices = list_file_slices(table, [path], None)
    return {each.file_id: SliceLookup(each, log_merge_config=config) for each in slices}


def _table(path: Path) -> SmallTable:
    table = SmallTable(path)
    table.commit(
        1, [table.base_file("dt=a", "f1", 1, KEYS[:5]), table.base_file("dt=a", "f2", 1, KEYS[5:10])]
    )
    table.commit(
        2,
        [
            table.log_file("dt=a", "f1", 1, 2, [KEYS[0], KEYS[10]], [KEYS[1]]),
            table.base_file("dt=b", "f3", 2, KEYS[:3]),
            table.log_file("dt=a", "f4", 2, 2, [KEYS[11]]),
        ],
    )
    return table


def test_keys_of_base_files_and_logs_are_known_also_deleted_ones(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.log_file("dt=a", "f2", 1, 3, [KEYS[15]])
    table.base_file("dt=a", "f5", 3, [KEYS[16]])
    index = build_partition_index(table.open(), "dt=a", SortedIndex())
    expected = ["f1"] * 5 + ["f2"] * 5 + ["f1", "f4"] + [None] * 8
    assert groups_of(index, KEYS) == expected
    assert len(index.keys) == 12
    other = build_partition_index(table.open(), "dt=b", SortedIndex())
    assert groups_of(other, KEYS) == ["f3"] * 3 + [None] * 17


def test_doubtful_keys_are_looked_up_in_the_slices(tmp_path: Path) -> None:
    table = _table(tmp_path).open()
    index = build_partition_index(table, "dt=a", SortedIndex(1))
    tagged = tag_keys(index, pa.array(KEYS), find_in_partition(table, "dt=a"))
    expected = ["f1", None, "f1", "f1", "f1", *["f2"] * 5, "f1", "f4", *[None] * 8]
    assert tagged.file_ids.to_pylist() == expected


@pytest.mark.parametrize(
    "name",
    [
        "cow_bootstrap_then_upsert_delete",
        "cow_insert_overwrite",
        "mor_compaction_scheduled",
        "mor_rollback",
        "mor_two_log_generations",
    ],
)
def test_an_index_of_a_table_of_hudis_has_all_stored_keys(golden: Callable[[str], Any], name: str) -> None:
    table = open_at(golden(name).table)
    for path in list_partition_paths(table):
        index = build_partition_index(table, path, SortedIndex())
        for file_id, lookup in lookups_of(table, path).items():
            stored = [key for batch in read_keys(Storage(), lookup) for key in batch.column(0).to_pylist()]
            assert stored
            assert groups_of(index, stored) == [file_id] * len(stored)


def test_more_file_groups_than_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    monkeypatch.setattr(rebuild, "MOST_GROUPS", 2)
    with pytest.raises(UnsupportedTableError, match=r"partition 'dt=a' has more than .* file groups"):
        build_partition_index(table.open(), "dt=a", SortedIndex())
    monkeypatch.setattr(partition_index, "MOST_GROUPS", 2)
    index = PartitionIndex("dt=a", SortedIndex())
    hashes = xxhash64(pa.array(["a"]))
    index.add(hashes, "f1")
    index.add(hashes, "f2")
    with pytest.raises(UnsupportedTableError, match="run_clustering"):
        index.add(hashes, "f3")
    index.drop_groups(["f1"])
    index.add(hashes, "f3")
    assert list(index.file_ids) == ["f3", "f2"]
