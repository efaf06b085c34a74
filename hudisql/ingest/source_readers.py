"""Reads the sources of a worker's tables. Several tables may read the same partition of a source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hudisql.console import Console
from hudisql.errors import HudisqlError
from hudisql.ingest.event_source import EventSource, Polled, StartOffsets
from hudisql.ingest.fed_table import FedTable, IngestTable
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_buffer import EventBatch

_UNREACHABLE_SECONDS: Final = 30.0


@dataclass
class SourceReaders:
    """The sources, opened by name when their first table starts, and which tables read which partitions."""

    open_source: Callable[[str], EventSource]
    console: Console
    clock: Callable[[], float]
    _sources: dict[str, EventSource] = field(default_factory=dict)
    _readers: dict[tuple[str, SourcePartition], list[FedTable]] = field(default_factory=dict)
    # Until when a source that did not answer is left alone: each of its tables would wait for it.
    _unreachable: dict[str, float] = field(default_factory=dict)

    def add(self, fed: FedTable) -> None:
        """Begin to read the table's events behind its last commit. Raises HudisqlError."""
        source = self._source_of(fed)
        start = source.start(fed.name, fed.table.declaration, fed.feed.committed)
        for warning in start.warnings:
            self.console.warning(warning)
        fed.feed.begin_at(start.offsets, commits=start.commits)
        source.assign(self._register(fed, start))

    def _register(self, fed: FedTable, start: StartOffsets) -> dict[SourcePartition, int]:
        """Note what the table reads; gives the offsets to read from, for all readers of its partitions."""
        fed.partitions = set(start.offsets)
        offsets: dict[SourcePartition, int] = {}
        for partition, offset in start.offsets.items():
            readers = self._readers.setdefault((fed.source_name, partition), [])
            offsets[partition] = min([offset, *(other.feed.position[partition] for other in readers)])
            readers.append(fed)
        return offsets

    def remove(self, fed: FedTable) -> None:
        """Read the table's events no longer."""
        for partition in fed.partitions:
            readers = self._readers[fed.source_name, partition]
            readers.remove(fed)
            source = self._sources[fed.source_name]
            if readers:
                # It may have been rewound for this table.
                source.assign({partition: min(other.feed.position[partition] for other in readers)})
            else:
                source.unassign([partition])
        fed.partitions = set()

    def readers(self, source: str, partition: SourcePartition) -> list[FedTable]:
        """The tables that read the partition."""
        return list(self._readers.get((source, partition), ()))

    @property
    def is_reading(self) -> bool:
        """True if a partition of a source is read."""
        return any(source.assigned for source in self._sources.values())

    def poll(self, seconds: float) -> Iterator[tuple[str, Polled]]:
        """The next events of each source, by its name. Raises HudisqlError."""
        reading = [source for source in self._sources.values() if source.assigned]
        for source in reading:
            yield source.name, source.poll(seconds / len(reading))

    def with_changed_partitions(self, tables: Collection[FedTable]) -> list[FedTable]:
        """Those of the tables whose topics have other partitions than those that are read."""
        changed: list[FedTable] = []
        for source in self._sources.values():
            if not source.assigned or self.clock() < self._unreachable.get(source.name, 0.0):
                continue
            try:
                numbers = source.all_partitions()
            except HudisqlError as error:
                self.leave_alone(source.name)
                self.console.warning(error.message)
                continue
            for fed in tables:
                if numbers and fed.source_name == source.name:
                    topics = {topic for topic, _ in fed.partitions}
                    current = {(topic, number) for topic in topics for number in numbers.get(topic, ())}
                    if fed.partitions != current:
                        changed.append(fed)
        return changed

    def leave_alone(self, source: str) -> None:
        """Start no table of this source for a time."""
        self._unreachable[source] = self.clock() + _UNREACHABLE_SECONDS

    def reachable_from(self, table: IngestTable) -> float:
        """The time from which the table's source may be asked again."""
        return self._unreachable.get(table.declaration.source_name, 0.0)

    def committed(self, fed: FedTable) -> None:
        """A commit has the events that the table has taken."""
        self._source_of(fed).committed(fed.feed.position)

    def lag_of(self, fed: FedTable) -> int | None:
        """The events that no commit has yet, by the source's last answers; None if that is not known."""
        source = self._source_of(fed)
        lag, committed = 0, fed.feed.committed
        for partition in fed.partitions:
            left = source.events_left(partition, committed[partition])
            if left is None:
                return None
            lag += left
        return lag

    def last_events(self, table: IngestTable) -> Iterable[EventBatch]:
        """Take no more events of the table from clients; gives those that only this process has."""
        source = self._sources.get(table.declaration.source_name)
        return () if source is None else source.last_events(table.name)

    def stop(self) -> None:
        """Take no more events from clients."""
        for source in self._sources.values():
            source.stop()

    def close(self) -> None:
        """Close the sources."""
        for source in self._sources.values():
            source.close()

    def _source_of(self, fed: FedTable) -> EventSource:
        name = fed.source_name
        if name not in self._sources:
            self._sources[name] = self.open_source(name)
        return self._sources[name]
