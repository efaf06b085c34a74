"""Confirmation of a `run_clean` call that deletes source files: Hudi's setting, and the user's parameter.

The one exception of "source files are never deleted" (docs/architecture.md, rule 4). Such a call reads every
table and partition of the metastore, to find tables that use the files by a location or a bootstrap index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable, hudi_base_path, is_hudi_table
from hudisql.config.table_service_keys import CLEAN_SOURCES
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchPathError,
    SourceProtectedError,
    StorageError,
    UnsupportedTableError,
)
from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.services.clean.clean_metadata import CleanedPartition, CleanMetadata
from hudisql.services.clean.clean_plan import CleanOptions, CleanPlan, plan_clean
from hudisql.services.clean.clean_sources import SourceDeletion
from hudisql.storage import ancestors_of, join, parent_of
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import read_registered_record
from hudisql.table.properties.timeline_clock import now_on_timeline

if TYPE_CHECKING:
    from hudisql.context import Context

_SHOWN = 3


def source_deletion(context: Context, base_path: str) -> SourceDeletion:
    """The confirmation for a clean of the table at `base_path`."""

    def tell_kept(kept: Mapping[str, str]) -> None:
        reasons = sorted(set(kept.values()))
        for why in reasons[:_SHOWN]:
            paths = sorted(path for path, reason in kept.items() if reason == why)
            context.console.warning(f"{_count(paths)}, such as {paths[0]}, stay: {why}")
        if len(reasons) > _SHOWN:
            context.console.warning(f"{_count(kept)} stay in all, for {len(reasons):,} reasons")

    return SourceDeletion(partial(tables_that_name, context, base_path), tell_kept)


def check_confirmed(
    table: HudiTable, options: CleanOptions, sources: SourceDeletion | None, *, is_confirmed: bool
) -> None:
    """Raise SourceProtectedError if the setting is true without the confirmation.

    Raises InvalidArgumentError for a confirmation without the setting.
    """
    if sources is None and is_confirmed:
        raise InvalidArgumentError(
            f"confirm_source_deletion => true confirms nothing while {CLEAN_SOURCES} is false",
            hint=f"add options => '{CLEAN_SOURCES}=true' to delete source files, or leave it out",
        )
    if sources is None or is_confirmed:
        return
    plan = _plan(table, options, sources)
    paths = [file.uri for files in plan.files.values() for file in files if file.is_source] if plan else []
    example = f", such as {paths[0]}" if paths else ""
    raise SourceProtectedError(
        f"{CLEAN_SOURCES} = true: a clean of {table.base_path} would delete {_count(paths)} of the "
        f"bootstrap{example}; nothing was deleted",
        hint="CALL run_clean(…, dry_run => true) lists them; confirm_source_deletion => true deletes them; "
        f"options => '{CLEAN_SOURCES}=false' cleans without them",
    )


def dry_run_of(
    table: HudiTable, options: CleanOptions, sources: SourceDeletion | None
) -> CleanMetadata | None:
    """A new plan as the metadata of a clean that has not begun; None if it would delete nothing."""
    plan = _plan(table, options, sources)
    if plan is None:
        return None
    return CleanMetadata(
        start_time="",
        milliseconds=0,
        earliest_retained="" if plan.earliest_retained is None else plan.earliest_retained.timestamp,
        last_completed=plan.last_completed,
        partitions=(),
        sources=tuple(
            CleanedPartition(partition, plan.policy, patterns=uris)
            for partition, files in plan.files.items()
            if (uris := tuple(file.uri for file in files if file.is_source))
        ),
        files_deleted=sum(not file.is_source for files in plan.files.values() for file in files),
    )


def _plan(table: HudiTable, options: CleanOptions, sources: SourceDeletion | None) -> CleanPlan | None:
    return plan_clean(table, options, now_on_timeline(table), sources=sources)


def _count(paths: Collection[str]) -> str:
    return f"{len(paths):,} source file{'' if len(paths) == 1 else 's'}"


def tables_that_name(context: Context, base_path: str, paths: Collection[str]) -> dict[str, str]:
    """The files that another table than the one at `base_path` uses, each with that table.

    A location includes all files below it. Raises MetastoreError, and UnsupportedTableError for a
    bootstrapped table whose index cannot be read.
    """
    search = _Search(context, base_path, paths)
    client = context.metastore
    for database in client.list_databases():
        for entry in client.get_tables(database, client.list_tables(database)):
            if search.is_over:
                return search.found
            if not entry.is_view:
                search.look_at(entry)
    return search.found


@dataclass
class _Search:
    """The files to find, by their own path and each directory above them, and the tables found."""

    context: Context
    base_path: str
    paths: Collection[str]
    found: dict[str, str] = field(default_factory=dict)
    _below: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._own = self._resolve(self.base_path)
        for path in self.paths:
            resolved = self._resolve_file(path)
            for above in (resolved, *ancestors_of(resolved)):
                self._below.setdefault(above, set()).add(path)

    @property
    def is_over(self) -> bool:
        """True if a table was found for every file."""
        return len(self.found) == len(self.paths)

    def look_at(self, entry: MetastoreTable) -> None:
        """Collect the files that this table uses."""
        location = hudi_base_path(entry) or entry.serde_properties.get("path") or entry.location
        resolved = self._resolve(location)
        if resolved is None or resolved != self._own:
            self._take(self._below.get(resolved or "", ()), f"the table {entry.full_name}")
            if is_hudi_table(entry) and location is not None:
                self._take(self._indexed_files(entry, location), f"the table {entry.full_name}")
                self._take(self._register_only_files(location), f"the table {entry.full_name}")
        if entry.partition_columns and not self.is_over:
            for partition in self.context.metastore.list_partitions(entry.database, entry.name):
                who = f"the partition {'/'.join(partition.values)} of the table {entry.full_name}"
                self._take(self._below.get(self._resolve(partition.location) or "", ()), who)

    def _take(self, paths: Collection[str], who: str) -> None:
        for path in paths:
            self.found.setdefault(path, who)

    def _indexed_files(self, entry: MetastoreTable, location: str) -> set[str]:
        storage = self.context.storage
        try:
            return {
                path
                for mapping in read_bootstrap_mappings(storage, storage.qualify(location))
                for path in self._below.get(self._resolve_file(mapping.external_file.path), ())
            }
        except HudisqlError as error:
            raise UnsupportedTableError(
                f"cannot find out which source files the Hudi table {entry.full_name} reads: {error.message};"
                " no source file was deleted",
                hint="repair that table, or drop its entry, then run this again",
            ) from error

    def _register_only_files(self, location: str) -> set[str]:
        """The files below directories of register-only partitions, lifted or not."""
        storage = self.context.storage
        with suppress(NoSuchPathError):
            return {
                path
                for partition in read_registered_record(storage, storage.qualify(location))
                for path in self._below.get(self._resolve(partition.directory) or "", ())
            }
        return set()

    def _resolve(self, location: str | None) -> str | None:
        try:
            return self._resolved(self.context.storage.qualify(location)) if location else None
        except (StorageError, InvalidArgumentError):
            # A table that hudisql cannot access has none of its source files.
            return None

    def _resolve_file(self, path: str) -> str:
        return join(self._resolved(parent_of(path)), path.rpartition("/")[2])

    @cached_property
    def _resolved(self) -> Callable[[str], str]:
        return cache(self.context.storage.resolve)
