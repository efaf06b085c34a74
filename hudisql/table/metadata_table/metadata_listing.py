"""The directories of a table as its metadata table lists them, in place of listings of the storage.

Follows `HoodieBackedTableMetadata.getAllFilesInPartition` of Hudi 0.15. One look-up lists all partitions,
another the files of those that are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hudisql.format.metadata_table.listed_files import ListedFiles
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable, open_metadata_table


@dataclass(frozen=True)
class MetadataListing:
    """Lists directories of the table by its metadata table; times of modification are 0."""

    metadata: MetadataTable

    def list_directories(self, paths: Sequence[str]) -> list[list[FileInfo]]:
        """The entries of the directories with these paths relative to the base path; none for other paths.

        Raises CorruptTableError, UnsupportedTableError, StorageError.
        """
        partitions = [path for path in paths if path in self._partitions]
        listed = self.metadata.list_files(partitions) if partitions else {}
        return [self._entries(path, listed.get(path)) for path in paths]

    def _entries(self, path: str, files: ListedFiles | None) -> list[FileInfo]:
        directory = join(self.metadata.table.base_path, path) if path else self.metadata.table.base_path
        entries = [FileInfo(join(directory, name), 0, 0, True) for name in self._children.get(path, ())]
        if path in self._partitions:
            entries.append(FileInfo(join(directory, PARTITION_METADATA_FILE), 0, 0, False))
        if files is not None:
            sizes = zip(files.names.to_pylist(), files.sizes.to_pylist(), strict=True)
            entries += [FileInfo(join(directory, name), size, 0, False) for name, size in sizes]
        return entries

    @cached_property
    def _partitions(self) -> Collection[str]:
        return frozenset(self.metadata.list_partitions())

    @cached_property
    def _children(self) -> Mapping[str, Collection[str]]:
        """The names of the directories in each directory above a partition."""
        children: dict[str, dict[str, None]] = {}
        for partition in sorted(self._partitions):
            parts = partition.split("/") if partition else []
            for depth, name in enumerate(parts):
                children.setdefault("/".join(parts[:depth]), {})[name] = None
        return children


def listed_by_metadata(table: HudiTable) -> HudiTable:
    """The table, listed by its metadata table if it has one that knows all commits.

    Raises the errors of `open_metadata_table`.
    """
    metadata = open_metadata_table(table)
    if metadata is None or not metadata.is_current:
        return table
    return replace(table, lister=MetadataListing(metadata))
