"""Upgrades a table to version 9, or downgrades it to version 6, as Hudi 1.2 does on request.

Follows `UpgradeDowngrade.run` of Hudi 1.2: failed writes are rolled back, log files compacted, the timeline
is written in its new layout, then `hoodie.properties` gets the new version in one step. A run that is killed
before that step leaves a table of the old version; one that is killed after it leaves a table of the new
version with files of the old timeline. The next call deletes these, or starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError, UnsupportedTableError, WriteConflictError
from hudisql.format.payload_classes import EVENT_TIME_ORDERING
from hudisql.format.table_properties import RECORD_MERGE_MODE, WRITE_VERSION, TableProperties
from hudisql.format.timeline.instant import CLUSTERING, COMPACTION, Instant
from hudisql.format.timeline.timeline_layout import LAYOUT_V1, TimelineLayout, TimelineLayoutV2
from hudisql.services.compaction.compaction_action import (
    CompactionOptions,
    CompactionTrigger,
    run_compaction,
    schedule_compaction,
)
from hudisql.services.version.timeline_conversion import (
    delete_timeline,
    has_timeline,
    write_timeline_of_layout_1,
    write_timeline_of_layout_2,
)
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import LAYOUT_OF_VERSION, WRITTEN_VERSION, HudiTable, open_table
from hudisql.table.partitions.registered_partitions import refuse_any_registered
from hudisql.table.properties.table_configuration import (
    drop_metadata_table,
    has_metadata_table,
    update_table_properties,
)
from hudisql.table.properties.version_properties import (
    changes_to_version_6,
    changes_to_version_9,
    key_pairs_error,
)
from hudisql.table.properties.virtual_keys import refuse_virtual_keys
from hudisql.table.properties.written_versions import ANY_CHANGE, check_written
from hudisql.table.timeline.archived_timeline import list_archive_files
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.key_encoding import uses_complex_key_encoding
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.pending_rollbacks import check_not_restored
from hudisql.write.transaction.writable_tables import check_writable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEWEST_VERSION: Final = 9
# Compacts all slices with log files.
_COMPACT_ALL: Final = CompactionOptions(CompactionTrigger.NUM_COMMITS, 1, strategy="unbounded")
_EVENT_TIME_NOTE: Final = (
    "from then on rows are ordered by event time: a stored row stays where a row of its key comes with a "
    "lower value of {ordering}; version 6 took the later row"
)


@dataclass(frozen=True, slots=True)
class VersionChangePlan:
    """The steps that change the version of a table.

    `planned_compactions` are run, then one of the `compacted_slices` with log files; `changes` are those of
    `hoodie.properties`. `remains` is true if the table has the version, and an earlier run has left files of
    the old timeline.
    """

    table: HudiTable
    to_version: int
    failed_writes: int = 0
    planned_compactions: int = 0
    compacted_slices: int = 0
    drops_metadata_table: bool = False
    changes: Mapping[str, str | None] | None = None
    remains: bool = False

    def steps(self) -> Iterator[str]:
        """The steps in order, and what users should know about them."""
        table = self.table
        if self.changes is None:
            if self.remains:
                yield "delete what is left of the timeline of the other version"
            return
        if self.failed_writes:
            yield f"roll back failed writes: {self.failed_writes:,}"
        if self.planned_compactions:
            yield f"run planned compactions: {self.planned_compactions:,}"
        if self.compacted_slices:
            yield f"compact file slices with log files: {self.compacted_slices:,}"
        if self.drops_metadata_table:
            yield "drop the metadata table, which Hudi 1.x makes again at its next write"
        if _changes_layout(table, self.to_version):
            layout = LAYOUT_OF_VERSION[self.to_version]
            yield f"write {len(table.timeline.instants):,} instants in timeline layout {layout}"
        yield f"change hoodie.properties from version {table.version} to {self.to_version}"
        if self.changes_who_wins:
            yield _EVENT_TIME_NOTE.format(ordering=", ".join(table.ordering_fields))

    @property
    def changes_who_wins(self) -> bool:
        """True if late rows lose after the change, but not before."""
        properties, changes = self.table.properties, self.changes or {}
        by_event_time = changes.get(RECORD_MERGE_MODE) == EVENT_TIME_ORDERING
        return by_event_time and bool(self.table.ordering_fields) and not properties.keeps_later_event_times


def _check_plain_keys(table: HudiTable) -> None:
    """Raise UnsupportedTableError if keys of one column are stored as pairs, unknown to the properties."""
    fields = table.properties.record_key_fields
    if len(fields) == 1 and uses_complex_key_encoding(table, load_file_slices(table)):
        raise key_pairs_error(fields[0])


def plan_version_change(table: HudiTable, to_version: int) -> VersionChangePlan:
    """Plan an upgrade to version 9 or a downgrade to version 6; nothing is written.

    Raises UnsupportedTableError for tables that hudisql does not write, or whose properties the other version
    does not have, RegisterOnlyError, WriteConflictError while a clustering is planned, CorruptTableError,
    StorageError.
    """
    if to_version not in (WRITTEN_VERSION, NEWEST_VERSION):
        raise InvalidArgumentError(
            f"hudisql cannot change a table to version {to_version}", hint="to_version => 'NINE' or 'SIX'"
        )
    if table.version == to_version:
        return VersionChangePlan(table, to_version, remains=_old_timeline(table) is not None)
    check_writable(table, ANY_CHANGE)
    refuse_virtual_keys(table, "change the table version")
    check_not_restored(table, table.timeline)
    _check_no_ids(table)
    _check_archive(table, to_version)
    _check_savepoints(table, to_version)
    refuse_any_registered(table)
    pending = table.timeline.pending
    for instant in pending:
        if instant.action == CLUSTERING or is_clustering(table, instant):
            raise _not_quiet(table, instant)
    changes = _changes_of(table.properties, to_version)
    if to_version == WRITTEN_VERSION:
        _check_plain_keys(table)
    is_compacted = table.is_merge_on_read and _changes_layout(table, to_version)
    planned = len(table.timeline.pending_compactions) if is_compacted else 0
    slices = load_file_slices(table) if is_compacted else []
    compacted = sum(1 for file_slice in slices if file_slice.has_log_files)
    if planned or compacted:
        check_written(table, COMPACTION)
    return VersionChangePlan(
        table,
        to_version,
        failed_writes=len([instant for instant in pending if instant.action != COMPACTION]),
        planned_compactions=planned,
        compacted_slices=compacted,
        drops_metadata_table=has_metadata_table(table),
        changes=changes,
    )


def _changes_of(properties: TableProperties, to_version: int) -> dict[str, str | None]:
    is_upgrade = to_version > WRITTEN_VERSION
    return changes_to_version_9(properties) if is_upgrade else changes_to_version_6(properties)


def run_version_change(
    plan: VersionChangePlan, options: WriteOptions, spark: Callable[[], SparkSession | None]
) -> HudiTable:
    """Change the version; returns the table afterwards. `spark` is only called for a compaction.

    Raises WriteConflictError if other writers are active, TableLockedError, UnsupportedTableError,
    CorruptTableError, StorageError: the table then has its old version and its rows.
    """
    table, concurrency = plan.table, options.concurrency
    if plan.changes is not None and (plan.planned_compactions or plan.compacted_slices):
        table = _compact_all(table, options, spark())
    with concurrency.hold() as held:
        table = table.reopened()
        if plan.changes is not None:
            table = _prepare(table, plan, concurrency)
            _write_timeline(table, plan.to_version)
            held.check()
            changes = {**_changes_of(table.properties, plan.to_version), WRITE_VERSION: None}
            update_table_properties(table.storage, table.base_path, changes)
        changed = open_table(
            table.storage, table.base_path, accepts_changed_sources=table.accepts_changed_sources
        )
        remains = _old_timeline(changed)
        if remains is not None:
            delete_timeline(changed.storage, changed.base_path, remains)
    return changed


def _compact_all(table: HudiTable, options: WriteOptions, spark: SparkSession | None) -> HudiTable:
    """Run the compactions that are planned, then one of all slices that still have log files."""
    for instant_time in sorted(table.timeline.pending_compactions):
        run_compaction(spark, table.reopened(), instant_time, options)
    scheduled = schedule_compaction(table.reopened(), _COMPACT_ALL, options.concurrency)
    if scheduled is not None:
        run_compaction(spark, table.reopened(), scheduled.timestamp, options)
    return table.reopened()


def _prepare(table: HudiTable, plan: VersionChangePlan, concurrency: Concurrency) -> HudiTable:
    """Roll back failed writes and drop the metadata table; raises WriteConflictError if others write."""
    check_not_restored(table, table.timeline)
    if roll_back_failed_writes(table, concurrency):
        table = table.reopened()
    for instant in table.timeline.pending:
        raise _not_quiet(table, instant)
    has_layout = _changes_layout(table, plan.to_version)
    if (
        has_layout
        and table.is_merge_on_read
        and any(file_slice.has_log_files for file_slice in load_file_slices(table))
    ):
        raise WriteConflictError(
            f"file slices of {table.base_path} have log files that another writer has written meanwhile, or "
            "that no compaction has taken",
            hint="CALL run_compaction, then run the statement again when no other writer is active",
        )
    return table.reopened() if drop_metadata_table(table) else table


def _write_timeline(table: HudiTable, to_version: int) -> None:
    if not _changes_layout(table, to_version):
        return
    if to_version == WRITTEN_VERSION:
        write_timeline_of_layout_1(table)
    else:
        write_timeline_of_layout_2(table, TimelineLayoutV2())


def _changes_layout(table: HudiTable, to_version: int) -> bool:
    return LAYOUT_OF_VERSION[table.version] != LAYOUT_OF_VERSION[to_version]


def _old_timeline(table: HudiTable) -> TimelineLayout | None:
    """The layout of the other version, if a killed run has left instants in it."""
    other = LAYOUT_V1 if table.timeline.layout.has_completion_times else TimelineLayoutV2()
    has_files = has_timeline(table.storage, table.base_path, other)
    return other if has_files else None


def _check_no_ids(table: HudiTable) -> None:
    """Raise UnsupportedTableError for columns with ids, whose history the other layout names otherwise."""
    if table.file_columns is not None:
        raise UnsupportedTableError(
            f"columns of the Hudi table at {table.base_path} were changed by schema-on-read, and hudisql "
            "does not change the version of such a table",
            hint="change its version with Apache Hudi 1.x",
        )


def _check_archive(table: HudiTable, to_version: int) -> None:
    """Raise UnsupportedTableError for archived instants, whose times the other version could not know."""
    needs_archive = table.is_merge_on_read or to_version > WRITTEN_VERSION
    if _changes_layout(table, to_version) and needs_archive and list_archive_files(table):
        raise UnsupportedTableError(
            f"instants of the Hudi table at {table.base_path} are archived, and hudisql does not put "
            "archived instants into another layout",
            hint="change its version with Apache Hudi 1.x",
        )


def _check_savepoints(table: HudiTable, to_version: int) -> None:
    """Raise UnsupportedTableError if version 6 could not read the log files of a savepoint."""
    savepoints = sorted(table.timeline.savepoints)
    if to_version == WRITTEN_VERSION and table.is_merge_on_read and savepoints:
        raise UnsupportedTableError(
            f"the merge-on-read table at {table.base_path} has savepoints ({', '.join(savepoints)}), whose "
            "log files version 6 would not merge with their base files",
            hint="first: CALL delete_savepoint",
        )


def _not_quiet(table: HudiTable, pending: Instant) -> WriteConflictError:
    return WriteConflictError(
        f"the {pending.action} {pending.timestamp} of the Hudi table at {table.base_path} is not complete",
        hint="complete or roll it back, then run the statement again",
    )
