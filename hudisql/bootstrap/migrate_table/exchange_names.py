"""The two renames of a migration, and of its revert, as single changes of the metastore.

Both entries are external when they are renamed, so that the metastore moves no directory (docs/facts.md).
Between the two renames no entry has the table's name; a failed second rename is followed by undoing the
first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hudisql.bootstrap.migrate_table.migration_state import (
    MIGRATION_PROPERTY,
    MigrationNames,
    SourceMark,
    read_mark,
)
from hudisql.bootstrap.source.hive_source import protection_for
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import (
    ICEBERG_SUFFIX,
    MetastoreTable,
    iceberg_base_path,
    is_hudi_table,
)
from hudisql.errors import MetastoreError, NoSuchTableError

if TYPE_CHECKING:
    from hudisql.bootstrap.migrate_table.migration_lock import MigrationLock


def mark_source(metastore: MetastoreClient, source: MetastoreTable, target_path: str) -> None:
    """Make the plain table external, and store in it its former state and the location of the Hudi table.

    Raises MetastoreError.
    """
    mark = read_mark(source)
    protection = protection_for(source)
    set_now = dict(protection.properties) if protection else {}
    # Hive 4 moves the directory of an external table with this mark when the table is renamed.
    set_now |= {key: "false" for key in source.parameters if key.upper() == "TRANSLATED_TO_EXTERNAL"}
    before = {key: source.parameters.get(key) for key in set_now} if mark is None else mark.before
    text = SourceMark(target_path, before).to_json()
    parameters = {**source.parameters, **set_now, MIGRATION_PROPERTY: text}
    alter_guarded(metastore, source, replace(source, table_type="EXTERNAL_TABLE", parameters=parameters))


def unmark_source(metastore: MetastoreClient, names: MigrationNames) -> None:
    """Restore the former properties of the plain table under its own name. Raises MetastoreError."""
    source = _entry(metastore, names.database, names.name)
    mark = read_mark(source)
    if mark is None:
        return
    changed = {*mark.before, MIGRATION_PROPERTY}
    parameters = {key: value for key, value in source.parameters.items() if key not in changed}
    parameters |= {key: value for key, value in mark.before.items() if value is not None}
    table_type = "MANAGED_TABLE" if "EXTERNAL" in mark.before else source.table_type
    alter_guarded(metastore, source, replace(source, table_type=table_type, parameters=parameters))


def exchange_names(metastore: MetastoreClient, names: MigrationNames, lock: MigrationLock) -> None:
    """The plain table becomes `__source`, the Hudi table takes its name. Raises MetastoreError."""
    lock.check_held()
    _rename_iceberg_entry(metastore, names.database, names.staged, names.name)
    _rename(metastore, names.database, names.name, names.source)
    try:
        _rename(metastore, names.database, names.staged, names.name)
    except MetastoreError:
        with suppress(MetastoreError):
            _rename(metastore, names.database, names.source, names.name)
        raise


def complete_exchange(metastore: MetastoreClient, names: MigrationNames, lock: MigrationLock) -> None:
    """Do only the second rename, after a kill between the two. Raises MetastoreError."""
    lock.check_held()
    _rename_iceberg_entry(metastore, names.database, names.staged, names.name)
    _rename(metastore, names.database, names.staged, names.name)


def withdraw_hudi_table(metastore: MetastoreClient, names: MigrationNames, lock: MigrationLock) -> None:
    """Rename the Hudi table to its temporary name; the first half of a revert. Raises MetastoreError."""
    lock.check_held()
    _rename_iceberg_entry(metastore, names.database, names.name, names.staged)
    _rename(metastore, names.database, names.name, names.staged)


def restore_source(metastore: MetastoreClient, names: MigrationNames, lock: MigrationLock) -> None:
    """Give the plain table its name again; the second half of a revert. Raises MetastoreError."""
    lock.check_held()
    _rename(metastore, names.database, names.source, names.name)


def _rename_iceberg_entry(metastore: MetastoreClient, database: str, old: str, new: str) -> None:
    """Rename the Iceberg entry of the Hudi table `old`, if it has one, before the table's own.

    After a kill between the two renames, the next call does the second one.
    """
    table, entry = _entry(metastore, database, old), metastore.get_table(database, old + ICEBERG_SUFFIX)
    location = (table.location or "").rstrip("/")
    if entry is not None and is_hudi_table(table) and iceberg_base_path(entry) == location:
        metastore.alter_table(replace(entry, name=new + ICEBERG_SUFFIX), name=entry.name)


def _rename(metastore: MetastoreClient, database: str, old: str, new: str) -> None:
    metastore.alter_table(replace(_entry(metastore, database, old), name=new), name=old)


def _entry(metastore: MetastoreClient, database: str, name: str) -> MetastoreTable:
    entry = metastore.get_table(database, name)
    if entry is None:
        raise NoSuchTableError(f"the metastore has no table {database}.{name}")
    return entry
