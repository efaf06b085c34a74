"""The files of a metadata table: a deltacommit on its timeline and in its indexes, and its removal.

Follows `HoodieBackedTableMetadataWriter` and `HoodieAppendHandle` of Hudi 0.15 for timeline layout 1, of Hudi
1.2 for layout 2. In layout 1 log files are numbered on top of the base instant of their slice, and commits
are JSON; what an inflight deltacommit is going to write to stands in it, so that Hudi can roll it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import CorruptTableError, PathExistsError, StorageError
from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of
from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.metadata_table.metadata_writing import encode_metadata_file, metadata_blocks
from hudisql.format.paths.file_names import HFILE, parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.commit_metadata import CommitMetadata, LogWriteStat, WriteStat
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.format.timeline.instant import DELTA_COMMIT, Instant, InstantState, new_instant_time
from hudisql.format.timeline.timeline_layout import TimelineLayout
from hudisql.storage import FileInfo, Storage, join
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.record_groups import NO_PARTITIONS, record_groups, rows_by_group
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.slicing.file_groups import FileGroupVersions, group_files
from hudisql.write.handle.log_file import instants_of_blocks, write_log_file

_OPERATION_TYPE: Final = "UPSERT_PREPPED"
_WRITE_TOKEN: Final = "0-0-0"


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """The new records of an index, and the keys (texts) that it loses.

    `group_keys` gives for keys and a number of file groups the number of the one of each key. Of a
    partitioned record index, `paths` are those of the partitions of the records, `deleted_paths` those of the
    deleted keys (`RecordGroups`).
    """

    records: EncodedCells = field(default_factory=lambda: cells_of({}))
    deleted: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    group_keys: Callable[[pa.Array, int], npt.NDArray[np.int64]] = file_groups_of
    paths: pa.Array | None = None
    deleted_paths: pa.Array | None = None


IndexUpdates = Mapping[str, IndexUpdate]
"""The updates of the indexes by their names."""


@dataclass(frozen=True, slots=True)
class _GroupUpdate:
    """What a log file is going to hold: its place and name without the write token, and its content.

    `slice_files` are the names of the base file ("" without one) and of the log files on which it is put.
    """

    index: str
    file_id: str
    base_instant_time: str
    version: int
    records: EncodedCells
    deleted: pa.Array
    slice_files: tuple[str, ...] = ("",)


def write_deltacommit(metadata: MetadataTable, instant_time: str, updates: IndexUpdates) -> None:
    """Write the updates of the table's action with this instant time, under the lock that was held when
    `metadata` was opened.

    An earlier attempt of the same action is undone first. Raises StorageError, CorruptTableError if file
    groups of an index are missing.
    """
    if has_instant(metadata, instant_time):
        undo(metadata, instant_time)
        metadata = MetadataTable(metadata.table, metadata.own)
    own, layout = metadata.own, metadata.own.timeline.layout
    planned = [
        group
        for index, update in updates.items()
        if len(update.records) or len(update.deleted)
        for group in _groups_of(metadata, index, instant_time, update)
    ]
    requested = Instant(instant_time, DELTA_COMMIT, InstantState.REQUESTED)
    inflight = requested.in_state(InstantState.INFLIGHT)
    own.storage.create(own.instant_path(requested), b"")
    profile = b"" if layout.has_completion_times else _commit(map(_planned_stat, planned)).to_json()
    own.storage.create(own.instant_path(inflight), profile)
    stats = [_write_log(metadata, group, instant_time) for group in planned]
    complete_in_metadata_table(metadata, inflight, _commit(stats))


def _commit(stats: Iterable[WriteStat]) -> CommitMetadata:
    by_index: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        index = stat.partition_path or ""
        by_index[index] = (*by_index.get(index, ()), stat)
    return CommitMetadata(partition_to_write_stats=by_index, operation_type=_OPERATION_TYPE)


def complete_in_metadata_table(metadata: MetadataTable, inflight: Instant, commit: CommitMetadata) -> None:
    """Complete an action of the metadata table, in layout 2 at a time after all times of both timelines.

    Raises StorageError.
    """
    own, completed = metadata.own, inflight.in_state(InstantState.COMPLETED)
    if own.timeline.layout.has_completion_times:
        completed = replace(completed, completion_time=next_time(metadata, after=inflight.timestamp))
    own.storage.create(own.instant_path(completed), commit_content(own.timeline.layout, commit))


def commit_content(layout: TimelineLayout, commit: CommitMetadata) -> bytes:
    """The content of a completed commit of this layout."""
    return render_commit_metadata(commit) if layout.has_completion_times else commit.to_json()


def next_time(metadata: MetadataTable, after: str = "") -> str:
    """A time after all times of both timelines, and after `after`."""
    latest = max(metadata.own.timeline.latest_time or "", metadata.table.timeline.latest_time or "", after)
    return new_instant_time(latest, now_on_timeline(metadata.table))


def _groups_of(
    metadata: MetadataTable, index: str, instant_time: str, update: IndexUpdate
) -> Iterator[_GroupUpdate]:
    """The log files of the update of an index; file groups without committed files count, too."""
    entries = metadata.entries(index)
    file_ids = _file_ids(entries)
    groups: Mapping[str, FileGroupVersions] = {}
    if not metadata.own.timeline.layout.has_completion_times:
        groups = group_files(entries, HFILE)
    if update.paths is None:
        if not file_ids:
            raise _lacks_file_groups(index)
        of_records = update.group_keys(update.records.keys, len(file_ids))
        of_deleted = update.group_keys(update.deleted, len(file_ids))
        new: list[int] = []
    else:
        file_ids, new, of_records, of_deleted = _partitioned(file_ids, update)
    records, deleted = rows_by_group(of_records), rows_by_group(of_deleted)
    none = np.zeros(0, np.int64)
    for number in sorted({*records, *deleted, *new}):
        group = _GroupUpdate(
            index,
            file_ids[number],
            instant_time,
            1,
            update.records.take(records.get(number, none)),
            update.deleted.take(pa.array(deleted.get(number, none))),
        )
        yield _on_latest_slice(metadata, group, groups[group.file_id]) if groups else group


def _partitioned(
    file_ids: Sequence[str], update: IndexUpdate
) -> tuple[list[str], list[int], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The file ids of a partitioned record index, with those of new partitions of the table.

    Then the places among them of the new ones, of the records, and of the deleted keys.
    """
    before = record_groups(file_ids) if file_ids else NO_PARTITIONS
    if before is None:
        raise _lacks_file_groups(RECORD_INDEX)
    assert update.paths is not None  # of a partitioned index
    numbers = update.paths.indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(numbers, minlength=len(update.paths.dictionary)).tolist()
    names = update.paths.dictionary.to_pylist()
    groups = before.with_new_partitions({path: n for path, n in zip(names, counts, strict=True) if n})
    of_records = groups.numbers_of(update.records.keys, update.paths)
    of_deleted = groups.numbers_of(update.deleted, update.deleted_paths)
    known = {*file_ids}
    # Hudi takes the hash of a key modulo the number of file groups that are there.
    new = [number for number, file_id in enumerate(groups.file_ids) if file_id not in known]
    return [*groups.file_ids], new, of_records, of_deleted


def _lacks_file_groups(index: str) -> CorruptTableError:
    return CorruptTableError(
        f"the metadata table has other file groups of the index {index} than it should have",
        hint="CALL create_metadata_table makes the metadata table again",
    )


def _on_latest_slice(
    metadata: MetadataTable, group: _GroupUpdate, versions: FileGroupVersions
) -> _GroupUpdate:
    """The log file as layout 1 names it, whose number no file of a failed writer has."""
    slices = metadata.latest_slices(group.index)
    file_slice = next((found for found in slices if found.file_id == group.file_id), None)
    base = max(versions) if file_slice is None else file_slice.base_instant_time
    log_files = versions[base].log_files
    base_file = None if file_slice is None else file_slice.base_file
    return replace(
        group,
        base_instant_time=base,
        version=max((log_file.version for log_file in log_files), default=0) + 1,
        slice_files=(
            "" if base_file is None else _name(base_file.path),
            *(_name(log_file.path) for log_file in log_files),
        ),
    )


def _planned_stat(group: _GroupUpdate) -> WriteStat:
    return WriteStat(
        file_id=group.file_id,
        path=None,
        partition_path=group.index,
        prev_commit=group.base_instant_time,
        num_update_writes=len(group.records),
        runtime_stats=None,
    )


def _write_log(metadata: MetadataTable, group: _GroupUpdate, instant_time: str) -> WriteStat:
    own, directory = metadata.own, join(metadata.own.base_path, group.index)
    blocks = metadata_blocks(group.records, group.deleted, group.index, instant_time)
    log_file = write_log_file(
        own.storage, directory, group.file_id, group.base_instant_time, group.version, _WRITE_TOKEN, blocks
    )
    name = _name(log_file.path)
    stat = WriteStat(
        file_id=group.file_id,
        path=f"{group.index}/{name}",
        partition_path=group.index,
        num_writes=len(group.records),
        num_deletes=len(group.deleted),
        total_write_bytes=log_file.length,
        file_size_in_bytes=log_file.length,
    )
    if own.timeline.layout.has_completion_times:
        return stat
    base_file, *log_files = group.slice_files
    return replace(
        stat,
        prev_commit=group.base_instant_time,
        log_write=LogWriteStat(
            log_version=group.version, log_offset=0, base_file=base_file, log_files=(*log_files, name)
        ),
    )


def write_base_file(
    storage: Storage,
    base_path: str,
    index: str,
    file_id: str,
    instant_time: str,
    records: EncodedCells,
) -> WriteStat:
    """Write the base file of a file group of the metadata table at `base_path`, in one atomic step.

    The file may be there already if it is the same: another attempt of a task has written it. Raises
    StorageError, also if it is another one.
    """
    content = encode_metadata_file(records)
    name = f"{file_id}_{_WRITE_TOKEN}_{instant_time}.{HFILE}"
    path = join(base_path, index, name)
    try:
        storage.create(path, content)
    except PathExistsError:
        if storage.read(path) != content:
            raise StorageError(
                f"{path} is there already, with other records",
                hint="another process makes this metadata table, or was killed: run the statement again",
            ) from None
    return WriteStat(
        file_id=file_id,
        path=f"{index}/{name}",
        partition_path=index,
        num_writes=len(records),
        total_write_bytes=len(content),
        file_size_in_bytes=len(content),
    )


def delete_index_files(metadata: MetadataTable, is_chosen: Callable[[str], bool]) -> None:
    """Delete the files of all indexes whose names are chosen. Raises StorageError."""
    infos = _index_files(metadata)
    metadata.own.storage.delete_files([info.path for info in infos if is_chosen(info.name)])


def _index_files(metadata: MetadataTable) -> list[FileInfo]:
    own = metadata.own
    directories = [join(own.base_path, index) for index in metadata.indexes]
    return [info for infos in own.storage.list_directories(directories, missing_ok=True) for info in infos]


def _file_ids(entries: Sequence[FileInfo]) -> list[str]:
    """The file ids of an index, sorted: those of all files, committed or not."""
    bases = (parse_base_file_name(entry.name, HFILE) for entry in entries)
    logs = (parse_log_file_name(entry.name) for entry in entries)
    return sorted({base.file_id for base in (*bases, *logs) if base is not None})


def has_instant(metadata: MetadataTable, instant_time: str) -> bool:
    """True if the metadata table has an action of this instant time, in whatever state."""
    return any(instant.timestamp == instant_time for instant in metadata.own.timeline.instants)


def undo(metadata: MetadataTable, instant_time: str) -> bool:
    """Delete the log files of a deltacommit, then its instant; False if nothing can be undone.

    In layout 1 a log file may hold blocks of other deltacommits, too. Raises StorageError.
    """
    own = metadata.own
    log_files = _log_files_of(metadata, instant_time)
    if log_files is None:
        return False
    own.storage.delete_files(log_files)
    instants = [instant for instant in own.timeline.instants if instant.timestamp == instant_time]
    for instant in sorted(instants, key=lambda instant: instant.state, reverse=True):
        own.storage.delete_file(own.instant_path(instant))
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        pending = Instant(instant_time, DELTA_COMMIT, state)
        own.storage.delete_file(own.instant_path(pending))
    return True


def _log_files_of(metadata: MetadataTable, instant_time: str) -> list[str] | None:
    """The paths of the log files of a deltacommit; None if one has blocks of another one."""
    storage = metadata.own.storage
    logs = [(info.path, parse_log_file_name(info.name)) for info in _index_files(metadata)]
    if metadata.own.timeline.layout.has_completion_times:
        return [path for path, log in logs if log is not None and log.base_instant_time == instant_time]
    instants = {path: instants_of_blocks(storage, path) for path, log in logs if log is not None}
    if any(instant_time in found and len(found) > 1 for found in instants.values()):
        return None
    return [path for path, found in instants.items() if instant_time in found]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
