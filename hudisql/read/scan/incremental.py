"""Incremental scans: the file groups that a window's commits wrote, and only their new rows.

Follows `IncrementalRelation` and `MergeOnReadIncrementalRelation` of Hudi 0.15. Rows that a compaction or
clustering moved keep their commit times, so they are not changes of that commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hudisql.errors import UnsupportedTableError
from hudisql.format.schema.meta_columns import COMMIT_TIME
from hudisql.read.files.predicates import And, Comparison, In, Not, Predicate
from hudisql.storage import join
from hudisql.table.file_slice import FileSlice
from hudisql.table.history.past_state import check_past_state, state_gone_error
from hudisql.table.history.timeline_window import ChangedGroups, TimelineWindow, changed_groups
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions, partition_of
from hudisql.table.partitions.path_glob import glob_pattern
from hudisql.table.timeline.replaced_groups import replaced_file_groups


@dataclass(frozen=True)
class IncrementalRead:
    """The rows of a window: `groups` are its written file groups, `path_glob` selects partition paths."""

    window: TimelineWindow
    groups: ChangedGroups
    path_glob: str = ""

    @property
    def predicate(self) -> Predicate:
        """The predicate that selects the rows of the window's commits."""
        moved = self.groups.moved
        if self.window.by_transition_time:
            written = self.window.instant_times - moved
            return In((COMMIT_TIME,), tuple(sorted(written)))
        parts: list[Predicate] = [
            Comparison((COMMIT_TIME,), ">", self.window.begin),
            Comparison((COMMIT_TIME,), "<=", self.window.as_of),
        ]
        if moved:
            parts.append(Not(In((COMMIT_TIME,), tuple(sorted(moved)))))
        return And(tuple(parts))

    @property
    def own_instants(self) -> frozenset[str] | None:
        """The commits whose rows are merged; None if all rows are merged and filtered afterwards."""
        return self.window.instant_times - self.groups.moved if self.window.merges_own_records else None

    @property
    def condition(self) -> str:
        """`predicate` as SQL text."""
        moved = self.groups.moved
        if self.window.by_transition_time:
            written = sorted(self.window.instant_times - moved)
            return f"{COMMIT_TIME} IN ({_texts(written)})" if written else "false"
        bounds = f"{COMMIT_TIME} > '{self.window.begin}' AND {COMMIT_TIME} <= '{self.window.as_of}'"
        return f"{bounds} AND {COMMIT_TIME} NOT IN ({_texts(sorted(moved))})" if moved else bounds

    def partitions(self, table: HudiTable) -> list[TablePartition]:
        """The partitions that the window's commits wrote into."""
        if self.window.is_open:
            return list_partitions(table)
        return [partition_of(table, path) for path, groups in sorted(self.groups.versions.items()) if groups]

    def select(
        self, table: HudiTable, partitions: Sequence[str], slices: Collection[FileSlice]
    ) -> list[FileSlice]:
        """The slices of `partitions` as of the window's end that may hold its rows.

        Raises NoSuchStateError if files that the window's commits wrote are gone.
        """
        if self.window.is_open:
            check_past_state(table, self.window.as_of, partitions, slices, wanted=set)
            begin = "" if self.window.by_transition_time else self.window.begin
            chosen = [
                file_slice
                for file_slice in slices
                if file_slice.base_instant_time > begin or file_slice.log_files
            ]
        else:
            chosen = [
                file_slice
                for file_slice in slices
                if file_slice.file_id in self.groups.versions.get(file_slice.partition_path, {})
            ]
            self._check_files(table, partitions, chosen)
        return [file_slice for file_slice in chosen if _matches(file_slice, self.path_glob)]

    def _check_files(
        self, table: HudiTable, partitions: Sequence[str], slices: Collection[FileSlice]
    ) -> None:
        found = {file_slice.file_group: file_slice.base_instant_time for file_slice in slices}
        lost = {
            (partition, file_id)
            for partition in partitions
            for file_id, version in self.groups.versions.get(partition, {}).items()
            if (partition, file_id) not in found or found[partition, file_id] < version
        }
        if lost:
            lost -= replaced_file_groups(table, self.window.as_of)
        if lost:
            partition, file_id = min(lost)
            raise state_gone_error(
                table,
                self.window.as_of,
                f"files of {len(lost)} file groups that were written up to then were deleted, such as "
                f"{join(partition, file_id) if partition else file_id}",
                sorted({partition for partition, _ in lost}),
            )


def check_rows_tell_their_commit(table: HudiTable) -> None:
    """Raise UnsupportedTableError for a table without meta columns."""
    if not table.properties.populate_meta_fields:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} keeps no meta columns (hoodie.populate.meta.fields=false): "
            "its rows do not name the commit that wrote them",
            hint="compare two states: SELECT … TIMESTAMP AS OF … EXCEPT SELECT … TIMESTAMP AS OF …",
        )


def incremental_read(table: HudiTable, window: TimelineWindow, path_glob: str = "") -> IncrementalRead:
    """Plan the scan of a window; reads the window's commits.

    `path_glob` is Hudi's `hoodie.datasource.read.incr.path.glob`. Raises UnsupportedTableError for a table
    without meta columns, CorruptTableError, StorageError.
    """
    check_rows_tell_their_commit(table)
    return IncrementalRead(window, changed_groups(table, window), path_glob)


def _texts(instant_times: Sequence[str]) -> str:
    return ", ".join(f"'{instant_time}'" for instant_time in instant_times)


def _matches(file_slice: FileSlice, path_glob: str) -> bool:
    if not path_glob:
        return True
    pattern = glob_pattern("*" + path_glob)
    files = [file_slice.base_file] if file_slice.base_file is not None else list(file_slice.log_files)
    return any(pattern.fullmatch(file.path) for file in files)
