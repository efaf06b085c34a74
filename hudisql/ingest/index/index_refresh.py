"""What commits of other writers changed since an index was last up to date.

Compactions change no keys of a file group, but they may end the slice to which others appended keys: such a
group is read as a whole. Follows the rules by which Hudi 0.15 makes
files visible (`timeline`): instants may complete in another order than they began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import COMMIT_ACTIONS, Instant
from hudisql.ingest.index.partition_index import PartitionIndex
from hudisql.ingest.index.rebuild import add_slices
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.instant_files import read_commits

_COMPACT = "COMPACT"


@dataclass(frozen=True, slots=True)
class TimelinePosition:
    """The commits that an index has; the writes that were pending and the latest instant of all when the
    timeline was last looked at.
    """

    commits: frozenset[Instant] = frozenset()
    pending: frozenset[str] = frozenset()
    latest: str = ""

    def after(self, commit: Instant) -> TimelinePosition:
        """The position that includes a commit whose keys were published.

        `latest` stays: what others began before the commit has not been looked at.
        """
        return replace(self, commits=self.commits | {commit}, pending=self.pending - {commit.timestamp})


@dataclass(slots=True)
class ChangedFileGroups:
    """The file ids of one partition that commits replaced, rewrote, appended logs to, or compacted.

    A file id may be among several.
    """

    replaced: set[str] = field(default_factory=set)
    rewritten: set[str] = field(default_factory=set)
    appended: set[str] = field(default_factory=set)
    compacted: set[str] = field(default_factory=set)

    @property
    def read_as_a_whole(self) -> set[str]:
        """Those whose keys are not all in the log files of the slice as it is now."""
        return self.rewritten | (self.appended & self.compacted)


def position_of(timeline: Timeline) -> TimelinePosition:
    """The position of an index that is built now."""
    pending = frozenset(instant.timestamp for instant in timeline.pending)
    return TimelinePosition(frozenset(timeline.commits), pending, timeline.latest_time or "")


def changes_since(table: HudiTable, position: TimelinePosition) -> Mapping[str, ChangedFileGroups] | None:
    """What changed in each partition, by path; None if the timeline no longer has it: rebuild then.

    That is so after a rollback or restore of commits that the index knows, and where commits that it does not
    know may have been archived. Raises CorruptTableError, StorageError.
    """
    timeline = table.timeline
    if not _tells_all(timeline, position):
        return None
    new = [commit for commit in timeline.commits if commit not in position.commits]
    changed: dict[str, ChangedFileGroups] = defaultdict(ChangedFileGroups)
    for metadata in read_commits(table, new):
        if metadata.compacted or metadata.operation_type == _COMPACT:
            for path, stats in metadata.partition_to_write_stats.items():
                changed[path].compacted.update(stat.file_id for stat in stats)
        else:
            _add_changes(changed, metadata)
    return {
        path: groups
        for path, groups in changed.items()
        if groups.replaced or groups.rewritten or groups.appended
    }


def _tells_all(timeline: Timeline, position: TimelinePosition) -> bool:
    first = timeline.first_active_time
    if first is None:
        return not position.commits
    if first > position.latest:
        return False
    active = {
        instant.timestamp for instant in timeline.instants if instant.completed_action in COMMIT_ACTIONS
    }
    known = {commit.timestamp for commit in position.commits}
    is_undone = any(instant_time >= first and instant_time not in active for instant_time in known)
    is_archived = any(instant < first and instant not in active for instant in position.pending)
    return not is_undone and not is_archived


def _add_changes(changed: dict[str, ChangedFileGroups], metadata: CommitMetadata) -> None:
    for path, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        changed[path].replaced.update(file_ids)
    for path, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            name = (stat.path or "").rpartition("/")[2]
            is_log = parse_log_file_name(name) is not None
            (changed[path].appended if is_log else changed[path].rewritten).add(stat.file_id)


def apply_changes(table: HudiTable, index: PartitionIndex, changed: ChangedFileGroups) -> None:
    """Bring the index of a partition up to date by reading the changed file groups alone.

    After an error the index must be dropped.
    """
    slices = {file_slice.file_id: file_slice for file_slice in list_file_slices(table, [index.path], None)}
    whole = changed.read_as_a_whole
    index.drop_groups(changed.replaced | whole)
    add_slices(table, index, [slices[file_id] for file_id in sorted(whole) if file_id in slices])
    appended = sorted(changed.appended - whole)
    add_slices(table, index, [slices[file_id] for file_id in appended if file_id in slices], logs_alone=True)
