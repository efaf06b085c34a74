"""The base files of a new index of keys: by Spark tasks if there are many, which the driver never holds.

Follows `HoodieBackedTableMetadataWriter.initializeRecordIndexPartition` of Hudi 1.2: tasks read the record
keys of file slices and send each key to the task of its file group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.hfile.hfile_cells import EncodedCells
from hudisql.format.metadata_table.metadata_keys import Counts, file_groups_of
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.format.timeline.timeline_layout import metadata_table_directory
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.spark.task_runner import SILENT, exchange_between_tasks
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.record_groups import rows_by_group
from hudisql.write.metadata_table.deltacommit_files import write_base_file
from hudisql.write.metadata_table.key_changes import has_too_long_keys, keys_of_slice, repeated_keys

_KEYS_SENT_TOGETHER: Final = 1_000_000
_THREADS: Final = 8
_GROUP: Final = b"group"
_KEYS_TYPE: Final = pa.large_string()
_VALUES_TYPE: Final = pa.dictionary(pa.int32(), pa.large_binary())

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SliceToIndex:
    """A file slice, and the index's record of each of its keys (`encode_location`).

    `groups` are the numbers of the file groups that share the keys.
    """

    file_slice: FileSlice
    value: bytes
    groups: range


KeysOfSlice = tuple[pa.Array, SliceToIndex]
"""The keys of a slice, and the slice."""


@dataclass(frozen=True, slots=True)
class KeysOfIndex:
    """The name of an index; how the keys of a slice are read, large strings, in a task, too.

    `group_keys` gives for keys, and how many file groups share each, the number of the one of each key.
    """

    name: str
    read: Callable[[Storage, LogMergeConfig, FileSlice], pa.Array]
    group_keys: Callable[[pa.Array, Counts], Numbers] = file_groups_of


RECORD_KEYS: Final = KeysOfIndex(RECORD_INDEX, keys_of_slice)


@dataclass(frozen=True, slots=True)
class IndexedGroup:
    """The base file of a file group with this number, or why there is none: keys that no index can have."""

    number: int
    stat: WriteStat | None
    repeated: int = 0
    has_too_long: bool = False


def write_index_files(
    table: HudiTable,
    slices: Sequence[SliceToIndex],
    *,
    file_ids: Sequence[str],
    instant_time: str,
    index: KeysOfIndex = RECORD_KEYS,
    tasks: Sequence[int] = (),
    spark: Any = None,
    console: Any = SILENT,
) -> list[IndexedGroup]:
    """Write the base files of the file groups `file_ids` that have keys; those without keys are left out.

    In tasks of `spark`, else in this process; `tasks` has the number of the task of each file group, by
    default its own. A file is written whole or not at all, and alike by each attempt of a task. Memory of a
    task: the keys of its file groups, and the file of one; without tasks all keys. Raises CorruptTableError,
    StorageError, SourceChangedError.
    """
    base_path = metadata_table_directory(table.base_path)
    task_of = tuple(tasks or range(len(file_ids)))
    read_keys = partial(_keys_of, table.storage, log_merge_config_of(table), index)
    scatter = partial(_scatter, task_of, index)
    gather = partial(_gather, table.storage, base_path, index.name, tuple(file_ids), instant_time)
    if spark is None:
        pieces: dict[int, list[bytes]] = defaultdict(list)
        with ThreadPoolExecutor(_THREADS) as pool:
            for number, piece in scatter(pool.map(read_keys, slices)):
                pieces[number].append(piece)
        return [group for _, some in sorted(pieces.items()) for group in gather(iter(some))]
    groups: list[list[IndexedGroup]] = exchange_between_tasks(
        spark,
        slices,
        lambda some: scatter(map(read_keys, some)),
        gather,
        buckets=max(task_of, default=0) + 1,
        weight=lambda each: each.file_slice.length,
        console=console,
        label="Indexing record keys",
    )
    return [group for some in groups for group in some]


def _keys_of(storage: Storage, config: LogMergeConfig, index: KeysOfIndex, each: SliceToIndex) -> KeysOfSlice:
    return index.read(storage, config, each.file_slice), each


def _scatter(
    tasks: Sequence[int], index: KeysOfIndex, keys_of_slices: Iterable[KeysOfSlice]
) -> Iterator[tuple[int, bytes]]:
    """The keys of each file group with the number of its task, those of many slices at once."""
    read: list[KeysOfSlice] = []
    count = 0
    for keys, file_slice in keys_of_slices:
        read.append((keys, file_slice))
        count += len(keys)
        if count >= _KEYS_SENT_TOGETHER:
            yield from _by_group(read, tasks, index)
            read, count = [], 0
    yield from _by_group(read, tasks, index)


def _by_group(
    read: Sequence[KeysOfSlice], tasks: Sequence[int], index: KeysOfIndex
) -> Iterator[tuple[int, bytes]]:
    keys = pa.concat_arrays([pa.nulls(0, _KEYS_TYPE), *(some for some, _ in read)])
    sources = np.repeat(np.arange(len(read), dtype=np.int32), [len(some) for some, _ in read])
    distinct = pa.array([file_slice.value for _, file_slice in read], pa.large_binary())
    spans = [(file_slice.groups.start, len(file_slice.groups)) for _, file_slice in read]
    firsts, counts = np.array(spans, np.int64).reshape(-1, 2)[sources].T
    of_keys = firsts + index.group_keys(keys, counts)
    for group, rows in rows_by_group(of_keys).items():
        values = pa.DictionaryArray.from_arrays(pa.array(sources[rows]), distinct)
        schema = pa.schema([("key", _KEYS_TYPE), ("value", _VALUES_TYPE)], {_GROUP: str(group)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as stream:
            stream.write_batch(pa.record_batch([keys.take(pa.array(rows)), values], schema=schema))
        yield tasks[group], sink.getvalue().to_pybytes()


def _gather(
    storage: Storage,
    base_path: str,
    index: str,
    file_ids: Sequence[str],
    instant_time: str,
    pieces: Iterator[bytes],
) -> list[IndexedGroup]:
    parts: dict[int, list[pa.Table]] = defaultdict(list)
    for piece in pieces:
        part = pa.ipc.open_stream(piece).read_all()
        parts[int(part.schema.metadata[_GROUP])].append(part)
    groups = []
    for number in sorted(parts):
        rows = pa.concat_tables(parts.pop(number)).unify_dictionaries().combine_chunks()
        keys = pc.cast(rows.column(0), _KEYS_TYPE).combine_chunks()
        if has_too_long_keys(keys):
            groups.append(IndexedGroup(number, None, has_too_long=True))
            continue
        values = rows.column(1).combine_chunks()
        numbers = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        cells = EncodedCells(keys, numbers, values.dictionary.to_pylist())
        try:
            stat = write_base_file(storage, base_path, index, file_ids[number], instant_time, cells)
        except ValueError:
            # The order of the keys shows equal ones at no further cost.
            if not (repeated := repeated_keys(keys)):
                raise
            groups.append(IndexedGroup(number, None, repeated))
            continue
        groups.append(IndexedGroup(number, stat))
    return groups
