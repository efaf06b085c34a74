"""Commits the plan of a resync or a lift; then runs services and the sync, as after a statement."""

from __future__ import annotations

from collections.abc import Collection

from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.resync.resync_plan import ResyncPlan, ResyncRequest, plan_lift
from hudisql.bootstrap.resync.run_resync import run_resync
from hudisql.options.table_call import TableCall
from hudisql.sql.dml.after_commit import after_commit, warn_if_metadata_table_dropped
from hudisql.sql.dml.statement_scope import StatementScope
from hudisql.table.properties.written_versions import ANY_CHANGE
from hudisql.write.execution.commit_files import WriteResult
from hudisql.write.transaction.writable_tables import check_writable


def lift_partitions(scope: StatementScope, paths: Collection[str]) -> WriteResult:
    """Lift these register-only partitions by one commit, before a write that touches them."""
    request = ResyncRequest(name=scope.table_label, on_schema_drift=SchemaDrift.WIDEN)
    return commit_resync(scope, plan_lift(scope.context, scope.table, request, paths))


def commit_resync(scope: StatementScope, plan: ResyncPlan) -> WriteResult:
    """Run the plan, then services and the metastore's sync; the sync also of an earlier resync that was
    killed after its commit.
    """
    context, entry, table = scope.context, scope.entry, scope.table
    check_writable(table, ANY_CHANGE)
    with warn_if_metadata_table_dropped(context, entry, table):
        result = run_resync(context, table, plan, scope.write_options(table), scope.resources)
    if result.instant_time is not None:
        dropped = result.dropped_metadata_table
        after_commit(context, entry, table, scope.settings, syncs=scope.syncs, dropped_metadata_table=dropped)
    else:
        TableCall(context, table, entry, scope.settings).sync()
    return result
