"""Input and output of write tasks: plain values that are sent between driver and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.keys.record_keys import NO_REPEATED_KEYS, RepeatedKeys
from hudisql.format.log_file.change_log import change_log_schema
from hudisql.format.paths.file_names import new_file_id, write_token
from hudisql.format.table_properties import UNSAFE_TYPES
from hudisql.format.timeline.commit_metadata import LogWriteStat
from hudisql.format.timeline.instant import Instant
from hudisql.format.timeline.timeline_layout import TimelineLayout
from hudisql.read.calendar.hybrid_calendar import CalendarSettings
from hudisql.read.merge.merge_mode import (
    DEFAULT_MERGE_MODE,
    LogMergeConfig,
    RecordMergeMode,
    log_merge_config_for,
    merge_mode_of,
)
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.handle.base_file import (
    BaseFileConfig,
    FileNaming,
    WrittenBaseFile,
    base_file_avro_schema,
)
from hudisql.write.handle.change_log_writer import ChangeLogConfig
from hudisql.write.handle.log_file import LogFileConfig
from hudisql.write.keygen.new_row_keys import NewRowKeys
from hudisql.write.transaction.commit import OpenCommit


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One bucket's work: `file_slice` to merge with, or None for new file groups.

    `rows` is None if the rows were not counted; with `is_new_partition` the marker file is written, `depth`
    is the number of the partition's directories.
    """

    number: int
    file_slice: FileSlice | None
    partition_values: Mapping[str, object]
    file_naming: FileNaming
    rows: int | None
    is_new_partition: bool
    depth: int

    def of_attempt(self, attempt: int) -> WriteTask:
        """The task with the file names of one attempt."""
        token, _, _ = self.file_naming.write_token.rpartition("-")
        return replace(self, file_naming=replace(self.file_naming, write_token=f"{token}-{attempt}"))


@dataclass(frozen=True, slots=True)
class WriteContext:
    """The values that all tasks of a commit share; see `MergeTask` for `event_time_fields`,
    `ordering_fields`, `log_merge_config` and `merge_mode`.

    With `appends` (merge-on-read) changes go to log files if these have the same effect;
    `merges_bootstrapped` is true if Apache Hudi would read skeletons with log files wrongly. With
    `unique_new_keys` the results name the keys of several new rows. With `merges_inserts` all changes are
    inserts, which replace rows of their keys in the slices that take them. `has_task_attempts`: see
    `OpenCommit`. With `change_log` merges log their changes.
    """

    storage: Storage
    base_path: str
    instant_time: str
    instant: Instant
    layout: TimelineLayout
    schema: pa.Schema
    avro_schema: str
    base_file_config: BaseFileConfig
    record_key_fields: tuple[str, ...]
    complex_keys: bool
    event_time_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    bytes_per_row: float
    calendars: CalendarSettings
    log_merge_config: LogMergeConfig | None = None
    merge_mode: RecordMergeMode = DEFAULT_MERGE_MODE
    appends: bool = False
    merges_bootstrapped: bool = False
    log_file_config: LogFileConfig = field(default_factory=LogFileConfig)
    unique_new_keys: bool = False
    merges_inserts: bool = False
    has_task_attempts: bool = True
    change_log: ChangeLogConfig | None = None

    def row_keys(self, task: int) -> NewRowKeys:
        """Makes the record keys of the new rows of one task, by its number."""
        return NewRowKeys(self.record_key_fields, self.complex_keys, self.instant_time, task)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that a task wrote; counts as in Hudi's write statistics, `changes` is the number of incoming
    rows.

    `moved_in` counts inserted rows that come from other files, where they count as moved. `combined` counts
    incoming rows that newer ones of the same key or row replaced. `log` is set for a log file;
    `repeated_keys` are the keys of several new rows, if requested. `change_logs` are the bytes of the change
    logs beside the file, by path. `footer` is that of a base file which this process has written.
    """

    file_id: str
    path: str
    partition_path: str
    previous_instant: str | None
    rows: int
    bytes: int
    inserted: int
    updated: int
    deleted: int
    late_arriving: int
    moved: int
    milliseconds: int
    changes: int
    moved_in: int = 0
    combined: int = 0
    log: LogWriteStat | None = None
    repeated_keys: RepeatedKeys = NO_REPEATED_KEYS
    change_logs: Mapping[str, int] = field(default_factory=dict)
    footer: pq.FileMetaData | None = field(default=None, compare=False, repr=False)


def new_group_file(file: WrittenBaseFile, partition_path: str, milliseconds: int) -> WrittenFile:
    """The first file of a new file group, all of whose rows are new there."""
    return WrittenFile(
        file_id=file.file_id,
        path=file.path,
        partition_path=partition_path,
        previous_instant=None,
        rows=file.rows,
        bytes=file.bytes,
        inserted=file.rows,
        updated=0,
        deleted=0,
        late_arriving=0,
        moved=0,
        milliseconds=milliseconds,
        changes=file.rows,
        footer=file.footer,
    )


def make_write_context(
    commit: OpenCommit,
    options: WriteOptions,
    schema: pa.Schema,
    calendars: CalendarSettings,
    *,
    slices: Iterable[FileSlice] = (),
) -> WriteContext:
    """The context of all tasks of this commit, which read the `slices`. Raises UnsupportedTableError."""
    table = commit.table
    return WriteContext(
        storage=table.storage,
        base_path=table.base_path,
        instant_time=commit.instant_time,
        instant=commit.instant,
        layout=table.timeline.layout,
        schema=schema,
        avro_schema=base_file_avro_schema(table.in_files(schema), table.name),
        base_file_config=replace(
            options.base_file_config, populates_meta=table.properties.populate_meta_fields
        ),
        record_key_fields=table.properties.record_key_fields,
        complex_keys=options.complex_keys,
        event_time_fields=options.event_time_fields,
        ordering_fields=options.ordering_fields,
        bytes_per_row=options.sizing.bytes_per_row,
        calendars=calendars,
        log_merge_config=log_merge_config_for(table, slices),
        merge_mode=merge_mode_of(table),
        appends=table.is_merge_on_read,
        merges_bootstrapped=table.properties.get(UNSAFE_TYPES) is not None,
        log_file_config=options.log_file_config,
        unique_new_keys=options.unique_new_keys,
        merges_inserts=options.merges_inserts,
        has_task_attempts=commit.has_task_attempts,
        change_log=_change_log_config(commit, options, schema),
    )


def _change_log_config(
    commit: OpenCommit, options: WriteOptions, schema: pa.Schema
) -> ChangeLogConfig | None:
    table = commit.table
    mode = table.properties.change_log_mode
    if mode is None:
        return None
    return ChangeLogConfig(
        mode, schema, change_log_schema(mode, schema, table.name), options.log_file_config.max_block_bytes
    )


def make_write_task(
    write_context: WriteContext,
    number: int,
    partition_path: str,
    partition_values: Mapping[str, object],
    *,
    is_new_partition: bool,
    file_slice: FileSlice | None = None,
    rows: int | None = None,
    file_id_prefix: str | None = None,
) -> WriteTask:
    """The task of bucket (or Spark partition) `number` in one partition of the table.

    `file_id_prefix` is that of a new file group; a random one by default.
    """
    return WriteTask(
        number=number,
        file_slice=file_slice,
        partition_values=partition_values,
        file_naming=FileNaming(
            directory=join(write_context.base_path, partition_path)
            if partition_path
            else write_context.base_path,
            partition_path=partition_path,
            instant_time=write_context.instant_time,
            file_id_prefix=file_id_prefix or new_file_id(),
            # A number in place of Spark's stage id, so that two writers never use the same log file name.
            write_token=write_token(number, int(write_context.instant_time[-9:]), 0),
            task_partition_id=number,
        ),
        rows=rows,
        is_new_partition=is_new_partition,
        depth=len([part for part in partition_path.split("/") if part]),
    )
