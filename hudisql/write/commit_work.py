"""What the tasks of a commit are told, and what they give back: values between driver and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudisql.format.bucket_id import new_file_id_prefix
from hudisql.format.commit_metadata import LogWriteStat
from hudisql.format.file_names import new_file_id, write_token
from hudisql.format.table_properties import UNSAFE_TYPES
from hudisql.format.timeline import instant_path
from hudisql.read.hybrid_calendar import CalendarSettings
from hudisql.read.log_rule import LogRule
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice
from hudisql.write.base_file import BaseFileForm, BaseFilePlace, base_file_avro_schema
from hudisql.write.commit import OpenCommit
from hudisql.write.log_file import LogForm
from hudisql.write.write_options import WriteOptions


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One bucket's work: `file_slice` to merge with, or None for new file groups.

    `rows` is None if nobody has counted them; `is_new_partition` asks for the marker file, `depth`
    is the number of its folders.
    """

    number: int
    file_slice: FileSlice | None
    partition_values: Mapping[str, object]
    place: BaseFilePlace
    rows: int | None
    is_new_partition: bool
    depth: int

    def of_attempt(self, attempt: int) -> WriteTask:
        """The task with file names of their own for one of several tries."""
        token, _, _ = self.place.write_token.rpartition("-")
        return replace(self, place=replace(self.place, write_token=f"{token}-{attempt}"))


@dataclass(frozen=True, slots=True)
class CommitWork:
    """What all tasks of a commit share; see `MergeTask` for `ordering`, `newest_by` and `log_rule`.

    With `appends` (merge-on-read) changes go to log files where those say the same;
    `merges_bootstrapped` says that the real Hudi would read skeletons with log files wrong. With
    `unique_new_keys` the results name keys that several new rows have.
    """

    storage: Storage
    base_path: str
    instant_time: str
    inflight_path: str
    schema: pa.Schema
    avro_schema: str
    form: BaseFileForm
    record_key_fields: tuple[str, ...]
    composite: bool
    ordering: str | None
    newest_by: str | None
    bytes_per_row: float
    calendars: CalendarSettings
    log_rule: LogRule | None = None
    appends: bool = False
    merges_bootstrapped: bool = False
    log_form: LogForm = field(default_factory=LogForm)
    unique_new_keys: bool = False


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that a task wrote; counts as in Hudi's write statistics, `changes` are the rows it took in.

    `moved_in` of the inserted rows come from other files, where they count as moved. `combined` incoming rows
    were left out, since another of their key (or of the row that they change) is newer.
    `log` is there for a log file; `repeated_keys` are those of several new rows, if that was asked for.
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
    late: int
    moved: int
    milliseconds: int
    changes: int
    moved_in: int = 0
    combined: int = 0
    log: LogWriteStat | None = None
    repeated_keys: tuple[str, ...] = ()


def work_of(
    commit: OpenCommit,
    options: WriteOptions,
    schema: pa.Schema,
    calendars: CalendarSettings,
    *,
    log_rule: LogRule | None = None,
) -> CommitWork:
    """What the tasks of this commit share."""
    table = commit.table
    return CommitWork(
        storage=table.storage,
        base_path=table.base_path,
        instant_time=commit.instant_time,
        inflight_path=instant_path(table.base_path, commit.instant),
        schema=schema,
        avro_schema=base_file_avro_schema(schema, table.name),
        form=options.form,
        record_key_fields=table.properties.record_key_fields,
        composite=options.composite_keys,
        ordering=options.ordering,
        newest_by=options.newest_by,
        bytes_per_row=options.sizing.bytes_per_row,
        calendars=calendars,
        log_rule=log_rule,
        appends=table.is_merge_on_read,
        merges_bootstrapped=table.properties.get(UNSAFE_TYPES) is not None,
        log_form=options.log_form,
        unique_new_keys=options.unique_new_keys,
    )


def task_of(
    work: CommitWork,
    number: int,
    partition_path: str,
    partition_values: Mapping[str, object],
    *,
    is_new_partition: bool,
    file_slice: FileSlice | None = None,
    rows: int | None = None,
    hash_bucket: int | None = None,
) -> WriteTask:
    """The work of bucket (or Spark partition) `number` in one partition of the table.

    `hash_bucket` is the one whose new file group it is, in a table with a bucket index.
    """
    return WriteTask(
        number=number,
        file_slice=file_slice,
        partition_values=partition_values,
        place=BaseFilePlace(
            folder=join(work.base_path, partition_path) if partition_path else work.base_path,
            partition_path=partition_path,
            instant_time=work.instant_time,
            file_id_prefix=new_file_id() if hash_bucket is None else new_file_id_prefix(hash_bucket),
            write_token=write_token(number, _stage_of(work.instant_time), 0),
            task_partition_id=number,
        ),
        rows=rows,
        is_new_partition=is_new_partition,
        depth=len([part for part in partition_path.split("/") if part]),
    )


def _stage_of(instant_time: str) -> int:
    """A number in place of Spark's stage, by which two writers never give a log file the same name."""
    return int(instant_time[-9:])
