"""The metastore entries of a Hudi table by a name, and the kind of each.

Reads from the entries the options with which Hudi's `HiveSyncTool` made them (strategy, skip_ro_suffix).
Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import (
    FURTHER_SUFFIXES,
    HUDI_INPUT_FORMAT_PREFIXES,
    NAME_SUFFIXES,
    MetastoreTable,
    hudi_base_path,
    is_read_optimized,
)
from hudisql.catalog.sync_entries import EntryKind, SyncOptions, entry_kinds
from hudisql.table.hudi_table import HudiTable

_USUAL_OPTIONS = (
    SyncOptions(),
    SyncOptions(skip_ro_suffix=True),
    SyncOptions(strategy="RO"),
    SyncOptions(strategy="RT"),
    SyncOptions(snapshot_with_table_name=False),
)


def main_name(client: MetastoreClient, table: HudiTable, database: str, name: str) -> str:
    """The main name of the table's entries: without `_ro` or `_rt`, if other entries confirm the suffix.

    A table whose own name has such an ending keeps it. Raises MetastoreError.
    """
    suffix = next((suffix for suffix in FURTHER_SUFFIXES if name.endswith(suffix)), None)
    if suffix is None or name == suffix or not table.is_merge_on_read:
        return name
    stem = name.removesuffix(suffix)
    return stem if len(registered_entries(client, table, database, stem)) > 1 else name


def registered_entries(
    client: MetastoreClient, table: HudiTable, database: str, name: str
) -> tuple[MetastoreTable, ...]:
    """The table's entries with this main name, with and without suffix. Raises MetastoreError."""
    suffixes = NAME_SUFFIXES if table.is_merge_on_read else ("",)
    entries = [client.get_table(database, name + suffix) for suffix in suffixes]
    return tuple(entry for entry in entries if entry is not None and _is_of(table, entry))


def kinds_of(table: HudiTable, entries: Sequence[MetastoreTable]) -> tuple[EntryKind, ...]:
    """The kind of each entry, by its own properties."""
    if not table.is_merge_on_read:
        return tuple(EntryKind(entry.name) for entry in entries)
    return tuple(
        EntryKind(entry.name, realtime=_is_realtime(entry), read_optimized=is_read_optimized(entry))
        for entry in entries
    )


def options_of(table: HudiTable, name: str, entries: Sequence[MetastoreTable]) -> SyncOptions | None:
    """The options by which a sync creates these entries, None without entries; `name` is the main name."""
    kinds = set(kinds_of(table, entries))
    return next(
        (
            sync_options
            for sync_options in _USUAL_OPTIONS
            if set(entry_kinds(table, name, sync_options)) == kinds
        ),
        None,
    )


def _is_of(table: HudiTable, entry: MetastoreTable) -> bool:
    location = hudi_base_path(entry)
    return location is not None and table.storage.qualify(location) == table.base_path


def _is_realtime(entry: MetastoreTable) -> bool:
    input_format = entry.input_format or ""
    if input_format.startswith(HUDI_INPUT_FORMAT_PREFIXES):
        return ".realtime." in input_format
    return not is_read_optimized(entry)
