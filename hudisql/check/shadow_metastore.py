"""A metastore in memory for checks: empty Hudi tables stand for the tables that statements name.

A table that is looked up in the existing metastore gets an empty copy with its columns and its key in a
temporary directory, so that the session's own binder and planner work on it without reading or writing
anything that exists. Definitions, drops and alterations of scripts are applied here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hudisql.catalog.hive_types import arrow_from_hive_type
from hudisql.catalog.metastore_table import (
    FURTHER_SUFFIXES,
    MetastoreDatabase,
    MetastoreTable,
    hudi_base_path,
    is_hudi_table,
)
from hudisql.context import Context
from hudisql.errors import HudisqlError, NoSuchTableError
from hudisql.options.table_call import open_session_table
from hudisql.sql.ddl.create_table import create_table_of_rows, register_table
from hudisql.sql.schema.table_definition import TableDefinition
from hudisql.storage import is_inside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from hudisql.catalog.client import MetastoreClient
    from hudisql.config.settings import Settings
    from hudisql.console import Console
    from hudisql.storage import Storage

Name = tuple[str, str]


@dataclass
class ShadowMetastore:
    """The parts of a metastore client that statements use; `real` is None offline.

    `opaque`: tables that exist, but whose columns are unknown; statements on them are not bound. `plain`:
    empty copies of non-Hudi tables.
    """

    directory: str
    real: MetastoreClient | None = None
    databases: set[str] = field(default_factory=lambda: {"default"})
    tables: dict[Name, MetastoreTable] = field(default_factory=dict)
    dropped: set[Name] = field(default_factory=set)
    opaque: set[Name] = field(default_factory=set)
    plain: set[Name] = field(default_factory=set)
    made: set[Name] = field(default_factory=set)
    refuses_dropped: bool = False
    _shadowing: set[Name] = field(default_factory=set)
    context: ShadowContext | None = None
    uris: str = "(a check)"

    def get_database(self, name: str) -> MetastoreDatabase | None:
        """A database with a temporary location."""
        known = name in self.databases or (self.real is not None and self.real.get_database(name) is not None)
        return MetastoreDatabase(name, f"{self.directory}/{name}.db") if known else None

    def list_databases(self) -> list[str]:
        """The names of the known databases."""
        return sorted({*self.databases, *([] if self.real is None else self.real.list_databases())})

    def list_tables(self, database: str) -> list[str]:
        """The names of the tables with an empty copy."""
        return [name for owner, name in self.tables if owner == database]

    def find_tables_with_property(self, key: str) -> list[MetastoreTable]:
        """Return nothing: no statement is run that could touch another table's files."""
        del key
        return []

    def get_table(self, database: str, name: str) -> MetastoreTable | None:
        """The empty copy of a table, created on first use.

        While `refuses_dropped` is true, a table that an earlier statement drops raises NoSuchTableError:
        Spark's catalog would still find it.
        """
        key = (database, name)
        if key in self.dropped and key not in self.tables and self.refuses_dropped:
            raise NoSuchTableError(f"there is no table {database}.{name}: an earlier statement drops it")
        is_known = key in self.tables or key in self.dropped or key in self._shadowing
        if not is_known and self.real is not None:
            entry = self.real.get_table(database, name)
            if entry is not None:
                self._shadow(entry)
        return self.tables.get(key)

    def get_tables(self, database: str, names: Sequence[str]) -> list[MetastoreTable]:
        """The empty copies of several tables."""
        entries = [self.get_table(database, name) for name in names]
        return [entry for entry in entries if entry is not None]

    def create_table(self, table: MetastoreTable) -> None:
        """Store an entry."""
        self.tables[table.database, table.name] = table
        self.dropped.discard((table.database, table.name))

    def alter_table(
        self,
        table: MetastoreTable,
        *,
        cascade: bool = False,
        name: str | None = None,
        expected: tuple[str, str] | None = None,
    ) -> None:
        """Replace the entry that was called `name`."""
        del cascade, expected
        if name is not None and name != table.name:
            self.drop_table(table.database, name)
        self.create_table(table)

    def drop_table(self, database: str, name: str) -> bool:
        """Remove an entry."""
        key = (database, name)
        self.dropped.add(key)
        self.opaque.discard(key)
        self.plain.discard(key)
        return self.tables.pop(key, None) is not None

    def drop_shadow(self, key: Name) -> None:
        """Remove a table with its `_ro` and `_rt` names and the files of its copy, as DROP TABLE does."""
        database, name = key
        table = self.tables.get(key)
        location = None if table is None else hudi_base_path(table)
        for suffix in FURTHER_SUFFIXES:
            other = self.tables.get((database, name + suffix))
            if other is not None and location is not None and hudi_base_path(other) == location:
                self.drop_table(database, name + suffix)
        self.drop_table(database, name)
        if location is not None and self.context is not None:
            directory = self.context.storage.qualify(location)
            if is_inside(directory, self.context.storage.qualify(self.directory)):
                self.context.storage.delete_directory(directory)

    def list_partition_names(self, *_: object) -> list[str]:
        """Return nothing: the copies have no partitions."""
        return []

    def list_partitions(self, *_: object, **__: object) -> list[Any]:
        """Return nothing."""
        return []

    find_partitions = list_partitions

    def add_partitions(self, *_: object, **__: object) -> None:
        """Ignore them."""

    alter_partitions = drop_partitions = add_partitions

    def define(self, key: Name, columns: pa.Schema, definition: TableDefinition | None = None) -> None:
        """Create a table of these columns; without `definition` it has no key and is not a Hudi table."""
        assert self.context is not None
        if definition is None:
            definition = TableDefinition(columns, (), {})
            self.plain.add(key)
        definition = replace(definition, location=None)
        self.dropped.discard(key)
        self.databases.add(key[0])
        try:
            table = create_table_of_rows(self.context, definition, *key)
            register_table(self.context, definition, table, *key)
        except BaseException:
            self.plain.discard(key)
            raise
        self.made.add(key)

    @contextmanager
    def hidden_plain_tables(self) -> Iterator[None]:
        """Hide non-Hudi tables in the block: their copies are Hudi tables."""
        hidden = {key: self.tables.pop(key) for key in self.plain if key in self.tables}
        self._shadowing |= hidden.keys()
        try:
            yield
        finally:
            self._shadowing -= hidden.keys()
            self.tables.update(hidden)

    def _shadow(self, entry: MetastoreTable) -> None:
        key = (entry.database, entry.name)
        self._shadowing.add(key)  # or the search for it would not end
        try:
            if is_hudi_table(entry):
                columns, definition = self._definition_of(entry)
                self.define(key, columns, definition)
            elif entry.is_view:
                self.tables[key] = entry
            else:
                self.define(key, _hive_schema(entry))
        except HudisqlError:
            self.opaque.add(key)
        self.made.discard(key)
        self._shadowing.discard(key)

    def _definition_of(self, entry: MetastoreTable) -> tuple[pa.Schema, TableDefinition]:
        assert self.context is not None
        storage = self.context.storage
        table = open_session_table(self.context, storage.qualify(hudi_base_path(entry) or ""))
        table_properties = table.properties
        properties = {
            "type": "mor" if table.is_merge_on_read else "cow",
            "primaryKey": ",".join(table_properties.record_key_fields),
            "preCombineField": table_properties.precombine_field or "",
        }
        kept = {name: value for name, value in properties.items() if value}
        columns = table.schema
        by_name = {name.lower(): name for name in columns.names}
        partitions = tuple(by_name[name.lower()] for name in table_properties.partition_fields)
        ordered = [name for name in columns.names if name not in partitions]
        fields = [columns.field(name) for name in (*ordered, *partitions)]
        import pyarrow as pa

        return columns, TableDefinition(pa.schema(fields), partitions, kept)


class ShadowContext(Context):
    """A context on the copies, with its own current database."""

    def __init__(
        self,
        spark: SparkSession,
        metastore: ShadowMetastore,
        storage: Storage,
        settings: Settings,
        console: Console,
    ) -> None:
        client: Any = metastore
        super().__init__(spark, client, storage, settings, console)
        self.shadows = metastore
        self.database = settings.database
        metastore.context = self

    @property
    def current_database(self) -> str:
        """The database of USE."""
        return self.database


def _hive_schema(entry: MetastoreTable) -> pa.Schema:
    import pyarrow as pa

    columns = (*entry.columns, *entry.partition_columns)
    return pa.schema([(column.name, arrow_from_hive_type(column.type)) for column in columns])
