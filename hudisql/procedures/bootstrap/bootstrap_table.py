"""`CALL bootstrap_table`: converts its arguments to a request, and its report to rows.

`hudisql.bootstrap.run.verified_bootstrap` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.plan.bootstrap_mode import (
    BootstrapMode,
    PartitionMismatchPolicy,
    UnsafeTypePolicy,
    choose_mode,
)
from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.ignored_names import parse_ignored_names
from hudisql.procedures.binder import parse_choice
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
    from hudisql.bootstrap.plan.request import BootstrapRequest
    from hudisql.bootstrap.run.verified_bootstrap import BootstrapPreview, BootstrapReport
    from hudisql.context import Context

# Parameters that are copied to fields of the request.
_SAME_IN_REQUEST: Final = (
    "target_path",
    "precombine",
    "partition_filter",
    "protect_source",
    "parallelism",
    "bloom_entries",
    "bloom_fpp",
    "sync",
    "resume",
    "table_version",
)
TOTAL: Final = "TOTAL"
WHOLE_TABLE: Final = "(table)"


@dataclass(frozen=True, kw_only=True)
class BootstrapTableArguments(Arguments):
    """The parameters of `bootstrap_table`."""

    table: str = parameter(help="the new table, database.name; a missing database is created")
    source: str | None = parameter(None, help="directory of the parquet files")
    source_table: str | None = parameter(
        None,
        help="Hive table of the metastore, instead of source; ORC, CSV, Avro, JSON and text with full_record",
    )
    record_key: tuple[str, ...] | None = parameter(
        None,
        help="key columns, 'id' or 'a,b' or array('a', 'b.c'); default: each row gets a generated key",
    )
    target_path: str | None = parameter(None, help="the table's directory; default: the database's directory")
    table_type: str = parameter("COPY_ON_WRITE", help="COPY_ON_WRITE or MERGE_ON_READ")
    table_version: int = parameter(
        6,
        help="6 (Hudi 0.14 to 1.2, Hive 2.3) or 9 (Hudi 1.1 and later; rows are ordered by event time)",
    )
    indexes: str = parameter(
        "",
        help="record_index for a metadata table with a record index, or record_level_index for one of each"
        " partition (version 9); column_stats for one without, which version 9 always gets (see"
        " create_metadata_table)",
    )
    precombine: str | None = parameter(None, help="ordering column: of two rows of a key the greater is kept")
    partition_by: str | None = parameter(
        None,
        help="partition columns of a path source, 'dt', 'dt date', 'year int, month int'; default: read from"
        " key=value directories, as strings; names the directories of layouts like 2024/03/01",
    )
    mode: str = parameter(
        BootstrapMode.METADATA_ONLY.value,
        help="metadata_only (skeletons beside the source's files) or full_record (all rows rewritten)",
    )
    full_record_where: str | None = parameter(
        None,
        help="SQL predicate over the partition columns: these are rewritten, the others get skeletons",
    )
    register_only_where: str | None = parameter(
        None,
        help="SQL predicate over the partition columns: these are not written; hudisql and Hive read"
        " them, Spark with Apache Hudi gives none of their rows; the first write into them lifts them, or"
        " resync_bootstrap",
    )
    on_unsafe_type: str = parameter(
        UnsafeTypePolicy.FAIL.value,
        help="columns stored in types that Apache Hudi or Hive is incompatible with: fail, warn, or"
        " full_record (their partitions are rewritten)",
    )
    on_partition_mismatch: str = parameter(
        PartitionMismatchPolicy.FAIL.value,
        help="files that hold a partition column themselves, with another value than the directory's: fail,"
        " or warn (the directory's value counts)",
    )
    partition_filter: str | None = parameter(
        None,
        help="SQL predicate over the partition columns: only these",
    )
    ignore: str | None = parameter(
        None,
        help="files that are left out by name, '*.csv' or '*.csv,README*'; resync_bootstrap and"
        " verify_bootstrap leave them out, too",
    )
    key_check: str = parameter(
        "unique",
        help="what stops the run before the commit: unique (keys twice in a partition, null or empty),"
        " unique_global (twice in the table, null or empty), nulls (null or empty), none",
    )
    on_schema_drift: str = parameter(
        "fail",
        help="files whose columns differ: fail, widen (null where a column is missing, the widest of int and"
        " bigint, float and double, decimals of one scale); a dry run names each file that differs",
    )
    protect_source: bool = parameter(
        False,
        help="make a managed source table external first, so that DROP keeps its files",
    )
    parallelism: int | None = parameter(None, help="number of Spark tasks; default: by the number of cores")
    bloom_entries: int | None = parameter(
        None,
        help="number of keys of a file's bloom filter; default: its rows",
    )
    bloom_fpp: float = parameter(0.001, help="false positives of the bloom filters")
    skeleton_encoding: str = parameter(
        "plain",
        help="encoding of keys in skeletons: plain (every reader), or delta (smaller; not for Hive 2.3)",
    )
    verify: bool = parameter(True, help="compare counts and a sample with the source after the commit")
    resume: bool = parameter(
        False,
        help="continue a run that was killed or failed; if this one fails, keep finished files",
    )
    dry_run: bool = parameter(
        False,
        help="only show the plan; written_bytes and the total's seconds are then estimates",
    )
    fail_on_error: bool = fail_on_error_parameter("a dry run with blockers")
    sync: bool = parameter(True, help="register the table in the metastore")
    iceberg_sync: bool = parameter(
        False, help="publish the table as an Iceberg table, now and after each commit (docs/iceberg.md)"
    )
    options: Mapping[str, str] | None = parameter(
        None,
        help="hoodie.* settings, map('key', 'value') or 'key=value,key=value'",
    )


@dataclass(frozen=True, kw_only=True)
class BootstrapTableRow:
    """A partition, the total, or a finding about the whole table."""

    partition: str
    mode: str | None = None
    files: int | None = None
    rows: int | None = None
    source_bytes: int | None = None
    written_bytes: int | None = None
    seconds: float | None = None
    warnings: str | None = None
    blockers: str | None = None


@procedure(
    "Makes a Hudi table of a parquet directory or Hive table without rewriting it.", name="bootstrap_table"
)
def call_bootstrap_table(
    context: Context, arguments: BootstrapTableArguments
) -> CheckedRows[BootstrapTableRow]:
    """A row per partition and a total; a dry run adds a row for each finding about the whole table.

    For a table that is already bootstrapped, a single row reports that. Raises BootstrapBlockedError with
    every blocker, which a dry run gives as the error of its rows; TableExistsError if the target is another
    table, VerificationFailedError.
    """
    from hudisql.bootstrap.plan.request import apply_options
    from hudisql.bootstrap.run.verified_bootstrap import ExistingBootstrap, bootstrap_table, preview_bootstrap

    if arguments.iceberg_sync and not arguments.sync:
        raise InvalidArgumentError(
            "iceberg_sync is a property of the table's metastore entry, and sync => false makes none",
            hint="CALL sync_iceberg(path => …) publishes a table without an entry",
        )
    request, findings = apply_options(request_of(context, arguments), arguments.given)
    if arguments.dry_run:
        preview = preview_bootstrap(context, request, findings)
        if isinstance(preview, ExistingBootstrap):
            return _existing_row(preview.description)
        return _preview_rows(preview, fails=arguments.fail_on_error)
    report = bootstrap_table(context, request, findings, verify=arguments.verify)
    if arguments.iceberg_sync:
        publish_commits(context, arguments.table)
    if isinstance(report, ExistingBootstrap):
        return _existing_row(report.description)
    return CheckedRows(list(_report_rows(report)), None)


def publish_commits(context: Context, name: str) -> None:
    """Let all commits of the table of this name be published as an Iceberg table, beginning with the last.

    A failed publication is a warning. Raises NoSuchTableError, MetastoreError.
    """
    from hudisql.catalog.guarded_alter import alter_guarded
    from hudisql.catalog.table_entries import registered_entries
    from hudisql.config.hudi_config import ICEBERG_SYNC
    from hudisql.options.table_call import open_table_call

    table, (database, main) = open_table_call(context, name).table, context.qualify_table_name(name)
    for entry in registered_entries(context.metastore, table, database, main):
        parameters = {**entry.parameters, ICEBERG_SYNC.name: "true"}
        alter_guarded(context.metastore, entry, replace(entry, parameters=parameters))
    open_table_call(context, name).publish()


def request_of(context: Context, arguments: BootstrapTableArguments) -> BootstrapRequest:
    """The request of the arguments, without their `options`. Raises InvalidArgumentError."""
    from hudisql.bootstrap.plan.request import BootstrapRequest, parse_table_type
    from hudisql.bootstrap.source.partition_columns import parse_partition_by
    from hudisql.write.metadata_table.new_metadata_table import parse_indexes

    database, name = context.qualify_table_name(arguments.table)
    table, partition_by = arguments.source_table, arguments.partition_by
    return BootstrapRequest(
        database=database,
        name=name,
        record_key=_record_key(arguments),
        source_path=arguments.source,
        source_table=None if table is None else context.qualify_table_name(table),
        table_type=parse_table_type(arguments.table_type),
        partition_by=None if partition_by is None else parse_partition_by(partition_by),
        mode=choose_mode(arguments.mode, arguments.full_record_where, arguments.register_only_where),
        on_unsafe_type=parse_choice(UnsafeTypePolicy, "on_unsafe_type", arguments.on_unsafe_type),
        on_partition_mismatch=parse_choice(
            PartitionMismatchPolicy, "on_partition_mismatch", arguments.on_partition_mismatch
        ),
        key_check=arguments.key_check.strip().lower(),
        on_schema_drift=arguments.on_schema_drift.strip().lower(),
        skeleton_encoding=arguments.skeleton_encoding.strip().lower(),
        ignore=() if arguments.ignore is None else parse_ignored_names(arguments.ignore),
        options=arguments.options or {},
        indexes=parse_indexes(arguments.indexes),
        **{name: getattr(arguments, name) for name in _SAME_IN_REQUEST},
    )


def _record_key(arguments: BootstrapTableArguments) -> tuple[str, ...]:
    """The columns of the record key; empty if keys are generated."""
    if arguments.record_key is None:
        return ()
    if not arguments.record_key:
        raise InvalidArgumentError("record_key names no column", hint="such as 'id' or 'customer,order_id'")
    return arguments.record_key


def _existing_row(description: str) -> CheckedRows[BootstrapTableRow]:
    return CheckedRows([BootstrapTableRow(partition=WHOLE_TABLE, warnings=description)], None)


def _preview_rows(preview: BootstrapPreview, *, fails: bool) -> CheckedRows[BootstrapTableRow]:
    plan = preview.plan
    rows = [*_planned_partitions(preview), *_findings_of_table(plan)]
    if not plan.blockers or not fails:
        return CheckedRows(rows, None)
    hint = "nothing was written; fail_on_error => false gives the plan alone"
    return CheckedRows(rows, plan.describe_blockers(hint))


def _planned_partitions(preview: BootstrapPreview) -> Iterator[BootstrapTableRow]:
    plan, estimate = preview.plan, preview.estimate
    for partition in plan.partitions:
        yield BootstrapTableRow(
            partition=partition.path,
            mode=partition.mode.value,
            files=len(partition.files),
            rows=None if plan.read_by_name else partition.rows,
            source_bytes=partition.source_bytes,
            written_bytes=partition.estimated_bytes,
            warnings=_joined(partition.warnings),
            blockers=_joined(partition.blockers),
        )
    yield BootstrapTableRow(
        partition=TOTAL,
        mode=_mode_of_all(plan),
        files=sum(len(partition.files) for partition in plan.partitions),
        rows=None if plan.read_by_name else sum(partition.rows for partition in plan.partitions),
        source_bytes=sum(partition.source_bytes for partition in plan.partitions),
        written_bytes=sum(partition.estimated_bytes for partition in plan.partitions),
        seconds=None if estimate is None else round(estimate.seconds, 3),
        warnings=None if estimate is None else str(estimate),
    )


def _findings_of_table(plan: BootstrapPlan) -> Iterator[BootstrapTableRow]:
    for finding in plan.blockers:
        yield BootstrapTableRow(partition=WHOLE_TABLE, blockers=str(finding))
    for finding in plan.warnings:
        yield BootstrapTableRow(partition=WHOLE_TABLE, warnings=str(finding))
    for path, difference in plan.file_differences:
        yield BootstrapTableRow(partition=WHOLE_TABLE, files=1, warnings=f"{path}: {difference}")


def _report_rows(report: BootstrapReport) -> Iterator[BootstrapTableRow]:
    plan, result = report.plan, report.result
    for partition, planned in zip(result.partitions, plan.partitions, strict=True):
        yield BootstrapTableRow(
            partition=partition.path,
            mode=partition.mode.value,
            files=partition.files,
            rows=partition.rows,
            source_bytes=partition.source_bytes,
            written_bytes=partition.written_bytes,
            seconds=round(partition.seconds, 3),
            warnings=_joined(planned.warnings),
        )
    yield BootstrapTableRow(
        partition=TOTAL,
        mode=_mode_of_all(plan),
        files=sum(partition.files for partition in result.partitions),
        rows=sum(partition.rows for partition in result.partitions),
        source_bytes=sum(partition.source_bytes for partition in result.partitions),
        written_bytes=result.written_bytes,
        seconds=round(result.seconds, 3),
        warnings=_joined(list(_warnings_of_report(report))),
    )


def _warnings_of_report(report: BootstrapReport) -> Iterator[str]:
    for finding in report.plan.warnings:
        yield str(finding)
    if report.result.resumed_files:
        yield f"{report.result.resumed_files:,} of the files were finished by an earlier run"
    yield from report.notices


def _mode_of_all(plan: BootstrapPlan) -> str:
    """The mode of all partitions, or `mixed`."""
    modes = {partition.mode.value for partition in plan.partitions} or {plan.request.mode.mode.value}
    return "mixed" if len(modes) > 1 else modes.pop()


def _joined(texts: Sequence[str]) -> str | None:
    return "\n".join(texts) or None
