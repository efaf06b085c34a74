"""A table with a declaration of its events, as a worker feeds it.

Settings come from the session, TBLPROPERTIES and `hoodie.properties`, as for the table's other writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.catalog.metastore_table import MetastoreTable, main_entries
from hudisql.catalog.sync import sync_table
from hudisql.catalog.sync_changes import is_synced
from hudisql.config.hudi_config import CODEC
from hudisql.errors import (
    InvalidArgumentError,
    MetastoreUnavailableError,
    NoSuchTableError,
    SettingsError,
    SyncFailedError,
)
from hudisql.format.timeline.instant import COMPACTION
from hudisql.ingest.client_config import NO_CLIENT_CONFIG, ClientConfig, read_client_config
from hudisql.ingest.dead_letters import SUFFIX, open_dead_letter_table, write_bad_events
from hudisql.ingest.declaration import (
    ADD,
    DEAD_LETTER,
    PROPERTY,
    PUSH,
    WORKER,
    IngestDeclaration,
    declaration_of,
)
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.parse.avro_records import AvroParser
from hudisql.ingest.parse.debezium_avro import DebeziumAvroParser
from hudisql.ingest.parse.debezium_json import DebeziumJsonParser
from hudisql.ingest.parse.json_records import JsonParser
from hudisql.ingest.parse.parsed_batch import RecordParser
from hudisql.ingest.parse.schema_registry import SchemaRegistry
from hudisql.ingest.push.accepted_tables import AcceptedTables
from hudisql.ingest.push.event_checks import RowCheck
from hudisql.ingest.push.pushed_rows import PushedParser
from hudisql.ingest.row_keys import RefusedRows
from hudisql.ingest.split.split_option import SplitKind
from hudisql.ingest.table_buffer import BadEvent
from hudisql.ingest.table_feed import TableFeed
from hudisql.options.table_call import TableCall, location_of, open_registered
from hudisql.options.table_settings import settings_of
from hudisql.options.writer_settings import write_options
from hudisql.service_process.ingest.background_syncs import BackgroundSyncs
from hudisql.services.compaction.compaction_action import compaction_options, is_compaction_due
from hudisql.services.schedule.automatic import AutomaticServices
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.schema_change import commit_schema, with_added_columns

if TYPE_CHECKING:
    from hudisql.context import Context

SHARED_BY_WRITERS: Final[Mapping[str, str]] = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    # In minutes: the expiry of a lock whose holder was killed.
    "hoodie.write.lock.filesystem.expire": "1",
}
"""Settings for several writers of one table, from Hudi's documentation."""
_LOCK_RETRIES: Final = 2
MOST_COLUMNS: Final = 1_000
"""The most columns of a table: events with data as field names would add a column for each."""
_META_PREFIX: Final = "_hoodie_"


@dataclass(frozen=True)
class WorkerParts:
    """The parts of a worker that its tables use.

    `compact` is called with the name of a table whose compaction is due; `accepted` are the tables that take
    pushes in this process; `syncs` run after commits.
    """

    syncs: BackgroundSyncs
    compact: Callable[[str], None] | None = None
    accepted: AcceptedTables | None = None


@dataclass(frozen=True)
class DeclaredTable:
    """An `IngestTable`; `storage` needs no Spark. `worker` is set for a table that is fed."""

    context: Context
    storage: Storage
    entry: MetastoreTable
    declaration: IngestDeclaration
    clients: ClientConfig = NO_CLIENT_CONFIG
    worker: WorkerParts | None = None

    @property
    def name(self) -> str:
        """`database.name`."""
        return self.entry.full_name

    def feed(self, owner: str) -> TableFeed:
        """A new feed of the table."""
        make = partial(make_parser, clients=self.clients)
        add = self.add_columns if self.declaration.new_columns == ADD else None
        return TableFeed(self.name, self.declaration, self.open, make, self.keep_bad_events, owner, add)

    def open(self) -> IngestTarget:
        """Open the current table with its current properties, if the metastore answers.

        Raises NoSuchTableError, UnsupportedTableError, SettingsError.
        """
        call = self._call()
        options = call.write_options()
        check_ingestible(call.table, options)
        check_splittable(call.table, options, self.declaration)
        target = IngestTarget(call.table, ingest_options(call, options), lambda: self._after_commit(call))
        if self.worker is not None:
            if self.declaration.source == PUSH and self.worker.accepted is not None:
                self._offer_check(self.worker.accepted, target)
            if not is_synced(call.table, self.entry if call.entry is None else call.entry):
                self.worker.syncs.submit(self.name, call.sync)
        return target

    def _call(self) -> TableCall:
        entry: MetastoreTable | None = self.entry
        with suppress(MetastoreUnavailableError):
            entry = self.context.metastore.get_table(self.entry.database, self.entry.name)
        if entry is None:
            raise NoSuchTableError(f"the table {self.name} was dropped")
        return open_registered(self.context, entry, self.storage)

    def add_columns(self, found: pa.Schema) -> None:
        """Add those of the columns that can be added; a warning names the others.

        A sync that fails is a warning: the next commit syncs again.
        """
        if self.worker is not None:
            # A sync that began before would remove the columns from the entry again.
            self.worker.syncs.settle([self.name])
        call = self._call()
        concurrency = ingest_options(call, call.write_options()).concurrency
        left: list[str] = []
        self._sync(lambda: left.extend(add_new_columns(call, found, concurrency)))
        if left:
            self.context.console.warning(f"{self.name}: columns of events that cannot be added: {left}")

    def _offer_check(self, accepted: AcceptedTables, target: IngestTarget) -> None:
        """Check pushes by the current columns of the table."""
        current = accepted.check_of(self.name)
        takes_bad_rows = self.declaration.on_bad_record == DEAD_LETTER
        if current is None or not current.is_of(target.table.schema, takes_bad_rows=takes_bad_rows):
            paths = PartitionPaths(target.table, target.options.key_generator)
            refuse = RefusedRows(target, paths)
            check = RowCheck(target.table.schema, refuse, takes_bad_rows=takes_bad_rows)
            accepted.offer(self.name, check)

    def keep_bad_events(self, events: Sequence[BadEvent]) -> None:
        """Write the events to the table's dead-letter table, created and registered if it is missing."""
        entry = self.entry
        base_path = self.storage.qualify(location_of(entry)) + SUFFIX
        name = entry.name + SUFFIX
        table = open_dead_letter_table(self.storage, base_path, entry.database, name)
        config = settings_of(self.context, table, {**SHARED_BY_WRITERS})
        write_bad_events(table, events, write_options(self.context, table, config))
        self._sync(lambda: sync_table(self.context.metastore, table.reopened(), entry.database, name))

    def _after_commit(self, call: TableCall) -> None:
        """Clean and archive if that is due, then sync; failures are warnings."""
        console = self.context.console
        if self.declaration.services:
            services = AutomaticServices(
                call.table.reopened(), call.config, call.write_options, console.warning, self.name
            )
            services.run_without_spark()
        if self.worker is None:
            return
        self.worker.syncs.submit(self.name, call.sync)
        if self.worker.compact is not None and self.declaration.compaction == WORKER:
            self._ask_for_compaction(call, self.worker.compact)

    def _ask_for_compaction(self, call: TableCall, compact: Callable[[str], None]) -> None:
        table = call.table.reopened()
        pending = [instant for instant in table.timeline.pending if instant.action == COMPACTION]
        try:
            options = compaction_options(call.config)
            is_due = is_compaction_due(table.timeline, options, now_on_timeline(table))
        except SettingsError as error:
            self.context.console.warning(f"{self.name}: {error.message}")
            return
        if table.is_merge_on_read and (pending or is_due):
            compact(self.name)

    def _sync(self, sync: Callable[[], object]) -> None:
        try:
            sync()
        except SyncFailedError as error:
            self.context.console.warning(f"{self.name}: {error.message}; the next commit syncs again")


def declared_tables(
    context: Context, storage: Storage, worker: WorkerParts | None = None
) -> list[DeclaredTable]:
    """The tables of the metastore that have a declaration. Raises MetastoreError, SettingsError.

    `worker` is the one of this process that feeds them. A declaration that cannot be read is a warning.
    """
    found = []
    clients = read_client_config(context.settings.kafka_config)
    for entry in main_entries(context.metastore.find_tables_with_property(PROPERTY), storage):
        try:
            declaration = declaration_of(entry.parameters)
        except InvalidArgumentError as error:
            context.console.warning(f"{entry.full_name}: {error.message} ({error.hint})")
            continue
        if declaration is not None:
            found.append(DeclaredTable(context, storage, entry, declaration, clients, worker))
    return found


def ingest_options(call: TableCall, options: WriteOptions) -> WriteOptions:
    """The options of a worker's writes to the table.

    Without a configured codec files use snappy, which takes half of gzip's CPU time. The wait for another
    writer's lock is short: the worker has other tables, and retries.
    """
    policy = options.concurrency.lock_retry_policy
    policy = replace(policy, retries=min(policy.retries, _LOCK_RETRIES))
    options = replace(options, concurrency=replace(options.concurrency, lock_retry_policy=policy))
    if call.config.is_set(CODEC):
        return options
    return replace(options, base_file_config=replace(options.base_file_config, codec="snappy"))


def check_ingestible(table: HudiTable, options: WriteOptions) -> None:
    """Raise InvalidArgumentError for a table that events cannot be written to."""
    if options.index.is_global:
        raise InvalidArgumentError(
            f"{table.base_path} has a global index: keys are looked up in the partition that an event names",
            hint="ALTER TABLE … SET TBLPROPERTIES ('hoodie.index.type' = 'BLOOM')",
        )


def check_splittable(table: HudiTable, options: WriteOptions, declaration: IngestDeclaration) -> None:
    """Raise InvalidArgumentError for a table whose partitions cannot be split as declared."""
    if declaration.split == SplitKind.NEVER:
        return
    reason = None
    if options.index.buckets is not None:
        reason = "has a bucket index: its rows are in hash buckets already"
    elif table.properties.generates_record_keys:
        reason = "has no record key, whose hash would be a row's bucket"
    elif not table.properties.populate_meta_fields:
        reason = "keeps no meta columns (hoodie.populate.meta.fields=false), by which rows are moved"
    if reason is not None:
        raise InvalidArgumentError(f"{table.base_path} {reason}", hint="leave split at 'never'")


def make_parser(
    table: HudiTable, declaration: IngestDeclaration, clients: ClientConfig = NO_CLIENT_CONFIG
) -> RecordParser:
    """The parser of the declaration's format for the table.

    Raises InvalidArgumentError, UnsupportedTableError for columns whose types the format does not support.
    """
    fields = table.properties.record_key_fields
    key_column = fields[0] if len(fields) == 1 else None
    if declaration.source == PUSH:
        return PushedParser(table.schema)
    address, adds = declaration.schema_registry, declaration.new_columns == ADD
    if declaration.format == "json":
        return JsonParser(table.schema, key_column, take_new_columns=adds)
    if declaration.format == "debezium" and address is None:
        return DebeziumJsonParser(table.schema, key_column, take_new_columns=adds)
    assert address is not None
    registry = SchemaRegistry(address, **clients.registry(str(declaration.bootstrap_servers)))
    if declaration.format == "debezium":
        return DebeziumAvroParser(table.schema, registry, key_column, adds)
    return AvroParser(table.schema, registry, key_column, adds)


def add_new_columns(call: TableCall, found: pa.Schema, concurrency: Concurrency) -> list[str]:
    """Add the columns that can be added in one commit, and sync the metastore.

    Returns the names of the others: meta columns, those that differ from another column's name only by case,
    and those beyond MOST_COLUMNS. Raises WriteConflictError, TableLockedError, UnsupportedTableError,
    StorageError; SyncFailedError if only the sync failed.
    """
    table = call.table
    known = {name.lower() for name in table.schema.names}
    known |= {column.name.lower() for column in table.partition_columns}
    added: list[pa.Field] = []
    left: list[str] = []
    for column in found:
        name = column.name.lower()
        has_room = len(table.schema) + len(added) < MOST_COLUMNS
        if name in known or name.startswith(_META_PREFIX) or not name or not has_room:
            if column.name not in table.schema.names:
                left.append(column.name)
            continue
        known.add(name)
        added.append(pa.field(column.name, column.type))
    if added:
        label = table.base_path if call.entry is None else call.entry.full_name
        commit_schema(table, with_added_columns(table, pa.schema(added), label), concurrency)
        call.sync()
    return left
