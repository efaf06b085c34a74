"""Finds tables of the metastore that use source files: by a location or a bootstrap index.

Reads every table and partition of the metastore, so only a call that deletes source files uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable, hudi_base_path, is_hudi_table
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchPathError,
    StorageError,
    UnsupportedTableError,
)
from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings
from hudisql.storage import ancestors_of, join, parent_of
from hudisql.table.partitions.registered_partitions import read_registered_record

if TYPE_CHECKING:
    from hudisql.context import Context


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
                for each in read_registered_record(storage, storage.qualify(location))
                for path in self._below.get(self._resolve(each.directory) or "", ())
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
