"""Carrying out a bootstrap plan: skeletons by Spark tasks, then the table's own files, then the metastore.

Nothing is visible before it is whole: `hoodie.properties` is created last, and whatever fails before that
removes what this run made and nothing else. The source is only read. A failing metastore sync leaves the
commit as it is and says how to run the sync again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.files.full_record import FullRecordFile
from hudisql.bootstrap.files.skeleton import SkeletonResult
from hudisql.bootstrap.findings import name_some
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
from hudisql.bootstrap.run.full_record_tasks import plan_full_records, rewrite_partitions
from hudisql.bootstrap.run.key_uniqueness import check_key_uniqueness
from hudisql.bootstrap.run.skeleton_tasks import (
    SkeletonWork,
    begin_work,
    is_base_file,
    is_made_by_bootstrap,
    list_data_files,
    planned_files,
    write_skeleton_partition,
)
from hudisql.bootstrap.run.source_changes import check_source_unchanged
from hudisql.bootstrap.run.table_files import (
    WrittenFile,
    WrittenSkeleton,
    publish_table,
    write_table_files,
)
from hudisql.bootstrap.target.checkpoint import delete_checkpoint
from hudisql.bootstrap.target.lease import Lease, acquire_lease, heartbeats
from hudisql.catalog.hive_ddl import quote
from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    PathExistsError,
    SourceChangedError,
    StorageError,
    TableExistsError,
)
from hudisql.format.table_properties import PROPERTIES_FILE
from hudisql.format.timeline_layout import METADATA_DIRECTORY
from hudisql.spark.task_runner import describe_rows_written, run_on_files
from hudisql.storage import Storage, ancestors_of, is_inside, is_staged, join

if TYPE_CHECKING:
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context

_SAMPLED_FILES: Final = 5


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What was written for one partition; `files` are the source's, `seconds` those of its tasks."""

    path: str
    mode: BootstrapMode
    files: int
    rows: int
    source_bytes: int
    written_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """What a bootstrap wrote; `written_bytes` includes index and timeline, `seconds` is the time passed.

    `resumed_files` were finished by an earlier run.
    """

    partitions: tuple[PartitionResult, ...]
    written_bytes: int
    seconds: float
    resumed_files: int = 0


def run_bootstrap(context: Context, plan: BootstrapPlan) -> BootstrapResult:
    """Carry out the plan.

    Raises BootstrapBlockedError for the plan's blockers and for null or repeated keys, SourceChangedError if
    the source changed meanwhile, StorageError, TableExistsError; after any of these the target is as it was.
    With `resume` what is finished is kept then, but for blockers; InvalidArgumentError if the run to be
    resumed was asked for otherwise.
    Raises SyncFailedError if only the metastore could not follow: the table stands.
    """
    plan.raise_if_blocked()
    started = time.monotonic()
    storage = context.storage
    with _leased_target(context, plan) as lease:
        work = begin_work(storage, plan, lease)
        skeletons = _write_skeletons(context, plan, work, lease)
        kept = work.kept
        del work  # of a quarter of a million files the orders are a hundred MB
        full_records = rewrite_partitions(context, plan, plan_full_records(plan), lease)
        files: list[WrittenFile] = [*skeletons, *full_records]
        _check_keys(plan, files)
        check_key_uniqueness(context, plan, files)
        lease.close(storage)
        _check_written(storage, plan, files)
        check_source_unchanged(context, plan)
        lease.check_held(storage)
        now = datetime.now(UTC)
        written = write_table_files(storage, plan, skeletons, now, full_records)
        if plan.protection is not None:
            _protect_source(context, plan)
        lease.check_held(storage)
        written += publish_table(storage, plan, now)
        _discard_if_taken_over(storage, plan, lease)
    result = _summarise(plan, files, written, time.monotonic() - started, kept)
    if plan.request.sync:
        _sync(context, plan)
    return result


def _discard_if_taken_over(storage: Storage, plan: BootstrapPlan, lease: Lease) -> None:
    """Take the table back if another run has claimed the target since the last look.

    Who leases it looks afterwards whether the table is there (`acquire_lease`), so at least one of both sees
    the other. Raises TableExistsError.
    """
    try:
        lease.check_held(storage)
    except TableExistsError:
        storage.delete_file(join(plan.target_path, PROPERTIES_FILE))
        raise


def _protect_source(context: Context, plan: BootstrapPlan) -> None:
    protection = plan.protection
    assert protection is not None
    table: MetastoreTable | None = context.metastore.get_table(protection.database, protection.name)
    if table is None:
        raise SourceChangedError(f"the source table {protection.database}.{protection.name} is gone")
    context.console.info(protection.statement)
    is_external = any(key == "EXTERNAL" for key, _ in protection.properties)
    context.metastore.alter_table(
        replace(
            table,
            table_type="EXTERNAL_TABLE" if is_external else table.table_type,
            parameters={**table.parameters, **dict(protection.properties)},
        )
    )


@contextlib.contextmanager
def _leased_target(context: Context, plan: BootstrapPlan) -> Iterator[Lease]:
    """Hold the target for this run alone until its table is published.

    On failure what the run made is taken back, unless it is to be resumed; a published table stays.
    """
    storage = context.storage
    made = _missing_directories(storage, plan.target_path)
    resumes = plan.request.resume
    timeline = join(plan.target_path, METADATA_DIRECTORY)
    try:
        lease = acquire_lease(storage, plan.target_path, plan.request.full_name, takes_over=resumes)
    except TableExistsError:
        raise
    except HudisqlError:
        _remove_directories(storage, [timeline, *made])
        raise
    if not resumes:
        try:
            _check_still_empty(storage, plan, lease)
        except BaseException:
            lease.release(storage)
            _remove_directories(storage, [timeline, *made])
            raise
    try:
        with heartbeats(storage, lease):
            yield lease
    except BaseException as failure:
        try:
            _end_failed_run(context, plan, lease, failure, made)
        except StorageError as error:
            context.console.warning(f"{plan.target_path} could not be cleaned up: {error.message}")
        raise
    with contextlib.suppress(StorageError):
        delete_checkpoint(storage, plan.target_path)
        lease.release(storage)


def _end_failed_run(
    context: Context, plan: BootstrapPlan, lease: Lease, failure: BaseException, made: Sequence[str]
) -> None:
    storage = context.storage
    if not lease.is_held(storage):
        return  # another run has taken over: all that is there is its own now
    is_foreign = isinstance(failure, PathExistsError)
    if not is_foreign and storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        delete_checkpoint(storage, plan.target_path)
        lease.release(storage)
    elif is_foreign or not plan.request.resume or isinstance(failure, BootstrapBlockedError):
        _remove_what_was_made(storage, plan, lease, made)
    else:
        lease.release(storage)
        context.console.warning(
            f"what is finished is kept in {plan.target_path}: the same call with resume => true goes on"
            f" there, CALL rollback_bootstrap(path => {quote(plan.target_path)}) clears it away"
        )


def _check_still_empty(storage: Storage, plan: BootstrapPlan, lease: Lease) -> None:
    """Raise TableExistsError if something came into the target between the plan and the lease."""
    timeline = join(plan.target_path, METADATA_DIRECTORY)
    came = [
        entry.name
        for entry in (*storage.list_directory(plan.target_path), *storage.list_directory(timeline))
        # Whoever else tries to lease the target stages its lease here for a moment.
        if entry.path != lease.path and entry.name != METADATA_DIRECTORY and not is_staged(entry.path)
    ]
    if came:
        raise TableExistsError(
            f"the target {plan.target_path} was empty when the bootstrap was planned, and now holds"
            f" {name_some(came, 'entry')}",
            hint="choose another target_path",
        )


def _missing_directories(storage: Storage, path: str) -> list[str]:
    """The directories from `path` upwards that do not exist yet, deepest first."""
    missing = []
    for directory in (path, *ancestors_of(path)):
        if storage.exists(directory):
            break
        missing.append(directory)
    return missing


def _remove_directories(storage: Storage, directories: Sequence[str]) -> None:
    """Remove the directories, in order, as far as they are empty."""
    for directory in directories:
        with contextlib.suppress(StorageError):
            storage.delete_empty_directory(directory)


def _remove_what_was_made(storage: Storage, plan: BootstrapPlan, lease: Lease, made: Sequence[str]) -> None:
    """Remove this run's own files by their names, then the directories that are empty without them."""
    storage.delete_files(
        [file.path for file in list_data_files(storage, plan.target_path) if is_made_by_bootstrap(file.name)]
    )
    if storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        # A writer that knows no leases made a table here meanwhile: its timeline stays.
        delete_checkpoint(storage, plan.target_path)
        lease.release(storage)
    else:
        storage.delete_directory(join(plan.target_path, METADATA_DIRECTORY))
    between = {
        directory
        for partition in plan.partitions
        for each in (join(plan.target_path, partition.path),)
        for directory in (each, *ancestors_of(each))
        if directory != plan.target_path and is_inside(directory, plan.target_path)
    }
    _remove_directories(storage, [*sorted(between, key=len, reverse=True), *made])


def _write_skeletons(
    context: Context, plan: BootstrapPlan, work: SkeletonWork, lease: Lease
) -> list[WrittenSkeleton]:
    if work.kept:
        context.console.info(
            f"{work.kept:,} of {len(work.items):,} files were finished by an earlier run: they are kept"
        )
    results = run_on_files(
        context.spark,
        work.orders,
        partial(write_skeleton_partition, context.storage, lease),
        weight=lambda order: order.task.source.length,
        measure=lambda result: (result.rows, result.bytes),
        describe=describe_rows_written,
        console=context.console,
        label=f"Bootstrapping {plan.request.full_name}, files",
        parallelism=plan.request.parallelism,
    )
    return [
        WrittenSkeleton(partition.path, partition.source.source_path, file.source, result)
        for (partition, file), result in zip(planned_files(plan), work.results(results), strict=True)
    ]


def _check_keys(plan: BootstrapPlan, files: Sequence[WrittenFile]) -> None:
    if plan.key_check == "none":
        return
    affected = [file for file in files if file.result.null_keys]
    if not affected:
        return
    total = sum(file.result.null_keys for file in affected)
    blockers = [_describe_null_keys(file) for file in affected[:_SAMPLED_FILES]]
    more = len(affected) - len(blockers)
    listed = "".join(f"\n  - {text}" for text in blockers) + (
        f"\n  - and in {more:,} more files" if more else ""
    )
    raise BootstrapBlockedError(
        f"{total:,} rows have a null or empty record key ({', '.join(plan.record_key)});"
        f" rows count from 0:{listed}",
        blockers=blockers,
        hint="nothing was kept; choose another key, or take them with key_check => 'none'",
    )


def _describe_null_keys(file: WrittenFile) -> str:
    if isinstance(file, WrittenSkeleton):
        rows = ", ".join(f"{row:,}" for row in file.result.null_key_samples)
        return f"{file.result.null_keys:,} in {file.source.path}, such as row {rows}"
    samples = ", ".join(
        path if row is None else f"row {row:,} of {path}" for path, row in file.result.null_key_samples
    )
    return f"{file.result.null_keys:,} in partition '{file.partition_path}', such as {samples}"


def _check_written(storage: Storage, plan: BootstrapPlan, files: Sequence[WrittenFile]) -> None:
    """Raise if a file is not as its task left it.

    Files that no task's result names are those of attempts that lost or died: they are removed.
    """
    written = {file.path: file.length for file in list_data_files(storage, plan.target_path)}
    lost = [file.result.path for file in files if written.pop(file.result.path, None) != file.result.bytes]
    if lost:
        raise StorageError(f"files are not as they were written: {name_some(lost)}")
    storage.delete_files([path for path in written if is_base_file(path)])


def _summarise(
    plan: BootstrapPlan, files: Sequence[WrittenFile], other_bytes: int, seconds: float, kept: int
) -> BootstrapResult:
    by_partition: dict[str, list[SkeletonResult | FullRecordFile]] = {}
    for file in files:
        by_partition.setdefault(file.partition_path, []).append(file.result)
    partitions = []
    for partition in plan.partitions:
        results = by_partition.get(partition.path, [])
        partitions.append(
            PartitionResult(
                partition.path,
                partition.mode,
                len(partition.files),
                sum(result.rows for result in results),
                partition.source_bytes,
                sum(result.bytes for result in results),
                sum(result.seconds for result in results),
            )
        )
    file_bytes = sum(partition.written_bytes for partition in partitions)
    return BootstrapResult(tuple(partitions), file_bytes + other_bytes, seconds, kept)


def _sync(context: Context, plan: BootstrapPlan) -> None:
    """Let the metastore follow. Raises SyncFailedError that says how to run it again."""
    from hudisql.catalog.sync import sync_table
    from hudisql.catalog.sync_entries import sync_options_from
    from hudisql.table.hudi_table import open_table

    request = plan.request
    table = open_table(context.storage, plan.target_path)
    options = sync_options_from(request.sync_options)
    sync_table(context.metastore, table, request.database, request.name, options)
