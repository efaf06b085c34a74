"""What a worker needs of the places that events come from: a cluster of Kafka, or the log of pushed rows.

A source gives events by partition, from the offsets that a table's last commit names. Must not know how
tables are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hudisql.errors import HudisqlError
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_buffer import EventBatch


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll gave: events by source partition, and the partitions whose end was reached.

    `lost` names the partitions whose next event the source no longer has, `failed` those that cannot be read.
    """

    batches: tuple[EventBatch, ...] = ()
    ended: tuple[SourcePartition, ...] = ()
    lost: tuple[SourcePartition, ...] = ()
    failed: Mapping[SourcePartition, HudisqlError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """Where a table begins in each of its partitions; with `commits` an empty commit says so first."""

    offsets: Mapping[SourcePartition, int]
    commits: bool
    warnings: tuple[str, ...] = ()


class EventSource(Protocol):
    """A place that events of several tables come from. Used by the worker's thread only."""

    @property
    def name(self) -> str:
        """What the declarations of its tables call it (`source_name`)."""

    @property
    def assigned(self) -> Collection[SourcePartition]:
        """The partitions that are read."""

    def all_partitions(self) -> Mapping[str, Collection[int]]:
        """The numbers of all topics' partitions, none if they never change. Raises HudisqlError."""

    def start(
        self, table: str, declaration: IngestDeclaration, committed: Mapping[SourcePartition, int]
    ) -> StartOffsets:
        """Where a table begins whose last commit has these offsets. Raises HudisqlError."""

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Read these partitions too, from these offsets on. Raises HudisqlError."""

    def unassign(self, sources: Collection[SourcePartition]) -> None:
        """Read these partitions no longer. Raises HudisqlError."""

    def events_left(self, source: SourcePartition, offset: int) -> int | None:
        """The events of a partition from the offset on, as last heard of; None if that is not known."""

    def poll(self, timeout: float) -> Polled:
        """The next events; none if none comes within `timeout` seconds. Raises HudisqlError."""

    def committed(self, offsets: Mapping[SourcePartition, int]) -> None:
        """A commit has the events before these offsets."""

    def last_events(self, table: str) -> Iterable[EventBatch]:
        """Take no more events of a table from clients: those that this process alone has and that were not
        polled. Raises HudisqlError while they are read.
        """

    def stop(self) -> None:
        """Take no more events from clients; those that are there can be read."""

    def close(self) -> None:
        """Give up what it holds."""
