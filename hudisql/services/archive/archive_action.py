"""Archiving: moves old instants from the active timeline into archive files.

Follows `HoodieTimelineArchiver` of Hudi 0.15; with timeline layout 2 `history_files` writes the files. The
archive file is complete before the first instant is deleted: after a crash some instants are in both places,
which readers count once; the next run archives them again. The pending states of an instant are deleted
first, so that it never looks pending again. Completed states are deleted in ascending order: what is older
than the active timeline counts as committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from hudisql.errors import CorruptTableError, PathExistsError, UnsupportedTableError
from hudisql.format.avro.avro_container import decode_container
from hudisql.format.timeline.archived_log_files import (
    ArchivedEntry,
    archive_file_name,
    archive_file_number,
    archived_entry,
    encode_archive_file,
)
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.format.timeline.timeline_layout import archive_directory
from hudisql.services.archive.archive_plan import ArchiveOptions, compacted_until, plan_archive
from hudisql.services.archive.history_files import append_to_history, history_instants
from hudisql.services.archive.metadata_archive_plan import plan_metadata_archive
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.partitions.resynced_sources import merge_archived_lists
from hudisql.table.properties.written_versions import ARCHIVE
from hudisql.table.timeline.archived_timeline import list_archive_files
from hudisql.table.timeline.completion_times import instant_time_of_millis
from hudisql.table.timeline.instant_files import read_instants
from hudisql.write.metadata_table.unkept_metadata_table import drop_unless_kept, has_unkept
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.markers import delete_markers, marked_instants
from hudisql.write.transaction.pending_rollbacks import reopened_under_lock
from hudisql.write.transaction.writable_tables import check_writable

_MERGE_PLAN = "mergeArchivePlan"


def archive_table(table: HudiTable, options: ArchiveOptions, concurrency: Concurrency) -> list[Instant]:
    """Archive the instants of the plan, oldest first, then those of the table's metadata table.

    Returns the table's own. Raises UnsupportedTableError, CorruptTableError, TableLockedError, StorageError.
    """
    check_writable(table, ARCHIVE)
    with reopened_under_lock(table, concurrency) as (table, held):
        chosen = plan_archive(table, options)
        archive_instants(table, chosen, held.check)
        if chosen:
            if table.properties.has_register_only_partitions:
                merge_archived_lists(table)
            _archive_metadata_table(table.reopened(), options, held.check)
    return chosen


def _archive_metadata_table(
    table: HudiTable, options: ArchiveOptions, check_lock: Callable[[], None]
) -> None:
    """Archive the timeline of a metadata table that hudisql keeps; Hudi archives those of the other ones."""
    metadata = find_kept(table)
    if metadata is not None:
        _move_to_archive(metadata.own, plan_metadata_archive(metadata, options), check_lock)


def archive_instants(table: HudiTable, chosen: list[Instant], check_lock: Callable[[], None]) -> None:
    """Archive these completed instants, oldest first, under the caller's lock.

    Raises UnsupportedTableError, CorruptTableError, StorageError.
    """
    if not table.timeline.layout.has_completion_times:
        _check_compacted_in_metadata_table(table, chosen)
    elif chosen:
        drop_unless_kept(table)
    _move_to_archive(table, chosen, check_lock)


def _move_to_archive(table: HudiTable, chosen: list[Instant], check_lock: Callable[[], None]) -> None:
    if not chosen:
        return
    states = _states_of(table, chosen)
    if table.timeline.layout.has_completion_times:
        pending = [instant for files in states.values() for instant, _ in files.values()]
        instants = history_instants(table, chosen, pending)
        check_lock()
        append_to_history(table, instants)
    else:
        entries = [entry for instant in chosen for entry in _entries(table, states[_key(instant)])]
        check_lock()
        _write(table, entries)
    _delete(table, chosen, states)


def _check_compacted_in_metadata_table(table: HudiTable, chosen: list[Instant]) -> None:
    """In layout 1 records in log files of a metadata table count as long as their instants are active."""
    if has_unkept(table):
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has a metadata table that hudisql does not keep: Hudi "
            "archives an instant when the metadata table has compacted it",
            hint="let Apache Hudi archive, or turn the metadata table off for all writers "
            "(hoodie.metadata.enable=false)",
        )
    bound = compacted_until(table)
    if bound is not None and any(instant.timestamp >= bound for instant in chosen):
        raise UnsupportedTableError(
            f"the metadata table of the Hudi table at {table.base_path} has not compacted all instants up to "
            f"{chosen[-1].timestamp}",
            hint="its changes compact it, or CALL delete_metadata_table drops it",
        )


_States = dict[InstantState, tuple[Instant, FileInfo]]


def _key(instant: Instant) -> tuple[str, str]:
    return instant.timestamp, instant.completed_action


def _states_of(table: HudiTable, chosen: Iterable[Instant]) -> dict[tuple[str, str], _States]:
    """The files of the instants' states."""
    wanted = {_key(instant) for instant in chosen}
    found: defaultdict[tuple[str, str], _States] = defaultdict(dict)
    layout = table.timeline.layout
    for entry in table.storage.list_directory(layout.timeline_directory(table.base_path)):
        instant = None if entry.is_directory else layout.parse_file_name(entry.name)
        if instant is not None and _key(instant) in wanted:
            found[_key(instant)][instant.state] = (instant, entry)
    return found


def _entries(table: HudiTable, states: _States) -> list[ArchivedEntry]:
    """An entry for each state, requested first."""
    listed = [states[state] for state in sorted(states)]
    contents = read_instants(table, [instant for instant, _ in listed])
    return [
        archived_entry(instant, content, instant_time_of_millis(table, file.modification_time_ms), file.path)
        for (instant, file), content in zip(listed, contents, strict=True)
    ]


def _write(table: HudiTable, entries: list[ArchivedEntry]) -> None:
    """Create a new archive file, after all existing ones."""
    directory = archive_directory(table.base_path, table.properties.archive_directory)
    content = encode_archive_file(entries)
    number = max([_merged_number(table, directory), *(number for number, _ in list_archive_files(table))])
    while True:
        number += 1
        try:
            table.storage.create(join(directory, archive_file_name(number)), content)
            return
        except PathExistsError:
            # Another process archives without a lock: its instants are in another file.
            continue


def _merged_number(table: HudiTable, directory: str) -> int:
    """The number of the file into which a killed Apache Hudi was merging others; 0 if there is none.

    Hudi may delete that file when it continues.
    """
    path = join(directory, _MERGE_PLAN)
    if not table.storage.exists(path):
        return 0
    try:
        name = str(decode_container(table.storage.read(path), path)["mergedArchiveFileName"])
    except (CorruptTableError, KeyError):
        return 0
    return archive_file_number(name) or 0


def _delete(table: HudiTable, chosen: list[Instant], states: dict[tuple[str, str], _States]) -> None:
    storage = table.storage
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        storage.delete_files(
            [states[_key(instant)][state][1].path for instant in chosen if state in states[_key(instant)]]
        )
    for instant_time in {instant.timestamp for instant in chosen} & set(
        marked_instants(storage, table.base_path)
    ):
        delete_markers(storage, table.base_path, instant_time)
    for instant in sorted(chosen):
        storage.delete_file(table.instant_path(instant))
