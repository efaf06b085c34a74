"""The source that a request names, as it is now: its files by partition, and what is found about them.

A run scans it for its plan, and again before its commit. Reads the metastore and directories, no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.blockers import Finding, blocker, blockers_of, warning
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, ModeChoice
from hudisql.bootstrap.plan.create_table_as import create_table_as
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.source.hive_source import (
    SourceProtection,
    find_source_table,
    protection_for,
    scan_hive_source,
)
from hudisql.bootstrap.source.partition_columns import filter_partitions
from hudisql.bootstrap.source.source_files import (
    BootstrapSource,
    ChoosePartitions,
    PartitionColumn,
    TableReadByName,
    scan_path_source,
)
from hudisql.bootstrap.source.source_format import other_format
from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.errors import SourceError
from hudisql.format.paths.partition_path import HIVE_DEFAULT_PARTITION
from hudisql.format.schema.spark_schema import quote_name

if TYPE_CHECKING:
    from hudisql.context import Context

# Of Hive's text tables.
_SKIPPED_LINES: Final = ("skip.header.line.count", "skip.footer.line.count")


def scan_source(
    context: Context, request: BootstrapRequest
) -> tuple[BootstrapSource, SourceProtection | None, list[Finding]]:
    """The current source, its protection if requested, and the findings about both.

    Raises SourceError, NoSuchTableError, InvalidArgumentError for a bad partition filter, StorageError.
    """
    left_out: list[Finding] = []
    choose = partition_chooser(context, request.partition_filter, left_out)
    if request.source_table is None:
        assert request.source_path is not None  # the request has one of the two
        path = context.storage.qualify(request.source_path)
        source = scan_path_source(context.storage, path, request.partition_by, choose, request.ignore)
        return source, None, [*left_out, *_check_any_chosen(request, source)]
    table = find_source_table(context.metastore, *request.source_table)
    read_by_name = _read_by_name(context, request, table)
    source = scan_hive_source(context.storage, context.metastore, table, choose, request.ignore)
    if read_by_name is not None:
        read_by_name = replace(read_by_name, where=_where(request.partition_filter, source))
        source = replace(source, read_by_name=read_by_name)
    findings = [*left_out, *_check_any_chosen(request, source)]
    if read_by_name is not None:
        # Nothing reads its files later, so that its DROP loses no rows of the new table.
        return source, None, [*findings, *_check_rows(context, request, table, source)]
    return source, *_protected(request, table, findings)


def _protected(
    request: BootstrapRequest, table: MetastoreTable, findings: list[Finding]
) -> tuple[SourceProtection | None, list[Finding]]:
    protection = protection_for(table)
    if protection is None:
        return None, findings
    danger = f"DROP TABLE {table.full_name} would delete the files that the new table reads"
    if request.protect_source:
        findings.append(warning(f"{danger}: {protection.statement} will be run first"))
        return protection, findings
    findings.append(
        blocker(danger, hint=f"run {protection.statement}, or give protect_source => true, which runs it")
    )
    return None, findings


def _read_by_name(
    context: Context, request: BootstrapRequest, table: MetastoreTable
) -> TableReadByName | None:
    """The table if Spark reads it for a full-record bootstrap, None for a parquet table.

    Raises SourceError, with the statement that copies the rows, if its files would have to stay.
    """
    found = other_format(table)
    if found is None:
        return None
    if found.has_files and request.mode == ModeChoice(BootstrapMode.FULL_RECORD):
        return TableReadByName(table.database, table.name, found.kind, request.ignore)
    hint = "query it as it is" if is_hudi_table(table) else "export it as plain parquet first"
    if found.has_rows:
        hint = f"this copies its rows into a Hudi table: {_create_table_as(context, request, table)}"
    if found.has_files:
        hint = f"mode => 'full_record' rewrites its rows, with all checks; or {hint}"
    raise SourceError(
        f"the source {table.full_name} is {found.kind}, and only parquet files stay where they are", hint=hint
    )


def _where(partition_filter: str | None, source: BootstrapSource) -> str | None:
    """The filter as a condition on the rows that Spark reads.

    Where a partition value is NULL, Spark gives NULL for some formats, for others the name of the directory.
    """
    if partition_filter is None:
        return None
    condition = f"({partition_filter}\n)"
    for position, column in enumerate(source.partition_columns):
        name = quote_name(column.name)
        is_null = f"({name} IS NULL OR CAST({name} AS STRING) = '{HIVE_DEFAULT_PARTITION}')"
        takes_null = any(partition.values[position] is None for partition in source.partitions)
        condition = f"({condition} {f'OR {is_null}' if takes_null else f'AND NOT {is_null}'})"
    return condition


def _create_table_as(context: Context, request: BootstrapRequest, table: MetastoreTable) -> str:
    statement = create_table_as(request, table)
    if context.metastore.get_database(request.database) is None:
        return f"CREATE DATABASE {request.database}; {statement}"
    return statement


def _check_rows(
    context: Context, request: BootstrapRequest, table: MetastoreTable, source: BootstrapSource
) -> Iterator[Finding]:
    """Blockers for a table that Spark reads by name: one without files, and one that it reads wrongly."""
    if not source.partitions and request.partition_filter is None:
        yield blocker(
            f"the source {table.full_name} has no rows",
            hint=f"this makes a table of its columns: {_create_table_as(context, request, table)}",
        )
    for name in _SKIPPED_LINES:
        if table.parameters.get(name, "0").strip() not in ("", "0"):
            yield blocker(
                f"the source {table.full_name} has {name} = {table.parameters[name]}, which Spark does not"
                " follow: it would read these lines as rows",
                hint="make a table USING csv OPTIONS (header 'true') of its directory, and take that",
            )


def partition_chooser(
    context: Context, predicate: str | None, findings: list[Finding]
) -> ChoosePartitions | None:
    """The function that applies a `partition_filter`; it reports NULL partitions that it excludes."""
    if predicate is None:
        return None

    def choose(
        columns: Sequence[PartitionColumn], values: Sequence[tuple[str | None, ...]]
    ) -> Sequence[bool]:
        chosen = filter_partitions(context.spark, predicate, columns, values)
        findings.extend(_check_null_partitions(predicate, columns, values, chosen))
        return chosen

    return choose


def _check_null_partitions(
    predicate: str,
    columns: Sequence[PartitionColumn],
    values: Sequence[tuple[str | None, ...]],
    chosen: Sequence[bool],
) -> Iterator[Finding]:
    """A warning for excluded NULL partitions: most predicates are NULL there, and so not true."""
    for position, column in enumerate(columns):
        left = sum(row[position] is None and not taken for row, taken in zip(values, chosen, strict=True))
        if left:
            yield warning(
                f"partition_filter '{predicate}' leaves out {left} partition{'' if left == 1 else 's'} where"
                f" {column.name} is NULL ({column.name}={HIVE_DEFAULT_PARTITION})",
                hint=f"add OR {quote_name(column.name)} IS NULL to take them",
            )


def _check_any_chosen(request: BootstrapRequest, source: BootstrapSource) -> list[Finding]:
    if source.partitions or blockers_of(source.findings):
        return []
    return [
        blocker(f"partition_filter '{request.partition_filter}' matches no partition of {source.base_path}")
    ]
