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

from hudisql.bootstrap.claim import HeldClaim, claim_target, signs_of_life
from hudisql.bootstrap.findings import name_some
from hudisql.bootstrap.full_record import FullRecordFile
from hudisql.bootstrap.full_record_tasks import plan_full_records, rewrite_partitions
from hudisql.bootstrap.journal import delete_journal
from hudisql.bootstrap.key_uniqueness import check_key_uniqueness
from hudisql.bootstrap.modes import BootstrapMode
from hudisql.bootstrap.plan import BootstrapPlan
from hudisql.bootstrap.skeleton import SkeletonResult
from hudisql.bootstrap.skeleton_work import (
    SkeletonWork,
    begin_work,
    is_base_file,
    is_made_by_bootstrap,
    list_data_files,
    planned_files,
    write_share,
)
from hudisql.bootstrap.source_changes import check_source_unchanged
from hudisql.bootstrap.spark_tasks import describe_rows_written, run_on_files
from hudisql.bootstrap.table_files import (
    WrittenFile,
    WrittenSkeleton,
    publish_table,
    write_table_files,
)
from hudisql.catalog.sync_description import quote
from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    PathExistsError,
    SourceChangedError,
    StorageError,
    TableExistsError,
)
from hudisql.format.table_properties import PROPERTIES_FILE
from hudisql.format.timeline import TIMELINE_FOLDER
from hudisql.storage import Storage, ancestors_of, is_inside, is_staged, join

if TYPE_CHECKING:
    from hudisql.catalog.tables import MetastoreTable
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
    with _claimed_target(context, plan) as claim:
        work = begin_work(storage, plan, claim)
        skeletons = _write_skeletons(context, plan, work, claim)
        kept = work.kept
        del work  # of a quarter of a million files the orders are a hundred MB
        full_records = rewrite_partitions(context, plan, plan_full_records(plan), claim)
        files: list[WrittenFile] = [*skeletons, *full_records]
        _check_keys(plan, files)
        check_key_uniqueness(context, plan, files)
        claim.close(storage)
        _check_written(storage, plan, files)
        check_source_unchanged(context, plan)
        claim.check_held(storage)
        now = datetime.now(UTC)
        written = write_table_files(storage, plan, skeletons, now, full_records)
        if plan.protection is not None:
            _protect_source(context, plan)
        claim.check_held(storage)
        written += publish_table(storage, plan, now)
        _withdraw_if_taken_over(storage, plan, claim)
    result = _summarise(plan, files, written, time.monotonic() - started, kept)
    if plan.request.sync:
        _sync(context, plan)
    return result


def _withdraw_if_taken_over(storage: Storage, plan: BootstrapPlan, claim: HeldClaim) -> None:
    """Take the table back if another run has claimed the target since the last look.

    Who claims it looks afterwards whether the table is there (`claim_target`), so at least one of both sees
    the other. Raises TableExistsError.
    """
    try:
        claim.check_held(storage)
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
def _claimed_target(context: Context, plan: BootstrapPlan) -> Iterator[HeldClaim]:
    """Hold the target for this run alone until its table is published.

    On failure what the run made is taken back, unless it is to be resumed; a published table stays.
    """
    storage = context.storage
    made = _missing_folders(storage, plan.target_path)
    resumes = plan.request.resume
    timeline = join(plan.target_path, TIMELINE_FOLDER)
    try:
        claim = claim_target(storage, plan.target_path, plan.request.full_name, takes_over=resumes)
    except TableExistsError:
        raise
    except HudisqlError:
        _remove_folders(storage, [timeline, *made])
        raise
    if not resumes:
        try:
            _check_still_empty(storage, plan, claim)
        except BaseException:
            claim.release(storage)
            _remove_folders(storage, [timeline, *made])
            raise
    try:
        with signs_of_life(storage, claim):
            yield claim
    except BaseException as failure:
        try:
            _end_failed_run(context, plan, claim, failure, made)
        except StorageError as error:
            context.console.warning(f"{plan.target_path} could not be cleaned up: {error.message}")
        raise
    with contextlib.suppress(StorageError):
        delete_journal(storage, plan.target_path)
        claim.release(storage)


def _end_failed_run(
    context: Context, plan: BootstrapPlan, claim: HeldClaim, failure: BaseException, made: Sequence[str]
) -> None:
    storage = context.storage
    if not claim.is_held(storage):
        return  # another run has taken over: all that is there is its own now
    is_foreign = isinstance(failure, PathExistsError)
    if not is_foreign and storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        delete_journal(storage, plan.target_path)
        claim.release(storage)
    elif is_foreign or not plan.request.resume or isinstance(failure, BootstrapBlockedError):
        _remove_what_was_made(storage, plan, claim, made)
    else:
        claim.release(storage)
        context.console.warning(
            f"what is finished is kept in {plan.target_path}: the same call with resume => true goes on"
            f" there, CALL rollback_bootstrap(path => {quote(plan.target_path)}) clears it away"
        )


def _check_still_empty(storage: Storage, plan: BootstrapPlan, claim: HeldClaim) -> None:
    """Raise TableExistsError if something came into the target between the plan and the claim."""
    timeline = join(plan.target_path, TIMELINE_FOLDER)
    came = [
        entry.name
        for entry in (*storage.list_directory(plan.target_path), *storage.list_directory(timeline))
        # Whoever else tries to claim the target stages its claim here for a moment.
        if entry.path != claim.path and entry.name != TIMELINE_FOLDER and not is_staged(entry.path)
    ]
    if came:
        raise TableExistsError(
            f"the target {plan.target_path} was empty when the bootstrap was planned, and now holds"
            f" {name_some(came, 'entry')}",
            hint="choose another target_path",
        )


def _missing_folders(storage: Storage, path: str) -> list[str]:
    """The folders from `path` upwards that do not exist yet, deepest first."""
    missing = []
    for folder in (path, *ancestors_of(path)):
        if storage.exists(folder):
            break
        missing.append(folder)
    return missing


def _remove_folders(storage: Storage, folders: Sequence[str]) -> None:
    """Remove the folders, in order, as far as they are empty."""
    for folder in folders:
        with contextlib.suppress(StorageError):
            storage.delete_empty_directory(folder)


def _remove_what_was_made(
    storage: Storage, plan: BootstrapPlan, claim: HeldClaim, made: Sequence[str]
) -> None:
    """Remove this run's own files by their names, then the folders that are empty without them."""
    storage.delete_files(
        [file.path for file in list_data_files(storage, plan.target_path) if is_made_by_bootstrap(file.name)]
    )
    if storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        # A writer that knows no claims made a table here meanwhile: its timeline stays.
        delete_journal(storage, plan.target_path)
        claim.release(storage)
    else:
        storage.delete_directory(join(plan.target_path, TIMELINE_FOLDER))
    between = {
        folder
        for partition in plan.partitions
        for each in (join(plan.target_path, partition.path),)
        for folder in (each, *ancestors_of(each))
        if folder != plan.target_path and is_inside(folder, plan.target_path)
    }
    _remove_folders(storage, [*sorted(between, key=len, reverse=True), *made])


def _write_skeletons(
    context: Context, plan: BootstrapPlan, work: SkeletonWork, claim: HeldClaim
) -> list[WrittenSkeleton]:
    if work.kept:
        context.console.info(
            f"{work.kept:,} of {len(work.items):,} files were finished by an earlier run: they are kept"
        )
    results = run_on_files(
        context.spark,
        work.orders,
        partial(write_share, context.storage, claim),
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
