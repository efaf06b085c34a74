"""Runs a bootstrap plan: skeletons and full records by Spark tasks, then the table's own files.

The table is invisible until it is complete: `hoodie.properties` is created last, and a failure before that
deletes only what this run wrote. The source is only read.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.blockers import blockers_of, name_some
from hudisql.bootstrap.files.full_record import FullRecordFile
from hudisql.bootstrap.files.skeleton import SkeletonResult
from hudisql.bootstrap.lease.skeleton_checkpoint import delete_checkpoint
from hudisql.bootstrap.lease.target_lease import Lease, acquire_lease, heartbeats, trust_seconds
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
from hudisql.bootstrap.plan.source_scan import scan_source
from hudisql.bootstrap.run.full_record_tasks import plan_full_records, rewrite_partitions
from hudisql.bootstrap.run.key_uniqueness import check_key_uniqueness
from hudisql.bootstrap.run.skeleton_tasks import (
    SkeletonWork,
    is_base_file,
    is_made_by_bootstrap,
    list_target_files,
    plan_skeletons,
    planned_files,
    write_skeleton_partition,
)
from hudisql.bootstrap.run.table_files import (
    BootstrapFile,
    WrittenSkeleton,
    bootstrap_instant,
    publish_table,
    write_table_files,
)
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    NoSuchPathError,
    NoSuchTableError,
    PathExistsError,
    SourceChangedError,
    SourceError,
    StorageError,
    TableExistsError,
)
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, RECORD_INDEX, RECORD_LEVEL_INDEX
from hudisql.format.table_properties import PROPERTIES_FILE
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.spark.task_runner import describe_rows_written, run_on_files
from hudisql.sql_literals import quote_string
from hudisql.storage import Storage, ancestors_of, is_inside, is_staged, join
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.metadata_table.new_metadata_table import NewMetadataTable, create_metadata_table
from hudisql.write.transaction.commit_annotations import record_commit

if TYPE_CHECKING:
    from hudisql.context import Context

_SAMPLED_FILES: Final = 5


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The files of one partition; `files` counts source files, `seconds` sums those of its tasks."""

    path: str
    mode: BootstrapMode
    files: int
    rows: int
    source_bytes: int
    written_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """The result of a bootstrap; `written_bytes` includes index and timeline, `seconds` is the elapsed time.

    `resumed_files` were finished by an earlier run.
    """

    partitions: tuple[PartitionResult, ...]
    written_bytes: int
    seconds: float
    resumed_files: int = 0


def run_bootstrap(context: Context, plan: BootstrapPlan) -> BootstrapResult:
    """Run the plan up to the published table.

    Raises BootstrapBlockedError for the plan's blockers and for null or repeated keys, SourceChangedError if
    the source changed meanwhile, StorageError, TableExistsError; after any of these the target is as before.
    With `resume`, finished files are kept instead, except after blockers; InvalidArgumentError if the run to
    resume had other arguments.
    """
    plan.raise_if_blocked()
    started = time.monotonic()
    storage = context.storage
    with _leased_target(context, plan) as lease:
        work = plan_skeletons(storage, plan, lease)
        skeletons = _write_skeletons(context, plan, work, lease)
        resumed, continues_run = work.resumed, work.continues_run
        del work  # the tasks of 250,000 files take 100 MB
        full_records = rewrite_partitions(context, plan, plan_full_records(plan), lease)
        files: list[BootstrapFile] = [*skeletons, *full_records]
        lease.close(storage)
        closed = time.monotonic()
        _check_keys(plan, files)
        check_key_uniqueness(context, plan, files)
        _await_late_attempts(math.inf if continues_run else closed - started, closed)
        _check_written(storage, plan, files)
        _check_source_unchanged(context, plan)
        lease.check_held(storage)
        now = datetime.now(UTC)
        written = write_table_files(storage, plan, skeletons, now, full_records)
        if plan.protection is not None:
            _protect_source(context, plan)
        lease.check_held(storage)
        written += publish_table(storage, plan, now)
        _discard_if_taken_over(storage, plan, lease)
        record_commit(plan.target_path, None, bootstrap_instant(plan))
        if plan.request.has_metadata_table:
            written += _make_metadata_table(context, plan)
    return _summarise(plan, files, written, time.monotonic() - started, resumed)


def _make_metadata_table(context: Context, plan: BootstrapPlan) -> int:
    """Make the metadata table; Hudi 1.2 would make one with statistics of the skeletons alone.

    Returns the bytes written. The table stands without it, too: an error is a warning.
    """
    try:
        table = open_table(context.storage, plan.target_path)
        made = create_metadata_table(
            table,
            with_record_index=RECORD_INDEX in plan.request.indexes,
            by_partition=RECORD_LEVEL_INDEX in plan.request.indexes,
            spark=lambda: context.spark,
            console=context.console,
        )
        if made.refusal is not None:
            context.console.warning(
                f"the table at {plan.target_path} is made without its record index: {made.refusal.message}"
            )
        return _checked_bytes(context, table, made)
    except HudisqlError as error:
        context.console.warning(
            f"the table at {plan.target_path} is made, but not its metadata table: {error.message}; CALL "
            "create_metadata_table makes it"
        )
        return 0


def _checked_bytes(context: Context, table: HudiTable, made: NewMetadataTable) -> int:
    """The bytes written, with a warning if the metadata table has no statistics."""
    if COLUMN_STATS not in made.indexes:
        context.console.warning(
            f"the metadata table of {table.base_path} has no statistics: version {table.version} cannot hold "
            "those of decimals with more than 15 digits on a side of the point, nor of timestamps in other "
            "units than microseconds"
        )
    return made.bytes


def _await_late_attempts(age: float, closed: float) -> None:
    """Wait until no process that works for so long trusts a look at the lease before it was closed."""
    time.sleep(max(0.0, trust_seconds(age) - (time.monotonic() - closed)))


def _discard_if_taken_over(storage: Storage, plan: BootstrapPlan, lease: Lease) -> None:
    """Delete the published table if another run acquired the lease after the last check.

    A run that acquires the lease then checks for the table (`acquire_lease`), so at least one of the two runs
    sees the other.
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
        raise SourceChangedError(f"the source table {protection.database}.{protection.name} no longer exists")
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
    """Hold the lease on the target until its table is published.

    On failure the files of the run are deleted, unless it is to be resumed; a published table stays.
    """
    storage = context.storage
    created = _missing_directories(storage, plan.target_path)
    resumes = plan.request.resume
    timeline = join(plan.target_path, METADATA_DIRECTORY)
    try:
        lease = acquire_lease(storage, plan.target_path, plan.request.full_name, takes_over=resumes)
    except TableExistsError:
        raise
    except HudisqlError:
        _remove_directories(storage, [timeline, *created])
        raise
    if not resumes:
        try:
            _check_still_empty(storage, plan, lease)
        except BaseException:
            lease.release(storage)
            _remove_directories(storage, [timeline, *created])
            raise
    try:
        with heartbeats(storage, lease):
            yield lease
    except BaseException as failure:
        try:
            _end_failed_run(context, plan, lease, failure, created)
        except StorageError as error:
            context.console.warning(f"{plan.target_path} could not be cleaned up: {error.message}")
        raise
    with contextlib.suppress(StorageError):
        delete_checkpoint(storage, plan.target_path)
        lease.release(storage)


def _end_failed_run(
    context: Context, plan: BootstrapPlan, lease: Lease, failure: BaseException, created: Sequence[str]
) -> None:
    storage = context.storage
    if not lease.is_held(storage):
        return  # another run took over: all files belong to it
    is_foreign = isinstance(failure, PathExistsError)
    if not is_foreign and storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        delete_checkpoint(storage, plan.target_path)
        lease.release(storage)
    elif is_foreign or not plan.request.resume or isinstance(failure, BootstrapBlockedError):
        _delete_files_of_run(storage, plan, lease, created)
    else:
        lease.release(storage)
        context.console.warning(
            f"finished files are kept in {plan.target_path}: the same call with resume => true continues,"
            f" CALL rollback_bootstrap(path => {quote_string(plan.target_path)}) deletes them"
        )


def _check_still_empty(storage: Storage, plan: BootstrapPlan, lease: Lease) -> None:
    """Raise TableExistsError if the target got files between the plan and the lease."""
    timeline = join(plan.target_path, METADATA_DIRECTORY)
    new_entries = [
        entry.name
        for entry in (*storage.list_directory(plan.target_path), *storage.list_directory(timeline))
        # Other runs that try to acquire the lease stage their lease file here for a moment.
        if entry.path != lease.path and entry.name != METADATA_DIRECTORY and not is_staged(entry.path)
    ]
    if new_entries:
        raise TableExistsError(
            f"the target {plan.target_path} was empty when the bootstrap was planned, and now holds"
            f" {name_some(new_entries, 'entry')}",
            hint="choose another target_path",
        )


def _missing_directories(storage: Storage, path: str) -> list[str]:
    """`path` and its parents that do not exist yet, deepest first."""
    missing = []
    for directory in (path, *ancestors_of(path)):
        if storage.exists(directory):
            break
        missing.append(directory)
    return missing


def _remove_directories(storage: Storage, directories: Sequence[str]) -> None:
    """Remove those of the directories that are empty, in order."""
    for directory in directories:
        with contextlib.suppress(StorageError):
            storage.delete_empty_directory(directory)


def _delete_files_of_run(storage: Storage, plan: BootstrapPlan, lease: Lease, created: Sequence[str]) -> None:
    """Delete this run's files by their names, then the directories that are empty without them."""
    storage.delete_files(
        [
            file.path
            for file in list_target_files(storage, plan.target_path)
            if is_made_by_bootstrap(file.name)
        ]
    )
    if storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        # Another kind of writer created a table here meanwhile: its timeline stays.
        delete_checkpoint(storage, plan.target_path)
        lease.release(storage)
    else:
        storage.delete_directory(join(plan.target_path, METADATA_DIRECTORY))
    between = {
        directory
        for partition in plan.partitions
        for partition_directory in (join(plan.target_path, partition.path),)
        for directory in (partition_directory, *ancestors_of(partition_directory))
        if directory != plan.target_path and is_inside(directory, plan.target_path)
    }
    _remove_directories(storage, [*sorted(between, key=len, reverse=True), *created])


def _write_skeletons(
    context: Context, plan: BootstrapPlan, work: SkeletonWork, lease: Lease
) -> list[WrittenSkeleton]:
    if work.resumed:
        context.console.info(
            f"resuming: {work.resumed:,} of {len(work.items):,} files were finished by an earlier run"
        )
    results = run_on_files(
        context.spark,
        work.tasks,
        partial(write_skeleton_partition, context.storage, lease),
        weight=lambda skeleton_task: skeleton_task.task.source.length,
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


def _check_keys(plan: BootstrapPlan, files: Sequence[BootstrapFile]) -> None:
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
        hint="no file was kept; choose another key, or accept such rows with key_check => 'none'",
    )


def _describe_null_keys(file: BootstrapFile) -> str:
    if isinstance(file, WrittenSkeleton):
        rows = ", ".join(f"{row:,}" for row in file.result.null_key_samples)
        return f"{file.result.null_keys:,} in {file.source.path}, such as row {rows}"
    samples = ", ".join(
        path if row is None else f"row {row:,} of {path}" for path, row in file.result.null_key_samples
    )
    return f"{file.result.null_keys:,} in partition '{file.partition_path}', such as {samples}"


def _check_written(storage: Storage, plan: BootstrapPlan, files: Sequence[BootstrapFile]) -> None:
    """Raise StorageError if a file has another size than its task reported.

    Files in no task result were written by failed or late attempts: they are deleted.
    """
    written = {file.path: file.length for file in list_target_files(storage, plan.target_path)}
    mismatched = [
        file.result.path for file in files if written.pop(file.result.path, None) != file.result.bytes
    ]
    if mismatched:
        raise StorageError(f"file size mismatch after write: {name_some(mismatched)}")
    storage.delete_files([path for path in written if is_base_file(path)])


def _check_source_unchanged(context: Context, plan: BootstrapPlan) -> None:
    """List the source again; raise SourceChangedError if a file was changed, removed or added.

    Hidden and empty files and partitions that were not chosen are ignored.
    """
    hint = (
        "run again when its writer is done: only the changed files are bootstrapped again"
        if plan.request.resume
        else "no file was kept; run again when its writer is done"
    )
    try:
        source, _, _ = scan_source(context, plan.request)
    except (SourceError, NoSuchPathError, NoSuchTableError) as error:
        raise SourceChangedError(
            f"the source changed while it was bootstrapped: {error.message}", hint=hint
        ) from error
    planned = {file.source.path: file.source for partition in plan.partitions for file in partition.files}
    external_files = {file.path: file for partition in source.partitions for file in partition.files}
    # The plan had no blockers: a source that has some now cannot be compared file by file.
    changes = [str(blocker) for blocker in blockers_of(source.findings)][:1]
    if changed := [path for path, file in planned.items() if external_files.get(path) != file]:
        changes.append(name_some(changed))
    if changes:
        raise SourceChangedError(f"the source changed while it was bootstrapped: {changes[0]}", hint=hint)
    added = [path for path in external_files if path not in planned]
    if added:
        raise SourceChangedError(
            f"files were added to the source while it was bootstrapped: {name_some(added)}",
            hint=f"{hint}; partition_filter leaves out partitions that are still being written",
        )


def _summarise(
    plan: BootstrapPlan, files: Sequence[BootstrapFile], other_bytes: int, seconds: float, kept: int
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
                partition.rows
                if partition.mode is BootstrapMode.REGISTER_ONLY
                else sum(result.rows for result in results),
                partition.source_bytes,
                sum(result.bytes for result in results),
                sum(result.seconds for result in results),
            )
        )
    file_bytes = sum(partition.written_bytes for partition in partitions)
    return BootstrapResult(tuple(partitions), file_bytes + other_bytes, seconds, kept)
