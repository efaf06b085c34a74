"""Opens tables of the local file system."""

from __future__ import annotations

from pathlib import Path

from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.metadata_table.metadata_table import MetadataTable


def open_at(path: str | Path, storage: Storage | None = None) -> HudiTable:
    """The table at the path."""
    return open_table(storage or Storage(), str(path))


def open_kept(path: str | Path) -> MetadataTable:
    """The metadata table of the table at the path; hudisql must keep it."""
    metadata = find_kept(open_at(path))
    assert metadata is not None
    return metadata
