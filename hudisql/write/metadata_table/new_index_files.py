"""The files of new indexes of a metadata table: a base file a file group, also of those without records.

Follows `HoodieBackedTableMetadataWriter` and `HoodieTableMetadataUtil` of Hudi 1.2, for table version 6 of
Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from hudisql.errors import UnsupportedTableError
from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of
from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from hudisql.format.metadata_table.metadata_writing import encode_location, encode_secondary
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.format.timeline.timeline_layout import metadata_table_directory
from hudisql.storage import join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import is_expression
from hudisql.table.metadata_table.record_groups import KEYS_OF_A_GROUP, NO_PARTITIONS, RecordGroups
from hudisql.table.metadata_table.secondary_indexes import is_secondary
from hudisql.write.metadata_table.deltacommit_files import write_base_file
from hudisql.write.metadata_table.key_changes import milliseconds_of
from hudisql.write.metadata_table.record_index_files import (
    IndexedGroup,
    KeysOfIndex,
    SliceToIndex,
    write_index_files,
)

_FIRST_INSTANT: Final = "0" * 17
_BEFORE_ALL: Final = "0" * 14
_FIRST_SUFFIX: Final = "010"
_PREFIXES: Final[Mapping[str, tuple[str, int]]] = {
    FILES: ("files", 1),
    COLUMN_STATS: ("col-stats", 2),
    PARTITION_STATS: ("partition-stats", 1),
    RECORD_INDEX: ("record-index", 10),
}
"""The beginning of the file ids of an index, and how many file groups it has; a record index has more of
them for many records.
"""
_MOST_KEYS_IN_PROCESS: Final = 1_000_000
_MOST_SLICES_IN_PROCESS: Final = 100
_MOST_GROUPS: Final = 10_000


def first_instant(table: HudiTable) -> str:
    """The instant at which all indexes are made: in layout 1 after the last completed one of the table.

    Follows `createIndexInitTimestamp` of Hudi 0.15.
    """
    if not has_old_layout(table):
        return _FIRST_INSTANT
    completed = table.timeline.completed
    return f"{completed[-1].timestamp if completed else _BEFORE_ALL}{_FIRST_SUFFIX}"


def has_old_layout(table: HudiTable) -> bool:
    """True for version 6, whose metadata tables are those of Hudi 0.15."""
    return not table.timeline.layout.has_completion_times


def write_key_index(
    table: HudiTable,
    index: KeysOfIndex,
    keys: Mapping[str, int],
    spark: Callable[[], Any] | None,
    console: Any,
    *,
    by_partition: bool = False,
) -> tuple[WriteStat, ...] | UnsupportedTableError:
    """Write the files of an index of about so many keys, by the paths of partitions; many are read in tasks.

    With `by_partition` each partition has file groups of its own. The result may be why no index can be made
    of the keys.
    """
    slices, count = load_file_slices(table), sum(keys.values())
    groups = RecordGroups(_file_ids(index.name, min(count // KEYS_OF_A_GROUP, _MOST_GROUPS)), None)
    tasks: Sequence[int] = ()
    if by_partition:
        of_partitions = {path: keys.get(path, 0) for path in sorted({each.partition_path for each in slices})}
        try:
            groups = NO_PARTITIONS.with_new_partitions(of_partitions)
        except UnsupportedTableError as refusal_of_name:
            return refusal_of_name
        tasks = _tasks(groups, of_partitions)
    is_large = count > _MOST_KEYS_IN_PROCESS or len(slices) > _MOST_SLICES_IN_PROCESS
    made = write_index_files(
        table,
        [
            SliceToIndex(
                each,
                encode_secondary()
                if is_secondary(index.name)
                else encode_location(each.file_group, milliseconds_of(each.base_instant_time)),
                groups.numbers_in(each.partition_path),
            )
            for each in slices
        ],
        file_ids=groups.file_ids,
        index=index,
        tasks=tasks,
        instant_time=first_instant(table),
        spark=spark() if spark is not None and is_large else None,
        console=console,
    )
    refusal = _refusal(table, index.name, made, by_partition=by_partition)
    if refusal is not None:
        table.storage.delete_directory(join(metadata_table_directory(table.base_path), index.name))
        return refusal
    stats = {group.number: group.stat for group in made if group.stat is not None}
    _write_marker(table, index.name)
    return tuple(
        _inserted(stats.get(number) or _write_group(table, index.name, file_id, cells_of({})))
        for number, file_id in enumerate(groups.file_ids)
    )


def _tasks(groups: RecordGroups, keys: Mapping[str, int]) -> Sequence[int]:
    """The number of the task of each file group: the small ones of many partitions share a task."""
    shares = np.zeros(len(groups.file_ids))
    for path, count in keys.items():
        numbers = groups.numbers_in(path)
        shares[numbers.start : numbers.stop] = count / len(numbers)
    filled = np.cumsum(shares) - shares
    tasks: list[int] = np.unique(filled // KEYS_OF_A_GROUP, return_inverse=True)[1].tolist()
    return tasks


def _refusal(
    table: HudiTable, index: str, groups: Sequence[IndexedGroup], *, by_partition: bool
) -> UnsupportedTableError | None:
    """Why no index can be made of the keys; None if it can."""
    kind = index if is_secondary(index) else "record index"
    made = f"hudisql makes no {kind} for the Hudi table at {table.base_path}: "
    if any(group.has_too_long for group in groups):
        what = "a record key with its value" if is_secondary(index) else "a record key"
        return UnsupportedTableError(
            f"{made}{what} has more than the 32767 bytes that the index can hold; its other indexes are made"
        )
    repeated = sum(group.repeated for group in groups)
    if not repeated:
        return None
    where = " of the partition" if by_partition else ""
    return UnsupportedTableError(
        f"{made}{repeated} row(s) have a record key that another row{where} has; its other indexes are made",
        hint=f"the index has one place for each key{where}: delete the other rows, then run the statement "
        "again",
    )


def write_index(table: HudiTable, index: str, records: EncodedCells) -> Iterator[WriteStat]:
    """Write the base files of an index, also of groups without records."""
    _write_marker(table, index)
    file_ids = _file_ids(index)
    numbers = file_groups_of(records.keys, len(file_ids))
    for number, file_id in enumerate(file_ids):
        yield _inserted(_write_group(table, index, file_id, records.take(np.flatnonzero(numbers == number))))


def _file_ids(index: str, most: int = 0) -> tuple[str, ...]:
    if is_secondary(index) or is_expression(index):
        prefix = index.replace("_", "-")
        groups = _PREFIXES[COLUMN_STATS if is_expression(index) else RECORD_INDEX][1]
    else:
        prefix, groups = _PREFIXES[index]
    return tuple(f"{prefix}-{number:04}-0" for number in range(max(groups, most)))


def _write_marker(table: HudiTable, index: str) -> None:
    marker = render_partition_metadata(PartitionMetadata(first_instant(table), 1), datetime.now(UTC))
    directory = join(metadata_table_directory(table.base_path), index)
    table.storage.write(join(directory, PARTITION_METADATA_FILE), marker)


def _write_group(table: HudiTable, index: str, file_id: str, records: EncodedCells) -> WriteStat:
    base_path = metadata_table_directory(table.base_path)
    return write_base_file(table.storage, base_path, index, file_id, first_instant(table), records)


def _inserted(stat: WriteStat) -> WriteStat:
    return replace(stat, num_inserts=stat.num_writes)
