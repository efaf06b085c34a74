"""Compares the current source with the source files that a table has: new, changed and missing files.

The table's source files are in its bootstrap index, in the list of its full-record partitions and in the
lists of its resyncs. It lists the source once, and the table only if a file changed or is missing. Knows no
Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hudisql.bootstrap.files.full_record_sources import SOURCES_FILE, read_full_record_sources
from hudisql.bootstrap.rollback.table_sources import is_unchanged, list_source_directories
from hudisql.bootstrap.source.source_files import SourcePartition, external_file
from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.storage import join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partition_paths, list_partitions
from hudisql.table.partitions.resynced_sources import ResyncLists
from hudisql.table.timeline.archived_timeline import archived_commits


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
    for each in read_full_record_sources(storage, base_path):
        taken[each.file.path] = TakenSource(each.partition_path, each.file)
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
    candidates = set(partitions) - {each.partition_path for each in taken.values()}
    if not candidates or table.storage.exists(join(table.base_path, SOURCES_FILE)):
        return []
    candidates &= set(list_partition_paths(table))
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
    if unlisted := [each.file for path, each in taken.items() if path not in listed]:
        elsewhere = list_source_directories(table.storage, unlisted)
        listed |= {path: external_file(entry) for path, entry in elsewhere.items() if entry.length}
    different = [
        (each, listed.get(path))
        for path, each in taken.items()
        if not is_unchanged(each.file, listed.get(path))
    ]
    if not different:
        return []
    read = _bootstrapped_groups(table, {each.partition_path for each, _ in different})
    found = [
        ChangedSourceFile(each, now, each.file_id is not None and (each.partition_path, each.file_id) in read)
        for each, now in different
    ]
    return sorted(found, key=lambda each: (each.taken.partition_path, each.taken.file.path))


def _bootstrapped_groups(table: HudiTable, paths: set[str]) -> set[tuple[str, str]]:
    """The file groups of these partitions that still read their source file."""
    partitions = [partition for partition in list_partitions(table) if partition.path in paths]
    slices = load_file_slices(table, partitions)
    return {
        (file_slice.partition_path, file_slice.file_id) for file_slice in slices if file_slice.is_bootstrapped
    }
