"""The protocol of event sources: a Kafka cluster, or the log of pushed rows.

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
    """The result of one poll: events by source partition, and the partitions whose end was reached.

    `lost` are partitions whose next event the source no longer has, `failed` those that cannot be read.
    """

    batches: tuple[EventBatch, ...] = ()
    ended: tuple[SourcePartition, ...] = ()
    lost: tuple[SourcePartition, ...] = ()
    failed: Mapping[SourcePartition, HudisqlError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """The first offset of a table in each partition; with `commits` an empty commit stores them first."""

    offsets: Mapping[SourcePartition, int]
    commits: bool
    warnings: tuple[str, ...] = ()


class EventSource(Protocol):
    """A source of the events of several tables. Used by the worker's thread only."""

    @property
    def name(self) -> str:
        """Its name in the declarations of its tables (`source_name`)."""

    @property
    def assigned(self) -> Collection[SourcePartition]:
        """The partitions that are read."""

    def all_partitions(self) -> Mapping[str, Collection[int]]:
        """The partition numbers of all topics; empty if they never change. Raises HudisqlError."""

    def start(
        self, table: str, declaration: IngestDeclaration, committed: Mapping[SourcePartition, int]
    ) -> StartOffsets:
        """The first offsets of a table whose last commit has these offsets. Raises HudisqlError."""

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Also read these partitions, from these offsets on. Raises HudisqlError."""

    def unassign(self, sources: Collection[SourcePartition]) -> None:
        """Stop reading these partitions. Raises HudisqlError."""

    def events_left(self, source: SourcePartition, offset: int) -> int | None:
        """The number of events from the offset on, by the last answer; None if unknown."""

    def poll(self, timeout: float) -> Polled:
        """The next events; empty if none arrives within `timeout` seconds. Raises HudisqlError."""

    def committed(self, offsets: Mapping[SourcePartition, int]) -> None:
        """The events before these offsets are committed."""

    def last_events(self, table: str) -> Iterable[EventBatch]:
        """Stop taking events of a table from clients; gives those that only this process has and that were
        not polled. Raises HudisqlError while they are read.
        """

    def stop(self) -> None:
        """Stop taking events from clients; events that have arrived can still be read."""

    def close(self) -> None:
        """Release its resources."""
