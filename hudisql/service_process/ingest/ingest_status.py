"""`hudisql ingest status`: the rows of `show_ingest`, with the states that the workers report.

Writers are the workers of a Kafka group and the holders of leases; no worker is asked. A worker with
`--sole-worker` has no leases, and is not visible here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_lock import lock_name
from hudisql.ingest.declaration import PUSH
from hudisql.ingest.kafka.group_state import FAILED, PAUSED, GroupState, read_group
from hudisql.ingest.push.leases import lease_holders
from hudisql.options.table_call import find_entry
from hudisql.service_process.ingest.declaration_changes import not_declared
from hudisql.service_process.ingest.declared_table import DeclaredTable, declared_tables
from hudisql.service_process.ingest.ingest_rows import IngestRow, ingest_rows
from hudisql.service_process.ingest.run_ingest import coordinator_of
from hudisql.service_process.tables.run_services import storage_without_spark

if TYPE_CHECKING:
    from hudisql.context import Context

NO_WORKER: Final = "no worker"
UNKNOWN: Final = "unknown"
RUNNING: Final = "running"
_NO_GROUP: Final = GroupState("Empty", (), {})


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A declared table; `worker` owns it now and reports its `state`.

    `state` is running, starting, failed, paused, `no worker`, or unknown before the worker's first report.
    `error` is None for a table that is well.
    """

    table: str
    topic: str | None
    state: str
    worker: str | None
    lag: int | None
    rate: float | None
    last_commit: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class IngestStatus:
    """The tables, and the workers that feed them."""

    rows: tuple[StatusRow, ...]
    feeding: WorkersState

    @property
    def is_well(self) -> bool:
        """True if no table has an error."""
        return all(row.error is None for row in self.rows)

    @property
    def workers(self) -> tuple[str, ...]:
        """A line on each worker that is alive."""
        owned = [row.worker for row in self.rows]
        return tuple(
            f"{member.name} at {member.host}: {owned.count(member.name):,} of these tables"
            for member in self.feeding.group.members
        )


def find_status(
    context: Context,
    *,
    tables: Sequence[str] = (),
    group: str = "default",
    coordinator: str | None = None,
    max_lag: int | None = None,
) -> IngestStatus:
    """The status of the declared tables, or of the named ones; `max_lag` is the most events that may wait.

    Raises InvalidArgumentError, MetastoreError, NoSuchTableError, KafkaError.
    """
    found = chosen_tables(context, tables)
    if not found:
        return IngestStatus((), WorkersState())
    state = find_workers(context, found, group, coordinator)
    rows = {row.table: row for row in ingest_rows(found)}
    return IngestStatus(
        tuple(_row(declared_table, rows[declared_table.name], state, max_lag) for declared_table in found),
        state,
    )


def chosen_tables(context: Context, names: Sequence[str]) -> list[DeclaredTable]:
    """The declared tables, or the named ones, sorted by name.

    Raises MetastoreError, NoSuchTableError, InvalidArgumentError for one without a declaration.
    """
    found = {table.name: table for table in declared_tables(context, storage_without_spark(context))}
    wanted = [find_entry(context, name).full_name for name in names] or sorted(found)
    for name in wanted:
        if name not in found:
            raise not_declared(name)
    return [found[name] for name in wanted]


def _row(table: DeclaredTable, shown: IngestRow, workers: WorkersState, max_lag: int | None) -> StatusRow:
    owner, report = workers.owner_of(table), workers.report_on(table)
    state, _, reason = report.partition(": ")
    error = shown.error
    if table.declaration.is_paused:
        state, owner = PAUSED, None if report == PAUSED else owner
    elif owner is None:
        state, error = NO_WORKER, error or "no worker takes its events"
    elif state == FAILED:
        error = error or reason or "it failed: see the worker's log"
    if error is None and max_lag is not None and (shown.lag or 0) > max_lag:
        error = f"{shown.lag:,} events wait, more than {max_lag:,}"
    return StatusRow(
        table.name,
        shown.topic,
        state,
        owner,
        shown.lag,
        shown.rate,
        shown.last_commit,
        error,
    )


def columns() -> Mapping[str, str]:
    """The names of the columns of a status, with Spark's types."""
    others = {"lag": "bigint", "rate": "double"}
    return {name: others.get(name, "string") for name in StatusRow.__slots__}


@dataclass(frozen=True, slots=True)
class WorkersState:
    """The group of workers that feed tables of topics, and the holders of leases of pushed tables."""

    group: GroupState = _NO_GROUP
    holders: Mapping[str, str] = field(default_factory=dict)

    def owner_of(self, table: DeclaredTable) -> str | None:
        """The worker that owns the table; None if there is none."""
        if table.declaration.source == PUSH:
            return self.holders.get(lock_name(table.name))
        group_member = self.group.owner_of(table.name)
        return None if group_member is None else group_member.name

    def report_on(self, table: DeclaredTable) -> str:
        """The last report of its owner; for a lease only that it is held."""
        if table.declaration.source == PUSH:
            return RUNNING
        return self.group.tables.get(table.name, UNKNOWN)

    def is_left(self, table: DeclaredTable) -> bool:
        """True if no worker writes to a drained table: its owner has reported that, or there is none."""
        if table.declaration.source == PUSH:
            # A worker releases the lease after its last commit.
            return self.owner_of(table) is None
        if not self.group.is_settled:
            return False
        return self.owner_of(table) is None or self.report_on(table) == PAUSED


def find_workers(
    context: Context, tables: Sequence[DeclaredTable], group: str, coordinator: str | None
) -> WorkersState:
    """Find the owners of the tables. Raises InvalidArgumentError, KafkaError, MetastoreError."""
    of_topics = [table for table in tables if table.declaration.source != PUSH]
    state = _NO_GROUP
    if of_topics:
        servers = coordinator or coordinator_of(of_topics)
        state = read_group(servers, group, of_topics[0].clients.kafka(servers))
    has_pushed = len(of_topics) < len(tables)
    return WorkersState(state, lease_holders(context.metastore) if has_pushed else {})
