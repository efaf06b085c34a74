"""Paths that a table's own files record, and that somebody is going to delete: none leads out of the table.

Markers and rollback plans are files that anybody with access to the table can write. What they name is
deleted, so a path that climbs out of the table (`../../x`), or names the timeline itself, is refused.
"""

from __future__ import annotations

from hudisql.errors import CorruptTableError
from hudisql.format.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import join


def recorded_data_path(base_path: str, partition_path: str, name: str, recorded_in: str) -> str:
    """The path of a data file that `recorded_in` (a file, for the message) names.

    Raises CorruptTableError if it is not below the table's data directories.
    """
    relative = join("", partition_path, name).lstrip("/")
    parts = relative.split("/")
    if not name or "/" in name or parts[0] == METADATA_DIRECTORY or {".", ".."} & set(parts):
        raise CorruptTableError(
            f"{recorded_in} names the file '{relative}', which is no data file of the Hudi table at "
            f"{base_path}",
            hint="nothing was deleted; find out who wrote that file, and remove it by hand",
        )
    return join(base_path, relative)
