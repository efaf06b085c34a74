"""Clean: deletes old file slices by a plan on the timeline.

Follows `CleanPlanActionExecutor`, `CleanActionExecutor` and `BaseHoodieTableServiceClient.clean` of Hudi
0.15: `<t>.clean.requested` has the plan, `<t>.clean.inflight` exists while files are deleted, `<t>.clean`
lists the deleted files. The next clean completes a killed one. Source files of a bootstrap are deleted only
by a caller that has a `SourceDeletion`, whoever planned it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

from hudisql.errors import (
    CorruptTableError,
    HudisqlError,
    PathExistsError,
    StorageError,
    UnsupportedTableError,
)
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.timeline.instant import CLEAN, WRITE_ACTIONS, Instant, InstantState
from hudisql.format.timeline.timeline_layout import iceberg_directory, metadata_directory
from hudisql.services.clean.clean_metadata import CleanedPartition, CleanMetadata, read_clean_metadata
from hudisql.services.clean.clean_plan import (
    CleanOptions,
    CleanPlan,
    earliest_commit_to_retain,
    is_clean_due,
    parse_clean_plan,
    plan_clean,
)
from hudisql.services.clean.clean_sources import SourceDeletion, deletable_sources
from hudisql.services.clean.looked_at import read_looked_at, record_looked_at
from hudisql.storage import FileInfo, Storage, is_inside, join
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.timeline.savepoint_files import savepointed_files
from hudisql.write.metadata_table.metadata_commit import write_clean
from hudisql.write.metadata_table.unkept_metadata_table import drop_unless_kept, has_unkept
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.instant_request import request_instant
from hudisql.write.transaction.instant_rollback import complete_interrupted_undoings, remove_pending
from hudisql.write.transaction.pending_rollbacks import (
    check_not_restored,
    commits_being_undone,
    reopened_under_lock,
)
from hudisql.write.transaction.timeline_files import completed_instant, timeline_files
from hudisql.write.transaction.writable_tables import check_writable

_AT_ONCE: Final = 1000
_MOST_REMEMBERED: Final = 10_000
# The instants up to which plans of this process have found nothing to delete, so that the next plan only
# reads later ones; a clean that deletes something records this on the timeline.
_looked_at_until: Final[dict[tuple[str, CleanOptions, frozenset[str]], str]] = {}


def clean_table(
    table: HudiTable,
    options: CleanOptions,
    concurrency: Concurrency,
    sources: SourceDeletion | None = None,
) -> CleanMetadata | None:
    """Complete the pending cleans, then plan and run a new one if it is due; the result of the last of them.

    With `sources` it is due in any case, and deletes source files too. None if there was nothing to do.
    Raises UnsupportedTableError, CorruptTableError, TableLockedError, StorageError, MetastoreError; a clean
    that has begun then stays pending.
    """
    finished = run_pending_cleans(table, concurrency, sources)
    requested = schedule_clean(table.reopened() if finished else table, options, concurrency, sources)
    if requested is None:
        return finished
    return run_clean(table.reopened(), requested, concurrency, sources)


def run_pending_cleans(
    table: HudiTable, concurrency: Concurrency, sources: SourceDeletion | None = None
) -> CleanMetadata | None:
    """Complete the pending cleans, oldest first; the result of the last of them.

    None if there were none.
    """
    metadata = None
    for pending in [instant for instant in table.timeline.pending if instant.action == CLEAN]:
        metadata = run_clean(table.reopened(), pending, concurrency, sources)
    return metadata


def schedule_clean(
    table: HudiTable,
    options: CleanOptions,
    concurrency: Concurrency,
    sources: SourceDeletion | None = None,
) -> Instant | None:
    """Put a clean plan on the timeline; None if none is due or there is nothing to delete.

    With the LAZY policy failed writes are rolled back first, as in Hudi. With any policy, rollbacks of
    completed commits are completed, and nothing is planned while one is running: a plan that counts such a
    commit would delete older files, which readers need after the rollback.
    """
    check_writable(table, CLEAN)
    with reopened_under_lock(table, concurrency) as (table, _):
        if concurrency.failed_writes is FailedWrites.LAZY and roll_back_failed_writes(table, concurrency):
            table = table.reopened()
        if complete_interrupted_undoings(table, concurrency):
            table = table.reopened()
        if commits_being_undone(table) or (sources is None and not is_clean_due(table, options)):
            return None
        now = now_on_timeline(table)
        key = (table.base_path, options, table.timeline.savepoints)
        looked_at = _looked_at_until.get(key)
        if looked_at is None:
            looked_at = read_looked_at(table)
        plan = plan_clean(table, options, now, looked_at, sources)
        if plan is None:
            earliest = earliest_commit_to_retain(table.timeline, options, now)
            if len(_looked_at_until) >= _MOST_REMEMBERED:
                _looked_at_until.clear()
            _looked_at_until[key] = "" if earliest is None else earliest.timestamp
            if earliest is not None:
                record_looked_at(table, looked_at, earliest.timestamp)
            return None
        if drop_unless_kept(table):
            table = table.reopened()
        requested, _ = request_instant(table, CLEAN, plan.to_avro())
        return requested


def run_clean(
    table: HudiTable,
    instant: Instant,
    concurrency: Concurrency,
    sources: SourceDeletion | None = None,
) -> CleanMetadata | None:
    """Delete the files of a pending clean's plan, and complete it; None for a plan that was never written.

    Another process may run the same plan. Files that readers now see, or a savepoint protects, stay. Raises
    UnsupportedTableError, CorruptTableError for a plan that names files outside of the table,
    TableLockedError, StorageError; the clean then stays pending.
    """
    check_writable(table, CLEAN)
    check_not_restored(table, table.timeline)
    _drop_metadata_table(table, instant, concurrency)
    started = time.monotonic()
    storage = table.storage
    requested = table.instant_path(instant.in_state(InstantState.REQUESTED))
    content = storage.read(requested)
    if not content:
        # A writer crashed while it created the plan: as in Hudi, it does not count.
        remove_pending(table, instant)
        return None
    plan = parse_clean_plan(content, requested, table)
    paths = _paths_by_partition(table, plan)
    with suppress(PathExistsError):
        storage.create(table.instant_path(instant.in_state(InstantState.INFLIGHT)), content)
    external = _source_paths(table, plan)
    _expire_published(table, concurrency, instant, [*paths.values(), *external.values()])
    failed = _delete_files(table, paths, _files_in_use(table, paths))
    failed |= _delete_sources(table, external, sources)
    files = timeline_files(table.timeline.layout)
    with concurrency.hold() as held:
        emptied = _delete_partitions(table.reopened(), plan.partitions_to_delete)
        milliseconds = round((time.monotonic() - started) * 1000)
        metadata = _metadata(instant, plan, paths, external, failed, emptied, milliseconds)
        held.check()
        _write_metadata_table(table, instant, paths, failed, emptied)
        try:
            files.complete(table, instant, metadata.to_avro(), awaits_clocks=concurrency.names_lock)
        except PathExistsError:
            # Another process has run the same plan.
            completed = completed_instant(table, instant)
            return None if completed is None else read_clean_metadata(table, completed)
    return metadata


def _expire_published(
    table: HudiTable, concurrency: Concurrency, clean: Instant, paths: Iterable[Sequence[str]]
) -> None:
    """Let the past snapshots of the table's Iceberg table go that name one of the files.

    One that cannot be read does not stop the clean: its readers get the name of the missing file.
    """
    if not table.storage.exists(iceberg_directory(table.base_path)):
        return
    from hudisql.iceberg.snapshot_history import expire_snapshots

    with suppress(HudisqlError), concurrency.hold():
        expire_snapshots(table, chain.from_iterable(paths), clean.timestamp)


def _write_metadata_table(
    table: HudiTable,
    instant: Instant,
    paths: Mapping[str, Sequence[str]],
    failed: Collection[str],
    emptied: Collection[str],
) -> None:
    """Write the clean's part of a kept metadata table; files that could not be deleted stay listed."""
    now = table.reopened()
    if completed_instant(now, instant) is not None:
        return
    deleted = {
        partition: [path.rpartition("/")[2] for path in some if path not in failed]
        for partition, some in paths.items()
    }
    write_clean(now, instant.timestamp, deleted, emptied)


def _drop_metadata_table(table: HudiTable, pending: Instant, concurrency: Concurrency) -> None:
    """Drop an unkept metadata table, which cannot be while a clean of timeline layout 1 is pending."""
    if not has_unkept(table):
        return
    if not table.timeline.layout.has_completion_times:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has a metadata table, which hudisql does not maintain, and "
            f"a clean {pending.timestamp} is pending",
            hint="let Apache Hudi run this clean (CALL run_clean), then run this again",
        )
    with concurrency.hold():
        drop_unless_kept(table.reopened())


def _paths_by_partition(table: HudiTable, plan: CleanPlan) -> dict[str, tuple[str, ...]]:
    """The paths of the plan's files, without source files."""
    found: dict[str, tuple[str, ...]] = {}
    for partition, files in plan.files.items():
        paths = tuple(table.storage.qualify(file.uri) for file in files if not file.is_source)
        for path in paths:
            if not is_inside(path, table.base_path) or is_inside(path, metadata_directory(table.base_path)):
                raise CorruptTableError(
                    f"a clean plan of {table.base_path} names {path}, which is not a data file of the table",
                    hint="nothing was deleted; find out who wrote that plan, and remove it by hand",
                )
        found[partition] = paths
    return found


def _source_paths(table: HudiTable, plan: CleanPlan) -> dict[str, tuple[str, ...]]:
    found = {
        partition: tuple(table.storage.qualify(file.uri) for file in files if file.is_source)
        for partition, files in plan.files.items()
    }
    return {partition: paths for partition, paths in found.items() if paths}


def _delete_sources(
    table: HudiTable, paths: Mapping[str, Sequence[str]], deletion: SourceDeletion | None
) -> frozenset[str]:
    """Delete the source files that are no longer needed, if the caller may; returns those that still exist.

    Their skeletons are already deleted, so that a killed clean leaves no skeleton without its file.
    """
    planned = [path for some in paths.values() for path in some]
    there = {
        path for path, info in zip(planned, table.storage.infos(planned), strict=True) if info is not None
    }
    free = deletable_sources(table, there, deletion) if there and deletion is not None else frozenset()
    return _delete_files(table, {"": sorted(there)}, there - free)


def _delete_files(
    table: HudiTable, paths: Mapping[str, Sequence[str]], kept: Collection[str]
) -> frozenset[str]:
    """Delete the files except those to keep; returns those that still exist."""
    chosen = [path for some in paths.values() for path in some if path not in kept]
    failed: set[str] = {path for some in paths.values() for path in some if path in kept}
    for start in range(0, len(chosen), _AT_ONCE):
        some = chosen[start : start + _AT_ONCE]
        try:
            table.storage.delete_files(some)
        except StorageError:
            failed |= {path for path in some if not _is_deleted(table.storage, path)}
    return frozenset(failed)


def _is_deleted(storage: Storage, path: str) -> bool:
    try:
        storage.delete_file(path)
    except StorageError:
        return False
    return True


def _files_in_use(table: HudiTable, paths: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The planned files that readers see, or a savepoint protects, since the plan was written."""
    directories = {path: join(table.base_path, path) for path in paths}
    infos = table.storage.infos(list(directories.values()))
    existing = [path for path, info in zip(directories, infos, strict=True) if info is not None or not path]
    seen = {
        file.path
        for file_slice in list_file_slices(table, existing, None)
        for file in (file_slice.base_file, *file_slice.log_files)
        if file is not None
    }
    savepointed = savepointed_files(table)
    planned = {path for some in paths.values() for path in some}
    return frozenset(path for path in planned if path in seen or path.rpartition("/")[2] in savepointed)


def _delete_partitions(table: HudiTable, partitions: Collection[str]) -> frozenset[str]:
    """Delete the directories of partitions that contain only their marker; returns the deleted ones.

    None is deleted while a write is pending, which may be about to write there.
    """
    if any(instant.action in WRITE_ACTIONS for instant in table.timeline.pending):
        return frozenset()
    return frozenset(path for path in partitions if path and _delete_partition(table, path))


def _delete_partition(table: HudiTable, partition: str) -> bool:
    storage, directory = table.storage, join(table.base_path, partition)
    if not is_inside(directory, table.base_path) or storage.info(directory) is None:
        return False
    if any(not _belongs_to_marker(entry) for entry in storage.list_directory(directory)):
        return False
    marker = join(directory, PARTITION_METADATA_FILE)
    content = storage.read(marker) if storage.exists(marker) else None
    storage.delete_file(marker)
    storage.delete_file(join(directory, f".{PARTITION_METADATA_FILE}.crc"))
    if storage.delete_empty_directory(directory):
        return True
    if content is not None:
        storage.write(marker, content)
    return False


def _belongs_to_marker(entry: FileInfo) -> bool:
    names = (PARTITION_METADATA_FILE, f".{PARTITION_METADATA_FILE}.crc")
    return not entry.is_directory and entry.name in names


def _metadata(
    instant: Instant,
    plan: CleanPlan,
    paths: Mapping[str, Sequence[str]],
    sources: Mapping[str, Sequence[str]],
    failed: Collection[str],
    emptied: Collection[str],
    milliseconds: int,
) -> CleanMetadata:
    def cleaned(
        partition: str, some: Sequence[str], write: Callable[[str], str], is_deleted: bool
    ) -> CleanedPartition:
        return CleanedPartition(
            partition,
            plan.policy,
            patterns=tuple(write(path) for path in some),
            deleted=tuple(write(path) for path in some if path not in failed),
            failed=tuple(write(path) for path in some if path in failed),
            is_partition_deleted=is_deleted,
        )

    partitions = tuple(cleaned(path, some, _name, path in emptied) for path, some in paths.items())
    uri = Storage().hadoop_uri
    earliest = plan.earliest_retained
    return CleanMetadata(
        start_time=instant.timestamp,
        milliseconds=milliseconds,
        earliest_retained="" if earliest is None else earliest.timestamp,
        last_completed=plan.last_completed,
        partitions=partitions,
        sources=tuple(cleaned(path, some, uri, is_deleted=False) for path, some in sources.items()),
        extra_metadata=plan.extra_metadata,
        files_deleted=sum(len(cleaned_partition.deleted) for cleaned_partition in partitions),
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
