"""Apply changes to a table: count them, plan the work, write file slices in Spark tasks, commit.

The one way by which rows of SQL statements and DataFrames get into a table. Follows Hudi's
`BaseSparkCommitActionExecutor`: workload profile, partitioner, write handles, commit. Spark moves the rows,
`write_tasks` writes them. Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import RepeatedKeysError, WriteRefusedError
from hudisql.format.commit_metadata import SCHEMA_KEY, CommitMetadata, RuntimeStats, WriteStat
from hudisql.format.file_names import new_file_id, write_token
from hudisql.format.partition_path import partition_path, render_partition_value
from hudisql.format.schema import avro_from_arrow
from hudisql.format.table_properties import UNSAFE_TYPES
from hudisql.format.timeline import instant_path
from hudisql.read.arrow_scan import calendar_settings
from hudisql.read.log_rule import log_rule_of
from hudisql.read.task_errors import translate_task_error
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions import TablePartition, list_partitions
from hudisql.table.snapshot import load_file_slices
from hudisql.write.base_file import BaseFileForm, BaseFilePlace, base_file_avro_schema
from hudisql.write.commit import OpenCommit, abandon_commit, begin_commit, complete_commit
from hudisql.write.key_generator import has_composite_keys
from hudisql.write.log_file import BlockFormat
from hudisql.write.markers import list_markers
from hudisql.write.overwrite import Overwrite, replaced_file_ids
from hudisql.write.routing import CountedChanges, count_changes, route_changes
from hudisql.write.work_plan import Bucket, FileSizing, plan_work
from hudisql.write.write_tasks import BUCKET, CommitWork, WriteTask, WrittenFile, run_write_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SHOWN_KEYS: Final = 3


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How files are written and sized.

    `ordering` is the column by which an UPSERT may come late, if any; `newest_by` the one that decides
    between several changes of one row, `block_format` how log files hold rows.
    With `unique_new_keys` new rows of one key and partition are refused.
    """

    form: BaseFileForm = field(default_factory=BaseFileForm)
    sizing: FileSizing = field(default_factory=FileSizing)
    ordering: str | None = None
    newest_by: str | None = None
    block_format: BlockFormat = "avro"
    unique_new_keys: bool = False


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a commit did; `instant_time` is None if there was nothing to do and so no commit.

    `dropped_metadata_table`: see `OpenCommit`.
    """

    instant_time: str | None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    moved: int = 0
    late: int = 0
    files: int = 0
    bytes: int = 0
    dropped_metadata_table: bool = False


def apply_changes(
    spark: SparkSession,
    table: HudiTable,
    changes: DataFrame,
    operation_type: str,
    options: WriteOptions | None = None,
    *,
    schema: pa.Schema | None = None,
    overwrite: Overwrite | None = None,
) -> WriteResult:
    """Write `changes` (the columns of `changes.change_schema`) as one commit; nothing is visible before it.

    They are evaluated once. `schema` is what the commit makes the table's, by default it stays. With
    `overwrite` all of them are new rows, which take the place of what that says. Whatever goes wrong, what
    was written is taken back. Raises WriteRefusedError, WriteConflictError, UnsupportedTableError,
    StorageError, and Spark's own exceptions.
    """
    options = options or WriteOptions()
    schema = schema or table.schema
    kept = changes.persist()
    try:
        counted = count_changes(kept, table)
        if not counted.rows and overwrite is None:
            return WriteResult(None)
        commit = begin_commit(table, operation_type, replaces=overwrite is not None)
        try:
            files = (
                _write_files(spark, commit, kept, counted, options, schema, fills_up=overwrite is None)
                if counted.rows
                else []
            )
            _remove_strays(commit, files)
            replaced = None
            if overwrite is not None:
                touched = {file.partition_path for file in files}
                replaced = replaced_file_ids(commit.table, overwrite, touched)
            complete_commit(commit, _metadata(commit, files, schema, replaced))
        except BaseException:
            abandon_commit(commit)
            raise
    finally:
        kept.unpersist()
    return WriteResult(
        commit.instant_time,
        inserted=sum(file.inserted for file in files),
        updated=sum(file.updated for file in files),
        deleted=sum(file.deleted for file in files),
        moved=sum(file.moved for file in files),
        late=sum(file.late for file in files),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        dropped_metadata_table=commit.dropped_metadata_table,
    )


def _write_files(
    spark: SparkSession,
    commit: OpenCommit,
    changes: DataFrame,
    counted: CountedChanges,
    options: WriteOptions,
    schema: pa.Schema,
    *,
    fills_up: bool,
) -> list[WrittenFile]:
    """Write all files; with `fills_up` new rows also go to small file groups that are there."""
    table = commit.table
    known = {partition.path: partition for partition in list_partitions(table)}
    of_values = _partitions_of_values(table, known.values(), counted.new_rows)
    concerned = {path for path, _ in counted.changed} | set(of_values.values())
    slices = load_file_slices(table, [known[path] for path in sorted(concerned) if path in known])
    new_by_path: dict[str, int] = defaultdict(int)
    for values, rows in counted.new_rows.items():
        new_by_path[of_values[values]] += rows
    plan = plan_work(slices if fills_up else [], counted.changed, new_by_path, options.sizing)
    tasks = {
        bucket.number: pickle.dumps(_write_task(commit, bucket, known, of_values)) for bucket in plan.buckets
    }
    work = CommitWork(
        storage=table.storage,
        base_path=table.base_path,
        instant_time=commit.instant_time,
        inflight_path=instant_path(table.base_path, commit.instant),
        schema=schema,
        avro_schema=base_file_avro_schema(schema, table.name),
        form=options.form,
        record_key_fields=table.properties.record_key_fields,
        composite=has_composite_keys(table, slices),
        ordering=options.ordering,
        newest_by=options.newest_by,
        bytes_per_row=options.sizing.bytes_per_row,
        calendars=calendar_settings(spark),
        log_rule=log_rule_of(table) if any(each.has_log_files for each in slices) else None,
        appends=table.is_merge_on_read,
        merges_bootstrapped=table.properties.get(UNSAFE_TYPES) is not None,
        block_format=options.block_format,
        unique_new_keys=options.unique_new_keys,
    )
    routed = route_changes(spark, changes, plan, of_values, table)
    shared = spark.sparkContext.broadcast(tasks)

    def write(batches: Any) -> Any:
        from pyspark import TaskContext

        running = TaskContext.get()
        attempt = 0 if running is None else int(running.taskAttemptId())
        return run_write_tasks(work, shared.value, attempt, batches)

    frame = routed.repartitionById(len(plan.buckets), BUCKET).mapInArrow(write, "written binary")
    files: list[WrittenFile] = [pickle.loads(row[0]) for row in _collect(frame)]
    taken = sum(file.changes for file in files)
    if taken != counted.rows:
        raise WriteRefusedError(
            f"the changes to {table.base_path} were {counted.rows} rows when they were counted, and {taken} "
            "when they were written: they are not the same each time they are computed",
            hint="store the source in a table first, then use that; nothing was written",
        )
    _refuse_repeated_keys(table, files)
    return files


def _refuse_repeated_keys(table: HudiTable, files: Sequence[WrittenFile]) -> None:
    """Raise RepeatedKeysError if new rows of one partition share a record key."""
    repeated = sorted({key for file in files for key in file.repeated_keys})
    if repeated:
        shown = ", ".join(f"'{key}'" for key in repeated[:_SHOWN_KEYS])
        raise RepeatedKeysError(
            f"several new rows have one record key: {len(repeated)} key(s) of {table.base_path}, among them "
            f"{shown}; nothing was written",
            hint="make the source unique by the record key (for example by row_number())",
        )


def _remove_strays(commit: OpenCommit, files: Sequence[WrittenFile]) -> None:
    """Delete what tasks that were tried twice have left (Hudi's `reconcileAgainstMarkers`)."""
    table = commit.table
    written = {file.path for file in files}
    marked = [
        join(table.base_path, marker.partition_path, marker.file_name)
        for marker in list_markers(table.storage, table.base_path, commit.instant_time)
    ]
    table.storage.delete_files([path for path in marked if path not in written])


def _collect(frame: DataFrame) -> list[Any]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return frame.collect()
    except (PySparkException, Py4JError) as error:
        own = translate_task_error(error)
        if own is not None:
            raise own from error
        raise


def _partitions_of_values(
    table: HudiTable, known: Any, new_rows: Mapping[tuple[object, ...], int]
) -> dict[tuple[object, ...], str]:
    """The partition path of each tuple of partition values: an existing one's, or as the table makes them."""
    by_values = {partition.values: partition.path for partition in known}
    properties = table.properties
    names = [column.name for column in table.partition_columns]
    return {
        values: by_values[values]
        if values in by_values
        else partition_path(
            names,
            [render_partition_value(value) for value in values],
            hive_style=properties.hive_style_partitioning,
            url_encode=properties.url_encode_partitioning,
        )
        for values in new_rows
    }


def _write_task(
    commit: OpenCommit,
    bucket: Bucket,
    known: Mapping[str, TablePartition],
    of_values: Mapping[tuple[object, ...], str],
) -> WriteTask:
    table = commit.table
    columns = [column.name for column in table.partition_columns]
    partition = known.get(bucket.partition_path)
    if partition is not None:
        values = partition.values
    else:
        values = next(each for each, path in of_values.items() if path == bucket.partition_path)
    return WriteTask(
        number=bucket.number,
        file_slice=bucket.file_slice,
        partition_values=dict(zip(columns, values, strict=True)),
        place=BaseFilePlace(
            folder=join(table.base_path, bucket.partition_path) if bucket.partition_path else table.base_path,
            partition_path=bucket.partition_path,
            instant_time=commit.instant_time,
            file_id_prefix=new_file_id(),
            write_token=write_token(bucket.number, 0, 0),
            task_partition_id=bucket.number,
        ),
        rows=bucket.rows,
        is_new_partition=partition is None,
        depth=len([part for part in bucket.partition_path.split("/") if part]),
    )


def _metadata(
    commit: OpenCommit,
    files: Sequence[WrittenFile],
    schema: pa.Schema,
    replaced: Mapping[str, tuple[str, ...]] | None,
) -> CommitMetadata:
    table = commit.table
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for file in sorted(files, key=lambda each: (each.partition_path, each.file_id)):
        stats[file.partition_path].append(
            WriteStat(
                file_id=file.file_id,
                path=file.path[len(table.base_path) :].lstrip("/"),
                partition_path=file.partition_path,
                prev_commit=file.previous_instant or "null",
                num_writes=file.rows,
                num_deletes=file.deleted + file.moved,
                num_update_writes=file.updated,
                num_inserts=file.inserted,
                total_write_bytes=file.bytes,
                file_size_in_bytes=file.bytes,
                log_write=file.log,
                runtime_stats=RuntimeStats(
                    total_create_time=0 if file.previous_instant else file.milliseconds,
                    total_upsert_time=file.milliseconds if file.previous_instant else 0,
                ),
            )
        )
    return CommitMetadata(
        partition_to_write_stats={path: tuple(written) for path, written in stats.items()},
        extra_metadata={SCHEMA_KEY: avro_from_arrow(schema, table.name)},
        operation_type=commit.operation_type,
        partition_to_replace_file_ids=replaced,
    )
