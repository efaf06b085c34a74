"""The progress of each declared table: its last commit, and the events of its topic that are not committed.

Shown by `CALL show_ingest` and `hudisql ingest status`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import HudisqlError

if TYPE_CHECKING:
    from hudisql.ingest.kafka.kafka_source import KafkaSource
    from hudisql.ingest.offsets import TableOffsets
    from hudisql.ingest.watch.commit_rate import TakenEvents
    from hudisql.service_process.ingest.declared_table import DeclaredTable


@dataclass(frozen=True)
class IngestRow:
    """A declared table; `owner` and `epoch` are those of its last commit, `lag` counts events not taken.

    `rate` is events a second between its last commits, `last_commit` when the last one began.
    `error` is the reason why the rest is unknown.
    """

    table: str
    source: str
    topic: str | None
    format: str
    paused: bool
    owner: str | None
    epoch: int | None
    lag: int | None
    rate: float | None
    last_commit: str | None
    error: str | None


def ingest_rows(tables: Iterable[DeclaredTable]) -> list[IngestRow]:
    """One row for each of the tables; `error` has what cannot be looked up."""
    sources: dict[str, KafkaSource] = {}
    try:
        return [_row(table, sources) for table in tables]
    finally:
        for source in sources.values():
            source.close()


def _row(table: DeclaredTable, sources: dict[str, KafkaSource]) -> IngestRow:
    from hudisql.ingest.watch.commit_rate import find_taken

    declared = table.declaration
    taken: TakenEvents | None = None
    lag = error = None
    try:
        taken = find_taken(table.open().table)
        lag = _lag(table, taken.offsets, sources)
    except HudisqlError as found:
        error = found.message
    return IngestRow(
        table.name,
        declared.source,
        declared.topic,
        declared.format,
        declared.is_paused,
        (taken.offsets.owner or None) if taken else None,
        taken.offsets.epoch if taken else None,
        lag,
        None if taken is None or taken.rate is None else round(taken.rate, 3),
        None if taken is None or taken.last_commit is None else taken.last_commit.isoformat(),
        error,
    )


def _lag(table: DeclaredTable, taken: TableOffsets, sources: dict[str, KafkaSource]) -> int | None:
    from hudisql.ingest.kafka.kafka_source import KafkaSource

    topic, servers = table.declaration.topic, table.declaration.bootstrap_servers
    if topic is None or servers is None:
        return None
    if servers not in sources:
        sources[servers] = KafkaSource(servers, table.clients.kafka(servers))
    source = sources[servers]
    lag = 0
    for number in source.partitions(topic):
        first, end = source.retained((topic, number))
        lag += end - max(taken.offsets.get((topic, number), first), first)
    return lag
