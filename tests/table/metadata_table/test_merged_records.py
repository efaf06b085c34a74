"""Records of one key in several layers of an index become one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.metadata_table.merged_ranges import merged_ranges
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, PARTITION_STATS, MetadataRecords
from hudisql.format.metadata_table.metadata_writing import ColumnRange, encode_range, merge_range_records
from hudisql.storage import Storage
from hudisql.table.metadata_table.merged_records import RecordLayer, merge_layers, read_merged_records
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from tests.opened import open_at, open_kept
from tests.write.crashed_commits import commit_a_file


def test_ranges_of_all_blocks_of_a_log_file_are_kept() -> None:
    """Of version 6, where deltacommits append to one log file, each with a record of its own blocks."""

    def record(least: int | None, greatest: int | None, nulls: int, rows: int) -> bytes:
        name = ".f-0_20240101000000000.log.1_0-1-2"
        return encode_range(ColumnRange("c", "LongWrapper", None, least, greatest, rows, nulls), name)

    def layer(records: dict[str, bytes]) -> RecordLayer:
        keys = pa.array(records, pa.large_string())
        return RecordLayer(keys, pa.array(records.values(), pa.large_binary()))

    layers = [
        layer({"gone": record(1, 9, 0, 2), "many": record(-5, 3, 1, 4), "once": record(7, 7, 0, 1)}),
        RecordLayer(pa.array(["gone"], pa.large_string()), None),
        layer({"gone": record(4, 5, 0, 2), "many": record(None, None, 2, 2)}),
        layer({"many": record(0, 8, 0, 3)}),
    ]
    cells = merge_layers(COLUMN_STATS, layers)
    values = [cells.values[number] for number in cells.numbers.tolist()]
    assert dict(zip(cells.keys.to_pylist(), values, strict=True)) == {
        "gone": record(4, 5, 0, 2),
        "many": record(-5, 8, 3, 9),
        "once": record(7, 7, 0, 1),
    }


@pytest.mark.parametrize("field", ["isDeleted", "isTightBound"])
def test_a_deleted_or_tight_range_replaces_those_before_it(field: str) -> None:
    """As `HoodieTableMetadataUtil.mergeColumnStatsRecords` of Hudi 1.2 has it."""
    codec = load_codec("HoodieMetadata")

    def record(least: int, greatest: int, **more: bool) -> bytes:
        found = ColumnRange("c", "LongWrapper", None, least, greatest, 4, 1)
        decoded = codec.decode_body(encode_range(found, "p0", of_partition=True))
        decoded["ColumnStatsMetadata"] |= more
        return codec.encode_body(decoded)

    old, marked, new = record(1, 90), record(5, 20, **{field: True}), record(7, 30)
    assert merge_range_records([old, marked], merged_ranges) == marked
    left = [new] if field == "isDeleted" else [record(5, 20), new]
    merged = merge_range_records([old, marked, new], merged_ranges)
    assert merged == merge_range_records(left, merged_ranges)


@pytest.mark.parametrize("index", [COLUMN_STATS, PARTITION_STATS])
def test_records_are_merged_as_a_compaction_merges_them(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path))
    for _ in range(2):
        commit_a_file(Storage(), path)
    before = open_kept(path)
    merged = read_merged_records(before, index)
    newest = before.read_records(index)
    assert merged.keys.equals(newest.keys.cast(merged.keys.type))
    # The newest record of a partition has the range of the last commit's file.
    assert (_rows(merged) > _rows(newest)) == (index == PARTITION_STATS)
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
    metadata_compaction.prepare_metadata_table(open_at(path))
    after = open_kept(path)
    assert all(not each.log_files for each in after.latest_slices(index))
    assert after.read_records(index).values.to_pylist() == merged.values.to_pylist()


def _rows(records: MetadataRecords) -> int:
    return sum(stored["valueCount"] for stored in records.values.to_pylist())
