"""Commits of writers that died: which ones they are, and their rollback before the next write.

Follows `BaseHoodieTableServiceClient.rollbackFailedWrites` of Hudi 0.15, and its policies for failed writes.
"""

from __future__ import annotations

from hudisql.errors import WriteConflictError
from hudisql.format.timeline.instant import COMMIT_ACTIONS, Instant
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites
from hudisql.write.transaction.heartbeat import delete_heartbeat, is_alive
from hudisql.write.transaction.instant_rollback import roll_back_instant
from hudisql.write.transaction.pending_rollbacks import rollbacks_of_failed_writes


def roll_back_failed_writes(table: HudiTable, concurrency: Concurrency = SINGLE_WRITER) -> bool:
    """Roll back pending commits, deltacommits and overwrites, newest first; True if there were some.

    The policy for failed writes selects them: by default all, where a commit with a live heartbeat raises
    WriteConflictError; with LAZY such a commit is skipped, as is a rollback that has just begun, since Apache
    Hudi holds no lock during rollbacks. Interrupted rollbacks are completed. Pending compactions and
    clusterings, and rollbacks of them, are skipped. Raises UnsupportedTableError for writes that cannot be
    rolled back, StorageError.
    """
    if concurrency.failed_writes is FailedWrites.NEVER:
        return False
    under_way, interrupted = rollbacks_of_failed_writes(table, concurrency.known_by_heartbeats_ms)
    being_rolled_back = {instant.timestamp for instant in under_way}
    pending = [
        instant
        for instant in table.timeline.pending
        if instant.action in COMMIT_ACTIONS
        and instant.timestamp not in being_rolled_back
        and not is_clustering(table, instant)
    ]
    dead = [instant for instant in pending if not has_live_writer(table, instant, concurrency)]
    failed = {instant.timestamp: instant for instant in (*interrupted, *dead)}
    for instant_time, instant in sorted(failed.items(), reverse=True):
        roll_back_instant(table, instant)
        delete_heartbeat(table.storage, table.base_path, instant_time)
    return bool(failed)


def has_live_writer(table: HudiTable, instant: Instant, concurrency: Concurrency) -> bool:
    """True if the instant's writer has a live heartbeat (writers with a lock or the LAZY policy have one).

    A live writer is an error if this writer's policy is EAGER.
    """
    tolerance = concurrency.heartbeat_tolerance_ms
    is_eager = concurrency.failed_writes is FailedWrites.EAGER
    if not is_alive(table.storage, table.base_path, instant.timestamp, tolerance, asks_process=is_eager):
        return False
    if is_eager:
        raise WriteConflictError(
            f"another writer is active on {table.base_path}: its {instant.action} {instant.timestamp} is "
            "not complete, and its heartbeat has not expired",
            hint="run the statement again when it is complete (hoodie.write.num.retries.on.conflict.failures "
            "does so by itself), or let writers of other file groups commit beside it: "
            "docs/changing-rows.md, Several writers",
        )
    return True
