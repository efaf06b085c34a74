"""`CALL rewrite_bootstrap_files`: rewrites bootstrapped file groups as base files, in one commit.

A procedure of hudisql; Hudi has none. It is not in `procedures/` because it commits by the session's
settings, as statements that change rows do. `bootstrap.run.rewrite_candidates` selects the file groups,
`write.execution.rewrite` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import find_entry
from hudisql.procedures.registry import Arguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.bootstrap.run.rewrite_candidates import PlannedRewrite
    from hudisql.context import Context
    from hudisql.sql.dml.statement_scope import StatementScope
    from hudisql.table.hudi_table import HudiTable
    from hudisql.write.execution.commit_files import WriteResult


@dataclass(frozen=True, kw_only=True)
class RewriteBootstrapFilesArguments(Arguments):
    """The parameters of `rewrite_bootstrap_files`."""

    table: str = parameter(help="the table, database.name")
    where: str | None = parameter(
        None, help="SQL predicate over the partition columns; by default all partitions"
    )
    columns: tuple[str, ...] | None = parameter(
        None, help="only file groups that store one of these columns unsafely"
    )
    only_unsafe: bool = parameter(
        True,
        help="only file groups that some reader or writer is incompatible with (docs/types.md); false: all",
    )
    dry_run: bool = parameter(False, help="only show what would be rewritten")


@dataclass(frozen=True)
class RewrittenFileGroupRow:
    """A file group that is rewritten, and why; `instant` is None in a dry run."""

    partition: str
    file_id: str
    source_file: str
    source_bytes: int
    reason: str
    instant: str | None


@procedure("Rewrites bootstrapped file groups as base files, which need no source files.")
def rewrite_bootstrap_files(
    context: Context, arguments: RewriteBootstrapFilesArguments
) -> Iterable[RewrittenFileGroupRow]:
    """A row per file group that is rewritten; none if nothing needs it.

    Raises NoSuchTableError, InvalidArgumentError, SourceError, SourceChangedError, UnsupportedTableError,
    WriteConflictError; the table is then as before.
    """
    from hudisql.bootstrap.run.rewrite_candidates import plan_rewrite
    from hudisql.sql.dml.after_commit import after_commit, warn_if_metadata_table_dropped
    from hudisql.sql.dml.conflict_retries import retry_on_conflict
    from hudisql.sql.dml.statement_scope import check_changeable
    from hudisql.sql.query.target_table import open_hudi_entry
    from hudisql.table.properties.written_versions import ANY_CHANGE
    from hudisql.write.execution.commit_files import WriteResult
    from hudisql.write.execution.rewrite import rewrite_bootstrapped_slices
    from hudisql.write.transaction.writable_tables import check_writable

    entry = find_entry(context, arguments.table)
    check_changeable(entry, "CALL rewrite_bootstrap_files")
    planned: list[PlannedRewrite] = []

    def plan(table: HudiTable) -> None:
        planned[:] = plan_rewrite(
            context,
            table,
            arguments.where,
            arguments.columns or (),
            only_unsafe=arguments.only_unsafe,
        )

    def rewrite(scope: StatementScope) -> WriteResult:
        table = scope.table
        check_writable(table, ANY_CHANGE)
        plan(table)
        if not planned:
            return WriteResult(None)
        groups = [(planned_rewrite.partition_path, planned_rewrite.file_id) for planned_rewrite in planned]
        with warn_if_metadata_table_dropped(context, entry, table):
            result = rewrite_bootstrapped_slices(context.spark, table, groups, scope.write_options(table))
        if result.instant_time is not None:
            dropped = result.dropped_metadata_table
            after_commit(
                context, entry, table, scope.settings, syncs=scope.syncs, dropped_metadata_table=dropped
            )
        return result

    if arguments.dry_run:
        plan(open_hudi_entry(context, entry))
        return _rows(planned, None)
    result = retry_on_conflict(context, entry, rewrite)
    if result.instant_time is None:
        context.console.info(f"{entry.full_name}: no bootstrapped file group is to be rewritten")
        return []
    return _rows(planned, result.instant_time)


def _rows(planned: Sequence[PlannedRewrite], instant: str | None) -> list[RewrittenFileGroupRow]:
    return [
        RewrittenFileGroupRow(
            planned_rewrite.partition_path,
            planned_rewrite.file_id,
            planned_rewrite.source_file.path,
            planned_rewrite.source_file.length,
            planned_rewrite.reason,
            instant,
        )
        for planned_rewrite in planned
    ]
