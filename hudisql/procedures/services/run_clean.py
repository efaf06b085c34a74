"""`run_clean`, `show_cleans`, `show_cleans_metadata` and `show_clean_plans`, as Hudi's procedures.

Follows `RunCleanProcedure` of Hudi 0.15 and `ShowCleansProcedure`, `ShowCleansPartitionMetadataProcedure` and
`ShowCleansPlanProcedure` of 1.2. `path` is hudisql's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from hudisql.config.table_service_keys import (
    CLEAN_COMMITS,
    CLEAN_HOURS,
    CLEAN_POLICY,
    CLEAN_SOURCES,
    CLEAN_TRIGGER,
    CLEAN_TRIGGER_COMMITS,
    CLEAN_VERSIONS,
)
from hudisql.errors import NoSuchPathError
from hudisql.format.timeline.instant import CLEAN, Instant, InstantState
from hudisql.options.table_call import find_table, open_table_call
from hudisql.procedures.registry import (
    Arguments,
    parameter,
    parameter_without_effect,
    path_parameter,
    procedure,
    table_parameter,
)
from hudisql.procedures.show.shown_rows import completion_text, filter_parameter, filter_rows, limit_parameter

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.services.clean.clean_metadata import CleanMetadata
    from hudisql.services.clean.clean_plan import CleanPlan
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class RunCleanArguments(Arguments):
    """The parameters of `run_clean`."""

    table: str | None = table_parameter()
    schedule_in_line: bool = parameter(True, help="false: only finish pending cleans")
    clean_policy: str | None = parameter(
        None, help="KEEP_LATEST_COMMITS, KEEP_LATEST_BY_HOURS or KEEP_LATEST_FILE_VERSIONS"
    )
    retain_commits: int | None = parameter(None, help="commits that are retained")
    hours_retained: int | None = parameter(None, help="hours that are retained")
    file_versions_retained: int | None = parameter(
        None, help="file slices of each file group that are retained"
    )
    trigger_strategy: str | None = parameter(None, help="only NUM_COMMITS")
    trigger_max_commits: int | None = parameter(
        None, help="commits after the last clean before the next one is due"
    )
    options: str | None = parameter(None, help="settings for this call, as key=value, separated by commas")
    path: str | None = path_parameter()
    confirm_source_deletion: bool = parameter(
        False, help=f"with {CLEAN_SOURCES.name} = true: source files of the bootstrap are deleted"
    )
    dry_run: bool = parameter(False, help="only show what a new plan would delete; change nothing")
    skip_locking: bool | None = parameter_without_effect("a clean locks the table as its settings say")


@dataclass(frozen=True)
class CleanRow:
    """What a clean did."""

    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: Annotated[int, "int"]
    earliest_commit_to_retain: str
    bootstrap_part_metadata: str
    version: Annotated[int, "int"]


@procedure("Deletes old file slices that no retained state of the table needs.", name="run_clean")
def run_clean_procedure(context: Context, arguments: RunCleanArguments) -> Iterable[CleanRow]:
    """A row for the clean, or with `dry_run` for its plan; none if there was nothing to do.

    Raises InvalidArgumentError, SourceProtectedError, NoSuchTableError, SettingsError, UnsupportedTableError,
    CorruptTableError, TableLockedError, MetastoreError, StorageError.
    """
    from hudisql.services.clean.clean_action import clean_table, run_pending_cleans
    from hudisql.services.clean.clean_plan import clean_options
    from hudisql.services.clean.source_deletion import check_confirmed, dry_run_of, source_deletion

    call = open_table_call(
        context,
        arguments.table,
        arguments.path,
        arguments.options,
        {
            CLEAN_POLICY: arguments.clean_policy,
            CLEAN_COMMITS: arguments.retain_commits,
            CLEAN_HOURS: arguments.hours_retained,
            CLEAN_VERSIONS: arguments.file_versions_retained,
            CLEAN_TRIGGER: arguments.trigger_strategy,
            CLEAN_TRIGGER_COMMITS: arguments.trigger_max_commits,
        },
    )
    options, concurrency = clean_options(call.config), call.concurrency()
    sources = source_deletion(context, call.table.base_path) if call.config.get(CLEAN_SOURCES) else None
    if arguments.dry_run:
        metadata = dry_run_of(call.table, options, sources)
    else:
        check_confirmed(call.table, options, sources, is_confirmed=arguments.confirm_source_deletion)
        if arguments.schedule_in_line:
            metadata = clean_table(call.table, options, concurrency, sources)
        else:
            metadata = run_pending_cleans(call.table, concurrency, sources)
        call.publish()
    if metadata is None:
        return []
    return [
        CleanRow(
            metadata.start_time,
            metadata.milliseconds,
            metadata.files_deleted,
            metadata.earliest_retained,
            json.dumps({source.partition_path: source.to_record() for source in metadata.sources}),
            metadata.version,
        )
    ]


@dataclass(frozen=True, kw_only=True)
class ShowCleansArguments(Arguments):
    """The parameters of the procedures that show cleans."""

    table: str | None = table_parameter()
    limit: int = limit_parameter(10)
    showArchived: bool = parameter(False, help="archived cleans too")  # noqa: N815 (Hudi's name)
    filter: str = filter_parameter()
    path: str | None = path_parameter()


@dataclass(frozen=True)
class ShownCleanRow:
    """A completed clean."""

    clean_time: str
    state_transition_time: str | None
    action: str
    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: Annotated[int, "int"]
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str
    version: Annotated[int, "int"]


@procedure("Shows the completed cleans, newest first.")
def show_cleans(context: Context, arguments: ShowCleansArguments) -> Iterable[ShownCleanRow]:
    """A row for each clean.

    Raises NoSuchTableError, InvalidArgumentError, CorruptTableError, StorageError.
    """
    table = find_table(context, arguments.table, arguments.path)
    rows = [
        ShownCleanRow(
            instant.timestamp,
            time,
            instant.action,
            metadata.start_time,
            metadata.milliseconds,
            metadata.files_deleted,
            metadata.earliest_retained,
            metadata.last_completed,
            metadata.version,
        )
        for instant, time, metadata in _cleans(table, with_archived=arguments.showArchived)
    ]
    return filter_rows(context, rows, ShownCleanRow, arguments.filter)[: max(arguments.limit, 0)]


@dataclass(frozen=True)
class CleanedPartitionRow:
    """What a completed clean did in one partition."""

    clean_time: str
    state_transition_time: str | None
    action: str
    start_clean_time: str
    partition_path: str
    policy: str
    delete_path_patterns: Annotated[int, "int"]
    success_delete_files: Annotated[int, "int"]
    failed_delete_files: Annotated[int, "int"]
    is_partition_deleted: bool
    time_taken_in_millis: int
    total_files_deleted: Annotated[int, "int"]


@procedure("Shows what each completed clean did in each partition, newest first.")
def show_cleans_metadata(context: Context, arguments: ShowCleansArguments) -> Iterable[CleanedPartitionRow]:
    """A row for each clean and partition."""
    table = find_table(context, arguments.table, arguments.path)
    rows = [
        CleanedPartitionRow(
            instant.timestamp,
            time,
            instant.action,
            metadata.start_time,
            partition.partition_path,
            partition.policy,
            len(partition.patterns),
            len(partition.deleted),
            len(partition.failed),
            partition.is_partition_deleted,
            metadata.milliseconds,
            metadata.files_deleted,
        )
        for instant, time, metadata in _cleans(table, with_archived=arguments.showArchived)
        for partition in metadata.partitions
    ]
    return filter_rows(context, rows, CleanedPartitionRow, arguments.filter)[: max(arguments.limit, 0)]


@dataclass(frozen=True)
class CleanPlanRow:
    """The plan of a clean, pending or completed."""

    plan_time: str
    state: str
    action: str
    earliest_instant_to_retain: str | None
    last_completed_commit_timestamp: str
    policy: str
    version: Annotated[int, "int"]
    total_partitions_to_clean: Annotated[int, "int"]
    total_partitions_to_delete: Annotated[int, "int"]
    extra_metadata: str


@procedure("Shows the plans of cleans, pending and completed ones, newest first.")
def show_clean_plans(context: Context, arguments: ShowCleansArguments) -> Iterable[CleanPlanRow]:
    """A row for each plan."""
    table = find_table(context, arguments.table, arguments.path)
    rows = [
        CleanPlanRow(
            instant.timestamp,
            instant.state.name,
            instant.action,
            None if plan.earliest_retained is None else plan.earliest_retained.timestamp,
            plan.last_completed,
            plan.policy,
            plan.version,
            len(plan.files),
            len(plan.partitions_to_delete),
            json.dumps(dict(plan.extra_metadata or {})),
        )
        for instant, plan in _plans(table, with_archived=arguments.showArchived)
    ]
    return filter_rows(context, rows, CleanPlanRow, arguments.filter)[: max(arguments.limit, 0)]


def _cleans(table: HudiTable, *, with_archived: bool) -> Iterator[tuple[Instant, str | None, CleanMetadata]]:
    """The completed cleans with their completion times, newest first."""
    from hudisql.services.clean.clean_metadata import clean_metadata_of, read_clean_metadata
    from hudisql.table.timeline.archived_timeline import read_archived_entries

    for instant in reversed(table.timeline.completed):
        if instant.action == CLEAN and (metadata := read_clean_metadata(table, instant)) is not None:
            yield instant, completion_text(table, instant), metadata
    field = "hoodieCleanMetadata"
    for entry in reversed(read_archived_entries(table, field) if with_archived else ()):
        if (record := entry.record.get(field)) is not None:
            yield entry.instant, entry.transition_time, clean_metadata_of(record)


def _plans(table: HudiTable, *, with_archived: bool) -> Iterator[tuple[Instant, CleanPlan]]:
    """The plans of cleans with the cleans' states, newest first.

    If archiving was interrupted, or is running, the plan of a completed clean is in the archive.
    """
    from hudisql.services.clean.clean_plan import clean_plan_of, parse_clean_plan
    from hudisql.table.timeline.archived_timeline import read_archived_entries

    for instant in reversed(table.timeline.instants):
        if instant.action == CLEAN:
            path = table.instant_path(instant.in_state(InstantState.REQUESTED))
            try:
                plan = parse_clean_plan(table.storage.read(path), path, table)
            except NoSuchPathError:
                # The plan of a completed clean is in the archive.
                if instant.is_completed:
                    continue
                raise
            yield instant, plan
    field = "hoodieCleanerPlan"
    for entry in reversed(read_archived_entries(table, field) if with_archived else ()):
        record = entry.record.get(field)
        if record is not None and entry.instant.state is InstantState.REQUESTED:
            yield entry.instant.in_state(InstantState.COMPLETED), clean_plan_of(record, table)
