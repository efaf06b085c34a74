"""Few changes written by one process: the rows, the files they go to, and what is too much for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.format.keys.bucket_id import bucket_of_file_id
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.table_properties import CREATE_SCHEMA
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.properties.new_table import (
    NewTable,
    make_timeline_directories,
    new_table_properties,
    publish_properties,
)
from hudisql.write.changes import (
    FILE_GROUP,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    SEQUENCE_NUMBER,
    RowOperation,
    change_schema,
)
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.driver_apply import is_small, profile_few_changes, write_few_changes
from hudisql.write.execution.partitioner import FileSizing
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.record_index import HashBuckets, IndexKind, RecordIndex
from hudisql.write.keygen.partition_paths import PartitionPaths

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("day", pa.date32())])
STORAGE = Storage()
DAY = 19_783  # 2024-03-01
# A file has room for two rows.
TWO_ROWS_A_FILE = WriteOptions(sizing=FileSizing(max_file_bytes=500_000, bytes_per_row=200_000.0))

Change = tuple[RowOperation, str, int, int]


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    base_path = str(tmp_path / "table")
    made = NewTable("t", "d", "COPY_ON_WRITE", ("id",), ("day",), is_hive_style=True, is_url_encoded=False)
    properties = {**new_table_properties(made), CREATE_SCHEMA: avro_from_arrow(SCHEMA, "t")}
    make_timeline_directories(STORAGE, base_path)
    publish_properties(STORAGE, base_path, properties, datetime(2024, 1, 1, tzinfo=UTC))
    return open_table(STORAGE, base_path)


def changes_of(rows: Sequence[Change], stored: Sequence[FileSlice] = ()) -> pa.Table:
    """Changes of rows (operation, id, n, day); those of stored rows are in the partition's only slice."""
    slice_of = {each.partition_path: each for each in stored}
    found = []
    for operation, key, number, day in rows:
        row = dict.fromkeys(change_schema(SCHEMA).names)
        row |= {OPERATION: int(operation), "id": key, "n": number, "day": day}
        if not operation.is_new_row:
            file_slice = slice_of[path_of(day)]
            row |= {PARTITION: file_slice.partition_path, FILE_GROUP: file_slice.file_id, RECORD_KEY: key}
            row[SEQUENCE_NUMBER] = None
        found.append(row)
    return pa.Table.from_pylist(found, change_schema(SCHEMA))


def path_of(day: int) -> str:
    return f"day={datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}"


def write(table: HudiTable, changes: pa.Table, options: WriteOptions | None = None) -> WriteResult:
    chosen = options or WriteOptions()
    now = table.reopened()
    few = profile_few_changes(now, changes, SCHEMA, chosen, PartitionPaths(now))
    return commit_files(
        now,
        "UPSERT",
        SCHEMA,
        lambda commit: write_few_changes(
            commit, few, SCHEMA, chosen, PartitionPaths(commit.table), DEFAULT_CALENDARS
        ),
        changed=few.changed,
    )


def slices_of(table: HudiTable) -> list[FileSlice]:
    now = table.reopened()
    return load_file_slices(now, list_partitions(now))


def rows_of(table: HudiTable) -> dict[str, list[tuple[str, int]]]:
    """Key and number of the rows of each file group."""
    found = {}
    for each in slices_of(table):
        read = SliceRead(each, pa.schema([SCHEMA.field("id"), SCHEMA.field("n")]))
        batches = list(read_file_slice(STORAGE, read))
        found[each.file_id] = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return found


def insert(*rows: tuple[str, int, int]) -> list[Change]:
    return [(RowOperation.INSERT, *row) for row in rows]


def test_inserts_updates_and_deletes_end_in_the_rows_that_they_say(table: HudiTable) -> None:
    first = write(table, changes_of(insert(("a", 1, DAY), ("b", 2, DAY), ("c", 3, DAY + 1))))
    assert (first.inserted, first.files) == (3, 2)
    changes = [
        (RowOperation.UPDATE, "a", 10, DAY),
        (RowOperation.DELETE, "c", 0, DAY + 1),
        *insert(("d", 4, DAY), ("e", 5, DAY + 2)),
    ]
    second = write(table, changes_of(changes, slices_of(table)))
    assert (second.inserted, second.updated, second.deleted, second.files) == (2, 1, 1, 3)
    rows = sorted(row for found in rows_of(table).values() for row in found)
    assert rows == [("a", 10), ("b", 2), ("d", 4), ("e", 5)]
    assert [each.path for each in list_partitions(table.reopened())] == [path_of(DAY + n) for n in range(3)]


def test_new_rows_with_one_key_go_to_one_file_group(table: HudiTable) -> None:
    write(table, changes_of(insert(("a", 1, DAY))))
    rows = insert(*((key, number, DAY) for number, key in enumerate("xyxyxz")))
    write(table, changes_of(rows), TWO_ROWS_A_FILE)
    found = rows_of(table)
    assert len(found) > 1
    for key in "xyz":
        assert len([group for group, stored in found.items() if key in dict(stored)]) == 1
    assert sum(map(len, found.values())) == 7


def test_a_bucket_index_says_the_file_group_of_each_new_row(table: HudiTable) -> None:
    buckets = HashBuckets(4, ("id",))
    options = WriteOptions(index=RecordIndex(IndexKind.BUCKET, buckets=buckets))
    keys = [f"k{number}" for number in range(12)]
    for part in (keys[:6], keys[6:]):
        write(table, changes_of(insert(*((key, 1, DAY) for key in part))), options)
    found = rows_of(table)
    numbers = [bucket_of_file_id(each.file_id) for each in slices_of(table)]
    assert len(numbers) == len(set(numbers))
    assert None not in numbers
    assert sorted(row[0] for rows in found.values() for row in rows) == sorted(keys)


def test_many_or_large_slices_are_left_to_spark(table: HudiTable) -> None:
    write(table, changes_of(insert(("a", 1, DAY))))
    now, options = table.reopened(), WriteOptions()
    paths = PartitionPaths(now)
    few = profile_few_changes(now, changes_of(insert(("b", 1, DAY))), SCHEMA, options, paths)
    assert is_small(now, few, options, paths)
    assert not is_small(now, few, replace(options, driver_max_bytes=1000), paths)
    assert not is_small(now, few, replace(options, driver_max_bytes=0), paths)
    spread = changes_of(insert(*(("b", 1, DAY + number) for number in range(40))))
    assert not is_small(now, profile_few_changes(now, spread, SCHEMA, options, paths), options, paths)
