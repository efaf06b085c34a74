"""Verifies the listing of a table's metadata table against the storage.

A reader that plans by the metadata table misses the rows of files that it does not list, and fails at files
that it lists and that are gone. Files that no reader looks at, those of writes that did not complete, are
notices. Reads no data file.
"""

from __future__ import annotations

from typing import Final

from hudisql.bootstrap.verify.verify_files import (
    FILE_BEING_DELETED,
    LISTING_DIFFERS,
    LISTING_NOT_USED,
    LISTING_UNREADABLE,
    NOT_LISTED,
    Discrepancy,
)
from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.paths.file_names import is_log_file
from hudisql.format.timeline.instant import CLEAN, RESTORE, ROLLBACK
from hudisql.storage import join
from hudisql.table.files.listing_comparison import ComparedFile, compare_listings
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.metadata_table import MetadataTable, open_metadata_table
from hudisql.write.transaction.markers import marked_files

_DELETING: Final = (CLEAN, RESTORE, ROLLBACK)
_ROLLED_BACK_BYTES: Final = 1
"""The size with which Hudi 0.15 lists the log file of a write that it has rolled back."""


def verify_metadata_table(table: HudiTable) -> list[Discrepancy]:
    """The differences between the metadata table's listing and the storage; none without metadata table.

    Both are those of now: other writers may have changed the table since it was opened.

    Raises CorruptTableError if the table itself is corrupt, StorageError.
    """
    table = open_table(table.storage, table.base_path, accepts_changed_sources=True)
    try:
        metadata = open_metadata_table(table)
        if metadata is None:
            return []
        if not metadata.is_current:
            detail = "it does not know all commits: none may read by it; the next change by hudisql drops it"
            return [Discrepancy(LISTING_NOT_USED, "", metadata.own.base_path, detail)]
        differences = [found for found in compare_listings(metadata) if found.differs]
    except UnsupportedTableError as error:
        return [Discrepancy(LISTING_NOT_USED, "", table.base_path, error.message)]
    except CorruptTableError as error:
        return [Discrepancy(LISTING_UNREADABLE, "", table.base_path, error.message)]
    return _findings(metadata, differences) if differences else []


def _findings(metadata: MetadataTable, differences: list[ComparedFile]) -> list[Discrepancy]:
    read = _files_that_are_read(metadata.table)
    is_deleting = any(instant.action in _DELETING for instant in metadata.table.timeline.pending)
    findings = []
    for found in differences:
        path = join(metadata.table.base_path, found.partition_path, found.name)
        kind, detail = _describe(found, is_read=path in read, is_deleting=is_deleting)
        findings.append(Discrepancy(kind, found.partition_path, path, detail))
    return findings


def _files_that_are_read(table: HudiTable) -> set[str]:
    """The paths of the files of the latest slices, without those of writes that are under way."""
    files = (
        file
        for file_slice in load_file_slices(table)
        for file in (file_slice.base_file, *file_slice.log_files)
    )
    under_way = {
        path
        for instant in table.timeline.pending
        for path in marked_files(table.storage, table.base_path, instant.timestamp)
    }
    return {file.path for file in files if file is not None} - under_way


def _describe(found: ComparedFile, *, is_read: bool, is_deleting: bool) -> tuple[str, str]:
    if found.stored_bytes is None:
        if is_deleting:
            return FILE_BEING_DELETED, "the metadata table lists it; a clean or rollback is not complete"
        return LISTING_DIFFERS, f"the metadata table lists it with {found.listed_bytes:,} bytes; it is gone"
    if found.listed_bytes is None:
        if is_read:
            return LISTING_DIFFERS, "the metadata table does not list it: who reads by that misses its rows"
        return NOT_LISTED, "the metadata table does not list it: no reader needs it, a clean may delete it"
    if is_log_file(found.name) and found.listed_bytes == _ROLLED_BACK_BYTES:
        return NOT_LISTED, "the metadata table lists it with 1 byte: its write was rolled back"
    sizes = f"{found.listed_bytes:,} bytes, it has {found.stored_bytes:,}"
    return LISTING_DIFFERS, f"the metadata table lists it with {sizes}"
