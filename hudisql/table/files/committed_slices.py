"""The file slices that a commit leaves, from those before it and its metadata, without a listing.

Valid only if nothing but the commit has changed the timeline. What the metadata does not tell is left out, so
that it is listed when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.format.timeline.instant import Instant
from hudisql.storage import join
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.files.changed_partitions import COMMIT_PARTITIONS, partitions_of_commit
from hudisql.table.hudi_table import HudiTable
from hudisql.table.slicing.latest_slice import in_merge_order

FILE_SLICES: Final = "file slices"
TIMELINE_FILE_TIMES: Final = "timeline file times"
UNCHANGED_SOURCES: Final = "unchanged sources"
WRITTEN_FOOTERS: Final = "written footers"
"""The names in a table's `listing` of the slices by partition path, of `timeline_file_times`, of the paths of
source files that the statement has found unchanged, and of the footers of base files that its process has
written, by path.
"""


def listing_after_commit(
    before: HudiTable, after: HudiTable, completed: Instant, metadata: CommitMetadata
) -> dict[str, Any]:
    """The `listing` of the table `after` a commit, whose instant is `completed`: with what it has changed.

    `before` is the table as it was when the commit began, with what was listed until then.
    """
    partitions = partitions_of_commit(metadata)
    listing: dict[str, Any] = {**(after.listing or {}), COMMIT_PARTITIONS: {completed: partitions}}
    if before.listing is not None and WRITTEN_FOOTERS in before.listing:
        listing[WRITTEN_FOOTERS] = before.listing[WRITTEN_FOOTERS]
    others = set(after.timeline.instants) - {completed}
    if before.listing is None or after.lister is not None or others != set(before.timeline.instants):
        return listing
    if before.properties != after.properties:
        return listing
    listing[UNCHANGED_SOURCES] = before.listing.get(UNCHANGED_SOURCES, set())
    known = before.listing.get(FILE_SLICES, {})
    slices = {}
    for path in partitions.changed:
        if path in known:
            stats = metadata.partition_to_write_stats.get(path, ())
            replaced = (metadata.partition_to_replace_file_ids or {}).get(path, ())
            left = _slices_after(after, known[path], stats, frozenset(replaced))
            if left is not None:
                slices[path] = left
    return {**listing, FILE_SLICES: slices}


def _slices_after(
    table: HudiTable, slices: Sequence[FileSlice], stats: Sequence[WriteStat], replaced: frozenset[str]
) -> list[FileSlice] | None:
    """The slices of one partition; None if the statistics do not tell them."""
    left = {file_slice.file_id: file_slice for file_slice in slices if file_slice.file_id not in replaced}
    for stat in stats:
        changed = _written(table, left.get(stat.file_id), stat)
        if changed is None:
            return None
        left[stat.file_id] = changed
    columns, computed_meta = table.file_columns, table.computed_meta
    return [replace(left[file_id], columns=columns, computed_meta=computed_meta) for file_id in sorted(left)]


def _written(table: HudiTable, known: FileSlice | None, stat: WriteStat) -> FileSlice | None:
    """The slice with the file that was written; None if it is not known."""
    if stat.path is None:
        return None
    path, name = join(table.base_path, stat.path), stat.path.rpartition("/")[2]
    length = stat.file_size_in_bytes
    if (base := parse_base_file_name(name)) is not None:
        file = BaseFile(path, length, *base)
        return FileSlice(stat.partition_path or "", base.file_id, base.instant_time, file)
    log = parse_log_file_name(name)
    # With completion times the name does not tell the slice.
    if known is None or log is None or table.timeline.layout.has_completion_times:
        return None
    if log.base_instant_time != known.base_instant_time or known.compaction_instant is not None:
        return None
    others = [file for file in known.log_files if file.path != path]
    return replace(known, log_files=in_merge_order([*others, LogFile(path, length, *log)]))
