"""Compaction: merges the log files of a merge-on-read table into base files.

Follows `ScheduleCompactionActionExecutor`, `RunCompactionActionExecutor` and `HoodieCompactor` of Hudi 0.15:
a plan on the timeline (`<t>.compaction.requested`), `<t>.compaction.inflight` while it runs, and a commit of
the operation COMPACT when it is done. Rows keep their meta columns. Writers continue meanwhile: their log
files belong to the slices that the compaction starts. A killed run leaves its plan pending; the next run
deletes what it has written and starts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import (
    COMPACTION_LOG_BYTES,
    COMPACTION_LOG_FILES,
    COMPACTION_STRATEGY,
    COMPACTION_TARGET_IO,
    COMPACTION_TARGET_PARTITIONS,
    COMPACTION_TRIGGER,
    MAX_DELTA_COMMITS,
    MAX_DELTA_SECONDS,
)
from hudisql.errors import (
    UnsupportedTableError,
)
from hudisql.format.hfile.bootstrap_index import read_bootstrap_index
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.commit_metadata import CommitMetadata, new_commit_metadata
from hudisql.format.timeline.instant import (
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    Instant,
    second_of,
)
from hudisql.services.compaction.compaction_plan import (
    CompactionPlan,
    Strategy,
    chooses_partitions,
    partitions_to_compact,
    plan_compaction,
    read_compaction_plan,
    slice_of,
)
from hudisql.services.planned_run import (
    at_planned_schema,
    begin_run,
    check_still_planned,
    first_attempt,
    give_up_run,
    not_pending,
    pending_file_groups,
    prepare_to_plan,
    put_plan,
)
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.execution.commit_files import write_stat
from hudisql.write.execution.rewrite import rewrite_slices
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.commit import OpenCommit, publish_commit
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.pending_rollbacks import reopened_under_lock
from hudisql.write.transaction.writable_tables import check_writable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATION_TYPE: Final = "COMPACT"
_STRATEGY_PACKAGE: Final = "org.apache.hudi.table.action.compact.strategy."
_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "LogFileSizeBasedCompactionStrategy": "log_file_size",
    "LogFileNumBasedCompactionStrategy": "log_file_count",
    "BoundedIOCompactionStrategy": "bounded_io",
    "UnBoundedCompactionStrategy": "unbounded",
    "DayBasedCompactionStrategy": "day_based",
    "BoundedPartitionAwareCompactionStrategy": "bounded_partitions",
    "UnBoundedPartitionAwareCompactionStrategy": "unbounded_partitions",
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
    """When a compaction is due and which slices it merges; the defaults are those of the settings."""

    trigger: CompactionTrigger = CompactionTrigger[COMPACTION_TRIGGER.default_value]
    max_delta_commits: int = MAX_DELTA_COMMITS.default_value
    max_delta_seconds: int = MAX_DELTA_SECONDS.default_value
    strategy: Strategy = _STRATEGIES[COMPACTION_STRATEGY.default_value]
    target_io_megabytes: int = COMPACTION_TARGET_IO.default_value
    target_partitions: int = COMPACTION_TARGET_PARTITIONS.default_value
    least_log_bytes: int = COMPACTION_LOG_BYTES.default_value
    least_log_files: int = COMPACTION_LOG_FILES.default_value


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """A completed compaction: its instant time, the slices it merged, and the bytes it wrote."""

    instant_time: str
    operations: int
    bytes: int


def compaction_options(config: HudiConfig) -> CompactionOptions:
    """The options of Hudi's settings. Raises SettingsError."""
    strategy = config.get_class(COMPACTION_STRATEGY, _STRATEGY_PACKAGE, _STRATEGIES)
    return CompactionOptions(
        trigger=CompactionTrigger(config.get(COMPACTION_TRIGGER)),
        max_delta_commits=config.get(MAX_DELTA_COMMITS),
        max_delta_seconds=config.get(MAX_DELTA_SECONDS),
        strategy=_STRATEGIES[strategy],
        target_io_megabytes=config.get(COMPACTION_TARGET_IO),
        target_partitions=config.get(COMPACTION_TARGET_PARTITIONS),
        least_log_bytes=config.get(COMPACTION_LOG_BYTES),
        least_log_files=config.get(COMPACTION_LOG_FILES),
    )


def is_compaction_due(timeline: Timeline, options: CompactionOptions, now: datetime) -> bool:
    """True if the trigger's condition holds (`ScheduleCompactionActionExecutor.needCompact`).

    `now` is the current time on the timeline's clock.
    """
    deltas = delta_commits_since_compaction(timeline, options.trigger)
    if not deltas:
        return False
    last = _last_compaction(timeline)
    enough = len(deltas) >= options.max_delta_commits
    # As in Hudi, time runs from the last compaction, or from the first delta commit.
    elapsed = (now - second_of(last or deltas[0].timestamp)).total_seconds() >= options.max_delta_seconds
    return {
        CompactionTrigger.NUM_COMMITS: enough,
        CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST: enough,
        CompactionTrigger.TIME_ELAPSED: elapsed,
        CompactionTrigger.NUM_AND_TIME: enough and elapsed,
        CompactionTrigger.NUM_OR_TIME: enough or elapsed,
    }[options.trigger]


def delta_commits_since_compaction(timeline: Timeline, trigger: CompactionTrigger) -> tuple[Instant, ...]:
    """The completed delta commits that the trigger counts, oldest first."""
    last = _last_compaction(timeline)
    requested = max((*timeline.pending_compactions, last))
    counts_from = requested if trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST else last
    return tuple(
        instant
        for instant in timeline.completed
        if instant.action == DELTA_COMMIT and instant.timestamp > counts_from
    )


def schedule_compaction(
    table: HudiTable, options: CompactionOptions, concurrency: Concurrency
) -> Instant | None:
    """Put a compaction plan on the timeline; None if none is due or no slice has log files.

    Failed writes are rolled back first, and a metadata table is dropped. Raises UnsupportedTableError,
    SettingsError if the strategy chooses partitions by days that their paths do not name,
    WriteConflictError, TableLockedError, StorageError.
    """
    _check_compactable(table)
    with concurrency.hold():
        table = prepare_to_plan(table, concurrency)
        if not is_compaction_due(table.timeline, options, now_on_timeline(table)):
            return None
        plan = plan_compaction(
            table.storage,
            _candidates(table, options),
            pending_file_groups(table),
            options.strategy,
            options.target_io_megabytes,
            least_log_bytes=options.least_log_bytes,
            least_log_files=options.least_log_files,
        )
        if not plan.operations:
            return None
        return put_plan(table, COMPACTION, plan.to_avro())


def _candidates(table: HudiTable, options: CompactionOptions) -> list[FileSlice]:
    """The slices of the partitions that the strategy chooses, in the strategy's order of partitions."""
    strategy = options.strategy
    if not chooses_partitions(strategy):
        return load_file_slices(table)
    partitions = {partition.path: partition for partition in list_partitions(table)}
    today = now_on_timeline(table).date()
    paths = partitions_to_compact(strategy, partitions, options.target_partitions, today)
    position = {path: number for number, path in enumerate(paths)}
    slices = load_file_slices(table, [partitions[path] for path in paths])
    return sorted(slices, key=lambda file_slice: position[file_slice.partition_path])


def run_compaction(
    spark: SparkSession | None, table: HudiTable, instant_time: str, options: WriteOptions
) -> CompactionResult:
    """Merge the slices of a pending compaction into base files and commit them; without Spark one by one.

    Raises NoSuchInstantError if no such compaction is pending, WriteConflictError if another process runs
    it, UnsupportedTableError, CorruptTableError, StorageError, and Spark's own exceptions; the plan then
    stays pending.
    """
    _check_compactable(table)
    concurrency = options.concurrency
    with reopened_under_lock(table, concurrency) as (table, _):
        inflight, heartbeat = begin_run(table, _planned(table, instant_time), concurrency)
    try:
        table = at_planned_schema(table, instant_time)
        plan = read_compaction_plan(table, instant_time)
        commit = OpenCommit(table, inflight, OPERATION_TYPE, False, concurrency, heartbeat)
        files = rewrite_slices(spark, commit, _slices_of(table, plan), options, first_attempt=first_attempt())
        # Whatever others have committed beside it.
        publish_commit(commit, _metadata(commit, plan, files), lambda now: check_still_planned(now, inflight))
    except BaseException:
        give_up_run(table, inflight, heartbeat)
        raise
    return CompactionResult(instant_time, len(plan.operations), sum(file.bytes for file in files))


def _last_compaction(timeline: Timeline) -> str:
    completed = [instant for instant in timeline.completed if instant.action == COMMIT]
    return completed[-1].timestamp if completed else ""


def _check_compactable(table: HudiTable) -> None:
    check_writable(table, COMPACTION)
    if not table.is_merge_on_read:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} is copy-on-write: it has no log files to compact"
        )


def _planned(table: HudiTable, instant_time: str) -> Instant:
    for instant in table.timeline.pending:
        if instant.action == COMPACTION and instant.timestamp == instant_time:
            return instant
    raise not_pending(table, "compaction", instant_time)


def _slices_of(table: HudiTable, plan: CompactionPlan) -> list[FileSlice]:
    bootstrapped = {
        operation.partition_path for operation in plan.operations if operation.bootstrap_file is not None
    }
    external = read_bootstrap_index(table.storage, table.base_path, bootstrapped) if bootstrapped else {}
    return [
        slice_of(
            table,
            operation,
            external.get((operation.partition_path, operation.file_id))
            if operation.bootstrap_file is not None
            else None,
        )
        for operation in plan.operations
    ]


def _metadata(commit: OpenCommit, plan: CompactionPlan, files: Sequence[WrittenFile]) -> CommitMetadata:
    table = commit.table
    written = {(file.partition_path, file.file_id): file for file in files}
    stats = [
        replace(
            write_stat(table.base_path, written[operation.partition_path, operation.file_id]),
            total_log_files_compacted=len(operation.log_files),
            total_log_size_compacted=int(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0)),
        )
        for operation in plan.operations
    ]
    schema = avro_from_arrow(table.schema, table.name)
    return replace(new_commit_metadata(stats, schema, OPERATION_TYPE), compacted=True)
