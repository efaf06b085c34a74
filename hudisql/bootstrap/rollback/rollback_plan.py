"""Rolling a bootstrap back: the table, its files and its metastore entries go; the source is never touched.

A rollback is a plan first (what goes, what would be lost, what stays) and then a fixed order that a killed
run can be taken up from: a mark that says what is being removed, `hoodie.properties` so that no reader sees
half a table, the files, the metastore entries, the mark. Left-overs of a killed bootstrap go the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.bootstrap.findings import name_some
from hudisql.bootstrap.rollback.table_sources import TableSources, describe_lost_sources, read_table_sources
from hudisql.bootstrap.target.protected_sources import refuse_touching_sources
from hudisql.bootstrap.target.target_state import (
    ROLLBACK_FILE,
    TargetState,
    directory_state,
    read_lease,
)
from hudisql.catalog.metastore_table import NAME_SUFFIXES, hudi_base_path
from hudisql.errors import (
    CorruptTableError,
    InvalidArgumentError,
    NoSuchTableError,
    RollbackRefusedError,
)
from hudisql.format.commit_metadata import read_commit_metadata
from hudisql.format.file_names import is_log_file, parse_base_file_name
from hudisql.format.instant import BOOTSTRAP_INSTANT_TIMES, WRITE_ACTIONS, Instant
from hudisql.format.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.table_properties import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE
from hudisql.format.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import FileInfo, Storage, is_inside, join, parent_of
from hudisql.table.hudi_table import HudiTable, open_table

if TYPE_CHECKING:
    from hudisql.context import Context

_DELETE_THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class LostCommit:
    """A later commit that a rollback would lose; row counts are None where the commit does not tell."""

    instant_time: str
    action: str
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None

    def __str__(self) -> str:
        if self.inserted is None:
            return f"{self.action} {self.instant_time}".strip()
        return (
            f"{self.action} {self.instant_time} ({self.inserted:,} rows inserted,"
            f" {self.updated or 0:,} updated, {self.deleted or 0:,} deleted)"
        )


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A top-level directory of the table ("" for files beside it) and its files that go.

    `is_whole` is True if the directory goes with all that is in it; `kept` are files that no Hudi table
    makes.
    """

    directory: str
    files: tuple[FileInfo, ...]
    kept: tuple[str, ...]
    is_whole: bool

    @property
    def bytes(self) -> int:
        """Bytes of the files that go."""
        return sum(file.length for file in self.files)


@dataclass(frozen=True)
class RollbackPlan:
    """What a rollback will do. `entries` are `(database, name)`; `in_the_way` is why only force can do it."""

    base_path: str
    state: TargetState
    names: tuple[tuple[str, str], ...]
    entries: tuple[tuple[str, str], ...]
    removals: tuple[RemovedFile, ...]
    lost: tuple[LostCommit, ...] = ()
    in_the_way: str | None = None

    def raise_if_refused(self) -> None:
        """Raise RollbackRefusedError if only force can run this plan."""
        refusal = self.describe_refusal("if that is meant to be: force => true; dry_run => true shows all")
        if refusal is not None:
            raise refusal

    def describe_refusal(self, hint: str) -> RollbackRefusedError | None:
        """The error that says why only force can run this plan; None if it needs no force."""
        return None if self.in_the_way is None else RollbackRefusedError(self.in_the_way, hint=hint)


def plan_rollback(context: Context, base_path: str, name: tuple[str, str] | None) -> RollbackPlan:
    """Look at what lies at `base_path` and in the metastore under `name` (database, table).

    Raises NoSuchTableError if nothing of a bootstrap is there, InvalidArgumentError if a table is there that
    no bootstrap made, RollbackRefusedError if source files lie inside, SourceProtectedError if those of
    another table do, CorruptTableError, StorageError.
    """
    storage = context.storage
    state = directory_state(storage, base_path)
    names = {name} if name is not None else set()
    refuse_touching_sources(context, [base_path], "a rollback would delete files", except_of=base_path)
    lost: tuple[LostCommit, ...] = ()
    in_the_way: str | None = None
    if state is TargetState.NOTHING:
        raise NoSuchTableError(
            f"there is no bootstrapped table at {base_path}, nor what a killed run left",
            hint="if the table lies elsewhere, give path => '<its directory>'",
        )
    if state is TargetState.TABLE:
        table = open_table(storage, base_path)
        _check_is_bootstrapped(table)
        sources = read_table_sources(table)
        _check_source_is_outside(table, sources)
        names |= _names_of(table)
        lost = tuple(_later_commits(table))
        in_the_way = _rows_in_the_way(table, sources, lost)
    elif state is TargetState.ROLLBACK:
        names |= _marked_names(storage, base_path)
    else:
        lease = read_lease(storage, base_path)
        names |= _split_name(lease.table) if lease is not None else set()
        if lease is not None and not lease.is_gone:
            in_the_way = f"the bootstrap that leases {base_path} may still be at work: {lease}"
    return RollbackPlan(
        base_path,
        state,
        tuple(sorted(names)),
        tuple(_entries_of(context, base_path, names)),
        tuple(_plan_removals(storage, base_path, state)),
        lost,
        in_the_way,
    )


def plan_purge(context: Context, base_path: str, name: tuple[str, str]) -> RollbackPlan:
    """What DROP TABLE … PURGE of `name` (database, table) removes: any table, whatever it holds.

    Also ends a removal that was killed. Raises NoSuchTableError if no table is there, RollbackRefusedError if
    a bootstrap's source files lie inside, SourceProtectedError for those of another table,
    CorruptTableError, StorageError.
    """
    storage = context.storage
    state = directory_state(storage, base_path)
    names = {name}
    refuse_touching_sources(
        context, [base_path], "DROP TABLE … PURGE would delete files", except_of=base_path
    )
    if state is TargetState.TABLE:
        table = open_table(storage, base_path)
        if table.is_bootstrapped:
            _check_source_is_outside(table, read_table_sources(table))
        names |= _names_of(table)
    elif state is TargetState.ROLLBACK:
        names |= _marked_names(storage, base_path)
    else:
        raise NoSuchTableError(
            f"there is no Hudi table at {base_path}", hint="DROP TABLE without PURGE removes the entry"
        )
    entries = tuple(_entries_of(context, base_path, names))
    removals = tuple(_plan_removals(storage, base_path, state))
    return RollbackPlan(base_path, state, tuple(sorted(names)), entries, removals)


def run_rollback(context: Context, plan: RollbackPlan) -> None:
    """Remove what the plan says; killed at any point, planning and running again ends the work.

    Raises StorageError, MetastoreError and its kin.
    """
    storage, base_path = context.storage, plan.base_path
    if plan.state is not TargetState.ROLLBACK:
        mark = {"tables": [list(name) for name in plan.names]}
        storage.write(join(base_path, ROLLBACK_FILE), json.dumps(mark).encode())
    # Readers fall back to the backup: it goes first, so that the table vanishes in one step.
    storage.delete_file(join(base_path, PROPERTIES_BACKUP_FILE))
    storage.delete_file(join(base_path, PROPERTIES_FILE))
    with context.console.progress(f"Removing {base_path}, directories", len(plan.removals)) as progress:
        for removal in plan.removals:
            _remove(storage, base_path, removal)
            progress.advance()
    timeline = join(base_path, METADATA_DIRECTORY)
    mark_path = join(base_path, ROLLBACK_FILE)
    for entry in storage.list_directory(timeline):
        if entry.is_directory:
            storage.delete_directory(entry.path)
        elif entry.path != mark_path:
            storage.delete_file(entry.path)
    # A table's own name goes last: by it a DROP TABLE … PURGE that was killed is run again.
    for database, name in reversed(plan.entries):
        context.metastore.drop_table(database, name, delete_data=False)
    others = [entry for entry in storage.list_directory(base_path) if entry.path != timeline]
    storage.delete_directory(timeline if others else base_path)


def _check_is_bootstrapped(table: HudiTable) -> None:
    if not table.is_bootstrapped:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} was not bootstrapped: its rows are nowhere else",
            hint="DROP TABLE removes its metastore entry",
        )


def _rows_in_the_way(table: HudiTable, sources: TableSources, lost: Sequence[LostCommit]) -> str | None:
    """Why a rollback would lose rows, if it would."""
    reasons = []
    if lost:
        commits = name_some([str(each) for each in lost], "commit")
        reasons.append(f"was written to after its bootstrap; lost would be {commits}")
    if gone := describe_lost_sources(table.storage, sources):
        reasons.append(f"may be all that is left of its rows: {gone}")
    return f"the table at {table.base_path} {'; and it '.join(reasons)}" if reasons else None


def _check_source_is_outside(table: HudiTable, sources: TableSources) -> None:
    """Raise if a source file lies in the table's directory: no rollback may come near it."""
    storage = table.storage
    places = {storage.qualify(table.properties.bootstrap_base_path or "")}
    places |= {parent_of(each.path) for each in sources.files}
    resolved = storage.resolve(table.base_path)
    inside = sorted(place for place in places if is_inside(storage.resolve(place), resolved))
    if inside:
        raise RollbackRefusedError(
            f"source files lie inside the table's directory {table.base_path}: "
            f"{name_some(inside, 'directory')}",
            hint="nothing was removed; remove the files of the table by hand",
        )


def _names_of(table: HudiTable) -> set[tuple[str, str]]:
    database = table.properties.database_name
    return {(database.lower(), table.name.lower())} if database else set()


def _split_name(full_name: str | None) -> set[tuple[str, str]]:
    database, dot, name = (full_name or "").partition(".")
    return {(database, name)} if dot else set()


def _marked_names(storage: Storage, base_path: str) -> set[tuple[str, str]]:
    try:
        told: Any = json.loads(storage.read(join(base_path, ROLLBACK_FILE)))
        return {(str(database), str(name)) for database, name in told["tables"]}
    except (ValueError, TypeError, KeyError):
        # Cut short by the kill: the table was still whole then, and the caller named it again.
        return set()


def _later_commits(table: HudiTable) -> Iterator[LostCommit]:
    timeline = table.timeline
    times = {commit.timestamp for commit in timeline.commits}
    if not times & BOOTSTRAP_INSTANT_TIMES:
        yield LostCommit("", "commits that were archived together with the bootstrap's own")
    for instant in timeline.instants:
        if instant.timestamp in BOOTSTRAP_INSTANT_TIMES or instant.action not in WRITE_ACTIONS:
            continue
        if instant.is_completed:
            yield _counted(table, instant)
        else:
            yield LostCommit(instant.timestamp, f"unfinished {instant.action}")


def _counted(table: HudiTable, instant: Instant) -> LostCommit:
    try:
        stats = list(read_commit_metadata(table.storage, table.instant_path(instant)).write_stats)
    except CorruptTableError:
        return LostCommit(instant.timestamp, instant.action)
    return LostCommit(
        instant.timestamp,
        instant.action,
        sum(stat.num_inserts for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.num_deletes for stat in stats),
    )


def _entries_of(context: Context, base_path: str, names: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The metastore's entries under these names that show this very directory."""
    storage = context.storage
    place = storage.resolve(base_path)
    for database, name in sorted(names):
        for suffix in NAME_SUFFIXES:
            entry = context.metastore.get_table(database, name + suffix)
            location = None if entry is None else hudi_base_path(entry)
            if location is not None and storage.resolve(storage.qualify(location)) == place:
                yield database, name + suffix


def _plan_removals(storage: Storage, base_path: str, state: TargetState) -> Iterator[RemovedFile]:
    """The data files directory by directory; `.hoodie` itself is taken down at the end."""
    root = storage.resolve(base_path)
    beside: list[FileInfo] = []
    for entry in storage.list_directory(base_path):
        if not entry.is_directory:
            beside.append(entry)
        elif entry.name != METADATA_DIRECTORY:
            made, kept = _sort_out(storage.list_files(entry.path), state)
            # A linked directory may lead out of the table.
            is_own = is_inside(storage.resolve(entry.path), root)
            yield RemovedFile(entry.name, made, kept, is_own and not kept)
    if beside:
        yield RemovedFile("", *_sort_out(beside, state), False)


def _sort_out(files: Sequence[FileInfo], state: TargetState) -> tuple[tuple[FileInfo, ...], tuple[str, ...]]:
    """The files that a table makes, and the paths of the others."""
    made = tuple(file for file in files if _is_made_by_table(file.name, state))
    known = {file.path for file in made}
    return made, tuple(file.path for file in files if file.path not in known)


def _is_made_by_table(name: str, state: TargetState) -> bool:
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1:-4]
    if name == PARTITION_METADATA_FILE or name.startswith(PARTITION_METADATA_FILE + "."):
        return True
    base = parse_base_file_name(name)
    if state is TargetState.RUN:
        return base is not None and base.instant_time in BOOTSTRAP_INSTANT_TIMES
    # Change-data logs are named as logs with `.cdc` at the end.
    return base is not None or is_log_file(name.removesuffix(".cdc"))


def _remove(storage: Storage, base_path: str, removal: RemovedFile) -> None:
    if removal.is_whole:
        storage.delete_directory(join(base_path, removal.directory))
        return
    # What a link leads to outside of the table is not the table's.
    root = storage.resolve(base_path)
    own = [file.path for file in removal.files if is_inside(storage.resolve(file.path), root)]
    with ThreadPoolExecutor(_DELETE_THREADS) as pool:
        list(pool.map(storage.delete_file, own))
