"""File slices of timeline layout 2, in which a log file's name has the instant of the commit that wrote it.

Follows `HoodieFileGroup.getBaseInstantTime` of Hudi 1.2: a log file belongs to the newest base file, or
pending compaction of its group, that was requested before the log's commit was completed. Names decide
nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.instant import COMPACTION, Instant, InstantState
from hudisql.table.hudi_table import HudiTable
from hudisql.table.slicing.file_groups import FileGroupVersions, FileVersion
from hudisql.table.timeline.completion_times import completion_times_of_writes
from hudisql.table.timeline.requested_plans import planned_file_groups


@dataclass(frozen=True)
class CompletionSlicing:
    """Moves the log files of a table from the versions in their names to the versions that they belong to.

    Files of log commits that are not completed are left out. Completion times are looked up for as few
    commits as possible, since those of archived commits are read from storage.
    """

    table: HudiTable
    compactions: Mapping[FileGroup, str]
    _completions: dict[str, str] = field(default_factory=dict)

    def slice_partition(
        self, partition_path: str, groups: Mapping[str, FileGroupVersions]
    ) -> dict[str, FileGroupVersions]:
        """`slice_partitions` of one partition."""
        return self.slice_partitions({partition_path: groups})[partition_path]

    def slice_partitions(
        self, partitions: Mapping[str, Mapping[str, FileGroupVersions]]
    ) -> dict[str, dict[str, FileGroupVersions]]:
        """The versions of the partitions' file groups by base instant; `partitions` has the versions by file
        names.

        Raises CorruptTableError, StorageError.
        """
        bases = {path: self._base_instants(path, groups) for path, groups in partitions.items()}
        self._look_up(
            {
                time
                for path, groups in partitions.items()
                for file_id, versions in groups.items()
                for time, version in versions.items()
                if version.log_files
                and bases[path][file_id]
                and _goes_by_completion(time, bases[path][file_id])
            }
        )
        return {
            path: {
                file_id: self._sliced(versions, bases[path][file_id]) for file_id, versions in groups.items()
            }
            for path, groups in partitions.items()
        }

    def _base_instants(
        self, partition_path: str, groups: Mapping[str, FileGroupVersions]
    ) -> dict[str, list[str]]:
        """The base instants of each file group, oldest first."""
        timeline = self.table.timeline
        bases: dict[str, list[str]] = {}
        for file_id, versions in groups.items():
            found = {
                time for time, version in versions.items() if version.base_files and timeline.is_visible(time)
            }
            compaction = self.compactions.get((partition_path, file_id))
            bases[file_id] = sorted(found | ({compaction} if compaction else set()))
        return bases

    def _look_up(self, instant_times: Collection[str]) -> None:
        missing = set(instant_times) - self._completions.keys()
        if missing:
            known = completion_times_of_writes(self.table, missing)
            self._completions.update((instant_time, known.get(instant_time, "")) for instant_time in missing)

    def _sliced(self, versions: FileGroupVersions, bases: list[str]) -> FileGroupVersions:
        sliced = {
            time: FileVersion(list(version.base_files), change_logs=version.change_logs)
            for time, version in versions.items()
            if version.base_files
        }
        for time in sorted(versions):
            logs = versions[time].log_files
            if not logs or not self.table.timeline.is_visible(time):
                continue
            base = self._base_instant(time, bases)
            if base is None:
                bases, base = sorted({*bases, time}), time
            sliced.setdefault(base, FileVersion()).log_files.extend(logs)
        return sliced

    def _base_instant(self, time: str, bases: list[str]) -> str | None:
        """The base instant of the slice of a commit's log file; None if the log file begins a slice."""
        if not bases:
            return None
        completion = time
        if _goes_by_completion(time, bases):
            # A commit without a known completion time counts as just completed.
            completion = self._completions.get(time) or bases[-1]
        place = bisect_right(bases, completion)
        return bases[place - 1] if place else None


def _goes_by_completion(time: str, bases: list[str]) -> bool:
    # Whenever the commit was completed, the slice has the newest base instant before it. Instants of
    # bootstraps are shorter than others: for them Hudi compares the commit's own time.
    return bases[-1] > time and len(bases[-1]) == len(time)


def completion_slicing(table: HudiTable) -> CompletionSlicing:
    """The slicing of a table with layout 2. Reads the plans of pending compactions.

    Raises CorruptTableError, StorageError.
    """
    compactions: dict[FileGroup, str] = {}
    for instant_time in sorted(table.timeline.pending_compactions):
        planned = planned_file_groups(table, Instant(instant_time, COMPACTION, InstantState.REQUESTED))
        compactions.update(dict.fromkeys(planned, instant_time))
    return CompletionSlicing(table, compactions)
