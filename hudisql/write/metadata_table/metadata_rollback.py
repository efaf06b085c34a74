"""A metadata table while an action of its table is rolled back.

Follows `HoodieBackedTableMetadataWriter.update(HoodieRollbackMetadata, …)` of Hudi 0.15 and 1.2: the action's
deltacommit is rolled back, and so are all indexes. Hudi fails where a compaction has merged the deltacommit,
and then at all later writes; here the metadata table is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hudisql.errors import CorruptTableError, NoSuchPathError, UnsupportedTableError
from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.metadata_records import FILES, RECORD_INDEX
from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.format.timeline.instant import CLEAN, DELTA_COMMIT, ROLLBACK, Instant
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.metadata_table.metadata_table import MetadataTable, readable_metadata_table
from hudisql.table.metadata_table.secondary_indexes import is_secondary
from hudisql.table.properties.table_configuration import (
    check_nothing_begun,
    drop_indexes,
    drop_metadata_table,
    forget_metadata_table,
    names_metadata_table,
)
from hudisql.write.handle.log_file import instants_of_blocks
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate, has_instant, undo, write_deltacommit
from hudisql.write.metadata_table.metadata_commit import file_records
from hudisql.write.metadata_table.metadata_compaction import keep_or_drop
from hudisql.write.metadata_table.statistics_changes import expect_rollback, settle_statistics


def prepare_rollback(table: HudiTable, instant_time: str) -> bool:
    """Drop what cannot be rolled back with a completed commit: the metadata table, or indexes made since.

    Called under the lock, before the rollback begins. True if something was dropped. Raises
    UnsupportedTableError while another writer may be active, CorruptTableError, StorageError.
    """
    metadata, is_dropped = keep_or_drop(table)
    if is_dropped:
        metadata = find_kept(table := table.reopened())
    if metadata is None:
        return is_dropped
    since = _indexes_made_since(metadata, instant_time)
    if since is None:
        return drop_metadata_table(table)
    if since:
        check_nothing_begun(
            table, f"the index {', '.join(sorted(since))} of its metadata table cannot be dropped"
        )
        drop_indexes(table, since)
    return is_dropped or bool(since)


def forget_unless_undone(table: HudiTable, instant_time: str) -> None:
    """Drop what `prepare_rollback` does, of a rollback that another process has begun, too.

    Called while the rollback is pending, before the commit is pending again. Raises StorageError.
    """
    if not names_metadata_table(table):
        return
    try:
        is_kept = _keep_what_can_be_undone(table, instant_time)
    except CorruptTableError:
        is_kept = False
    if not is_kept:
        forget_metadata_table(table)


def _keep_what_can_be_undone(table: HudiTable, instant_time: str) -> bool:
    """False if the metadata table cannot be kept; its indexes that cannot are dropped."""
    metadata = readable_metadata_table(table)
    since = None if metadata is None else _indexes_made_since(metadata, instant_time)
    if metadata is None or since is None:
        return False
    if since:
        drop_indexes(table, since)
    expect_rollback(metadata, instant_time)
    return True


def undo_deltacommit(table: HudiTable, instant_time: str) -> None:
    """Remove what an action that is rolled back has written to a metadata table, before its instant goes.

    The metadata table is dropped where that is not possible. Raises StorageError.
    """
    metadata = readable_metadata_table(table)
    if metadata is None or not has_instant(metadata, instant_time):
        return
    deltacommit = _completed(metadata, instant_time)
    is_merged = deltacommit is not None and _is_compacted(metadata, deltacommit)
    if is_merged or not undo(metadata, instant_time):
        forget_metadata_table(table)


def write_rollback(table: HudiTable, instant_time: str, log_files: Mapping[str, Mapping[str, int]]) -> None:
    """List the log files with rollback blocks in a kept metadata table, before the rollback completes.

    `table` is as it was before the rollback, whose commit is gone by now, `log_files` are their bytes by
    partition path and URI. A metadata table that cannot list them is dropped. Raises StorageError.
    """
    if not names_metadata_table(table):
        return
    table = table.reopened()
    metadata = find_kept(table)
    if metadata is None:
        if log_files and names_metadata_table(table):
            forget_metadata_table(table)
        return
    with suppress(CorruptTableError):
        settle_statistics(metadata)
    if not log_files:
        return
    sizes = {
        path: {uri.rpartition("/")[2]: size for uri, size in files.items()}
        for path, files in log_files.items()
    }
    write_deltacommit(metadata, instant_time, {FILES: IndexUpdate(cells_of(file_records(sizes)))})


def _completed(metadata: MetadataTable, instant_time: str) -> Instant | None:
    """The completed deltacommit of this instant time."""
    return next((each for each in _deltacommits(metadata) if each.timestamp == instant_time), None)


def _deltacommits(metadata: MetadataTable) -> list[Instant]:
    return [each for each in metadata.own.timeline.completed if each.action == DELTA_COMMIT]


def _is_compacted(metadata: MetadataTable, deltacommit: Instant) -> bool:
    """True if a base file may have its records."""
    time = deltacommit.completion_time or deltacommit.timestamp
    return metadata.last_compaction >= time


def _indexes_made_since(metadata: MetadataTable, instant_time: str) -> frozenset[str] | None:
    """The indexes that were made since a completed commit, and know its rows.

    None if the commit cannot be rolled back in the others: its deltacommit is missing, as in a metadata table
    that was made later, or was compacted, or another commit has updated the indexes since. Raises
    StorageError.
    """
    deltacommit = _completed(metadata, instant_time)
    if deltacommit is None or _is_compacted(metadata, deltacommit):
        return None
    later = _later_instants(metadata, deltacommit)
    if later is None:
        return None
    made: set[str] = set()
    for other in later - _services(metadata):
        indexes = _updated_indexes(metadata, other)
        if not indexes or FILES in indexes:
            return None
        made |= indexes
    if RECORD_INDEX in made:
        made |= {*filter(is_secondary, metadata.indexes)}
    return frozenset(made.intersection(metadata.indexes))


def _later_instants(metadata: MetadataTable, deltacommit: Instant) -> set[str] | None:
    """The instant times of what was written to the metadata table after a deltacommit; None if unknown.

    In layout 1 the log files of `files`, which each action of the table updates, tell the order of those
    that were requested earlier.
    """
    if deltacommit.completion_time:
        time = deltacommit.completion_time
        return {each.timestamp for each in _deltacommits(metadata) if (each.completion_time or time) > time}
    later = {each.timestamp for each in _deltacommits(metadata) if each.timestamp > deltacommit.timestamp}
    logs = [(parse_log_file_name(entry.name), entry.path) for entry in metadata.entries(FILES)]
    named = [(log.base_instant_time, log.version, path) for log, path in logs if log is not None]
    for _, _, path in sorted(named, reverse=True):
        found = instants_of_blocks(metadata.own.storage, path)
        if deltacommit.timestamp in found:
            return later | (found - {deltacommit.timestamp})
        later |= found
    return None


def _services(metadata: MetadataTable) -> set[str]:
    """The instant times of actions that update no index by the rows of other commits."""
    table, own = metadata.table.timeline, metadata.own.timeline
    completed = {
        each.timestamp for each in (*table.completed, *own.completed) if each.action in (CLEAN, ROLLBACK)
    }
    # What is pending does not count, and is undone before it comes again.
    return completed | {each.timestamp for each in table.pending}


def _updated_indexes(metadata: MetadataTable, instant_time: str) -> frozenset[str]:
    """The indexes that a deltacommit says it has written; empty if that is not known."""
    deltacommit = _completed(metadata, instant_time)
    if deltacommit is None:
        return frozenset()
    try:
        commit = read_commit_metadata(metadata.own.storage, metadata.own.instant_path(deltacommit))
    except (CorruptTableError, NoSuchPathError, UnsupportedTableError):
        return frozenset()
    return frozenset(commit.partition_to_write_stats)
