"""What one table, topic or cluster may cost the others: a worker on simulated clusters, with their clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hudisql.console import SilentConsole
from hudisql.errors import KafkaError, StorageError, WriteRefusedError
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.event_source import Polled, StartOffsets
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.ownership import Ownership, OwnershipBySource, OwnsAll
from hudisql.ingest.table_buffer import BufferedEvents, EventBatch
from hudisql.ingest.watch.observer import CommittedEvents, WorkerView
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

    def events_left(self, _source: SourcePartition, _offset: int) -> None:
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
    """A feed that counts; it refuses the event at `refused`, its first `failures` starts fail, and each start
    calls `starts`."""

    refused: int | None = None
    failures: int = 0
    starts: Callable[[], object] = lambda: None
    taken: int = 0
    position: dict[SourcePartition, int] = field(default_factory=dict)
    memory: int = 0
    wants_split: bool = False
    begun: int = 0
    look_fails: bool = False
    index_bytes: int = 0
    buffered: BufferedEvents = field(default_factory=BufferedEvents)

    @property
    def committed(self) -> Mapping[SourcePartition, int]:
        return {PARTITION: self.taken}

    @property
    def is_idle(self) -> bool:
        return self.position[PARTITION] == self.taken and not self.wants_split

    def open(self) -> Feed:
        self.begun += 1
        self.starts()
        if self.failures:
            self.failures -= 1
            raise WriteRefusedError("not now")
        return self

    def split_next(self) -> WriteResult | None:
        self.wants_split = False
        raise StorageError("a file cannot be read")

    def close(self) -> None:
        """Nothing is kept."""

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

    def look_for_splits(self) -> None:
        if self.look_fails:
            raise StorageError("a partition cannot be listed")

    def flush(self) -> WriteResult | None:
        if self.position[PARTITION] == self.taken:
            return None
        self.taken = self.position[PARTITION]
        return WriteResult("1")


@dataclass
class Table:
    """A declared table; `servers` name its cluster."""

    name: str
    servers: str
    fed: Feed
    drained: bool = False

    @property
    def declaration(self) -> IngestDeclaration:
        return IngestDeclaration(topic=PARTITION[0], bootstrap_servers=self.servers, drained=self.drained)

    def feed(self, _owner: str) -> Any:
        return self.fed


@dataclass
class Observed:
    """What a worker told: the rows of its commits, failures, and which tables it said that it has left."""

    commits: int = 0
    failures: int = 0
    left: list[Collection[str]] = field(default_factory=list)

    def committed(self, _commit: CommittedEvents) -> None:
        self.commits += 1

    def failed(self, _table: str) -> None:
        self.failures += 1

    def looked(self, view: WorkerView) -> None:
        self.left.append(view.paused)


def run(
    tables: list[Table],
    clusters: list[tuple[str, int]],
    down: str = "",
    seconds: float | None = None,
    look: Callable[[], object] = lambda: None,
    clock: Clock | None = None,
    **more: Any,
) -> bool:
    """Run a worker until its tables have caught up, or for so many seconds."""
    clock, stop = clock or Clock(), threading.Event()
    found = {name: Cluster(clock, name, end, is_down=name == down) for name, end in clusters}

    def now() -> float:
        if seconds is not None and clock.now > seconds:
            stop.set()
        return clock.now

    def find_tables() -> list[Table]:
        look()
        return tables

    worker = IngestWorker(
        find_tables,
        OwnsAll(),
        SilentConsole(),
        stop,
        "worker",
        clock=now,
        open_source=lambda servers: found[servers],
        **more,
    )
    return worker.run(until_caught_up=seconds is None)


def test_a_table_that_failed_once_is_caught_up_before_the_end() -> None:
    failed, other = Feed(failures=1), Feed()
    tables = [Table("d.failed", "a", failed), Table("d.other", "b", other)]
    assert run(tables, [("a", 100_000), ("b", 1_500)])
    assert (failed.taken, other.taken) == (100_000, 1_500)


def test_a_table_that_goes_on_failing_ends_with_a_failure() -> None:
    failing, other = Feed(refused=50), Feed()
    tables = [Table("d.failing", "a", failing), Table("d.other", "b", other)]
    assert not run(tables, [("a", 1_000), ("b", 1_000)])
    assert (failing.taken, other.taken) == (0, 1_000)


def test_a_cluster_that_is_down_leaves_the_others_most_of_the_time() -> None:
    tables = [Table(f"d.down{number}", "a", Feed()) for number in range(30)]
    other = Feed()
    run([*tables, Table("d.other", "b", other)], [("a", 0), ("b", 10**9)], down="a", seconds=900)
    assert other.taken > 0.5 * 900 / POLL_SECONDS * STEP


def test_a_table_far_behind_does_not_keep_back_others_of_its_topic() -> None:
    stuck, other = Feed(refused=1_000), Feed(taken=500_000)
    tables = [Table("d.other", "a", other), Table("d.stuck", "a", stuck)]
    run(tables, [("a", 10**9)], seconds=300)
    assert stuck.taken == 1_000
    assert other.taken - 500_000 > 0.5 * 300 / POLL_SECONDS * STEP


def test_tables_that_have_begun_do_not_wait_for_a_thousand_others() -> None:
    clock, first = Clock(), Feed()
    taken: list[int] = []

    def start() -> None:
        clock.now += 0.5
        taken.append(first.taken)

    others = [Feed(starts=start) for _ in range(1_000)]
    tables = [Table("d.0", "a", first), *(Table(f"d.t{at:04d}", "b", each) for at, each in enumerate(others))]
    assert run(tables, [("a", 1_000), ("b", 0)], clock=clock)
    assert taken[:20:4] == [0, 2 * STEP, 4 * STEP, 6 * STEP, 8 * STEP]
    assert all(each.begun == 1 for each in others)


def test_tables_that_go_on_failing_keep_no_other_from_beginning() -> None:
    clock, good = Clock(), Feed()

    def wait() -> None:
        clock.now += 10.0

    failing = [Table(f"d.a{number:02d}", "a", Feed(failures=10**6, starts=wait)) for number in range(60)]
    run([*failing, Table("d.good", "b", good)], [("a", 0), ("b", 1_000)], clock=clock, seconds=1_200)
    assert good.taken == 1_000


def test_a_partition_that_cannot_be_split_does_not_keep_events_back() -> None:
    feed = Feed(wants_split=True)
    assert run([Table("d.whole", "a", feed)], [("a", 1_000)])
    assert (feed.taken, feed.begun) == (1_000, 1)


def test_a_commit_is_told_though_the_partitions_to_split_cannot_be_found() -> None:
    feed, observed = Feed(look_fails=True), Observed()
    assert run([Table("d.t", "a", feed)], [("a", 1_000)], observer=observed)
    assert (feed.taken, feed.begun) == (1_000, 1)
    assert observed.commits == observed.failures == 1_000 // STEP


def test_a_drained_table_is_left_once_its_compaction_has_ended() -> None:
    observed, asked = Observed(), 0

    def is_compacting(table: str) -> bool:
        nonlocal asked
        asked += table == "d.drained"
        return asked < 3

    tables = [Table("d.drained", "a", Feed(), drained=True), Table("d.other", "b", Feed())]
    run(tables, [("a", 0), ("b", 10**9)], seconds=60, observer=observed, is_compacting=is_compacting)
    assert observed.left[0] == frozenset()
    assert observed.left[-1] == {"d.drained"}


def test_looks_that_cost_much_are_further_apart() -> None:
    looks: list[int] = []

    def look_long() -> None:
        looks.append(0)
        began = time.thread_time()
        while time.thread_time() - began < 0.15:
            pass

    run([Table("d.t", "a", Feed())], [("a", 10**9)], seconds=100, look=look_long)
    assert 3 <= len(looks) <= 6


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
