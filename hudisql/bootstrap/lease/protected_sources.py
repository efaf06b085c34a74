"""The sources of bootstrapped tables: no statement may delete or move them, or create a table inside.

The metastore entry of each bootstrapped table names the directories of its source, and the metastore itself
searches these entries: one call per database, however many tables there are. The check runs only for
statements that delete or move files, or create a table at a given path. Tables that the metastore does not
know are not found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import (
    SOURCE_DIRECTORIES_PROPERTY,
    hudi_base_path,
    is_hudi_table,
    source_directories_of,
)
from hudisql.config.config_key import config_of_session
from hudisql.config.hudi_config import PROTECT_SOURCES
from hudisql.errors import InvalidArgumentError, SourceProtectedError, StorageError
from hudisql.storage import Storage, is_inside, parent_of

if TYPE_CHECKING:
    from hudisql.context import Context

_MAX_DIRECTORIES: Final = 20
# The length that old metastore schemas allow for a table property.
_MAX_PROPERTY_LENGTH: Final = 3_000


@dataclass(frozen=True, slots=True)
class ProtectedSource:
    """A directory of a bootstrapped table's source; `table` is the table's full name."""

    directory: str
    table: str
    base_path: str


def find_protected_sources(context: Context) -> list[ProtectedSource]:
    """Every source directory of the metastore's bootstrapped tables. Raises MetastoreError."""
    protected_sources: dict[tuple[str, str], ProtectedSource] = {}
    for entry in context.metastore.find_tables_with_property(SOURCE_DIRECTORIES_PROPERTY):
        base_path = hudi_base_path(entry)
        if not is_hudi_table(entry) or base_path is None:
            continue
        for directory in source_directories_of(entry):
            # The `_ro` and `_rt` entries of a merge-on-read table name the same directories.
            protected_sources.setdefault(
                (base_path, directory), ProtectedSource(directory, entry.full_name, base_path)
            )
    return list(protected_sources.values())


def refuse_touching_sources(
    context: Context, directories: Iterable[str], effect: str, *, except_of: str | None = None
) -> None:
    """Raise SourceProtectedError if a directory is in, equals or contains the source of a bootstrapped table.

    `effect` describes the operation there, such as "DROP TABLE db.t would delete files"; `except_of` is the
    base path of a table whose own source is allowed. `directories` is iterated only if there are sources.
    """
    sources = find_protected_sources(context)
    storage = context.storage
    if except_of is not None:
        own = _resolved(storage, except_of)
        sources = [
            protected_source
            for protected_source in sources
            if _resolved(storage, protected_source.base_path) != own
        ]
    resolved = [
        (_resolved(storage, protected_source.directory), protected_source) for protected_source in sources
    ]
    for directory in directories if resolved else ():
        touched = _resolved(storage, directory)
        for source_directory, source in resolved:
            if touched is None or source_directory is None or not _overlap(touched, source_directory):
                continue
            if config_of_session(context.spark).get(PROTECT_SOURCES):
                raise SourceProtectedError(
                    f"{effect} in {directory}: the Hudi table {source.table} reads its rows from source "
                    "files "
                    f"in {source.directory}; nothing was run",
                    hint=f"rollback_bootstrap or DROP TABLE {source.table} first; if the table no longer "
                    f"needs these files, SET {PROTECT_SOURCES} = false",
                )


def covering_directories(base_path: str, directories: Iterable[str]) -> tuple[str, ...]:
    """The base path, and directories that contain those of `directories` outside of it.

    They are few and short enough for a table property: the deepest are replaced by their parents.
    """
    outside = {directory for directory in directories if not is_inside(directory, base_path)}
    while len(outside) > _MAX_DIRECTORIES or sum(map(len, outside)) > _MAX_PROPERTY_LENGTH:
        depth = max(directory.count("/") for directory in outside)
        raised = {
            parent_of(directory) if directory.count("/") == depth else directory for directory in outside
        }
        if raised == outside:
            break
        outside = raised
    topmost = [
        directory
        for directory in outside
        if not any(directory != top and is_inside(directory, top) for top in outside)
    ]
    return (base_path, *sorted(topmost))


def _resolved(storage: Storage, directory: str) -> str | None:
    try:
        return storage.resolve(storage.qualify(directory))
    except (StorageError, InvalidArgumentError):
        # Other tables' locations may be invalid.
        return None


def _overlap(one: str, other: str) -> bool:
    return is_inside(one, other) or is_inside(other, one)
