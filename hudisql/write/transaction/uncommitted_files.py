"""Delete data files that no commit contains: those of failed commits and of discarded task attempts.

Uncommitted base files are invisible and are deleted. In layout 1 of the timeline the name of a log file does
not contain its commit: readers and Apache Hudi's compaction plans may already refer to the file and would
fail if it were deleted, so it keeps its name and loses its rows. It is not left empty, since Hudi makes no
metadata table of a table with an empty file (`HoodieMetadataPayload.createPartitionFilesRecord`). In layout 2
a log file belongs to one commit, and is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hudisql.format.log_file.log_block import LOG_WITHOUT_ROWS
from hudisql.format.paths.file_names import is_log_file
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.timeline_layout import TimelineLayout
from hudisql.storage import Storage, join
from hudisql.write.handle.log_file import instants_of_blocks
from hudisql.write.handle.log_naming import log_naming
from hudisql.write.transaction.markers import delete_markers, delete_some_markers, marked_files


def delete_uncommitted_files(storage: Storage, paths: Collection[str], layout: TimelineLayout) -> None:
    """Delete these data files, if they exist; in layout 1 log files lose their rows. Raises StorageError."""
    keeps_logs = not log_naming(layout).is_new_file
    kept = [path for path in paths if keeps_logs and is_log_file(path)]
    storage.delete_files([path for path in paths if not (keeps_logs and is_log_file(path))])
    infos = storage.infos(kept)
    storage.write_files([info.path for info in infos if info is not None], LOG_WITHOUT_ROWS)


def delete_unnamed_files(
    storage: Storage, base_path: str, instant_time: str, named: Collection[str], layout: TimelineLayout
) -> bool:
    """Delete the files with a marker of this instant that are not among the paths `named`.

    Hudi's `reconcileAgainstMarkers`. The markers of the files that existed are deleted, too. Returns False if
    some did not exist: a running task attempt may still create such a file, so its marker must stay. Raises
    CorruptTableError, StorageError.
    """
    marked = marked_files(storage, base_path, instant_time)
    unnamed = sorted(marked.keys() - set(named))
    deleted = delete_files_of(storage, unnamed, instant_time, layout)
    delete_some_markers(storage, base_path, instant_time, [marked[path] for path in deleted])
    return len(deleted) == len(unnamed)


def delete_files_of(
    storage: Storage, paths: Sequence[str], instant_time: str, layout: TimelineLayout
) -> list[str]:
    """`delete_uncommitted_files`, but for log files with blocks of other instants.

    Returns those that existed. Raises CorruptTableError, StorageError.
    """
    existing = [info.path for info in storage.infos(paths) if info is not None]
    own = [path for path in existing if not holds_blocks_of_others(storage, path, instant_time)]
    delete_uncommitted_files(storage, own, layout)
    return existing


def delete_late_files(
    storage: Storage, base_path: str, instant_time: str, named: Collection[str], layout: TimelineLayout
) -> None:
    """`delete_unnamed_files` once more after the completion, then all markers if no file can come later.

    A task attempt may have started a file since the last check. If its writer dies before its own check, the
    next commit finds the file by its marker.
    """
    if delete_unnamed_files(storage, base_path, instant_time, named, layout):
        delete_markers(storage, base_path, instant_time)


def named_files(base_path: str, metadata: CommitMetadata) -> set[str]:
    """The paths of the data files and change logs that a commit's metadata names."""
    named = {join(base_path, stat.path) for stat in metadata.write_stats if stat.path}
    named |= {join(base_path, path) for stat in metadata.write_stats for path in stat.cdc_stats or ()}
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            if stat.log_write is not None:
                named |= {join(base_path, partition, name) for name in stat.log_write.log_files}
    return named


def holds_blocks_of_others(storage: Storage, path: str, instant_time: str) -> bool:
    """True if this is a log file with blocks of other instants, too. Raises StorageError."""
    return is_log_file(path) and bool(instants_of_log_file(storage, path) - {instant_time})


def instants_of_log_file(storage: Storage, path: str) -> frozenset[str]:
    """The instants that wrote the blocks of a log file; none if it does not exist. Raises StorageError."""
    if not storage.exists(path):
        return frozenset()
    return instants_of_blocks(storage, path)
