"""The current writers of the declared tables: workers of a Kafka group, and holders of leases.

It asks no worker. A worker with `--sole-worker` has no leases, and is not visible here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hudisql.ingest.declaration import PUSH
from hudisql.ingest.kafka.group_state import PAUSED, GroupState, read_group
from hudisql.ingest.push.leases import lease_holders
from hudisql.ingest.push.worker_locks import lock_name
from hudisql.service_process.ingest.declared_table import DeclaredTable
from hudisql.service_process.ingest.run_ingest import coordinator_of

if TYPE_CHECKING:
    from hudisql.context import Context

UNKNOWN: Final = "unknown"
RUNNING: Final = "running"
_NO_GROUP: Final = GroupState("Empty", (), {})


@dataclass(frozen=True, slots=True)
class WorkersState:
    """The group of workers that feed tables of topics, and the holders of leases of pushed tables."""

    group: GroupState = _NO_GROUP
    holders: Mapping[str, str] = field(default_factory=dict)

    def owner_of(self, table: DeclaredTable) -> str | None:
        """The worker that owns the table; None if there is none."""
        if table.declaration.source == PUSH:
            return self.holders.get(lock_name(table.name))
        found = self.group.owner_of(table.name)
        return None if found is None else found.name

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
