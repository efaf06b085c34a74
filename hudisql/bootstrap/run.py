"""Carrying out a bootstrap plan: skeletons by Spark tasks, then the table's own files, then the metastore.

Nothing is visible before it is whole: `hoodie.properties` is created last, and whatever fails before that
removes what this run made and nothing else. The source is only read. A failing metastore sync leaves the
commit as it is and says how to run the sync again.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.findings import name_some
from hudisql.bootstrap.full_record import FullRecordFile
from hudisql.bootstrap.full_record_tasks import (
    plan_full_records,
    rewrite_partitions,
    written_full_records,
)
from hudisql.bootstrap.key_uniqueness import check_key_uniqueness
from hudisql.bootstrap.modes import BootstrapMode
from hudisql.bootstrap.plan import BootstrapPlan, PlannedPartition
from hudisql.bootstrap.skeleton import (
    KeyCheck,
    SkeletonForm,
    SkeletonResult,
    SkeletonTask,
    write_skeleton,
)
from hudisql.bootstrap.spark_tasks import run_on_files
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
from hudisql.format.external_file import ExternalFile
from hudisql.format.file_names import base_file_name, new_file_id, write_token
from hudisql.format.instant import METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.format.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.table_properties import PROPERTIES_FILE
from hudisql.format.timeline import TIMELINE_FOLDER
from hudisql.storage import Storage, ancestors_of, is_inside, join

if TYPE_CHECKING:
    from hudisql.catalog.tables import MetastoreTable
    from hudisql.context import Context

_CLAIM: Final = ".hudisql-bootstrap"
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
    """What a bootstrap wrote; `written_bytes` includes index and timeline, `seconds` is the time passed."""

    partitions: tuple[PartitionResult, ...]
    written_bytes: int
    seconds: float


def run_bootstrap(context: Context, plan: BootstrapPlan) -> BootstrapResult:
    """Carry out the plan.

    Raises BootstrapBlockedError for the plan's blockers and for null or repeated keys, SourceChangedError if
    the source changed meanwhile, StorageError, TableExistsError; after any of these the target is as it was.
    Raises SyncFailedError if only the metastore could not follow: the table stands.
    """
    plan.raise_if_blocked()
    started = time.monotonic()
    storage = context.storage
    tasks = _skeleton_tasks(plan)
    full_records_work = plan_full_records(plan, first_number=len(tasks))
    with _claimed_target(context, plan, tasks):
        skeletons = _write_skeletons(context, plan, tasks)
        full_records = rewrite_partitions(context, plan, full_records_work)
        files: list[WrittenFile] = [*skeletons, *full_records]
        _check_keys(plan, files)
        check_key_uniqueness(context, plan, files)
        _check_still_there(storage, plan, files)
        now = datetime.now(UTC)
        written = write_table_files(storage, plan, skeletons, now, full_records)
        if plan.protection is not None:
            _protect_source(context, plan)
        written += publish_table(storage, plan, now)
    result = _summarise(plan, files, written, time.monotonic() - started)
    if plan.request.sync:
        _sync(context, plan)
    return result


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


def _claim_path(plan: BootstrapPlan) -> str:
    return join(plan.target_path, TIMELINE_FOLDER, _CLAIM)


@contextlib.contextmanager
def _claimed_target(context: Context, plan: BootstrapPlan, tasks: Sequence[SkeletonTask]) -> Iterator[None]:
    """Hold the empty target for this run alone until its table is published.

    On failure what the run made is taken back; a table that is published by then stays.
    """
    storage = context.storage
    made = _missing_folders(storage, plan.target_path)
    claim = {"table": plan.request.full_name, "host": socket.gethostname(), "process": os.getpid()}
    try:
        storage.create(_claim_path(plan), json.dumps(claim).encode())
    except PathExistsError as error:
        raise TableExistsError(
            f"another bootstrap is writing to {plan.target_path}",
            hint="wait for it; if that run was killed,"
            f" CALL rollback_bootstrap(path => {quote(plan.target_path)}) clears it away",
        ) from error
    except HudisqlError:
        _remove_folders(storage, [join(plan.target_path, TIMELINE_FOLDER), *made])
        raise
    try:
        _check_still_empty(storage, plan)
    except BaseException:
        storage.delete_file(_claim_path(plan))
        _remove_folders(storage, [join(plan.target_path, TIMELINE_FOLDER), *made])
        raise
    try:
        yield
    except BaseException as failure:
        try:
            is_foreign = isinstance(failure, PathExistsError)
            if is_foreign or not storage.exists(join(plan.target_path, PROPERTIES_FILE)):
                _remove_what_was_made(storage, plan, tasks, made)
            else:
                storage.delete_file(_claim_path(plan))
        except StorageError as error:
            context.console.warning(f"{plan.target_path} could not be cleaned up: {error.message}")
        raise
    with contextlib.suppress(StorageError):
        storage.delete_file(_claim_path(plan))


def _check_still_empty(storage: Storage, plan: BootstrapPlan) -> None:
    """Raise TableExistsError if something came into the target between the plan and the claim."""
    timeline = join(plan.target_path, TIMELINE_FOLDER)
    came = [
        entry.name
        for entry in (*storage.list_directory(plan.target_path), *storage.list_directory(timeline))
        # Whoever else tries to claim the target stages its claim here for a moment.
        if entry.name not in (TIMELINE_FOLDER, _CLAIM) and not entry.name.endswith(".hudisql-staged")
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
            if not storage.list_directory(folder):
                storage.delete_directory(folder)


def _remove_what_was_made(
    storage: Storage, plan: BootstrapPlan, tasks: Sequence[SkeletonTask], made: Sequence[str]
) -> None:
    """Remove this run's own files by name, then the folders that are empty without them."""
    folders = [join(plan.target_path, partition.path) for partition in plan.partitions]
    storage.delete_files(
        [
            *(task.target_path for task in tasks),
            *written_full_records(storage, plan),
            *(join(each, PARTITION_METADATA_FILE) for each in folders),
        ]
    )
    if storage.exists(join(plan.target_path, PROPERTIES_FILE)):
        # A writer that knows no claims made a table here meanwhile: its timeline stays.
        storage.delete_file(_claim_path(plan))
    else:
        storage.delete_directory(join(plan.target_path, TIMELINE_FOLDER))
    between = {
        folder
        for each in folders
        for folder in (each, *ancestors_of(each))
        if folder != plan.target_path and is_inside(folder, plan.target_path)
    }
    _remove_folders(storage, [*sorted(between, key=len, reverse=True), *made])


def _write_skeletons(
    context: Context, plan: BootstrapPlan, tasks: Sequence[SkeletonTask]
) -> list[WrittenSkeleton]:
    results = run_on_files(
        context.spark,
        tasks,
        partial(_write_group, context.storage),
        weight=lambda task: task.source.length,
        measure=lambda result: (result.rows, result.bytes),
        describe=_describe_progress,
        console=context.console,
        label=f"Bootstrapping {plan.request.full_name}, files",
        parallelism=plan.request.parallelism,
    )
    return [
        WrittenSkeleton(partition.path, partition.source.source_path, file, result)
        for (partition, file), result in zip(_planned_files(plan), results, strict=True)
    ]


def _planned_files(plan: BootstrapPlan) -> list[tuple[PlannedPartition, ExternalFile]]:
    return [(partition, file.source) for partition in plan.skeleton_partitions for file in partition.files]


def _skeleton_tasks(plan: BootstrapPlan) -> list[SkeletonTask]:
    return [
        _skeleton_task(plan, partition, file, number)
        for number, (partition, file) in enumerate(_planned_files(plan))
    ]


def _skeleton_task(
    plan: BootstrapPlan, partition: PlannedPartition, source: ExternalFile, number: int
) -> SkeletonTask:
    # The number of the file stands where Hudi has a task's partition id: it makes sequence numbers unique.
    file_id = new_file_id()
    token = write_token(number, 0, number)
    name = base_file_name(file_id, token, METADATA_BOOTSTRAP_INSTANT_TIME)
    request = plan.request
    return SkeletonTask(
        source=source,
        target_path=join(plan.target_path, partition.path, name),
        file_id=file_id,
        write_token=token,
        file_name=name,
        partition_path=partition.path,
        instant_time=METADATA_BOOTSTRAP_INSTANT_TIME,
        task_partition_id=number,
        record_key_fields=plan.record_key,
        composite=plan.has_composite_key,
        bloom_entries=request.bloom_entries,
        bloom_fpp=request.bloom_fpp,
        compression=SkeletonForm(request.compression),
        key_check=KeyCheck(request.key_check),
    )


def _write_group(storage: Storage, tasks: Iterable[SkeletonTask]) -> Iterator[SkeletonResult]:
    for task in tasks:
        yield write_skeleton(storage, task)


def _describe_progress(rows: int, written_bytes: int, seconds: float) -> str:
    return f"{rows:,} rows, {rows / max(seconds, 0.001):,.0f} rows/s, {written_bytes / 1e6:,.1f} MB written"


def _check_keys(plan: BootstrapPlan, files: Sequence[WrittenFile]) -> None:
    if plan.request.key_check == "none":
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


def _check_still_there(storage: Storage, plan: BootstrapPlan, files: Sequence[WrittenFile]) -> None:
    """Raise if a file is not as its task left it, or a source file changed while it was read."""
    written = storage.infos([file.result.path for file in files])
    lost = [
        file.result.path
        for file, info in zip(files, written, strict=True)
        if info is None or info.length != file.result.bytes
    ]
    if lost:
        raise StorageError(f"files are not as they were written: {name_some(lost)}")
    sources = [file.source for partition in plan.partitions for file in partition.files]
    changed = [
        source.path
        for source, info in zip(sources, storage.infos([source.path for source in sources]), strict=True)
        if info is None
        or (info.length, info.modification_time_ms) != (source.length, source.modification_time_ms)
    ]
    if changed:
        raise SourceChangedError(
            f"the source changed while it was bootstrapped: {name_some(changed)}",
            hint="nothing was kept; run again when its writer is done",
        )


def _summarise(
    plan: BootstrapPlan, files: Sequence[WrittenFile], other_bytes: int, seconds: float
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
    return BootstrapResult(tuple(partitions), file_bytes + other_bytes, seconds)


def _sync(context: Context, plan: BootstrapPlan) -> None:
    """Let the metastore follow. Raises SyncFailedError that says how to run it again."""
    from hudisql.catalog.sync import sync_table
    from hudisql.catalog.sync_entries import sync_options_from
    from hudisql.table.hudi_table import open_table

    request = plan.request
    table = open_table(context.storage, plan.target_path)
    options = sync_options_from(request.sync_options)
    sync_table(context.metastore, table, request.database, request.name, options)
