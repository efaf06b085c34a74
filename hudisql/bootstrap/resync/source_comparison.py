"""Scans the current source and compares it with a table's source files: new, changed and missing ones.

The table's source files are in its bootstrap index, in the list of its full-record partitions and in the
lists of its resyncs. It lists the source once, by the scans of a bootstrap, and the table only if a file
changed or is missing. Uses Spark only for the partition filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from hudisql.bootstrap.blockers import Finding, blocker
from hudisql.bootstrap.files.full_record_sources import SOURCES_FILE, read_full_record_sources
from hudisql.bootstrap.plan.source_scan import partition_chooser
from hudisql.bootstrap.rollback.table_sources import is_unchanged, list_source_directories
from hudisql.bootstrap.source.hive_source import load_source_table, scan_hive_source
from hudisql.bootstrap.source.source_files import (
    BootstrapSource,
    ChoosePartitions,
    PartitionColumn,
    SourcePartition,
    external_file,
    scan_path_source,
)
from hudisql.errors import InvalidArgumentError, NoSuchTableError, SourceError
from hudisql.format import table_properties as keys
from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.sql_literals import quote_string
from hudisql.storage import join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partitions_at
from hudisql.table.partitions.resynced_sources import ResyncLists
from hudisql.table.timeline.archived_timeline import archived_commits

if TYPE_CHECKING:
    from hudisql.context import Context


class SourceChange(StrEnum):
    """How a source file of the table has changed."""

    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class TakenSource:
    """A source file as it was taken; `file_id` is that of its skeleton, None if its rows were copied."""

    partition_path: str
    file: ExternalFile
    file_id: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedSourceFile:
    """A changed or missing source file; `found` is its current state.

    `is_read` says that the table still reads the file: its skeleton was not rewritten.
    """

    taken: TakenSource
    found: ExternalFile | None
    is_read: bool

    @property
    def change(self) -> SourceChange:
        """Whether it changed or is missing."""
        return SourceChange.GONE if self.found is None else SourceChange.CHANGED


def taken_sources(table: HudiTable, lists: ResyncLists) -> dict[str, TakenSource]:
    """Every source file of the table, by path. Raises CorruptTableError, StorageError."""
    storage, base_path = table.storage, table.base_path
    taken = {
        mapping.external_file.path: TakenSource(
            mapping.partition_path, mapping.external_file, mapping.file_id
        )
        for mapping in read_bootstrap_mappings(storage, base_path)
    }
    for full_record_source in read_full_record_sources(storage, base_path):
        taken[full_record_source.file.path] = TakenSource(
            full_record_source.partition_path, full_record_source.file
        )
    for path, source in lists.taken.items():
        taken.setdefault(path, TakenSource(source.partition_path, source.file))
    return taken


def new_source_files(
    partitions: Sequence[SourcePartition], taken: Mapping[str, TakenSource]
) -> Iterator[tuple[SourcePartition, tuple[ExternalFile, ...]]]:
    """The partitions with new files, and these files."""
    for partition in partitions:
        files = tuple(file for file in partition.files if file.path not in taken)
        if files:
            yield partition, files


def unlisted_partitions(
    table: HudiTable, partitions: Sequence[str], taken: Mapping[str, TakenSource]
) -> list[str]:
    """The partitions that a bootstrap of Apache Hudi may have rewritten: it lists no source files.

    The archive is only read for the table's partitions without a known source file. Raises CorruptTableError,
    UnsupportedTableError, StorageError.
    """
    candidates = set(partitions) - {taken_source.partition_path for taken_source in taken.values()}
    if not candidates or table.storage.exists(join(table.base_path, SOURCES_FILE)):
        return []
    candidates &= {partition.path for partition in partitions_at(table, candidates)}
    if not candidates:
        return []
    commits = {commit.timestamp for commit in table.timeline.commits}
    is_rewritten = FULL_BOOTSTRAP_INSTANT_TIME in commits or FULL_BOOTSTRAP_INSTANT_TIME in (
        archived_commits(table, table.timeline)
    )
    return sorted(candidates) if is_rewritten else []


def changed_sources(
    table: HudiTable, partitions: Sequence[SourcePartition], taken: Mapping[str, TakenSource]
) -> list[ChangedSourceFile]:
    """The table's changed or missing source files, by partition and path; `partitions` are the source's.

    Files that are not in these (for example by a `partition_filter`) are looked up at their former path.
    Raises StorageError.
    """
    listed = {file.path: file for partition in partitions for file in partition.files}
    if unlisted := [source.file for path, source in taken.items() if path not in listed]:
        elsewhere = list_source_directories(table.storage, unlisted)
        listed |= {path: external_file(entry) for path, entry in elsewhere.items() if entry.length}
    different = [
        (source, listed.get(path))
        for path, source in taken.items()
        if not is_unchanged(source.file, listed.get(path))
    ]
    if not different:
        return []
    read = _bootstrapped_groups(table, {source.partition_path for source, _ in different})
    source_files = [
        ChangedSourceFile(
            source, now, source.file_id is not None and (source.partition_path, source.file_id) in read
        )
        for source, now in different
    ]
    return sorted(
        source_files, key=lambda source_file: (source_file.taken.partition_path, source_file.taken.file.path)
    )


def _bootstrapped_groups(table: HudiTable, paths: set[str]) -> set[tuple[str, str]]:
    """The file groups of these partitions that still read their source file."""
    slices = load_file_slices(table, partitions_at(table, paths))
    return {file_slice.file_group for file_slice in slices if file_slice.is_bootstrapped}


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
        return scan_hive_source(storage, context.metastore, entry, choose, properties.bootstrap_ignore)
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
    return scan_path_source(storage, path, columns or None, choose, properties.bootstrap_ignore)


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
