"""Register-only partitions: directories of plain parquet files that are partitions of a table without Hudi
files.

A bootstrap records them in the table's `.aux` directory. A partition stays register-only until a commit takes
its files (`resynced_sources`): a lift writes their rows, an overwrite or drop replaces them. Their rows have
no meta columns. Apache Hudi does not know such partitions (docs/adr/0015). Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import (
    CorruptTableError,
    NoSuchPathError,
    NoSuchStateError,
    RegisterOnlyError,
    SourceChangedError,
    UnsupportedTableError,
)
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.file_names import is_hidden
from hudisql.format.paths.ignored_names import is_ignored
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, partition_of
from hudisql.table.partitions.resynced_sources import (
    EMPTY_DIRECTORY,
    GONE_DIRECTORY,
    ResyncedSource,
    ResyncList,
    ResyncState,
    read_resync_lists,
    record_resync,
)

RECORD_FILE: Final = f"{METADATA_DIRECTORY}/.aux/.hudisql-register-only"
_SCHEMA: Final = pa.schema([("partition_path", pa.string()), ("directory", pa.string())])


@dataclass(frozen=True, slots=True)
class RegisteredPartition:
    """A partition path of the table, and the directory whose parquet files hold its rows.

    `files` are the files that the ending commit has taken. None means all files in the directory: the
    partition is register-only, or its directory was missing when it ended.
    """

    path: str
    directory: str
    files: tuple[ExternalFile, ...] | None = None


@dataclass(frozen=True)
class RegisteredPartitions:
    """The register-only partitions of one state of a table, by path."""

    by_path: Mapping[str, RegisteredPartition] = field(default_factory=dict)

    def among(self, paths: Iterable[str]) -> list[RegisteredPartition]:
        """The partitions with these paths, by path."""
        return [self.by_path[path] for path in sorted(self.by_path.keys() & set(paths))]


def write_registered_partitions(
    storage: Storage, base_path: str, partitions: Sequence[RegisteredPartition]
) -> int:
    """Record the partitions of a new table; returns the bytes written. Raises StorageError."""
    columns = [
        [partition.path for partition in partitions],
        [partition.directory for partition in partitions],
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=_SCHEMA), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    storage.write(join(base_path, RECORD_FILE), content)
    return len(content)


def read_registered_record(storage: Storage, base_path: str) -> list[RegisteredPartition]:
    """The partitions that the bootstrap of the table recorded, including those that have ended.

    Raises CorruptTableError, NoSuchPathError if it recorded none, StorageError.
    """
    path = join(base_path, RECORD_FILE)
    content = storage.read(path)
    try:
        rows = pq.read_table(pa.BufferReader(content))
        columns = [rows.column(name).to_pylist() for name in _SCHEMA.names]
    except (pa.ArrowException, KeyError) as error:
        raise CorruptTableError(
            f"cannot read {path}, which names the register-only partitions: {error}"
        ) from error
    return [RegisteredPartition(*row) for row in zip(*columns, strict=True)]


def registered_partitions(
    table: HudiTable, as_of: str | None = None, *, own_instant: str = ""
) -> RegisteredPartitions:
    """The register-only partitions as the table was opened, or at an instant time.

    A partition that the pending commit `own_instant` takes is left out. Raises NoSuchStateError if the
    partitions of that time are no longer known, CorruptTableError, StorageError.
    """
    if not table.properties.has_register_only_partitions:
        return RegisteredPartitions()

    def read() -> RegisteredPartitions:
        recorded = read_registered_record(table.storage, table.base_path)
        return RegisteredPartitions(_still_registered(table, recorded, as_of, own_instant))

    return read() if as_of is not None or own_instant else table.list_once("register-only", read)


def with_registered(
    table: HudiTable, partitions: Sequence[TablePartition], registered: RegisteredPartitions
) -> list[TablePartition]:
    """The partitions and the register-only ones, each once, by path. Raises CorruptTableError."""
    if not registered.by_path:
        return list(partitions)
    found = {partition.path: partition for partition in partitions}
    found |= {path: partition_of(table, path) for path in registered.by_path if path not in found}
    return [found[path] for path in sorted(found)]


def registered_slices(
    table: HudiTable, partitions: Sequence[RegisteredPartition], written: Collection[str]
) -> list[FileSlice]:
    """Each file of the partitions as a slice without base file; `written` are the paths of partitions with
    Hudi files.

    Raises SourceChangedError if a directory is gone, UnsupportedTableError if another writer has written into
    such a partition.
    """
    file_slices: list[FileSlice] = []
    for partition, files in zip(partitions, files_of_registered(table, partitions), strict=True):
        if files and partition.path in written:
            raise _written_by_others(table, partition)
        file_slices += [
            FileSlice(
                partition.path,
                file.path,
                "",
                None,
                external_file=file,
                accepts_changed_source=table.accepts_changed_sources,
            )
            for file in files
        ]
    return file_slices


def refuse_registered(table: HudiTable, paths: Iterable[str], *, own_instant: str = "") -> None:
    """Raise RegisterOnlyError if one of the partitions (paths) is register-only and has files."""
    if not table.properties.has_register_only_partitions:
        return
    partitions = registered_partitions(table, own_instant=own_instant).among(paths)
    if filled := _with_files(table, partitions):
        raise register_only_error(table, filled)


def refuse_any_registered(table: HudiTable) -> None:
    """Raise RegisterOnlyError if a partition is register-only and has files: no upgrade keeps those."""
    registered = registered_partitions(table)
    if filled := _with_files(table, registered.among(registered.by_path)):
        raise RegisterOnlyError(
            f"the table at {table.base_path} has register-only partitions ({len(filled):,}, such as "
            f"'{filled[0]}'), which only tables of version 6 have",
            partitions=filled,
            hint="lift them first: CALL resync_bootstrap(table => …, lift => 'true')",
        )


def _with_files(table: HudiTable, partitions: Sequence[RegisteredPartition]) -> list[str]:
    files = files_of_registered(table, partitions)
    return [partition.path for partition, some in zip(partitions, files, strict=True) if some]


def register_only_error(table: HudiTable, paths: Sequence[str]) -> RegisterOnlyError:
    """The error of a write that touches these register-only partitions."""
    count = f"{len(paths):,} register-only partition{'' if len(paths) == 1 else 's'}"
    return RegisterOnlyError(
        f"the write touches {count} of the table at {table.base_path}, such as '{paths[0]}', whose rows lie "
        "in the source alone",
        partitions=paths,
        hint="lift them first: CALL resync_bootstrap(table => …, lift => '<predicate over the partition "
        "columns>')",
    )


def end_registration(table: HudiTable, instant_time: str, partitions: Collection[str]) -> None:
    """Record that an inflight commit replaces the rows of those partitions (paths) that are register-only.

    Partitions without files or without a directory end, too. Raises WriteConflictError, StorageError.
    """
    ended = registered_partitions(table).among(partitions)
    if not ended:
        return
    sources = []
    for partition, files in zip(ended, files_if_there(table, ended), strict=True):
        length = GONE_DIRECTORY if files is None else EMPTY_DIRECTORY
        taken = files or (ExternalFile(partition.directory, length, 0),)
        sources += [ResyncedSource(partition.path, file) for file in taken]
    record_resync(table, instant_time, read_resync_lists(table), sources)


def _still_registered(
    table: HudiTable, recorded: Iterable[RegisteredPartition], as_of: str | None, own_instant: str
) -> dict[str, RegisteredPartition]:
    ends = _first_takers(table, {partition.path for partition in recorded}, own_instant)
    first = table.timeline.first_active_time or ""
    if as_of is not None and as_of < first and any(not end.instant_time for end in ends.values()):
        raise NoSuchStateError(
            f"it is no longer known which partitions of {table.base_path} were register-only at {as_of}",
            hint=f"ask for {first} or a later instant",
        )
    partitions = {}
    for partition in recorded:
        taken = ends.get(partition.path)
        if taken is None:
            partitions[partition.path] = partition
        elif as_of is not None and taken.instant_time > as_of:
            files = _taken_files(taken, partition.path)
            was_gone = any(
                source.partition_path == partition.path and source.file.length == GONE_DIRECTORY
                for source in taken.sources
            )
            partitions[partition.path] = RegisteredPartition(
                partition.path, partition.directory, None if was_gone else files
            )
    return partitions


def _first_takers(table: HudiTable, paths: Collection[str], own_instant: str) -> dict[str, ResyncList]:
    """The list of the first commit that took files of each partition (path)."""
    lists = read_resync_lists(table, as_opened=True)
    resync_lists: dict[str, ResyncList] = {}
    for resync_list in sorted(lists.lists, key=lambda resync_list: resync_list.instant_time):
        is_complete = lists.states[resync_list.number] in (ResyncState.COMMITTED, ResyncState.ARCHIVED)
        if is_complete or (own_instant and resync_list.instant_time == own_instant):
            taken = {source.partition_path for source in resync_list.sources}.intersection(paths)
            resync_lists = {**dict.fromkeys(taken, resync_list), **resync_lists}
    return resync_lists


def ended_registrations(table: HudiTable, instants: Collection[str]) -> dict[str, tuple[ExternalFile, ...]]:
    """The partitions (paths) that commits with these instant times have ended, and the files that they took.

    Raises CorruptTableError, StorageError.
    """
    recorded = read_registered_record(table.storage, table.base_path)
    ends = _first_takers(table, {partition.path for partition in recorded}, "")
    return {path: _taken_files(taken, path) for path, taken in ends.items() if taken.instant_time in instants}


def _taken_files(taken: ResyncList, path: str) -> tuple[ExternalFile, ...]:
    return tuple(source.file for source in taken.sources if source.partition_path == path and source.is_file)


def files_of_registered(
    table: HudiTable, partitions: Sequence[RegisteredPartition]
) -> list[tuple[ExternalFile, ...]]:
    """The data files of each partition, listed once for a table with a `listing`.

    Raises SourceChangedError if a directory is gone, StorageError.
    """
    known = table.list_once("files of register-only", dict[RegisteredPartition, tuple[ExternalFile, ...]])
    missing = [partition for partition in partitions if partition not in known]
    known.update(zip(missing, _files_that_are_there(table, missing), strict=True))
    return [known[partition] for partition in partitions]


def _files_that_are_there(
    table: HudiTable, partitions: Sequence[RegisteredPartition]
) -> list[tuple[ExternalFile, ...]]:
    try:
        return _list_files(table, partitions, missing_ok=False)
    except NoSuchPathError as error:
        raise SourceChangedError(
            f"the directory of a register-only partition of {table.base_path} is gone: {error.message}",
            hint="bring it back, or drop the partition: ALTER TABLE … DROP PARTITION",
        ) from error


def files_if_there(
    table: HudiTable, partitions: Sequence[RegisteredPartition]
) -> list[tuple[ExternalFile, ...] | None]:
    """The data files of each partition, None if its directory is gone. Raises StorageError."""
    found = _list_files(table, partitions, missing_ok=True)
    bare = [partition.directory for partition, files in zip(partitions, found, strict=True) if not files]
    infos = dict(zip(bare, table.storage.infos(bare), strict=True))
    return [
        None if not files and infos[partition.directory] is None else files
        for partition, files in zip(partitions, found, strict=True)
    ]


def _list_files(
    table: HudiTable, partitions: Sequence[RegisteredPartition], *, missing_ok: bool
) -> list[tuple[ExternalFile, ...]]:
    ignore = table.properties.bootstrap_ignore
    live = [partition for partition in partitions if partition.files is None]
    listings = table.storage.list_directories(
        [partition.directory for partition in live], missing_ok=missing_ok
    )
    listed = {
        partition.path: tuple(
            ExternalFile(entry.path, entry.length, entry.modification_time_ms)
            for entry in entries
            if not (entry.is_directory or is_hidden(entry.name) or is_ignored(entry.name, ignore))
            and entry.length
        )
        for partition, entries in zip(live, listings, strict=True)
    }
    return [
        listed[partition.path] if partition.files is None else partition.files for partition in partitions
    ]


def _written_by_others(table: HudiTable, partition: RegisteredPartition) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"partition '{partition.path}' of {table.base_path} is register-only, its rows lie in "
        f"{partition.directory}, and another writer, which does not know that, has written into it: a row "
        "may be there twice",
        hint="leave the partition out by a filter on the partition columns; or roll the other writer's "
        "commits back (CALL rollback_to_instant), lift the partition and write again",
    )
