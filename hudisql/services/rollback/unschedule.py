"""Rolls back a pending compaction or clustering: a killed run, and on request the plan too.

Follows `RunRollbackInflightTableServiceProcedure` of Hudi 1.x and `CompactionAdminClient` of Hudi 0.15 (its
command line's `compaction unschedule`). Hudi renames the log files that belong to the slices of an
unscheduled compaction; hudisql refuses such a compaction, since its rows could be lost in between.
"""

from __future__ import annotations

from typing import Final

from hudisql.errors import NoSuchInstantError, RollbackRefusedError
from hudisql.format.timeline.instant import COMPACTION, ROLLBACK, Instant, InstantState
from hudisql.services.planned_run import service_name, undo_run
from hudisql.services.rollback.rollback_action import check_nobody_writes, existing_partitions
from hudisql.table.files.snapshot import list_file_versions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.requested_plans import is_clustering, planned_file_groups
from hudisql.write.transaction.commit import check_writable
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.lock import hold_lock
from hudisql.write.transaction.pending_rollbacks import check_not_restored

_SHOWN: Final = 3


def undo_service(
    table: HudiTable, instant_time: str, concurrency: Concurrency, *, deletes_plan: bool = False
) -> Instant:
    """Delete the files of a pending compaction's or clustering's run; with `deletes_plan` the plan as well.

    Returns the plan's instant. Raises NoSuchInstantError if no such service is pending, or it has not run and
    the plan stays; RollbackRefusedError for the plan of a compaction whose slices have log files already;
    WriteConflictError while another process runs it, or writes; UnsupportedTableError, TableLockedError,
    CorruptTableError, StorageError.
    """
    check_writable(table, ROLLBACK)
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy) as held:
        table = table.reopened()
        check_not_restored(table, table.timeline)
        pending = _pending_service(table, instant_time)
        if pending.state is InstantState.REQUESTED and not deletes_plan:
            raise NoSuchInstantError(
                f"the {service_name(pending)} {instant_time} of {table.base_path} is planned, and has no run "
                "to undo",
                hint="delete_request_instant_file => true deletes the plan",
            )
        if deletes_plan and pending.action == COMPACTION:
            check_nobody_writes(table)
            _check_no_log_files(table, pending)
        held.check()
        undo_run(table, pending, concurrency)
        planned = pending.in_state(InstantState.REQUESTED)
        if deletes_plan:
            table.storage.delete_file(table.instant_path(planned))
        return planned


def _pending_service(table: HudiTable, instant_time: str) -> Instant:
    for instant in table.timeline.pending:
        if instant.timestamp == instant_time and (
            instant.action == COMPACTION or is_clustering(table, instant)
        ):
            return instant
    raise NoSuchInstantError(
        f"no compaction or clustering {instant_time} is pending on the Hudi table at {table.base_path}",
        hint="CALL show_compaction(table => '…') and show_clustering(table => '…') list them",
    )


def _check_no_log_files(table: HudiTable, planned: Instant) -> None:
    """Raise RollbackRefusedError if writers have begun the slices that the compaction starts."""
    groups = planned_file_groups(table, planned)
    versions = list_file_versions(table, existing_partitions(table, {partition for partition, _ in groups}))
    begun = []
    for partition, file_id in sorted(groups):
        version = versions.get(partition, {}).get(file_id, {}).get(planned.timestamp)
        if version is not None and any(log_file.length for log_file in version.log_files):
            begun.append(f"{partition}/{file_id}".lstrip("/"))
    if begun:
        raise RollbackRefusedError(
            f"the plan of the compaction {planned.timestamp} of {table.base_path} cannot be deleted: "
            f"{len(begun)} file groups have log files in the slices that it starts "
            f"({', '.join(begun[:_SHOWN])}{' …' if len(begun) > _SHOWN else ''})",
            hint=f"run it: CALL run_compaction(op => 'run', table => '…', timestamp => {planned.timestamp})",
        )
