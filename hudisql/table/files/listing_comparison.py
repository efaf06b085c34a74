"""The listing of a metadata table compared with the storage.

Follows `ValidateMetadataTableFilesProcedure` of Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hudisql.format.paths.file_names import is_data_file
from hudisql.storage import FileInfo, join
from hudisql.table.file_slice import has_lost_its_rows
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.partitions.listed_partitions import list_partition_paths

_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """A data file with its sizes in bytes; None where it is not."""

    partition_path: str
    name: str
    stored_bytes: int | None
    listed_bytes: int | None

    @property
    def differs(self) -> bool:
        """True if only one has the file, or both with another size."""
        return self.stored_bytes != self.listed_bytes


def compare_listings(metadata: MetadataTable) -> Iterator[ComparedFile]:
    """All data files in the storage or in the metadata table, sorted by partition and name.

    Raises CorruptTableError, StorageError.
    """
    table = metadata.table
    paths = sorted({*metadata.list_partitions(), *list_partition_paths(table)})
    for start in range(0, len(paths), _AT_ONCE):
        some = paths[start : start + _AT_ONCE]
        listed = metadata.list_files(some)
        stored = table.storage.list_directories(
            [join(table.base_path, path) for path in some], missing_ok=True
        )
        for path, entries in zip(some, stored, strict=True):
            listed_files = listed.get(path)
            sizes = (
                {}
                if listed_files is None
                else dict(zip(listed_files.names.to_pylist(), listed_files.sizes.to_pylist(), strict=True))
            )
            yield from _compared(path, _data_files(entries, sizes), sizes)


def _compared(path: str, stored: dict[str, int], listed: dict[str, int]) -> Iterator[ComparedFile]:
    for name in sorted(stored.keys() | listed.keys()):
        yield ComparedFile(path, name, stored.get(name), listed.get(name))


def _data_files(entries: Sequence[FileInfo], listed: Container[str]) -> dict[str, int]:
    """The data files by name, without empty ones; log files without rows if listed, as Hudi lists them."""
    return {
        entry.name: entry.length
        for entry in entries
        if not entry.is_directory
        and entry.length
        and is_data_file(entry.path)
        and (entry.name in listed or not has_lost_its_rows(entry))
    }
