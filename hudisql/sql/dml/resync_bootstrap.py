"""`CALL resync_bootstrap`: commits files that came to the source after the bootstrap.

A procedure of hudisql; Hudi has none. It is not in `procedures/` because it commits by the session's
settings, as statements that change rows do. `bootstrap.resync` plans and runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import find_entry
from hudisql.procedures.binder import parse_choice
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.resync.resync_plan import ResyncPlan, ResyncRequest
    from hudisql.bootstrap.resync.source_comparison import ChangedSourceFile
    from hudisql.context import Context
    from hudisql.sql.dml.statement_scope import StatementScope
    from hudisql.write.execution.commit_files import WriteResult

MODES: Final = ("insert", "upsert")
TOTAL: Final = "TOTAL"


@dataclass(frozen=True, kw_only=True)
class ResyncBootstrapArguments(Arguments):
    """The parameters of `resync_bootstrap`."""

    table: str = parameter(help="the bootstrapped table, database.name")
    mode: str = parameter(
        "insert",
        help="insert: a record key that the table has is an error; upsert: the new row replaces the stored",
    )
    dry_run: bool = parameter(False, help="only show the new files, and those that changed or are gone")
    source_table: str | None = parameter(
        None,
        help="the metastore's table that was bootstrapped; default: the one that the table's properties name",
    )
    partition_filter: str | None = parameter(
        None, help="SQL predicate over the partition columns: only these; default: that of the bootstrap"
    )
    lift: str | None = parameter(
        None,
        help="SQL predicate over the partition columns, 'true' for all: write the rows of these register-only"
        " partitions, without other new files",
    )
    key_check: str = parameter(
        "unique",
        help="which keys stop an insert: unique (a key twice in a partition, null or empty), unique_global"
        " (twice in the table, null or empty), nulls (null or empty)",
    )
    on_schema_drift: str = parameter(
        "fail", help="new files that lack columns of the table: fail, widen (NULL in their rows)"
    )
    on_unsafe_type: str = parameter(
        "fail",
        help="new files with types that some reader is incompatible with even if rewritten: fail, warn",
    )
    on_partition_mismatch: str = parameter(
        "fail",
        help="files that hold a partition column themselves, with another value than the directory's: fail,"
        " or warn (the directory's value counts)",
    )
    fail_on_error: bool = fail_on_error_parameter("a dry run with blockers")


@dataclass(frozen=True, kw_only=True)
class ResyncBootstrapRow:
    """A partition with new files, a changed or missing file, a finding, or the total.

    `status` is new, changed, gone, warning, blocker or TOTAL; `instant` is that of the commit.
    """

    partition: str | None = None
    status: str
    path: str | None = None
    files: int | None = None
    rows: int | None = None
    source_bytes: int | None = None
    detail: str | None = None
    instant: str | None = None


@procedure("Commits files that came to the source of a bootstrapped table after the bootstrap.")
def resync_bootstrap(
    context: Context, arguments: ResyncBootstrapArguments
) -> CheckedRows[ResyncBootstrapRow]:
    """A row per partition with new files, per changed or missing file, per warning, and a total.

    Raises NoSuchTableError, InvalidArgumentError, SourceError, BootstrapBlockedError with every blocker
    (which a dry run gives as the error of its rows), WriteRefusedError for record keys that the table has,
    RepeatedKeysError, SourceChangedError, WriteConflictError; the table is then as before.
    """
    from hudisql.bootstrap.resync.resync_plan import plan_lift, plan_resync
    from hudisql.sql.dml.commit_resync import commit_resync
    from hudisql.sql.dml.conflict_retries import retry_on_conflict
    from hudisql.sql.dml.statement_scope import check_changeable
    from hudisql.sql.query.target_table import open_hudi_entry

    entry = find_entry(context, arguments.table)
    check_changeable(entry, "CALL resync_bootstrap")
    request = _request(context, arguments, entry.full_name)
    make_plan = plan_resync if request.lift is None else plan_lift
    if arguments.dry_run:
        plan = make_plan(context, open_hudi_entry(context, entry), request)
        return _preview_rows(plan, fails=arguments.fail_on_error)
    planned: list[ResyncPlan] = []

    def resync(scope: StatementScope) -> WriteResult:
        planned[:] = [make_plan(context, scope.table, request)]
        return commit_resync(scope, planned[0])

    result = retry_on_conflict(context, entry, resync)
    return CheckedRows(list(_rows(planned[0], result)), None)


def _request(context: Context, arguments: ResyncBootstrapArguments, name: str) -> ResyncRequest:
    """The request of the call's arguments."""
    from hudisql.bootstrap.plan.bootstrap_mode import (
        PartitionMismatchPolicy,
        UnsafeTypePolicy,
    )
    from hudisql.bootstrap.plan.schema_drift import SchemaDrift
    from hudisql.bootstrap.resync.resync_plan import ResyncRequest

    mode, table = arguments.mode.strip().lower(), arguments.source_table
    if mode not in MODES:
        raise InvalidArgumentError(f"mode '{arguments.mode}' is unknown", hint="it is 'insert' or 'upsert'")
    return ResyncRequest(
        name=name,
        source_table=None if table is None else context.qualify_table_name(table),
        partition_filter=arguments.partition_filter,
        upserts=mode == "upsert",
        lift=arguments.lift,
        key_check=arguments.key_check.strip().lower(),
        on_schema_drift=parse_choice(SchemaDrift, "on_schema_drift", arguments.on_schema_drift),
        on_unsafe_type=parse_choice(UnsafeTypePolicy, "on_unsafe_type", arguments.on_unsafe_type),
        on_partition_mismatch=parse_choice(
            PartitionMismatchPolicy, "on_partition_mismatch", arguments.on_partition_mismatch
        ),
    )


def _preview_rows(plan: ResyncPlan, *, fails: bool) -> CheckedRows[ResyncBootstrapRow]:
    rows = list(_rows(plan, None))
    if not plan.blockers or not fails:
        return CheckedRows(rows, None)
    hint = "nothing was written; fail_on_error => false gives the plan alone"
    return CheckedRows(rows, plan.describe_blockers(hint))


def _rows(plan: ResyncPlan, result: WriteResult | None) -> Iterator[ResyncBootstrapRow]:
    """The rows of a plan and its result; `result` is None in a dry run."""
    instant = None if result is None else result.instant_time
    for partition in plan.partitions:
        yield ResyncBootstrapRow(
            partition=partition.source.path,
            status="new",
            files=len(partition.files),
            rows=partition.rows,
            source_bytes=partition.source_bytes,
            instant=instant,
        )
    for changed in plan.changed:
        yield _changed_row(plan, changed)
    for finding in plan.blockers:
        yield ResyncBootstrapRow(status="blocker", detail=str(finding))
    for finding in plan.warnings:
        yield ResyncBootstrapRow(status="warning", detail=str(finding))
    yield ResyncBootstrapRow(
        status=TOTAL,
        files=sum(len(partition.files) for partition in plan.partitions),
        rows=sum(partition.rows for partition in plan.partitions),
        source_bytes=sum(partition.source_bytes for partition in plan.partitions),
        detail=_summary(plan, result),
        instant=instant,
    )


def _summary(plan: ResyncPlan, result: WriteResult | None) -> str:
    gone = sum(source_file.found is None for source_file in plan.changed)
    others = f"{len(plan.changed) - gone:,} changed, {gone:,} gone"
    files = sum(len(partition.files) for partition in plan.partitions)
    if plan.blockers:
        return f"blocked: nothing can be taken; {others}"
    if not files:
        return f"no new files: nothing was done; {others}"
    counted = f"{files:,} new file{'' if files == 1 else 's'}"
    if result is None:
        return f"{counted} would be taken; {others}"
    if result.instant_time is None:
        return f"{counted}, all of whose rows are older than the stored ones: nothing was written; {others}"
    rows = f"{result.inserted:,} rows inserted, {result.updated:,} updated"
    return f"{counted} taken: {rows}; {others}"


def _changed_row(plan: ResyncPlan, changed: ChangedSourceFile) -> ResyncBootstrapRow:
    return ResyncBootstrapRow(
        partition=changed.taken.partition_path,
        status=changed.change.value,
        path=changed.taken.file.path,
        source_bytes=None if changed.found is None else changed.found.length,
        detail=_what_to_do(plan.request.name, changed),
    )


def _what_to_do(name: str, changed: ChangedSourceFile) -> str:
    """The effect of a changed or missing file on the table, and advice."""
    overwrite = (
        f"INSERT OVERWRITE {name} PARTITION (…) SELECT … FROM the source takes the partition as it is now"
    )
    if not changed.is_read:
        kept = "the table keeps the rows that it took, and reads the file no more"
        return kept if changed.found is None else f"{kept}; {overwrite}"
    if changed.found is None:
        return (
            f"reads of its rows fail: bring the file back with its modification time (cp -p); or {overwrite}"
        )
    if changed.found.length == changed.taken.file.length:
        setting = "SET hudisql.read.changed.sources = warn"
        return (
            "only its modification time differs, and reads of its rows fail: if the content is the same,"
            f" {setting} reads it; else {overwrite}"
        )
    return f"reads of its rows fail: bring the old file back with its modification time; or {overwrite}"
