"""Cuts full-record partitions into tasks that Spark runs.

Each task rewrites a run of source files of one partition that fills about one file of the table
(`hoodie.parquet.max.file.size`); a larger source file is cut at its row groups, so that several tasks share
it. Partitions that are sorted, or whose dates only Spark can convert, are read by Spark instead. Knows plans
and Spark; `full_record` implements a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hudisql.bootstrap.files.full_record import (
    FullRecordFile,
    FullRecordInput,
    FullRecordTask,
    write_full_records,
)
from hudisql.bootstrap.files.skeleton import KeyCheck
from hudisql.bootstrap.lease.target_lease import Lease
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan, PlannedFile, PlannedPartition
from hudisql.bootstrap.run.full_record_spark import SparkRewrite, rewrite_by_spark
from hudisql.bootstrap.run.skeleton_tasks import attempt_number
from hudisql.bootstrap.run.table_files import WrittenFullRecords
from hudisql.format.paths.file_names import new_file_id, write_token
from hudisql.format.paths.partition_path import parse_partition_value
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.files.splits import Split
from hudisql.read.scan.arrow_scan import calendar_settings
from hudisql.spark.task_runner import describe_rows_written, run_on_files
from hudisql.storage import Storage, join
from hudisql.write.handle.base_file import BaseFileConfig, FileNaming, base_file_avro_schema

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, slots=True)
class FullRecordWork:
    """All full-record partitions of a plan: those for tasks of hudisql, and those for Spark."""

    tasks: tuple[FullRecordTask, ...]
    by_spark: SparkRewrite


def plan_full_records(plan: BootstrapPlan) -> FullRecordWork:
    """Cut the full-record partitions into tasks, numbered from 0 on."""
    request = plan.request
    avro_schema = base_file_avro_schema(plan.schema, request.name)
    tasks: list[FullRecordTask] = []
    whole: list[FullRecordTask] = []
    for partition in plan.full_record_partitions:
        is_sparks = request.sort_mode != "NONE" or any(file.has_hybrid_calendar for file in partition.files)
        files = [file for file in partition.files if file.rows or plan.read_by_name]
        if (is_sparks or plan.read_by_name) and files:
            inputs = tuple(FullRecordInput(file.source, file.rows) for file in files)
            whole.append(_task(plan, partition, inputs, 0, avro_schema))
            continue
        for group in _group_inputs(files, request.max_file_bytes):
            tasks.append(_task(plan, partition, group, len(tasks), avro_schema))
    columns = tuple(column.name for column in plan.partition_columns)
    rewrite = SparkRewrite(
        tuple(whole),
        columns,
        request.sort_mode,
        request.max_file_bytes,
        len(tasks),
        not any(
            file.has_binary_decimals
            for full_record_partition in plan.full_record_partitions
            for file in full_record_partition.files
        ),
        plan.read_by_name,
    )
    return FullRecordWork(tuple(tasks), rewrite)


def rewrite_partitions(
    context: Context, plan: BootstrapPlan, work: FullRecordWork, lease: Lease
) -> list[WrittenFullRecords]:
    """Do the work and return all valid files; retried tasks may have left others."""
    calendars = calendar_settings(context.spark) if work.tasks else DEFAULT_CALENDARS
    results: list[list[FullRecordFile]] = run_on_files(
        context.spark,
        [replace(task, calendars=calendars) for task in work.tasks],
        partial(_write_group, context.storage, lease),
        weight=lambda task: task.bytes,
        measure=lambda files: (sum(file.rows for file in files), sum(file.bytes for file in files)),
        describe=describe_rows_written,
        console=context.console,
        label=f"Rewriting partitions of {plan.request.full_name}, tasks",
        parallelism=plan.request.parallelism,
    )
    written = [
        WrittenFullRecords(task.naming.partition_path, file)
        for task, files in zip(work.tasks, results, strict=True)
        for file in files
    ]
    written += [
        WrittenFullRecords(path, file) for path, file in rewrite_by_spark(context, work.by_spark, lease)
    ]
    return written


def _write_group(
    storage: Storage, lease: Lease, tasks: Iterable[FullRecordTask]
) -> Iterator[list[FullRecordFile]]:
    """Do one Spark task's share; each attempt writes its own files, as for skeletons."""
    attempt = attempt_number()
    for task in tasks:
        lease.fence_late_attempt(storage, [])
        token = write_token(task.naming.task_partition_id, lease.fencing_epoch, attempt)
        files = write_full_records(storage, replace(task, naming=replace(task.naming, write_token=token)))
        lease.fence_late_attempt(storage, [file.path for file in files])
        yield files


def _task(
    plan: BootstrapPlan,
    partition: PlannedPartition,
    inputs: tuple[FullRecordInput, ...],
    number: int,
    avro_schema: str,
) -> FullRecordTask:
    request = plan.request
    return FullRecordTask(
        inputs=inputs,
        naming=FileNaming(
            directory=join(plan.target_path, partition.path),
            partition_path=partition.path,
            instant_time=FULL_BOOTSTRAP_INSTANT_TIME,
            file_id_prefix=new_file_id(),
            write_token=write_token(number, 0, number),
            task_partition_id=number,
        ),
        schema=plan.schema,
        avro_schema=avro_schema,
        partition_values={
            column.name: None if text is None else parse_partition_value(text, column.type)
            for column, text in zip(plan.partition_columns, partition.source.values, strict=True)
        },
        record_key_fields=plan.record_key,
        complex_keys=plan.uses_complex_key_encoding,
        form=BaseFileConfig(request.codec, request.max_file_bytes, request.bloom_entries, request.bloom_fpp),
        key_check=KeyCheck(plan.key_check),
    )


def _group_inputs(files: Sequence[PlannedFile], max_bytes: int) -> Iterator[tuple[FullRecordInput, ...]]:
    """The files in their order, in runs of about `max_bytes` that start and end at files or row groups."""
    group: list[FullRecordInput] = []
    filled = 0
    for record_input in _cut(files, max_bytes):
        if group and filled + record_input.bytes > max_bytes:
            yield tuple(group)
            group, filled = [], 0
        group.append(record_input)
        filled += record_input.bytes
    if group:
        yield tuple(group)


def _cut(files: Sequence[PlannedFile], max_bytes: int) -> Iterator[FullRecordInput]:
    for file in files:
        length = file.source.length
        splits = min(math.ceil(length / max_bytes), file.row_groups)
        if splits < 2:
            yield FullRecordInput(file.source, file.rows)
            continue
        step = math.ceil(length / splits)
        for start in range(0, length, step):
            split = Split(start, min(step, length - start))
            yield FullRecordInput(file.source, math.ceil(file.rows * split.length / length), split)
