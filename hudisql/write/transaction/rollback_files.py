"""The data files that a rollback deletes, and the log files whose blocks it makes invisible.

Follows `MarkerBasedRollbackStrategy` (failed writes) and `ListingBasedRollbackStrategy` (completed instants)
of Hudi 0.15. Log files of slices that a completed instant began are deleted with their base file; log files
of older slices stay, since readers and compaction plans may refer to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hudisql.errors import CorruptTableError, NoSuchPathError, RollbackRefusedError
from hudisql.format.paths.file_names import (
    is_change_log,
    is_log_file,
    parse_base_file_name,
    parse_change_log_name,
    parse_log_file_name,
)
from hudisql.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata
from hudisql.format.timeline.instant import COMPACTION, Instant
from hudisql.storage import join, parent_of
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.requested_plans import planned_file_groups
from hudisql.write.handle.log_naming import log_naming
from hudisql.write.transaction.markers import marked_files, recorded_data_path
from hudisql.write.transaction.timeline_files import completed_path
from hudisql.write.transaction.timeline_payloads import (
    RequestedRollback,
    RollbackFiles,
)
from hudisql.write.transaction.uncommitted_files import instants_of_log_file


@dataclass(frozen=True, slots=True)
class InstantFiles:
    """The files of one instant, as paths.

    `deleted` are base files and log files of slices that the instant began; `own_logs` have blocks of
    the instant alone and lose their rows; `shared` log files also have blocks of other instants, so a
    rollback block is appended.
    """

    deleted: frozenset[str]
    own_logs: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()

    def by_partition(self, table: HudiTable) -> dict[str, RollbackFiles]:
        """The files by partition, as in plans and metadata of rollbacks. Raises StorageError."""
        found: dict[str, RollbackFiles] = defaultdict(RollbackFiles)
        for path in sorted(self.deleted):
            found[self.partition_of(table, path)].deleted.append(table.storage.hadoop_uri(path))
        logs = sorted(self.own_logs | self.shared)
        for path, info in zip(logs, table.storage.infos(logs), strict=True):
            if info is not None:
                uri = table.storage.hadoop_uri(path)
                found[self.partition_of(table, path)].log_files[uri] = info.length
        return found

    @staticmethod
    def partition_of(table: HudiTable, path: str) -> str:
        """The partition path of a data file."""
        return parent_of(path)[len(table.base_path) :].strip("/")


def find_files(
    table: HudiTable, pending: Instant, plans: Sequence[RequestedRollback], *, undoes: bool
) -> InstantFiles:
    """The files of the instant `pending`, which may be completed meanwhile if the rollback `undoes` it.

    They come from its markers, from the plans of interrupted rollbacks, and with `undoes` from the commit's
    metadata and the listing of the partitions that it touched. Raises CorruptTableError for files outside of
    the table, RollbackRefusedError for log files that an upgraded table's commits share, StorageError.
    """
    base_path, instant_time = table.base_path, pending.timestamp
    source = f"the plan of a rollback of {instant_time}"

    def planned(names: Iterable[tuple[str, str]]) -> set[str]:
        return {recorded_data_path(base_path, partition, name, source) for partition, name in names}

    marked = set(marked_files(table.storage, base_path, instant_time))
    deleted = {path for plan in plans for path in planned(plan.deleted)}
    deleted |= {path for path in marked if not is_log_file(path)}
    logs = {path for plan in plans for path in planned(plan.log_files)} | (marked - deleted)
    if undoes:
        metadata = _completed_metadata(table, pending)
        named = _named_paths(base_path, metadata, instant_time)
        deleted |= {path for path in named if not is_log_file(path)}
        touched = {partition for partition, stats in metadata.partition_to_write_stats.items() if stats}
        if pending.action == COMPACTION:
            touched |= {partition for partition, _ in planned_file_groups(table, pending)}
        deleted |= _list_files(table, sorted(touched), instant_time)
        logs |= {path for path in named if is_log_file(path)}
    if log_naming(table.timeline.layout).is_new_file:
        own = {path for path in logs if _base_instant(path) == instant_time}
        return InstantFiles(frozenset(deleted | own | _version_6_logs(table, logs - own, instant_time)))
    own_logs, shared = _split_log_files(table, logs - deleted, instant_time)
    return InstantFiles(frozenset(deleted), frozenset(own_logs), frozenset(shared))


def _version_6_logs(table: HudiTable, logs: Collection[str], instant_time: str) -> set[str]:
    """Those of the log files, named after earlier instants, that the instant has written before an upgrade.

    A log file that also has blocks of other instants is refused: no rollback block follows a log file that
    is older than the upgrade.
    """
    own, shared = _split_log_files(table, logs, instant_time)
    if shared:
        raise RollbackRefusedError(
            f"{min(shared)} holds rows of {instant_time} and of other commits, written before the table was "
            "upgraded, so that its rows cannot be rolled back alone",
            hint="delete or change them by a statement",
        )
    return own


def _completed_metadata(table: HudiTable, pending: Instant) -> CommitMetadata:
    """The commit's metadata; empty if the commit is not complete."""
    try:
        path = completed_path(table, pending)
        if path is not None:
            return read_commit_metadata(table.storage, path)
    except NoSuchPathError:
        pass
    return CommitMetadata(partition_to_write_stats={})


def _named_paths(base_path: str, metadata: CommitMetadata, instant_time: str) -> set[str]:
    """The files that the metadata names. Hudi's lists of log files contain those of earlier commits, too."""
    source = f"the metadata of the commit {instant_time}"
    named = set()
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            listed = stat.log_write.log_files if stat.log_write is not None else ()
            # Hudi 1.2 lists the change log of a compaction among the log files of the slice.
            logs = [name for name in listed if not is_change_log(name)]
            paths = [*([stat.path] if stat.path else []), *(stat.cdc_stats or ())]
            names = [*logs, *(path.rpartition("/")[2] for path in paths)]
            named |= {recorded_data_path(base_path, partition, name, source) for name in names}
    foreign = [path for path in named if not is_log_file(path) and _base_instant(path) != instant_time]
    if foreign:
        raise CorruptTableError(
            f"{source} names {foreign[0]}, which is a file of another commit",
            hint="nothing was deleted; find out who wrote the commit's metadata",
        )
    return named


def _base_instant(path: str) -> str | None:
    """The instant that began the file's slice, as its name says."""
    name = path.rpartition("/")[2]
    if (base := parse_base_file_name(name)) is not None:
        return base.instant_time
    log = parse_log_file_name(name) or parse_change_log_name(name)
    return None if log is None else log.base_instant_time


def _list_files(table: HudiTable, partitions: Sequence[str], instant_time: str) -> set[str]:
    """All data files in these partitions of slices that the instant began."""
    # A rollback that was interrupted may have deleted the last file, and with it the directory.
    listings = table.storage.list_directories(
        [join(table.base_path, partition) for partition in partitions], missing_ok=True
    )
    return {
        entry.path
        for entries in listings
        for entry in entries
        if not entry.is_directory and _base_instant(entry.path) == instant_time
    }


def _split_log_files(
    table: HudiTable, paths: Collection[str], instant_time: str
) -> tuple[set[str], set[str]]:
    """The log files without blocks of other instants, and those with blocks of others, too."""
    own_logs, shared = set(), set()
    for path in sorted(paths):
        writers = instants_of_log_file(table.storage, path)
        if not writers - {instant_time}:
            own_logs.add(path)
        elif instant_time in writers:
            shared.add(path)
    return own_logs, shared
