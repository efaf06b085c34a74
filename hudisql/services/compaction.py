"""Compaction: the log files of a merge-on-read table are merged into base files.

Follows `ScheduleCompactionActionExecutor`, `RunCompactionActionExecutor` and `HoodieCompactor` of Hudi 0.15:
a plan on the timeline (`<t>.compaction.requested`), `<t>.compaction.inflight` while it runs, and a commit of
the operation COMPACT when it is done. Rows keep their meta columns. Writers go on meanwhile: their log files
belong to the slices that the compaction starts. A run that was killed leaves its plan pending; the next run
deletes what it has written and starts again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hudisql.errors import (
    NoSuchInstantError,
    PathExistsError,
    SettingsError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.bootstrap_index import read_bootstrap_index
from hudisql.format.commit_metadata import CommitMetadata, new_commit_metadata
from hudisql.format.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    Instant,
    InstantState,
)
from hudisql.format.schema import avro_from_arrow
from hudisql.format.timeline import Timeline
from hudisql.hudi_config import (
    COMPACTION_STRATEGY,
    COMPACTION_TARGET_IO,
    COMPACTION_TRIGGER,
    MAX_DELTA_COMMITS,
    MAX_DELTA_SECONDS,
    HudiConfig,
)
from hudisql.services.compaction_plan import (
    CompactionPlan,
    Strategy,
    plan_compaction,
    read_compaction_plan,
    slice_of,
)
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.requested_replace import is_clustering
from hudisql.table.snapshot import load_file_slices
from hudisql.table.table_configuration import drop_metadata_table, has_metadata_table
from hudisql.write.execution.commit_files import write_stat
from hudisql.write.execution.rewrite import rewrite_slices
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.commit import (
    OpenCommit,
    check_writable,
    publish_commit,
    request_instant,
    roll_back_failed_writes,
)
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.heartbeat import Heartbeat, heartbeat_path, is_alive, start_heartbeat
from hudisql.write.transaction.lock import hold_lock
from hudisql.write.transaction.markers import delete_markers
from hudisql.write.transaction.pending_rollbacks import check_not_restored, pending_rollbacks
from hudisql.write.transaction.rollback import now_on_timeline
from hudisql.write.transaction.timeline_payloads import planned_file_groups
from hudisql.write.transaction.uncommitted_files import delete_unnamed_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATION_TYPE: Final = "COMPACT"
_STRATEGY_PACKAGE: Final = "org.apache.hudi.table.action.compact.strategy."
_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "LogFileSizeBasedCompactionStrategy": "log_file_size",
    "LogFileNumBasedCompactionStrategy": "log_file_count",
    "BoundedIOCompactionStrategy": "bounded_io",
    "UnBoundedCompactionStrategy": "unbounded",
}


class CompactionTrigger(StrEnum):
    """When a compaction is due (Hudi's `CompactionTriggerStrategy`)."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """When a compaction is due and which slices it takes; the defaults are those of the settings."""

    trigger: CompactionTrigger = CompactionTrigger[COMPACTION_TRIGGER.default_value]
    max_delta_commits: int = MAX_DELTA_COMMITS.default_value
    max_delta_seconds: int = MAX_DELTA_SECONDS.default_value
    strategy: Strategy = _STRATEGIES[COMPACTION_STRATEGY.default_value]
    target_io_megabytes: int = COMPACTION_TARGET_IO.default_value


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """A compaction that has completed: its instant time, the slices it merged, and what it wrote."""

    instant_time: str
    operations: int
    files: int
    bytes: int


def compaction_options(config: HudiConfig) -> CompactionOptions:
    """The options that Hudi's settings name. Raises SettingsError."""
    name = config.get(COMPACTION_STRATEGY)
    strategy = _STRATEGIES.get(name.removeprefix(_STRATEGY_PACKAGE))
    if strategy is None:
        raise SettingsError(
            f"{COMPACTION_STRATEGY} = {name} is not supported",
            hint=f"use {', '.join(f'{_STRATEGY_PACKAGE}{each}' for each in _STRATEGIES)}",
        )
    return CompactionOptions(
        trigger=CompactionTrigger(config.get(COMPACTION_TRIGGER)),
        max_delta_commits=config.get(MAX_DELTA_COMMITS),
        max_delta_seconds=config.get(MAX_DELTA_SECONDS),
        strategy=strategy,
        target_io_megabytes=config.get(COMPACTION_TARGET_IO),
    )


def is_compaction_due(timeline: Timeline, options: CompactionOptions, now: datetime) -> bool:
    """True if the trigger's condition holds (`ScheduleCompactionActionExecutor.needCompact`).

    `now` is the present moment on the timeline's clock.
    """
    completed = [each for each in timeline.completed if each.action == COMMIT]
    last = completed[-1].timestamp if completed else ""
    requested = max((*timeline.pending_compactions, last))
    counts_from = requested if options.trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST else last
    deltas = [
        each for each in timeline.completed if each.action == DELTA_COMMIT and each.timestamp > counts_from
    ]
    if not deltas:
        return False
    enough = len(deltas) >= options.max_delta_commits
    # As in Hudi, time runs from the last compaction, or from the first delta commit.
    elapsed = (now - _moment(last or deltas[0].timestamp)).total_seconds() >= options.max_delta_seconds
    return {
        CompactionTrigger.NUM_COMMITS: enough,
        CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST: enough,
        CompactionTrigger.TIME_ELAPSED: elapsed,
        CompactionTrigger.NUM_AND_TIME: enough and elapsed,
        CompactionTrigger.NUM_OR_TIME: enough or elapsed,
    }[options.trigger]


def schedule_compaction(
    table: HudiTable, options: CompactionOptions, concurrency: Concurrency
) -> Instant | None:
    """Put a compaction plan on the timeline; None if none is due or no slice has log files.

    Failed writes are rolled back first, and a metadata table is dropped. Raises UnsupportedTableError,
    WriteConflictError, TableLockedError, StorageError.
    """
    _check_compactable(table)
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        table = table.reopened()
        check_not_restored(table, table.timeline)
        if roll_back_failed_writes(table, concurrency):
            table = table.reopened()
        if not is_compaction_due(table.timeline, options, now_on_timeline(table)):
            return None
        plan = plan_compaction(
            table.storage,
            load_file_slices(table),
            _pending_file_groups(table),
            options.strategy,
            options.target_io_megabytes,
        )
        if not plan.operations:
            return None
        if drop_metadata_table(table):
            table = table.reopened()
        requested, _ = request_instant(table, COMPACTION, plan.to_avro())
        return requested


def run_compaction(
    spark: SparkSession, table: HudiTable, instant_time: str, options: WriteOptions
) -> CompactionResult:
    """Merge the slices of a pending compaction into base files and commit them.

    Raises NoSuchInstantError if no such compaction is pending, WriteConflictError if another process runs
    it, UnsupportedTableError, CorruptTableError, StorageError, and Spark's own exceptions; the plan then
    stays pending.
    """
    _check_compactable(table)
    concurrency = options.concurrency
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        table = table.reopened()
        check_not_restored(table, table.timeline)
        _check_no_metadata_table(table)
        inflight, heartbeat = _begin(table, instant_time, concurrency)
    try:
        plan = read_compaction_plan(table, instant_time)
        commit = OpenCommit(table, inflight, OPERATION_TYPE, False, concurrency, heartbeat)
        files = rewrite_slices(
            spark, commit, _slices_of(table, plan), options, first_attempt=_first_attempt()
        )
        _complete(commit, _metadata(commit, plan, files))
    except BaseException:
        _give_up(table, inflight, heartbeat)
        raise
    return CompactionResult(instant_time, len(plan.operations), len(files), sum(each.bytes for each in files))


def _check_compactable(table: HudiTable) -> None:
    check_writable(table)
    if not table.is_merge_on_read:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} is copy-on-write: it has no log files to compact"
        )


def _pending_file_groups(table: HudiTable) -> frozenset[tuple[str, str]]:
    """The file groups of pending compactions and clusterings."""
    return frozenset(
        group
        for instant in table.timeline.pending
        if instant.action == COMPACTION or is_clustering(table, instant)
        for group in planned_file_groups(table, instant)
    )


def _begin(table: HudiTable, instant_time: str, concurrency: Concurrency) -> tuple[Instant, Heartbeat]:
    """Make the requested compaction inflight; a run that was killed is undone first."""
    pending = [
        each
        for each in table.timeline.pending
        if each.action == COMPACTION and each.timestamp == instant_time
    ]
    if not pending:
        raise NoSuchInstantError(
            f"no compaction {instant_time} is pending on the Hudi table at {table.base_path}",
            hint="CALL show_compaction(table => '…') lists them",
        )
    storage, base_path = table.storage, table.base_path
    interval, tolerance = concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerance_ms
    if is_alive(storage, base_path, instant_time, tolerance):
        raise _at_work(table, instant_time)
    heartbeat = start_heartbeat(storage, heartbeat_path(base_path, instant_time), interval, tolerance)
    inflight = pending[0].in_state(InstantState.INFLIGHT)
    try:
        _reset(table, inflight)
        storage.create(table.instant_path(inflight), b"")
    except PathExistsError:
        heartbeat.stop(keeps_file=True)
        raise _at_work(table, instant_time) from None
    except BaseException:
        heartbeat.stop()
        raise
    return inflight, heartbeat


def _at_work(table: HudiTable, instant_time: str) -> WriteConflictError:
    return WriteConflictError(
        f"another process runs the compaction {instant_time} of {table.base_path}",
        hint="wait for it; a process that was killed counts as gone when its heartbeat has expired",
    )


def _first_attempt() -> int:
    """Tells apart the files of two runs of one compaction; task attempts of a run stay below 1,000."""
    return int(time.time() * 10) % 1_000_000 * 1000


def _give_up(table: HudiTable, inflight: Instant, heartbeat: Heartbeat) -> None:
    """Undo the run, unless its heartbeat has expired: then another process may be running the plan."""
    try:
        heartbeat.check()
    except WriteConflictError:
        with suppress(StorageError):
            heartbeat.stop(keeps_file=True)
        return
    with suppress(StorageError):
        _reset(table, inflight)
    with suppress(StorageError):
        heartbeat.stop()


def _reset(table: HudiTable, inflight: Instant) -> None:
    """Delete what a run has written, and its inflight instant: the plan alone stays."""
    if table.storage.exists(table.instant_path(inflight.in_state(InstantState.COMPLETED))):
        return
    delete_unnamed_files(table.storage, table.base_path, inflight.timestamp, ())
    delete_markers(table.storage, table.base_path, inflight.timestamp)
    table.storage.delete_file(table.instant_path(inflight))


def _slices_of(table: HudiTable, plan: CompactionPlan) -> list[FileSlice]:
    bootstrapped = {each.partition_path for each in plan.operations if each.bootstrap_file is not None}
    external = read_bootstrap_index(table.storage, table.base_path, bootstrapped) if bootstrapped else {}
    return [
        slice_of(
            table,
            each,
            external.get((each.partition_path, each.file_id)) if each.bootstrap_file is not None else None,
        )
        for each in plan.operations
    ]


def _metadata(commit: OpenCommit, plan: CompactionPlan, files: Sequence[WrittenFile]) -> CommitMetadata:
    table = commit.table
    written = {(each.partition_path, each.file_id): each for each in files}
    stats = [
        replace(
            write_stat(table.base_path, written[each.partition_path, each.file_id]),
            total_log_files_compacted=len(each.log_files),
            total_log_size_compacted=int(each.metrics.get("TOTAL_LOG_FILES_SIZE", 0)),
        )
        for each in plan.operations
    ]
    schema = avro_from_arrow(table.schema, table.name)
    return replace(new_commit_metadata(stats, schema, OPERATION_TYPE), compacted=True)


def _complete(commit: OpenCommit, metadata: CommitMetadata) -> None:
    """Make the compaction visible, whatever others have committed beside it."""

    def check(now: HudiTable) -> None:
        check_not_restored(now, now.timeline)
        rolled_back = {each.target.timestamp for each in pending_rollbacks(now, now.timeline)}
        if commit.instant not in now.timeline.instants or commit.instant_time in rolled_back:
            raise WriteConflictError(
                f"another writer has rolled back the compaction {commit.instant_time} of {now.base_path}",
                hint="run it again: its plan may still be pending (CALL show_compaction)",
            )
        _check_no_metadata_table(now)

    publish_commit(commit, metadata, check)


def _check_no_metadata_table(table: HudiTable) -> None:
    # It cannot be dropped while the compaction itself is pending.
    if has_metadata_table(table):
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has a metadata table, which hudisql does not maintain",
            hint="let Apache Hudi run this compaction, or turn the metadata table off for all writers "
            "(hoodie.metadata.enable=false)",
        )


def _moment(instant_time: str) -> datetime:
    # Hudi takes the fixed instants of bootstraps for the epoch.
    if instant_time in BOOTSTRAP_INSTANT_TIMES:
        return datetime.fromtimestamp(0, UTC)
    return datetime.strptime(instant_time[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
