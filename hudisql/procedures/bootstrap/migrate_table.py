"""`CALL migrate_table` and `CALL revert_migration`: a plain table becomes a Hudi table under its own name.

Procedures of hudisql; Hudi has none. `hudisql.bootstrap.migrate_table` does the work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudisql.procedures.bootstrap.bootstrap_table import BootstrapTableArguments, publish_commits, request_of
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.migrate_table.convert_table import MigrationPreview, MigrationReport
    from hudisql.bootstrap.migrate_table.migration_state import MigrationNames
    from hudisql.bootstrap.migrate_table.revert_migration import RevertPlan
    from hudisql.bootstrap.run.verified_bootstrap import BootstrapReport
    from hudisql.context import Context


def _same(name: str) -> Any:
    """The parameter of this name of `bootstrap_table`."""
    (found,) = (field for field in dataclasses.fields(BootstrapTableArguments) if field.name == name)
    return parameter(found.default, help=found.metadata["help"])


@dataclass(frozen=True, kw_only=True)
class MigrateTableArguments(Arguments):
    """The parameters of `migrate_table`: those of `bootstrap_table` but for source, names and sync."""

    table: str = parameter(help="the plain parquet table, database.name, whose name the Hudi table gets")
    record_key: tuple[str, ...] | None = _same("record_key")
    target_path: str | None = parameter(
        None, help="the Hudi table's directory; default: <name>__hudi in the database's directory"
    )
    table_type: str = _same("table_type")
    precombine: str | None = _same("precombine")
    mode: str = _same("mode")
    full_record_where: str | None = _same("full_record_where")
    on_unsafe_type: str = _same("on_unsafe_type")
    on_partition_mismatch: str = _same("on_partition_mismatch")
    ignore: str | None = _same("ignore")
    key_check: str = _same("key_check")
    on_schema_drift: str = _same("on_schema_drift")
    parallelism: int | None = _same("parallelism")
    bloom_entries: int | None = _same("bloom_entries")
    bloom_fpp: float = _same("bloom_fpp")
    skeleton_encoding: str = _same("skeleton_encoding")
    verify: bool = parameter(True, help="compare counts and a sample with the source before the names change")
    iceberg_sync: bool = _same("iceberg_sync")
    dry_run: bool = parameter(False, help="only show what would be done")
    fail_on_error: bool = fail_on_error_parameter("a dry run with blockers")
    options: Mapping[str, str] | None = _same("options")


@dataclass(frozen=True, kw_only=True)
class MigrationRow:
    """A step or a finding: `action` is what was done or would be done, with `name`, and numbers of files."""

    action: str
    name: str
    detail: str | None = None
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class RevertMigrationArguments(Arguments):
    """The parameters of `revert_migration`."""

    table: str = parameter(help="the migrated table, database.name")
    force: bool = parameter(False, help="also if rows were changed since; these changes are lost")
    dry_run: bool = parameter(False, help="only show what would be removed and lost")
    fail_on_error: bool = fail_on_error_parameter("a dry run of what would be refused")


@procedure(
    "Makes a plain parquet table of the metastore a Hudi table under its own name.", name="migrate_table"
)
def call_migrate_table(context: Context, arguments: MigrateTableArguments) -> CheckedRows[MigrationRow]:
    """A row per step. Raises BootstrapBlockedError with every blocker, which a dry run gives as the error.

    TableExistsError for names that other tables have, TableLockedError if another run migrates this table,
    SourceChangedError, VerificationFailedError; the plain table then keeps its name.
    """
    from hudisql.bootstrap.migrate_table.convert_table import migrate_table, preview_migration
    from hudisql.bootstrap.plan.request import apply_options

    names = _names(context, arguments.table)
    shared = {field.name for field in dataclasses.fields(BootstrapTableArguments)}
    given = {
        name: getattr(arguments, name) for name in shared & set(vars(arguments)) - {"dry_run", "iceberg_sync"}
    }
    given |= {"table": names.full_name, "source_table": names.full_name, "protect_source": True}
    request = request_of(context, BootstrapTableArguments(**given, sync=False))
    request, findings = apply_options(request, arguments.given)
    if arguments.dry_run:
        preview = preview_migration(context, request, findings)
        return CheckedRows(
            list(_preview_rows(names, preview)), _blocking_error(preview) if arguments.fail_on_error else None
        )
    report = migrate_table(context, request, findings, verify=arguments.verify)
    if arguments.iceberg_sync:
        publish_commits(context, names.full_name)
    return CheckedRows(list(_report_rows(names, report)), None)


@procedure(
    "Brings back the plain table that migrate_table replaced, and removes the Hudi table.",
    name="revert_migration",
)
def call_revert_migration(context: Context, arguments: RevertMigrationArguments) -> CheckedRows[MigrationRow]:
    """A row per commit lost, name changed and directory removed.

    Raises RollbackRefusedError if rows were changed since and `force` is not given, which a dry run gives as
    the error of its rows; NoSuchTableError if the table was not migrated, TableLockedError.
    """
    from hudisql.bootstrap.migrate_table.revert_migration import plan_revert, revert_migration

    names = _names(context, arguments.table)
    if not arguments.dry_run:
        done = revert_migration(context, names, force=arguments.force)
        return CheckedRows(list(_revert_rows(done, lost="lost", renamed="renamed", removed="removed")), None)
    plan = plan_revert(context, names)
    rows = list(_revert_rows(plan, lost="would lose", renamed="would rename", removed="would remove"))
    refused = arguments.fail_on_error and not arguments.force and plan.rollback is not None
    hint = "to lose these changes: force => true"
    return CheckedRows(rows, plan.rollback.blocking_error(hint) if refused and plan.rollback else None)


def _names(context: Context, table: str) -> MigrationNames:
    from hudisql.bootstrap.migrate_table.migration_state import MigrationNames

    database, name = context.qualify_table_name(table)
    return MigrationNames(database.lower(), name.lower())


def _preview_rows(names: MigrationNames, preview: MigrationPreview) -> Iterator[MigrationRow]:
    from hudisql.bootstrap.run.verified_bootstrap import BootstrapPreview, ExistingBootstrap

    yield MigrationRow(action="found", name=names.full_name, detail=preview.step.value)
    if isinstance(preview.bootstrap, ExistingBootstrap):
        yield MigrationRow(action="found", name=preview.target_path, detail=preview.bootstrap.description)
    if isinstance(preview.bootstrap, BootstrapPreview):
        partitions = preview.bootstrap.plan.partitions
        yield MigrationRow(
            action="would bootstrap",
            name=preview.target_path,
            detail=None if preview.bootstrap.estimate is None else str(preview.bootstrap.estimate),
            files=sum(len(partition.files) for partition in partitions),
            rows=sum(partition.rows for partition in partitions),
            bytes=sum(partition.estimated_bytes for partition in partitions),
        )
        for warning in preview.bootstrap.plan.warnings:
            yield MigrationRow(action="warning", name=names.full_name, detail=str(warning))
    yield from _renames(names, preview.step.name, "would rename")
    if preview.bootstrap is not None:
        carried = ", ".join(preview.properties) or "none"
        yield MigrationRow(
            action="would carry",
            name=names.full_name,
            detail=f"{preview.grants} grants; properties: {carried}",
        )
    for finding in preview.blockers:
        yield MigrationRow(action="blocker", name=names.full_name, detail=str(finding))


def _blocking_error(preview: MigrationPreview) -> Any:
    from hudisql.bootstrap.blockers import blockers_error

    hint = "nothing was written; fail_on_error => false gives the plan alone"
    return (
        blockers_error("the table cannot be migrated", preview.blockers, hint) if preview.blockers else None
    )


def _renames(names: MigrationNames, step: str, action: str) -> Iterator[MigrationRow]:
    if step in ("PLAIN", "STAGED"):
        yield MigrationRow(action=action, name=names.full_name, detail=f"{names.database}.{names.source}")
    if step != "MIGRATED":
        detail = names.full_name
        yield MigrationRow(action=action, name=f"{names.database}.{names.staged}", detail=detail)


def _report_rows(names: MigrationNames, report: MigrationReport) -> Iterator[MigrationRow]:
    from hudisql.bootstrap.run.verified_bootstrap import BootstrapReport, ExistingBootstrap

    if report.found.name != "PLAIN":
        yield MigrationRow(action="found", name=names.full_name, detail=report.found.value)
    if isinstance(report.bootstrap, ExistingBootstrap):
        yield MigrationRow(action="found", name=report.target_path, detail=report.bootstrap.description)
    if isinstance(report.bootstrap, BootstrapReport):
        yield from _bootstrap_rows(names, report.target_path, report.bootstrap)
    yield from _renames(names, report.found.name, "renamed")


def _bootstrap_rows(
    names: MigrationNames, target_path: str, report: BootstrapReport
) -> Iterator[MigrationRow]:
    partitions = report.result.partitions
    yield MigrationRow(
        action="bootstrapped",
        name=target_path,
        files=sum(partition.files for partition in partitions),
        rows=sum(partition.rows for partition in partitions),
        bytes=report.result.written_bytes,
    )
    for text in (*map(str, report.plan.warnings), *report.notices):
        yield MigrationRow(action="warning", name=names.full_name, detail=text)


def _revert_rows(plan: RevertPlan, *, lost: str, renamed: str, removed: str) -> Iterator[MigrationRow]:
    names, step = plan.state.names, plan.state.step.name
    for commit in plan.rollback.lost_commits if plan.rollback else ():
        yield MigrationRow(action=lost, name=names.full_name, detail=str(commit))
    if step in ("MIGRATED", "BETWEEN"):
        source = f"{names.database}.{names.source}"
        yield MigrationRow(action=renamed, name=source, detail=names.full_name)
    if plan.rollback is not None:
        removals = plan.rollback.removal.removals
        yield MigrationRow(
            action=removed,
            name=plan.mark.target_path,
            files=sum(len(removal.files) for removal in removals),
            bytes=sum(removal.bytes for removal in removals),
        )
        for path in plan.rollback.removal.kept_files:
            yield MigrationRow(action="kept", name=path)
