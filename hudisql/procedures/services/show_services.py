"""`show_services`: per table and service what ran last, what is due and why, and the pending plans.

Shows what `hudisql services run` would do; hudisql's own procedure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.procedures.registry import Arguments, parameter, procedure, table_parameter
from hudisql.procedures.show.shown_rows import completion_text, filter_parameter, filter_rows, transition_time

if TYPE_CHECKING:
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context
    from hudisql.format.timeline.instant import Instant
    from hudisql.services.schedule.due_services import Service, ServiceState
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class ShowServicesArguments(Arguments):
    """The parameters of `show_services`."""

    table: str | None = table_parameter()
    database: str | None = parameter(None, help="all tables of this database; without both: of all databases")
    filter: str = filter_parameter()


@dataclass(frozen=True)
class ServiceRow:
    """A service of a table; `last_instant` is NULL if none is on the active timeline."""

    table: str
    service: str
    last_instant: str | None
    last_completed: str | None
    is_due: bool
    reason: str
    pending: str | None


@procedure("Shows each table's services: the last run, whether one is due and why, and the pending plans.")
def show_services(context: Context, arguments: ShowServicesArguments) -> Iterable[ServiceRow]:
    """Five rows for each table, six for one whose commits are published as Iceberg.

    The rows of a table that cannot be opened have the error.

    Raises InvalidArgumentError, NoSuchTableError, MetastoreError.
    """
    from hudisql.service_process.tables.run_services import ServedTables, served_entries

    if arguments.table is not None and arguments.database is not None:
        raise InvalidArgumentError("give table or database, not both")
    named = () if arguments.table is None else (arguments.table,)
    entries = served_entries(context, ServedTables(named, arguments.database))
    rows = [row for entry in entries for row in _rows(context, entry)]
    return filter_rows(context, rows, ServiceRow, arguments.filter)


def _rows(context: Context, entry: MetastoreTable) -> list[ServiceRow]:
    from hudisql.options.table_call import open_registered
    from hudisql.service_process.tables.run_services import storage_without_spark
    from hudisql.services.schedule.due_services import Service, service_states

    try:
        call = open_registered(context, entry, storage_without_spark(context))
        states = service_states(call.table, call.config, call.concurrency)
        return [_row(call.table, entry.full_name, state) for state in states]
    except HudisqlError as error:
        text = f"unknown: {error.message}"
        return [
            ServiceRow(entry.full_name, service.value, None, None, False, text, None)
            for service in Service
            if service is not Service.PUBLICATION
        ]


def _row(table: HudiTable, name: str, state: ServiceState) -> ServiceRow:
    from hudisql.services.schedule.due_services import Service

    if state.service is Service.ARCHIVE:
        last, completed = None, _last_archived(table)
    elif state.service is Service.PUBLICATION:
        last, completed = _last_published(table), None
    else:
        instant = _last_of(table, state.service)
        last = None if instant is None else instant.timestamp
        completed = None if instant is None else completion_text(table, instant)
    pending = ",".join(state.pending) or None
    return ServiceRow(name, state.service.value, last, completed, state.is_due, state.reason, pending)


def _last_of(table: HudiTable, service: Service) -> Instant | None:
    """The last completed instant of the service on the active timeline."""
    from hudisql.format.timeline.instant import CLEAN, COMMIT, REPLACE_COMMIT, ROLLBACK
    from hudisql.services.schedule.due_services import Service
    from hudisql.table.timeline.requested_plans import is_clustering

    action = {
        Service.ROLLBACK: ROLLBACK,
        Service.COMPACTION: COMMIT,
        Service.CLEAN: CLEAN,
        Service.CLUSTERING: REPLACE_COMMIT,
    }[service]
    if service is Service.COMPACTION and not table.is_merge_on_read:
        return None
    for instant in reversed(table.timeline.completed):
        if instant.action == action and (service is not Service.CLUSTERING or is_clustering(table, instant)):
            return instant
    return None


def _last_published(table: HudiTable) -> str | None:
    from hudisql.iceberg.metadata_files import INSTANT, latest_metadata

    return latest_metadata(table).summary.get(INSTANT)


def _last_archived(table: HudiTable) -> str | None:
    from hudisql.table.timeline.archived_timeline import list_archive_files

    files = list_archive_files(table)
    return transition_time(files[-1][1]) if files else None
