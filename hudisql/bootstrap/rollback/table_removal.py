"""The removal of a table: its files and metastore entries go, source files and files of others stay.

A removal is planned first (what is deleted, what stays) and then runs in a fixed order that can be resumed
after a kill: a marker file that names the table, `hoodie.properties` so that no reader sees half a table, the
data files, the metastore entries, the marker. `rollback_bootstrap` and DROP TABLE both end here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.lease.target_state import ROLLBACK_FILE, TargetState
from hudisql.bootstrap.rollback.table_sources import TableSources
from hudisql.catalog.metastore_table import ICEBERG_SUFFIX, NAME_SUFFIXES, hudi_base_path, iceberg_base_path
from hudisql.errors import RollbackRefusedError
from hudisql.format.paths.file_names import is_change_log, is_log_file, parse_base_file_name
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.table_properties import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import FileInfo, Storage, is_inside, join, parent_of
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, slots=True)
class DirectoryRemoval:
    """A top-level directory of the table ("" for files in the base path) and its files to delete.

    `is_whole` is True if the directory is deleted with everything in it; `kept` are files that do not belong
    to a Hudi table.
    """

    directory: str
    files: tuple[FileInfo, ...]
    kept: tuple[str, ...]
    is_whole: bool

    @property
    def bytes(self) -> int:
        """Bytes of the files to delete."""
        return sum(file.length for file in self.files)


@dataclass(frozen=True)
class TableRemovalPlan:
    """What a removal deletes. `names` and `entries` are `(database, name)`."""

    base_path: str
    state: TargetState
    names: tuple[tuple[str, str], ...]
    entries: tuple[tuple[str, str], ...]
    removals: tuple[DirectoryRemoval, ...]

    @property
    def kept_files(self) -> tuple[str, ...]:
        """The files in the table's directories that do not belong to a Hudi table; they stay."""
        return tuple(path for removal in self.removals for path in removal.kept)


def plan_removal(
    context: Context, base_path: str, state: TargetState, names: Iterable[tuple[str, str]]
) -> TableRemovalPlan:
    """List the files at `base_path` and the metastore entries under `names` with this location.

    Raises StorageError, MetastoreError.
    """
    ordered = tuple(sorted(set(names)))
    return TableRemovalPlan(
        base_path,
        state,
        ordered,
        tuple(_entries_of(context, base_path, ordered)),
        tuple(_plan_directories(context.storage, base_path, state)),
    )


def run_removal(context: Context, plan: TableRemovalPlan) -> None:
    """Delete the plan's files and entries; after a kill, planning and running again completes the removal.

    Raises StorageError, MetastoreError and its subclasses.
    """
    storage, base_path = context.storage, plan.base_path
    if plan.state is not TargetState.ROLLBACK:
        marker = {"tables": [list(name) for name in plan.names]}
        storage.write(join(base_path, ROLLBACK_FILE), json.dumps(marker).encode())
    # Readers fall back to the backup: it is deleted first, so that the table disappears in one step.
    storage.delete_file(join(base_path, PROPERTIES_BACKUP_FILE))
    storage.delete_file(join(base_path, PROPERTIES_FILE))
    with context.console.progress(f"Removing {base_path}, directories", len(plan.removals)) as progress:
        for removal in plan.removals:
            _remove(storage, base_path, removal)
            progress.advance()
    timeline = join(base_path, METADATA_DIRECTORY)
    marker_path = join(base_path, ROLLBACK_FILE)
    for entry in storage.list_directory(timeline):
        if entry.is_directory:
            storage.delete_directory(entry.path)
        elif entry.path != marker_path:
            storage.delete_file(entry.path)
    # The table's own entry goes last: repeating a killed DROP TABLE needs it.
    for database, name in reversed(plan.entries):
        context.metastore.drop_table(database, name)
    others = [entry for entry in storage.list_directory(base_path) if entry.path != timeline]
    storage.delete_directory(timeline if others else base_path)


def complete_removal(storage: Storage, base_path: str) -> None:
    """Delete the marker and empty directories that a removal leaves if it is killed at its end.

    Raises StorageError.
    """
    marker_path = join(base_path, ROLLBACK_FILE)
    timeline = join(base_path, METADATA_DIRECTORY)
    if storage.exists(marker_path) and [file.path for file in storage.list_files(timeline)] == [marker_path]:
        storage.delete_directory(timeline)


def check_source_is_outside(table: HudiTable, sources: TableSources) -> None:
    """Raise RollbackRefusedError if a source file lies in the table's directory."""
    storage = table.storage
    directories = {storage.qualify(table.properties.bootstrap_base_path or "")}
    directories |= {parent_of(file.path) for file in sources.files}
    resolved = storage.resolve(table.base_path)
    inside = sorted(directory for directory in directories if is_inside(storage.resolve(directory), resolved))
    if inside:
        raise RollbackRefusedError(
            f"source files lie inside the table's directory {table.base_path}: "
            f"{name_some(inside, 'directory')}",
            hint="nothing was removed; remove the files of the table by hand",
        )


def names_of_table(table: HudiTable) -> set[tuple[str, str]]:
    """The `(database, name)` in the table's own properties, if they name a database."""
    database = table.properties.database_name
    return {(database.lower(), table.name.lower())} if database else set()


def names_of_interrupted_removal(storage: Storage, base_path: str) -> set[tuple[str, str]]:
    """The names in the marker of an unfinished removal."""
    try:
        marker: Any = json.loads(storage.read(join(base_path, ROLLBACK_FILE)))
        return {(str(database), str(name)) for database, name in marker["tables"]}
    except (ValueError, TypeError, KeyError):
        # The kill truncated the marker: the table was complete then, and the caller gives its name again.
        return set()


def _entries_of(
    context: Context, base_path: str, names: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The metastore's entries under these names with exactly this location."""
    storage = context.storage
    resolved = storage.resolve(base_path)
    for database, name in names:
        for suffix in (*NAME_SUFFIXES, ICEBERG_SUFFIX):
            entry = context.metastore.get_table(database, name + suffix)
            location = None if entry is None else hudi_base_path(entry) or iceberg_base_path(entry)
            if location is not None and storage.resolve(storage.qualify(location)) == resolved:
                yield database, name + suffix


def _plan_directories(storage: Storage, base_path: str, state: TargetState) -> Iterator[DirectoryRemoval]:
    """The data files by top-level directory; `.hoodie` is deleted at the end."""
    root = storage.resolve(base_path)
    beside: list[FileInfo] = []
    for entry in storage.list_directory(base_path):
        if not entry.is_directory:
            beside.append(entry)
        elif entry.name != METADATA_DIRECTORY:
            infos, kept = _split_by_origin(storage.list_files(entry.path), state)
            # A symbolic link may lead out of the table.
            is_own = is_inside(storage.resolve(entry.path), root)
            yield DirectoryRemoval(entry.name, infos, kept, is_own and not kept)
    if beside:
        yield DirectoryRemoval("", *_split_by_origin(beside, state), False)


def _split_by_origin(
    files: Sequence[FileInfo], state: TargetState
) -> tuple[tuple[FileInfo, ...], tuple[str, ...]]:
    """The files of the table, and the paths of all others.

    Files of nested tables are others, and so are data files in directories without a partition marker; an
    interrupted removal may have deleted the markers.
    """
    nested = {parent_of(path) for file in files if (path := _timeline_of(file.path)) is not None}
    partitions = {parent_of(file.path) for file in files if _is_marker(file.name)}
    infos = tuple(
        file
        for file in files
        if _is_made_by_table(file.name, state)
        and (state is not TargetState.TABLE or parent_of(file.path) in partitions)
        and not any(is_inside(file.path, root) for root in nested)
    )
    known = {file.path for file in infos}
    return infos, tuple(file.path for file in files if file.path not in known)


def _timeline_of(path: str) -> str | None:
    """The directory `.hoodie` that a file lies in; None if it lies in none."""
    head, separator, _ = path.partition(f"/{METADATA_DIRECTORY}/")
    return f"{head}/{METADATA_DIRECTORY}" if separator else None


def _is_marker(name: str) -> bool:
    """True for a partition marker, in either format, and for an unfinished one of a killed writer."""
    return name.startswith(PARTITION_METADATA_FILE)


def _is_made_by_table(name: str, state: TargetState) -> bool:
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1:-4]
    if _is_marker(name):
        return True
    base = parse_base_file_name(name)
    if state is TargetState.RUN:
        return base is not None and base.instant_time in BOOTSTRAP_INSTANT_TIMES
    return base is not None or is_log_file(name) or is_change_log(name)


def _remove(storage: Storage, base_path: str, removal: DirectoryRemoval) -> None:
    if removal.is_whole:
        storage.delete_directory(join(base_path, removal.directory))
        return
    # A symbolic link may lead out of the table: such files are not the table's.
    root = storage.resolve(base_path)
    storage.delete_files([file.path for file in removal.files if is_inside(storage.resolve(file.path), root)])
