"""What one table, topic or cluster may cost the others: a worker on simulated clusters, with their clock."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hudisql.console import SilentConsole
from hudisql.errors import KafkaError, StorageError, WriteRefusedError
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.event_source import Polled, StartOffsets
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.ownership import Ownership, OwnershipBySource, OwnsAll
from hudisql.ingest.table_buffer import EventBatch
from hudisql.ingest.worker import IngestWorker
from hudisql.write.execution.commit_files import WriteResult

PARTITION: SourcePartition = ("events", 0)
POLL_SECONDS = 0.1
TIMEOUT = 10.0
STEP = 100


class Clock:
    """Seconds that pass while a call waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Cluster:
    """A topic with one partition of `end` events; one that is down answers after a timeout."""

    clock: Clock
    name: str
    end: int
    is_down: bool = False
    at: dict[SourcePartition, int] = field(default_factory=dict)

    @property
    def assigned(self) -> Collection[SourcePartition]:
        return self.at

    def close(self) -> None:
        """Nothing is open."""

    def all_partitions(self) -> Mapping[str, list[int]]:
        self._answer()
        return {PARTITION[0]: [0]}

    def known_end(self, _source: SourcePartition) -> None:
        """Not known."""

    def start(
        self, _table: str, _declaration: IngestDeclaration, committed: Mapping[SourcePartition, int]
    ) -> StartOffsets:
        self._answer()
        return StartOffsets({PARTITION: committed.get(PARTITION, 0)}, commits=False)

    def committed(self, _offsets: Mapping[SourcePartition, int]) -> None:
        """Nothing is kept."""

    def last_events(self, _table: str) -> tuple[EventBatch, ...]:
        return ()

    def stop(self) -> None:
        """No client is there."""

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        self.at.update(offsets)

    def unassign(self, sources: Collection[SourcePartition]) -> None:
        for each in sources:
            self.at.pop(each, None)

    def poll(self, _timeout: float) -> Polled:
        self.clock.now += POLL_SECONDS
        first = self.at[PARTITION]
        if first >= self.end:
            return Polled(ended=(PARTITION,))
        last = min(first + STEP, self.end)
        self.at[PARTITION] = last
        offsets = np.arange(first, last)
        nothing: list[Any] = [None] * len(offsets)
        return Polled((EventBatch(PARTITION, nothing, nothing, offsets, offsets, last),))

    def _answer(self) -> None:
        if self.is_down:
            self.clock.now += TIMEOUT
            raise KafkaError(f"{self.name} does not answer") from OSError()


@dataclass
class Feed:
    """A feed that counts; it refuses the event at `refused`, and its first `failures` starts fail."""

    refused: int | None = None
    failures: int = 0
    committed: int = 0
    position: dict[SourcePartition, int] = field(default_factory=dict)
    memory: int = 0
    wants_split: bool = False
    begun: int = 0

    def take_over(self) -> Mapping[SourcePartition, int]:
        self.begun += 1
        if self.failures:
            self.failures -= 1
            raise WriteRefusedError("not now")
        return {PARTITION: self.committed} if self.committed else {}

    def split_next(self) -> WriteResult | None:
        self.wants_split = False
        raise StorageError("a file cannot be read")

    def begin_at(self, offsets: Mapping[SourcePartition, int], *, commits: bool) -> None:  # noqa: ARG002
        self.position = dict(offsets)

    def take(self, batch: EventBatch, _now: float) -> None:
        if batch.next_offset <= self.position[PARTITION]:
            return
        if self.refused is not None and self.refused < batch.next_offset:
            raise WriteRefusedError("no row")
        self.position[PARTITION] = batch.next_offset

    def is_due(self, _now: float) -> bool:
        return True

    def flush(self) -> WriteResult | None:
        if self.position[PARTITION] == self.committed:
            return None
        self.committed = self.position[PARTITION]
        return WriteResult("1")


@dataclass
class Table:
    """A declared table; `servers` name its cluster."""

    name: str
    servers: str
    fed: Feed

    @property
    def declaration(self) -> IngestDeclaration:
        return IngestDeclaration(topic=PARTITION[0], bootstrap_servers=self.servers)

    def feed(self, _owner: str) -> Any:
        return self.fed


def run(
    tables: list[Table], clusters: list[tuple[str, int]], down: str = "", seconds: float | None = None
) -> bool:
    """Run a worker until its tables have caught up, or for so many seconds."""
    clock, stop = Clock(), threading.Event()
    found = {name: Cluster(clock, name, end, is_down=name == down) for name, end in clusters}

    def now() -> float:
        if seconds is not None and clock.now > seconds:
            stop.set()
        return clock.now

    worker = IngestWorker(
        lambda: tables,
        OwnsAll(),
        SilentConsole(),
        stop,
        "worker",
        clock=now,
        open_source=lambda servers: found[servers],
    )
    return worker.run(until_caught_up=seconds is None)


def test_a_table_that_failed_once_is_caught_up_before_the_end() -> None:
    failed, other = Feed(failures=1), Feed()
    tables = [Table("d.failed", "a", failed), Table("d.other", "b", other)]
    assert run(tables, [("a", 100_000), ("b", 1_500)])
    assert (failed.committed, other.committed) == (100_000, 1_500)


def test_a_table_that_goes_on_failing_ends_with_a_failure() -> None:
    failing, other = Feed(refused=50), Feed()
    tables = [Table("d.failing", "a", failing), Table("d.other", "b", other)]
    assert not run(tables, [("a", 1_000), ("b", 1_000)])
    assert (failing.committed, other.committed) == (0, 1_000)


def test_a_cluster_that_is_down_leaves_the_others_most_of_the_time() -> None:
    tables = [Table(f"d.down{number}", "a", Feed()) for number in range(30)]
    other = Feed()
    run([*tables, Table("d.other", "b", other)], [("a", 0), ("b", 10**9)], down="a", seconds=900)
    assert other.committed > 0.5 * 900 / POLL_SECONDS * STEP


def test_a_table_far_behind_does_not_keep_back_others_of_its_topic() -> None:
    stuck, other = Feed(refused=1_000), Feed(committed=500_000)
    tables = [Table("d.other", "a", other), Table("d.stuck", "a", stuck)]
    run(tables, [("a", 10**9)], seconds=300)
    assert stuck.committed == 1_000
    assert other.committed - 500_000 > 0.5 * 300 / POLL_SECONDS * STEP


def test_a_partition_that_cannot_be_split_does_not_keep_events_back() -> None:
    feed = Feed(wants_split=True)
    assert run([Table("d.whole", "a", feed)], [("a", 1_000)])
    assert (feed.committed, feed.begun) == (1_000, 1)


def test_who_waits_for_the_group_of_workers_does_not_know_what_it_owns() -> None:
    def join_group() -> Ownership:
        raise KafkaError("no broker answers")

    said: list[str] = []
    ownership = OwnershipBySource(join_group, OwnsAll(), said.append)
    table = Table("d.topic", "a", Feed())
    assert ownership.owned({}) == set()
    assert ownership.is_settled
    assert ownership.owned({table.name: table}) == set()
    assert said == ["no broker answers; the tables of topics wait"]
    assert not ownership.is_settled
