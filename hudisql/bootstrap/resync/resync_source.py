"""The current source of a bootstrapped table, found by the table's properties.

It uses the scans of a bootstrap, so that paths and partitions are spelled alike. Uses Spark only for the
partition filter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hudisql.bootstrap.blockers import Finding, blocker
from hudisql.bootstrap.plan.bootstrap_plan import partition_chooser
from hudisql.bootstrap.source.hive_source import load_source_table, scan_hive_source
from hudisql.bootstrap.source.source_files import (
    BootstrapSource,
    ChoosePartitions,
    PartitionColumn,
    scan_path_source,
)
from hudisql.errors import InvalidArgumentError, NoSuchTableError, SourceError
from hudisql.format import table_properties as keys
from hudisql.sql_literals import quote_string
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from hudisql.context import Context


def scan_table_source(
    context: Context,
    table: HudiTable,
    source_table: tuple[str, str] | None = None,
    partition_filter: str | None = None,
) -> BootstrapSource:
    """List the table's source; by default with the source table and the filter of the bootstrap.

    Raises SourceError or NoSuchTableError if the source is gone, InvalidArgumentError for another source than
    the table's and a bad filter, StorageError.
    """
    properties = table.properties
    if source_table is None and (named := properties.get(keys.BOOTSTRAP_SOURCE_TABLE)):
        database, _, name = named.partition(".")
        source_table = (database, name)
    predicate = partition_filter or properties.get(keys.BOOTSTRAP_PARTITION_FILTER)
    left_out: list[Finding] = []
    choose = partition_chooser(context, predicate, left_out)
    try:
        source = _scan(context, table, source_table, choose)
    except (SourceError, NoSuchTableError) as error:
        raise type(error)(
            f"the source of the Hudi table at {table.base_path} cannot be looked at: {error.message}",
            hint="restore the source; CALL verify_bootstrap names the files that the table still reads",
        ) from error
    _check_same_source(table, source)
    findings = [*source.findings, *left_out, *_check_layout(table, source)]
    return replace(source, findings=tuple(findings))


def _scan(
    context: Context,
    table: HudiTable,
    source_table: tuple[str, str] | None,
    choose: ChoosePartitions | None,
) -> BootstrapSource:
    storage, properties = table.storage, table.properties
    if source_table is not None:
        entry = load_source_table(context.metastore, *source_table)
        return scan_hive_source(storage, context.metastore, entry, choose)
    if properties.get(keys.BOOTSTRAP_SOURCE_DIRECTORIES):
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} was made of partitions in several places, and its source"
            " table in the metastore is unknown",
            hint="give source_table => 'database.name'",
        )
    columns = tuple(
        PartitionColumn(partition_column.name, partition_column.type)
        for partition_column in table.partition_columns
    )
    path = storage.qualify(properties.bootstrap_base_path or "")
    return scan_path_source(storage, path, columns or None, choose)


def _check_same_source(table: HudiTable, source: BootstrapSource) -> None:
    storage = table.storage
    recorded = storage.qualify(table.properties.bootstrap_base_path or "")
    if storage.resolve(recorded) != storage.resolve(source.base_path):
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} was made of {recorded}, not of {source.base_path}",
            hint=f"give the table at {quote_string(recorded)}",
        )


def _check_layout(table: HudiTable, source: BootstrapSource) -> list[Finding]:
    """A blocker if the source's partition columns are no longer those of the table."""
    own = [column.name for column in table.partition_columns]
    found = [column.name for column in source.partition_columns]
    if not source.partitions or [name.lower() for name in own] == [name.lower() for name in found]:
        return []
    return [
        blocker(
            f"the source is now partitioned by {', '.join(found) or 'nothing'}, and the table by"
            f" {', '.join(own) or 'nothing'}",
            hint="move the files of another layout away",
        )
    ]
