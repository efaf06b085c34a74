"""The totals of a snapshot's summary (the spec's "Optional Snapshot Summary Fields"), and hudisql's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hudisql.iceberg.iceberg_location import data_directory, reader_uri
from hudisql.iceberg.manifest_files import DATA
from hudisql.table.hudi_table import HudiTable

DATA_FILES: Final = "total-data-files"
DELETE_FILES: Final = "total-delete-files"
ROWS: Final = "total-records"
DELETED_ROWS: Final = "total-position-deletes"
SOURCE_FILES: Final = "hudisql.source-files"
LOG_ROW_FILES: Final = "hudisql.log-row-files"
_BYTES: Final = "total-files-size"
_NAMES: Final = (DATA_FILES, DELETE_FILES, ROWS, DELETED_ROWS, _BYTES, SOURCE_FILES, LOG_ROW_FILES)


def totals_of(
    table: HudiTable,
    before: Mapping[str, str],
    added: Iterable[Mapping[str, Any]],
    removed: Iterable[Mapping[str, Any]],
) -> dict[str, str]:
    """The totals `before` with the data files that are added, without those that are removed."""
    totals = {name: int(before.get(name, 0)) for name in (*_NAMES, "total-equality-deletes")}
    own, base = (f"{reader_uri(table, path)}/" for path in (data_directory(table), table.base_path))
    for sign, data_files in ((1, added), (-1, removed)):
        for file in data_files:
            is_data, path = file["content"] == DATA, file["file_path"]
            totals[DATA_FILES if is_data else DELETE_FILES] += sign
            totals[ROWS if is_data else DELETED_ROWS] += sign * file["record_count"]
            totals[_BYTES] += sign * file["file_size_in_bytes"]
            totals[SOURCE_FILES] += sign * (is_data and not path.startswith(base))
            totals[LOG_ROW_FILES] += sign * (is_data and path.startswith(own))
    return {name: str(count) for name, count in totals.items()}


def with_totals(totals: Mapping[str, str], others: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The sums of all of them."""
    sums = {name: int(count) for name, count in totals.items()}
    for other in others:
        for name, count in other.items():
            sums[name] += int(count)
    return {name: str(count) for name, count in sums.items()}
