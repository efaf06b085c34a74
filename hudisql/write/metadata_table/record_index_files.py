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
from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.timeline.commit_metadata import WriteStat
from hudisql.format.timeline.timeline_layout import metadata_table_directory
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.spark.task_runner import SILENT, exchange_between_tasks
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.metadata_table.deltacommit_files import write_base_file
from hudisql.write.metadata_table.key_changes import has_too_long_keys, keys_of_slice, repeated_keys

_KEYS_SENT_TOGETHER: Final = 1_000_000
_THREADS: Final = 8
_GROUP: Final = b"group"
_KEYS_TYPE: Final = pa.large_string()
_VALUES_TYPE: Final = pa.dictionary(pa.int32(), pa.large_binary())

KeysOfSlice = tuple[pa.Array, bytes]
"""The keys of a slice, and the index's record of each."""


@dataclass(frozen=True, slots=True)
class SliceToIndex:
    """A file slice, and the index's record of each of its keys (`encode_location`)."""

    file_slice: FileSlice
    value: bytes


@dataclass(frozen=True, slots=True)
class KeysOfIndex:
    """The name of an index; how the keys of a slice are read, large strings, in a task, too.

    `group_keys` gives for keys and a number of file groups the number of the one of each key.
    """

    name: str
    read: Callable[[Storage, LogMergeConfig, FileSlice], pa.Array]
    group_keys: Callable[[pa.Array, int], npt.NDArray[np.int64]] = file_groups_of


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
    spark: Any = None,
    console: Any = SILENT,
) -> list[IndexedGroup]:
    """Write the base files of the file groups `file_ids` that have keys; those without keys are left out.

    In tasks of `spark`, else in this process. A file is written whole or not at all, and alike by each
    attempt of a task. Memory of a task: the keys of a file group, and its file; without tasks all keys.
    Raises CorruptTableError, StorageError, SourceChangedError.
    """
    base_path, buckets = metadata_table_directory(table.base_path), len(file_ids)
    read_keys = partial(_keys_of, table.storage, log_merge_config_of(table), index)
    scatter = partial(_scatter, buckets, index)
    gather = partial(_gather, table.storage, base_path, index.name, tuple(file_ids), instant_time)
    if spark is None:
        pieces: dict[int, list[bytes]] = defaultdict(list)
        with ThreadPoolExecutor(_THREADS) as pool:
            for number, piece in scatter(pool.map(read_keys, slices)):
                pieces[number].append(piece)
        return [group for _, some in sorted(pieces.items()) if (group := gather(iter(some))) is not None]
    groups: list[IndexedGroup | None] = exchange_between_tasks(
        spark,
        slices,
        lambda some: scatter(map(read_keys, some)),
        gather,
        buckets=buckets,
        weight=lambda each: each.file_slice.length,
        console=console,
        label="Indexing record keys",
    )
    return [group for group in groups if group is not None]


def _keys_of(storage: Storage, config: LogMergeConfig, index: KeysOfIndex, each: SliceToIndex) -> KeysOfSlice:
    return index.read(storage, config, each.file_slice), each.value


def _scatter(
    groups: int, index: KeysOfIndex, keys_of_slices: Iterable[KeysOfSlice]
) -> Iterator[tuple[int, bytes]]:
    """The keys by file group, those of many slices at once."""
    read: list[KeysOfSlice] = []
    count = 0
    for keys, value in keys_of_slices:
        read.append((keys, value))
        count += len(keys)
        if count >= _KEYS_SENT_TOGETHER:
            yield from _by_group(read, groups, index)
            read, count = [], 0
    yield from _by_group(read, groups, index)


def _by_group(read: Sequence[KeysOfSlice], groups: int, index: KeysOfIndex) -> Iterator[tuple[int, bytes]]:
    keys = pa.concat_arrays([pa.nulls(0, _KEYS_TYPE), *(some for some, _ in read)])
    sources = np.repeat(np.arange(len(read), dtype=np.int32), [len(some) for some, _ in read])
    distinct = pa.array([value for _, value in read], pa.large_binary())
    of_keys = index.group_keys(keys, groups)
    order = np.argsort(of_keys, kind="stable")
    ends = np.searchsorted(of_keys[order], np.arange(groups + 1))
    for group in np.unique(of_keys).tolist():
        rows = order[ends[group] : ends[group + 1]]
        values = pa.DictionaryArray.from_arrays(pa.array(sources[rows]), distinct)
        schema = pa.schema([("key", _KEYS_TYPE), ("value", _VALUES_TYPE)], {_GROUP: str(group)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as stream:
            stream.write_batch(pa.record_batch([keys.take(pa.array(rows)), values], schema=schema))
        yield group, sink.getvalue().to_pybytes()


def _gather(
    storage: Storage,
    base_path: str,
    index: str,
    file_ids: Sequence[str],
    instant_time: str,
    pieces: Iterator[bytes],
) -> IndexedGroup | None:
    tables = [pa.ipc.open_stream(piece).read_all() for piece in pieces]
    if not tables:
        return None
    number = int(tables[0].schema.metadata[_GROUP])
    rows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    del tables
    keys, values = (pc.cast(rows.column(0), _KEYS_TYPE).combine_chunks(), rows.column(1).combine_chunks())
    repeated, has_too_long = repeated_keys(keys), has_too_long_keys(keys)
    if repeated or has_too_long:
        return IndexedGroup(number, None, repeated, has_too_long)
    numbers = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    cells = EncodedCells(keys, numbers, values.dictionary.to_pylist())
    return IndexedGroup(
        number, write_base_file(storage, base_path, index, file_ids[number], instant_time, cells)
    )
