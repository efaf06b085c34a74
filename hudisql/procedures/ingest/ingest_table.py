"""`ingest_table`, `pause_ingest`, `resume_ingest`, `drop_ingest`: declarations of ingested events.

Procedures of hudisql; Apache Hudi's counterpart is the configuration of a Hudi Streamer job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.procedures.registry import Arguments, NamedTableArguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context
    from hudisql.ingest.declaration import IngestDeclaration
    from hudisql.options.table_call import TableCall


@dataclass(frozen=True, kw_only=True)
class IngestTableArguments(Arguments):
    """The parameters of `ingest_table`."""

    table: str = parameter(help="Hudi table of the metastore, database.name, that gets the rows")
    source: str = parameter("kafka", help="kafka, or push: rows that clients push to `hudisql ingest worker`")
    topic: str | None = parameter(None, help="topic of Kafka")
    bootstrap_servers: str | None = parameter(None, help="Kafka's brokers, host:port,host:port")
    format: str = parameter("json", help="json, avro (framed as by Confluent's serializers) or debezium")
    schema_registry: str | None = parameter(None, help="address of the registry of Avro's schemas")
    start: str = parameter("earliest", help="earliest, latest or a time: where a new partition begins")
    flush_bytes: int = parameter(64 << 20, help="commit when this many bytes of events are in memory")
    flush_seconds: float = parameter(60.0, help="commit at most this long after the first event in memory")
    index_days: int = parameter(30, help="partitions older than this have no index in memory")
    index: str = parameter(
        "memory", help="memory or rocksdb: indexes beyond the worker's memory are left out, or on its disk"
    )
    on_bad_record: str | None = parameter(
        None,
        help="what follows an event that is not a row: dead_letter (of topics by default) or stop, for "
        "pushes refuse (by default) or dead_letter",
    )
    new_columns: str = parameter("ignore", help="ignore or add: columns of events that the table lacks")
    fail_on_data_loss: bool = parameter(True, help="stop if retention has deleted events that were not taken")
    split: str = parameter(
        "never", help="never, auto, rows:N, days:N or now: when a partition is split into hash buckets"
    )
    services: bool = parameter(True, help="the worker cleans and archives after its commits")
    compaction: str = parameter("services", help="services or worker: who compacts a merge-on-read table")


@dataclass(frozen=True)
class DeclarationRow:
    """A table and its current declaration."""

    table: str
    source: str
    topic: str | None
    format: str
    paused: bool


@procedure("Declares the topic or the pushes whose rows `hudisql ingest worker` writes to a table.")
def ingest_table(context: Context, arguments: IngestTableArguments) -> Iterable[DeclarationRow]:
    """Store the declaration in the table's properties; an existing declaration is replaced.

    Raises NoSuchTableError, InvalidArgumentError, UnsupportedTableError, MetastoreError.
    """
    from hudisql.ingest.declaration import DEAD_LETTER, PUSH, REFUSE, IngestDeclaration
    from hudisql.service_process.ingest.declaration_changes import store_declaration
    from hudisql.service_process.ingest.declared_table import check_ingestible, check_splittable
    from hudisql.write.transaction.writable_tables import check_writable

    values = {
        field.name: getattr(arguments, field.name)
        for field in fields(IngestDeclaration)
        if hasattr(arguments, field.name)
    }
    if arguments.on_bad_record is None:
        values["on_bad_record"] = REFUSE if arguments.source == PUSH else DEAD_LETTER
    declaration = IngestDeclaration(**values)
    declaration.check()
    call = _open(context, arguments.table)
    check_writable(call.table)
    options = call.write_options()
    check_ingestible(call.table, options)
    check_splittable(call.table, options, declaration)
    assert call.entry is not None
    store_declaration(context, call.entry, declaration, _sharing_of(call))
    return [_row(call.entry, declaration)]


@procedure("Stops writing events to a table until `resume_ingest`.")
def pause_ingest(context: Context, arguments: NamedTableArguments) -> Iterable[DeclarationRow]:
    """Workers commit what they have in memory, and read no more."""
    from hudisql.service_process.ingest.declaration_changes import change_declaration

    return [_row(*change_declaration(context, arguments.table, paused=True))]


@procedure("Resumes writing events to a table after `pause_ingest`.")
def resume_ingest(context: Context, arguments: NamedTableArguments) -> Iterable[DeclarationRow]:
    """Workers continue from the offsets of the table's last commit."""
    from hudisql.service_process.ingest.declaration_changes import change_declaration

    return [_row(*change_declaration(context, arguments.table, paused=False, drained=False))]


@procedure("Removes the declaration of `ingest_table`; the table and its rows stay.")
def drop_ingest(context: Context, arguments: NamedTableArguments) -> Iterable[DeclarationRow]:
    """The offsets stay in the table's commits: a later declaration of the same topic continues from there.

    Raises NoSuchTableError, InvalidArgumentError for a table without a declaration, MetastoreError.
    """
    from hudisql.catalog.guarded_alter import alter_guarded
    from hudisql.ingest.declaration import PROPERTY
    from hudisql.options.table_call import find_entry
    from hudisql.service_process.ingest.declaration_changes import not_declared

    entry = find_entry(context, arguments.table)
    if PROPERTY not in entry.parameters:
        raise not_declared(entry.full_name)
    kept = {name: value for name, value in entry.parameters.items() if name != PROPERTY}
    alter_guarded(context.metastore, entry, replace(entry, parameters=kept))
    return [DeclarationRow(entry.full_name, "", None, "", True)]


def _open(context: Context, name: str) -> TableCall:
    from hudisql.options.table_call import find_entry, open_registered
    from hudisql.service_process.tables.run_services import storage_without_spark

    return open_registered(context, find_entry(context, name), storage_without_spark(context))


def _sharing_of(call: TableCall) -> Mapping[str, str]:
    """The settings that let workers and other writers share the table, unless it has its own."""
    from hudisql.service_process.ingest.declared_table import SHARED_BY_WRITERS

    assert call.entry is not None
    own = {**call.table.properties.values, **call.entry.parameters}
    given = [name for name in SHARED_BY_WRITERS if name in own]
    if not given:
        return SHARED_BY_WRITERS
    mode, wanted = next(iter(SHARED_BY_WRITERS.items()))
    if own.get(mode, "").lower() != wanted:
        raise InvalidArgumentError(
            f"{call.entry.full_name} has {given[0]} = {own[given[0]]}, but not {mode} = {wanted}: workers "
            "and other writers share a table by a lock",
            hint=f"ALTER TABLE … SET TBLPROPERTIES ('{mode}' = '{wanted}', …) with a lock provider, or UNSET "
            "what it has: docs/changing-rows.md, Several writers",
        )
    return {}


def _row(entry: MetastoreTable, declaration: IngestDeclaration) -> DeclarationRow:
    return DeclarationRow(
        entry.full_name, declaration.source, declaration.topic, declaration.format, declaration.is_paused
    )
