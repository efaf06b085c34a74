"""The base files of a record index, written by Spark tasks, have the records of those of the driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.hfile.hfile_cells import read_cells
from hudisql.format.metadata_table.metadata_writing import encode_location
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.record_groups import NO_PARTITIONS
from hudisql.write.metadata_table import record_index_files
from hudisql.write.metadata_table.record_index_files import SliceToIndex, write_index_files
from tests.opened import open_at
from tests.requests.wide_tables import FILES, ROWS, day, wide_table

pytestmark = [pytest.mark.spark, pytest.mark.hms]
PARTITIONS = 6
INSTANT = "0" * 17
FILE_IDS = [f"by-tasks-{number:04}-0" for number in range(10)]


def slices_to_index(table: HudiTable, groups: int) -> list[SliceToIndex]:
    return [
        SliceToIndex(each, encode_location((each.partition_path, each.file_id), 0), range(groups))
        for each in load_file_slices(table)
    ]


def records(paths: list[Path]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in paths:
        with path.open("rb") as source:
            cells = read_cells(HFileReader(pa.PythonFile(source), path.stat().st_size, str(path)))
        assert not set(cells.keys.to_pylist()) & found.keys()
        found |= dict(zip(cells.keys.to_pylist(), cells.values.to_pylist(), strict=True))
    return found


def test_tasks_write_the_records_that_the_driver_writes(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_index_files, "_KEYS_SENT_TOGETHER", 2 * ROWS)
    arguments = "table_version => 9, indexes => 'record_index'"
    with wide_table(session, "indexed_by_tasks", tmp_path, PARTITIONS, arguments=arguments) as wide:
        table = open_at(wide.path)
        slices = slices_to_index(table, len(FILE_IDS))
        directory = Path(wide.path, ".hoodie/metadata/record_index")
        of_driver = records(sorted(directory.glob("record-index-*.hfile")))
        assert len(of_driver) == PARTITIONS * FILES * ROWS

        groups = write_index_files(
            table, slices, file_ids=FILE_IDS, instant_time=INSTANT, spark=session.spark
        )
        assert sum(group.stat.num_writes for group in groups if group.stat) == len(of_driver)
        written = sorted(directory.glob("by-tasks-*.hfile"))
        assert [path.name for path in written] == [
            f"{FILE_IDS[group.number]}_0-0-0_{INSTANT}.hfile" for group in groups
        ]
        assert records(written) == of_driver


def test_small_file_groups_of_partitions_share_tasks(session: Any, tmp_path: Path) -> None:
    arguments = "table_version => 9, indexes => 'record_level_index'"
    with wide_table(session, "partitions_by_tasks", tmp_path, PARTITIONS, arguments=arguments) as wide:
        table = open_at(wide.path)
        directory = Path(wide.path, ".hoodie/metadata/record_index")
        of_driver = {
            path.name.partition("_")[0]: records([path]) for path in directory.glob("record-index-*")
        }
        assert [len(found) for found in of_driver.values()] == [FILES * ROWS] * PARTITIONS
        groups = NO_PARTITIONS.with_new_partitions({f"dt={day(number)}": 6 for number in range(PARTITIONS)})
        assert set(groups.file_ids) == of_driver.keys()
        slices = [
            replace(each, groups=groups.numbers_in(each.file_slice.partition_path))
            for each in slices_to_index(table, 1)
        ]
        made = write_index_files(
            table,
            slices,
            file_ids=groups.file_ids,
            tasks=[number // 4 for number in range(PARTITIONS)],
            instant_time="1" * 17,
            spark=session.spark,
        )
        assert [group.number for group in made] == [*range(PARTITIONS)]
        written = directory.glob(f"*_{'1' * 17}.hfile")
        assert {path.name.partition("_")[0]: records([path]) for path in written} == of_driver


def test_no_file_is_written_of_keys_that_no_index_can_have(session: Any, tmp_path: Path) -> None:
    with wide_table(session, "repeated_keys", tmp_path, 2) as wide:
        table = open_at(wide.path)
        twice = [*slices_to_index(table, 1), *slices_to_index(table, 1)]
        for spark in (None, session.spark):
            groups = write_index_files(table, twice, file_ids=FILE_IDS[:1], instant_time=INSTANT, spark=spark)
            assert [(group.stat, group.repeated) for group in groups] == [(None, 2 * FILES * ROWS)]
