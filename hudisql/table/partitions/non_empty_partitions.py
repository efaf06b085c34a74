"""The non-empty partitions of a table, as SHOW PARTITIONS and the metastore list them.

Hudi's `getAllPartitionPaths` also lists partitions whose file groups are all dropped, and partitions of
failed writes. Here a partition needs a visible slice. The order of instants does not decide that: a commit
that began before a drop and completed after it has rows in the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.storage import FileInfo
from hudisql.table.file_slice import has_lost_its_rows
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions
from hudisql.table.partitions.registered_partitions import registered_partitions, with_registered
from hudisql.table.partitions.table_directories import take_files
from hudisql.table.timeline.replaced_groups import replaced_file_groups


def list_non_empty_partitions(table: HudiTable) -> list[TablePartition]:
    """The partitions that hold a visible file slice, and register-only ones, by path.

    Raises CorruptTableError, StorageError.
    """
    table = table.with_listing()
    return choose_non_empty(
        table, with_registered(table, list_partitions(table), registered_partitions(table))
    )


def choose_non_empty(table: HudiTable, partitions: Sequence[TablePartition]) -> list[TablePartition]:
    """Those of the partitions that hold a visible file slice, and register-only ones, in the given order.

    Only their directories are listed, and of a directory's files only as many names are read as are needed to
    find a visible one. Raises StorageError.
    """
    registered = registered_partitions(table).by_path
    paths = [partition.path for partition in partitions if partition.path not in registered]
    listings = take_files(table, paths)
    replaced = replaced_file_groups(table) if paths else frozenset()
    found = {
        path
        for path, entries in zip(paths, listings, strict=True)
        if _holds_slice(table, path, entries, replaced)
    }
    return [partition for partition in partitions if partition.path in registered or partition.path in found]


def _holds_slice(
    table: HudiTable, path: str, entries: Iterable[FileInfo], replaced: frozenset[tuple[str, str]]
) -> bool:
    timeline = table.timeline
    for entry in entries:
        if (base := parse_base_file_name(entry.name)) is not None:
            file_id, instant_time, is_log = base.file_id, base.instant_time, False
        elif not has_lost_its_rows(entry) and (log := parse_log_file_name(entry.name)) is not None:
            file_id, instant_time, is_log = log.file_id, log.base_instant_time, True
        else:
            continue
        # Log files on top of a pending compaction are visible, the compaction's own base file is not.
        is_pending = instant_time in timeline.pending_compactions
        is_visible = is_log if is_pending else timeline.is_visible(instant_time)
        if is_visible and (path, file_id) not in replaced:
            return True
    return False
