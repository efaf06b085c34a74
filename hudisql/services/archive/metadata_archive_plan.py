"""Which instants of a metadata table's own timeline are archived.

Follows what `HoodieTimelineArchiver` of Hudi 0.15 and `TimelineArchiverV2` of 1.2 do with a metadata table,
with the numbers of `HoodieMetadataWriteUtils.createMetadataWriteConfig`. Deletes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.instant import Instant
from hudisql.services.archive.archive_plan import ArchiveOptions, may_archive, plan_archive
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy
from hudisql.table.metadata_table.metadata_table import MetadataTable


def plan_metadata_archive(metadata: MetadataTable, options: ArchiveOptions) -> list[Instant]:
    """The completed instants of a kept metadata table to archive, oldest first; `options` are of its table.

    They are older than its last compaction, all active commits of the table and all log files: readers of
    Hudi skip records in log files whose instants are on neither timeline. None are while an index of another
    writer is not recorded (`unrecorded_index`). Raises CorruptTableError, StorageError.
    """
    one_more = replace(
        options,
        min_commits=options.min_commits + 1,
        max_commits=options.max_commits + 1,
        # Old files are deleted by their number.
        clean=CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS),
    )
    is_needed = metadata.has_active_first_listing or metadata.unrecorded_index is not None
    if is_needed or not may_archive(metadata.own.timeline, one_more):
        return []
    bound = min(_oldest_of_table(metadata), metadata.last_compaction)
    chosen = [each for each in plan_archive(metadata.own, one_more) if each.timestamp < bound]
    oldest = _oldest_log_file(metadata) if chosen else None
    return [each for each in chosen if oldest is None or each.timestamp < oldest]


def _oldest_of_table(metadata: MetadataTable) -> str:
    """The first active commit of the table, or what is pending before it; "" without either."""
    timeline = metadata.table.timeline
    return min((instant.timestamp for instant in (*timeline.commits, *timeline.pending)), default="")


def _oldest_log_file(metadata: MetadataTable) -> str | None:
    """The instant of the oldest log file, merged or not, whose completion decides its slice; None without
    one.

    Log files of layout 1 are named after their slice.
    """
    if not metadata.own.timeline.layout.has_completion_times:
        return None
    parsed = (
        parse_log_file_name(file.name) for index in metadata.indexes for file in metadata.entries(index)
    )
    return min((log_file.base_instant_time for log_file in parsed if log_file is not None), default=None)
