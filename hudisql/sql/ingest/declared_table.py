"""A table of the metastore with a declaration of its events: what a worker needs to feed it.

Settings are looked up as for the table's other writes: the session's, TBLPROPERTIES, `hoodie.properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable, main_entries
from hudisql.catalog.sync import sync_table
from hudisql.errors import InvalidArgumentError, MetastoreUnavailableError, NoSuchTableError, SyncFailedError
from hudisql.hudi_config import CODEC
from hudisql.ingest.dead_letters import SUFFIX, open_dead_letter_table, write_bad_events
from hudisql.ingest.declaration import DEAD_LETTER, PROPERTY, PUSH, IngestDeclaration, declaration_of
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.parse.avro_records import AvroParser
from hudisql.ingest.parse.debezium_avro import DebeziumAvroParser
from hudisql.ingest.parse.debezium_json import DebeziumJsonParser
from hudisql.ingest.parse.json_records import JsonParser
from hudisql.ingest.parse.parsed_batch import RecordParser
from hudisql.ingest.parse.schema_registry import SchemaRegistry
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.checks import RowCheck
from hudisql.ingest.push.pushed_rows import PushedParser
from hudisql.ingest.row_keys import RefusedRows
from hudisql.ingest.table_buffer import BadEvent
from hudisql.ingest.table_feed import TableFeed
from hudisql.procedures.table_argument import location_of
from hudisql.services.automatic import AutomaticServices
from hudisql.sql.config.table_settings import settings_of
from hudisql.sql.config.writer_settings import write_options
from hudisql.sql.services.service_call import ServiceCall, open_registered
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from hudisql.context import Context

SHARED_BY_WRITERS: Final[Mapping[str, str]] = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    # In minutes: the lock of a worker that was killed while it held it.
    "hoodie.write.lock.filesystem.expire": "1",
}
"""How several writers share a table, as Hudi's documentation has it."""
_LOCK_RETRIES: Final = 2


@dataclass(frozen=True)
class DeclaredTable:
    """An `IngestTable`; `storage` needs no Spark."""

    context: Context
    storage: Storage
    entry: MetastoreTable
    declaration: IngestDeclaration
    accepted: AcceptedTables | None = None
    """Which tables take pushes in this process."""

    @property
    def name(self) -> str:
        """`database.name`."""
        return self.entry.full_name

    def feed(self, owner: str) -> TableFeed:
        """A new feed of the table."""
        return TableFeed(self.name, self.declaration, self.open, make_parser, self.keep_bad_events, owner)

    def open(self) -> IngestTarget:
        """The table as it is now, with its properties as they are now, if the metastore answers.

        Raises NoSuchTableError, UnsupportedTableError, SettingsError.
        """
        entry: MetastoreTable | None = self.entry
        with suppress(MetastoreUnavailableError):
            entry = self.context.metastore.get_table(self.entry.database, self.entry.name)
        if entry is None:
            raise NoSuchTableError(f"the table {self.name} was dropped")
        call = open_registered(self.context, entry, self.storage)
        options = call.write_options()
        check_ingestible(call.table, options)
        target = IngestTarget(call.table, _ingest_options(call, options), lambda: self._after_commit(call))
        if self.accepted is not None:
            self._offer_check(self.accepted, target)
        return target

    def _offer_check(self, accepted: AcceptedTables, target: IngestTarget) -> None:
        """Let pushes be checked by the table's columns as they are now."""
        current = accepted.check_of(self.name)
        takes_bad_rows = self.declaration.on_bad_record == DEAD_LETTER
        if current is None or not current.is_of(target.table.schema, takes_bad_rows=takes_bad_rows):
            paths = PartitionPaths(target.table, target.options.key_generator)
            refuse = RefusedRows(target, paths)
            check = RowCheck(target.table.schema, refuse, takes_bad_rows=takes_bad_rows)
            accepted.offer(self.name, check)

    def keep_bad_events(self, events: Sequence[BadEvent]) -> None:
        """Write the events to the table's dead-letter table, which is made and registered if it is not there.

        Raises what `write_bad_events` raises.
        """
        entry = self.entry
        base_path = self.storage.qualify(location_of(entry)) + SUFFIX
        name = entry.name + SUFFIX
        table = open_dead_letter_table(self.storage, base_path, entry.database, name)
        config = settings_of(self.context, table, {**SHARED_BY_WRITERS})
        write_bad_events(table, events, write_options(self.context, table, config))
        self._sync(lambda: sync_table(self.context.metastore, table.reopened(), entry.database, name))

    def _after_commit(self, call: ServiceCall) -> None:
        """Clean and archive if that is due, then sync; what fails is a warning, for the commit stands."""
        console = self.context.console
        if self.declaration.services:
            services = AutomaticServices(
                call.table.reopened(), call.config, call.write_options, console.warning, self.name
            )
            services.run_without_spark()
        self._sync(call.sync)

    def _sync(self, sync: Callable[[], object]) -> None:
        try:
            sync()
        except SyncFailedError as error:
            self.context.console.warning(f"{self.name}: {error.message}; the next commit syncs again")


def declared_tables(
    context: Context, storage: Storage, accepted: AcceptedTables | None = None
) -> list[DeclaredTable]:
    """The tables of the metastore that have a declaration. Raises MetastoreError.

    A declaration that cannot be read is a warning.
    """
    found = []
    for entry in main_entries(context.metastore.find_tables_with_property(PROPERTY), storage):
        try:
            declaration = declaration_of(entry.parameters)
        except InvalidArgumentError as error:
            context.console.warning(f"{entry.full_name}: {error.message} ({error.hint})")
            continue
        if declaration is not None:
            found.append(
                DeclaredTable(
                    context, storage, entry, declaration, accepted if declaration.source == PUSH else None
                )
            )
    return found


def _ingest_options(call: ServiceCall, options: WriteOptions) -> WriteOptions:
    """The options of the table's writes as workers use them.

    Unless a codec is set, files are in snappy, which takes half of gzip's CPU time. A lock that another
    writer holds is not waited for long: the worker has other tables, and comes back.
    """
    policy = options.concurrency.lock_retry_policy
    policy = replace(policy, retries=min(policy.retries, _LOCK_RETRIES))
    options = replace(options, concurrency=replace(options.concurrency, lock_retry_policy=policy))
    if call.config.is_set(CODEC):
        return options
    return replace(options, base_file_config=replace(options.base_file_config, codec="snappy"))


def check_ingestible(table: HudiTable, options: WriteOptions) -> None:
    """Raise InvalidArgumentError for a table that events cannot be written to."""
    if table.properties.generates_record_keys:
        raise InvalidArgumentError(
            f"{table.base_path} has no record key, by which events find the rows they change",
            hint="make the table with TBLPROPERTIES (primaryKey = '…')",
        )
    if options.index.is_global:
        raise InvalidArgumentError(
            f"{table.base_path} has a global index: keys are looked up in the partition that an event names",
            hint="ALTER TABLE … SET TBLPROPERTIES ('hoodie.index.type' = 'BLOOM')",
        )


def make_parser(table: HudiTable, declaration: IngestDeclaration) -> RecordParser:
    """The parser of the declaration's format for the table.

    Raises InvalidArgumentError, UnsupportedTableError for columns that the format has no values for.
    """
    fields = table.properties.record_key_fields
    key_column = fields[0] if len(fields) == 1 else None
    address = declaration.schema_registry
    if declaration.source == PUSH:
        return PushedParser(table.schema)
    if declaration.format == "json":
        return JsonParser(table.schema, key_column)
    if declaration.format == "debezium" and address is None:
        return DebeziumJsonParser(table.schema, key_column)
    assert address is not None
    if declaration.format == "debezium":
        return DebeziumAvroParser(table.schema, SchemaRegistry(address), key_column)
    return AvroParser(table.schema, SchemaRegistry(address), key_column)
