"""What a commit does to each file group, for the indexes whose records follow from the rows of its files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """The slices of a commit's new files in one file group, none if it replaces the group.

    `before` is the slice before the commit, None if there is none or if it was not asked for.
    """

    group: FileGroup
    written: tuple[FileSlice, ...]
    before: FileSlice | None

    @property
    def base(self) -> FileSlice | None:
        """The slice of the new base file."""
        return next((file_slice for file_slice in self.written if file_slice.base_file is not None), None)

    @property
    def logs(self) -> FileSlice:
        """A slice of all new log files, in order."""
        logs = sorted(
            (log_file for file_slice in self.written for log_file in file_slice.log_files),
            key=lambda log_file: log_file.version,
        )
        return replace(self.written[0], log_files=tuple(logs))


def group_writes(
    table: HudiTable, commit: CommitMetadata, written: Sequence[FileSlice], *, before_logs: bool
) -> list[GroupWrite]:
    """The writes of a commit by its files, which are `written`, each as a slice of its own.

    None of a compaction, which changes no rows. Lists the partitions of replaced file groups and of those
    with a new base file, with `before_logs` also of those with new log files. Raises CorruptTableError,
    StorageError.
    """
    if commit.compacted:
        return []
    replaced = {
        (path, file_id)
        for path, file_ids in (commit.partition_to_replace_file_ids or {}).items()
        for file_id in file_ids
    }
    of_group: dict[FileGroup, list[FileSlice]] = defaultdict(list)
    for file_slice in written:
        of_group[file_slice.file_group].append(file_slice)
    with_bases = {file_slice.partition_path for file_slice in written if file_slice.base_file is not None}
    followed = {
        path
        for path, stats in commit.partition_to_write_stats.items()
        if path in with_bases and any(stat.prev_commit != NO_COMMIT for stat in stats)
    }
    if before_logs:
        followed |= {file_slice.partition_path for file_slice in written if file_slice.base_file is None}
    paths = sorted({path for path, _ in replaced} | followed)
    before = {file_slice.file_group: file_slice for file_slice in file_slices_at(table, paths)}
    return [
        *(GroupWrite(group, tuple(files), before.get(group)) for group, files in of_group.items()),
        *(GroupWrite(group, (), before[group]) for group in sorted(replaced) if group in before),
    ]
