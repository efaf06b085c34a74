"""Metastore entries as plain values: tables, partitions, databases, and how a Hudi table is recognized.

Uses no Thrift types: `raw` keeps the original entry, so that an alteration loses nothing that others stored
in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hudisql.errors import InvalidArgumentError, StorageError
from hudisql.format.timeline.timeline_layout import iceberg_directory
from hudisql.storage import Storage

HUDI_INPUT_FORMAT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
HUDI_REALTIME_INPUT_FORMAT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
PARQUET_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PARQUET_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
READ_OPTIMIZED_PROPERTY = "hoodie.query.as.ro.table"
PROVIDER_PROPERTY = "spark.sql.sources.provider"
PURGE_PROPERTY = "external.table.purge"
"""With the value true, DROP TABLE of an external table deletes its files (Hive 3 and later, and hudisql)."""
READ_OPTIMIZED_SUFFIX = "_ro"
REALTIME_SUFFIX = "_rt"
FURTHER_SUFFIXES = (READ_OPTIMIZED_SUFFIX, REALTIME_SUFFIX)
"""The suffixes of a merge-on-read table's further names."""
NAME_SUFFIXES = ("", *FURTHER_SUFFIXES)

ICEBERG_SUFFIX = "_iceberg"
"""The suffix of the entry of a Hudi table's Iceberg table."""
ICEBERG_TYPE = "ICEBERG"
"""The property `table_type` of an entry that Iceberg reads."""

SOURCE_DIRECTORIES_PROPERTY = "hudisql_bootstrap_source"
"""The directories of a bootstrapped table's source, as a JSON list. Filters of the metastore take no dots."""

# Hudi's input formats, those of its old releases (com.uber.hoodie) and of other file formats included.
HUDI_INPUT_FORMAT_PREFIXES = ("org.apache.hudi.hadoop.", "com.uber.hoodie.hadoop.")


@dataclass(frozen=True, slots=True)
class ListedLock:
    """A lock on a table as the metastore lists it; `last_heartbeat` is in milliseconds by the server's clock.

    `user`, `host` and `agent` come from its owner; without `is_acquired` the owner is waiting for it.
    """

    lock_id: int
    table: str
    user: str
    host: str
    agent: str
    is_acquired: bool
    last_heartbeat: int


@dataclass(frozen=True, slots=True)
class TableGrant:
    """A privilege on a table, or on one of its columns; `principal_type` is USER, ROLE or GROUP."""

    principal: str
    principal_type: str
    privilege: str
    grant_option: bool = False
    column: str | None = None


@dataclass(frozen=True, slots=True)
class PrincipalGrant:
    """A privilege of a user or a role on a table, a database (`table` None) or everything (both None).

    Names of databases and tables are in lower case.
    """

    privilege: str
    database: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class MetastoreColumn:
    """A column as the metastore has it: `type` is Hive's text (`decimal(12,2)`, `array<string>`)."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MetastoreDatabase:
    """A database; `location` is the URI under which its managed tables lie."""

    name: str
    location: str | None


@dataclass(frozen=True, slots=True)
class MetastorePartition:
    """One partition: its values in the order of the partition columns, unescaped, and its location URI."""

    values: tuple[str, ...]
    location: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[MetastoreColumn, ...] = ()
    input_format: str | None = None
    output_format: str | None = None
    serde: str | None = None
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    raw: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MetastoreTable:
    """One table or view. `table_type`: EXTERNAL_TABLE, MANAGED_TABLE, VIRTUAL_VIEW …"""

    database: str
    name: str
    table_type: str
    location: str | None
    columns: tuple[MetastoreColumn, ...]
    partition_columns: tuple[MetastoreColumn, ...] = ()
    owner: str | None = None
    input_format: str | None = None
    output_format: str | None = None
    serde: str | None = None
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    view_original_text: str | None = None
    view_text: str | None = None
    raw: Any = field(default=None, repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """`database.name`."""
        return f"{self.database}.{self.name}"

    @property
    def is_view(self) -> bool:
        """True for a view, materialised or not."""
        return self.table_type.endswith("VIEW")

    @property
    def is_external(self) -> bool:
        """True if dropping the table leaves its data, by the property that the metastore itself checks."""
        return self.table_type == "EXTERNAL_TABLE" or self.parameters.get("EXTERNAL", "").upper() == "TRUE"


def is_hudi_table(table: MetastoreTable) -> bool:
    """True if the entry is a Hudi table's: by Spark's provider property or by Hudi's input formats."""
    if table.is_view:
        return False
    if table.parameters.get(PROVIDER_PROPERTY, "").lower() in ("hudi", "org.apache.hudi"):
        return True
    return (table.input_format or "").startswith(HUDI_INPUT_FORMAT_PREFIXES)


def iceberg_base_path(table: MetastoreTable) -> str | None:
    """The location (qualify it before use) of the Hudi table whose Iceberg table the entry is; else None."""
    if table.parameters.get("table_type", "").upper() != ICEBERG_TYPE or table.location is None:
        return None
    base_path, separator, rest = table.location.rstrip("/").rpartition(iceberg_directory(""))
    return base_path if separator and not rest else None


def loses_files_when_dropped(table: MetastoreTable) -> bool:
    """True if dropping the table or a partition of it deletes files."""
    purges = table.parameters.get(PURGE_PROPERTY, "").lower() == "true"
    return not table.is_view and (not table.is_external or purges)


def hudi_base_path(table: MetastoreTable) -> str | None:
    """The location of a Hudi table as the metastore has it (qualify it before use); None for other tables.

    It is the serde property `path`, as for Spark, or else the table's location.
    """
    if not is_hudi_table(table):
        return None
    return table.serde_properties.get("path") or table.location


def main_entries(entries: Iterable[MetastoreTable], storage: Storage) -> list[MetastoreTable]:
    """One entry of each Hudi table among them, by name, if possible the one without a suffix.

    Entries belong to one table if their locations are the same directory for `storage`.
    """
    by_path: dict[str, list[MetastoreTable]] = {}
    for entry in entries:
        location = hudi_base_path(entry)
        if location is not None:
            by_path.setdefault(_resolved(storage, location), []).append(entry)
    chosen = [
        min(some, key=lambda candidate: (candidate.name.endswith(FURTHER_SUFFIXES), candidate.full_name))
        for some in by_path.values()
    ]
    return sorted(chosen, key=lambda main_entry: main_entry.full_name)


def _resolved(storage: Storage, location: str) -> str:
    try:
        return storage.resolve(storage.qualify(location))
    except (StorageError, InvalidArgumentError):
        # A table that cannot be opened is reported by its caller.
        return location.rstrip("/")


def source_directories_of(table: MetastoreTable) -> tuple[str, ...]:
    """The directories of the source that the entry of a bootstrapped table names; empty for others."""
    try:
        directories = json.loads(table.parameters.get(SOURCE_DIRECTORIES_PROPERTY, "[]"))
    except ValueError:
        return ()
    return tuple(str(directory) for directory in directories) if isinstance(directories, list) else ()


def is_read_optimized(table: MetastoreTable) -> bool:
    """True for the entry of a merge-on-read table that shows base files only (`_ro`)."""
    return table.serde_properties.get(READ_OPTIMIZED_PROPERTY, "").lower() == "true"
