"""A worker: owns tables, reads their sources, and commits their events when they are due.

Events are taken and committed in one thread; more cores are used by more workers. A table that fails is left
for a time that doubles, and the other tables go on. Knows tables by a protocol, and neither SQL text nor the
metastore.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from hudisql.console import Console
from hudisql.errors import HudisqlError, KafkaError, WriteConflictError
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.event_source import EventSource
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.ownership import Ownership
from hudisql.ingest.table_buffer import EventBatch
from hudisql.ingest.table_feed import TableFeed
from hudisql.ingest.watch.observer import CommittedEvents, FeedState, IngestObserver, OwnedTable, WorkerView

_POLL_SECONDS: Final = 0.1
_FIRST_RETRY: Final = 1.0
_LONGEST_RETRY: Final = 300.0
_UNREACHABLE_SECONDS: Final = 30.0
_KNOWN_SECONDS: Final = 0.1
_OBSERVED_SECONDS: Final = 5.0
# With many tables, looks for what is declared are further apart, so that they take this part of a core.
_LOOK_SHARE: Final = 0.005
_LONGEST_REFRESH: Final = 60.0
# A worker that begins with a thousand tables reads and commits those that have begun in between.
_STARTING_SECONDS: Final = 1.0


class IngestTable(Protocol):
    """A table with a declaration."""

    @property
    def name(self) -> str:
        """`database.name`."""

    @property
    def declaration(self) -> IngestDeclaration:
        """How its events are taken."""

    def feed(self, owner: str) -> TableFeed:
        """A new feed of the table."""


@dataclass
class _Fed:
    """A table in work; `ended` are those of its source partitions whose end was reached."""

    table: IngestTable
    feed: TableFeed
    sources: set[SourcePartition] = field(default_factory=set)
    ended: set[SourcePartition] = field(default_factory=set)
    is_running: bool = False
    failures: int = 0
    not_before: float = 0.0
    error: str | None = None

    @property
    def source_name(self) -> str:
        """The source of its events."""
        return self.table.declaration.source_name


@dataclass
class IngestWorker:
    """`tables` gives the declared tables, looked up again every `refresh_seconds`, with many tables at most
    every minute; `owner` is its name.

    Rows in memory may take `memory` bytes: the largest buffer is committed when they take more.
    `observer` is told of commits and failures, and how the tables are. `is_compacting` says whether another
    process works on a table for this worker, which then has not left it yet. `settle` waits for what other
    threads do after commits to tables that are left.
    """

    tables: Callable[[], Sequence[IngestTable]]
    ownership: Ownership
    console: Console
    stop: threading.Event
    owner: str
    memory: int = 512 << 20
    refresh_seconds: float = 10.0
    clock: Callable[[], float] = time.monotonic
    observer: IngestObserver | None = None
    open_source: Callable[[str], EventSource] = KafkaSource
    is_compacting: Callable[[str], bool] = lambda _table: False
    settle: Callable[[Collection[str]], None] = lambda _tables: None
    _fed: dict[str, _Fed] = field(default_factory=dict)
    _sources: dict[str, EventSource] = field(default_factory=dict)
    _by_source: dict[tuple[str, SourcePartition], list[_Fed]] = field(default_factory=dict)
    # Those with events in memory or partitions to split: most of a thousand tables are idle at each look.
    _busy: dict[str, _Fed] = field(default_factory=dict)
    _declared: dict[str, IngestTable] = field(default_factory=dict)
    # Paused tables that are this worker's until their compaction has ended.
    _leaving: dict[str, IngestTable] = field(default_factory=dict)
    _candidates: dict[str, IngestTable] = field(default_factory=dict)
    _paused: frozenset[str] = frozenset()
    _refreshed_at: float | None = None
    _look_cost: float = 0.0
    _observed_at: float | None = None
    # Until when a source that did not answer is left alone: each of its tables would wait for it.
    _unreachable: dict[str, float] = field(default_factory=dict)

    def run(self, *, until_caught_up: bool = False) -> bool:
        """Work until `stop` is set, then commit what is in memory; False if a table has failed at the end.

        With `until_caught_up` it ends when all events are committed that the topics had when it came to their
        ends.
        """
        self.ownership.hand_over = self._hand_over
        try:
            while not self.stop.is_set():
                self._refresh()
                self._poll()
                self._flush_due()
                self._observe()
                if until_caught_up and self.ownership.is_settled and self._has_caught_up():
                    break
            for source in self._sources.values():
                source.stop()
            self._flush_all()
            if until_caught_up:
                self._split_all()
            return all(each.is_running or not each.failures for each in self._fed.values())
        finally:
            self.settle(self._fed)
            self.ownership.close()
            for source in self._sources.values():
                source.close()
            for fed in self._fed.values():
                fed.feed.close()

    def _refresh(self) -> None:
        """Take tables that are this worker's, and give up those that are not any more."""
        now = self.clock()
        pause = max(self.refresh_seconds, min(self._look_cost / _LOOK_SHARE, _LONGEST_REFRESH))
        if self._refreshed_at is None or now - self._refreshed_at >= pause:
            began = time.thread_time()
            self._look_for_declarations()
            looked = time.thread_time() - began
            self._give_up_undeclared()
            began = time.thread_time()
            self._look_for_partitions()
            self._look_cost = looked + time.thread_time() - began
            # Looking may take long: the next look comes that long after its end.
            self._refreshed_at = now = self.clock()
        owned = self.ownership.owned(self._candidates)
        new = (owned - self._fed.keys()) & self._declared.keys()
        if new and now - self._refreshed_at >= _KNOWN_SECONDS:
            # They may have been paused since, before their last owner has left them.
            self._look_for_declarations()
            self._give_up_undeclared()
            new &= self._declared.keys()
        for name in sorted(new):
            table = self._declared[name]
            self._fed[name] = _Fed(table, table.feed(self.owner))
            self._observed_at = None
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Begin with tables that do not run, for a time; the others' turn comes with the next look.

        Those that have failed least come first: tables that go on failing keep no other one waiting.
        """
        began = self.clock()
        waiting = [each for each in self._fed.values() if not each.is_running]
        for fed in sorted(waiting, key=lambda each: (each.failures, each.not_before)):
            if began >= max(fed.not_before, self._unreachable.get(fed.source_name, 0.0)):
                self._attempt(fed, self._start)
            if self.clock() - began >= _STARTING_SECONDS:
                break

    def _look_for_declarations(self) -> None:
        """Raises what `tables` raises, but only at the start: later the worker goes on with what it knows."""
        try:
            found = self.tables()
        except HudisqlError as error:
            if self._refreshed_at is None:
                raise
            self.console.warning(f"declarations cannot be looked up, and stay as they are: {error.message}")
            return
        self._declared = {each.name: each for each in found if not each.declaration.is_paused}
        self._leaving = {
            each.name: each for each in found if each.declaration.is_paused and self.is_compacting(each.name)
        }
        self._candidates = {**self._declared, **self._leaving}
        paused = frozenset(each.name for each in found if each.declaration.is_paused) - set(self._leaving)
        if paused != self._paused:
            self._paused, self._observed_at = paused, None

    def _give_up_undeclared(self) -> None:
        """Give tables up whose declaration is gone, or another one."""
        left = [
            name
            for name, fed in self._fed.items()
            if (declared := self._declared.get(name)) is None or declared.declaration != fed.table.declaration
        ]
        for name in left:
            self._give_up(name, commits=True)
        self.settle(left)

    def _look_for_partitions(self) -> None:
        """Begin again with tables whose topics have other partitions than those that are read."""
        for source in self._sources.values():
            if self.clock() < self._unreachable.get(source.name, 0.0):
                continue
            try:
                found = source.all_partitions() if source.assigned else {}
            except HudisqlError as error:
                self._leave_alone(source.name)
                self.console.warning(error.message)
                continue
            for fed in [each for each in self._fed.values() if each.is_running]:
                if fed.source_name == source.name and found:
                    topics = {topic for topic, _ in fed.sources}
                    current = {(topic, number) for topic in topics for number in found.get(topic, ())}
                    if fed.sources != current:
                        self._begin_again(fed)

    def _leave_alone(self, source: str) -> None:
        self._unreachable[source] = self.clock() + _UNREACHABLE_SECONDS

    def _begin_again(self, fed: _Fed) -> None:
        """Commit what is in memory, and go on from there."""
        self._attempt(fed, self._flush)
        if fed.is_running:
            self._halt(fed, self.clock())

    def _start(self, fed: _Fed) -> None:
        committed = dict(fed.feed.take_over())
        source = self._source_of(fed)
        start = source.start(fed.table.name, fed.table.declaration, committed)
        for warning in start.warnings:
            self.console.warning(warning)
        offsets = dict(start.offsets)
        fed.feed.begin_at(start.offsets, commits=start.commits)
        fed.sources = set(offsets)
        for partition, offset in start.offsets.items():
            readers = self._by_source.setdefault((source.name, partition), [])
            # Tables of one topic take what is theirs of the same events.
            offsets[partition] = min([offset, *(each.feed.position[partition] for each in readers)])
            readers.append(fed)
        source.assign(offsets)
        fed.ended.clear()
        fed.is_running = True
        self._busy[fed.table.name] = fed

    def _source_of(self, fed: _Fed) -> EventSource:
        name = fed.source_name
        if name not in self._sources:
            self._sources[name] = self.open_source(name)
        return self._sources[name]

    def _poll(self) -> None:
        reading = [each for each in self._sources.values() if each.assigned]
        if not reading:
            self.stop.wait(_POLL_SECONDS)
        for source in reading:
            polled = source.poll(_POLL_SECONDS / len(reading))
            for batch in polled.batches:
                for fed in self._readers(source, batch.source):
                    self._attempt(fed, partial(self._take, batch))
            for partition in polled.ended:
                for fed in self._readers(source, partition):
                    fed.ended.add(partition)
            for partition in polled.lost:
                for fed in self._readers(source, partition):
                    self._begin_again(fed)
            for partition, error in polled.failed.items():
                for fed in self._readers(source, partition):
                    self._attempt(fed, partial(_fail, error))

    def _readers(self, source: EventSource, partition: SourcePartition) -> list[_Fed]:
        """The running tables that read the partition; several tables may share a topic."""
        found = self._by_source.get((source.name, partition), ())
        return [each for each in found if each.is_running]

    def _take(self, batch: EventBatch, fed: _Fed) -> None:
        fed.feed.take(batch, self.clock())
        self._busy[fed.table.name] = fed

    def _flush_due(self) -> None:
        now = self.clock()
        running = [each for each in self._busy.values() if each.is_running and not each.feed.is_idle]
        self._busy = {each.table.name: each for each in running}
        for fed in running:
            if fed.feed.is_due(now):
                self._attempt(fed, self._flush)
            if fed.is_running and fed.feed.wants_split:
                self._attempt(fed, self._split)
        while (running := [each for each in running if each.is_running]) and (
            sum(each.feed.memory for each in running) > self.memory
        ):
            self._attempt(max(running, key=lambda each: each.feed.memory), self._flush)

    def _flush(self, fed: _Fed) -> None:
        events, began = None if self.observer is None else fed.feed.buffered, time.monotonic()
        result = fed.feed.flush()
        fed.failures, fed.error = 0, None
        if result is None:
            return
        self._source_of(fed).committed(fed.feed.position)
        if self.observer is not None and events is not None:
            seconds, offsets = time.monotonic() - began, fed.feed.committed
            lag = self._lag_of(fed)
            self.observer.committed(CommittedEvents(fed.table.name, result, events, offsets, seconds, lag))
        self._look_for_splits(fed)

    def _look_for_splits(self, fed: _Fed) -> None:
        try:
            fed.feed.look_for_splits()
        except Exception as error:
            # The commit stands, and the next one looks again.
            self.console.warning(
                f"{fed.table.name}: it is not known which partitions to split: {_told(error)}"
            )
            if self.observer is not None:
                self.observer.failed(fed.table.name)

    def _split(self, fed: _Fed) -> None:
        try:
            result = fed.feed.split_next()
        except WriteConflictError:
            raise
        except Exception as error:
            # The partition is as it was: events need not wait for what keeps it from being split.
            self.console.warning(f"{fed.table.name}: a split failed: {_told(error)}")
            if self.observer is not None:
                self.observer.failed(fed.table.name)
            return
        if result is not None:
            self.console.info(f"{fed.table.name}: split {result.instant_time}: {result.files} hash buckets")

    def _split_all(self) -> None:
        for fed in self._fed.values():
            while fed.is_running and fed.feed.wants_split and not self.stop.is_set():
                self._attempt(fed, self._split)

    def _flush_all(self) -> None:
        for fed in self._fed.values():
            self._finish(fed)

    def _finish(self, fed: _Fed, *, commits: bool = True) -> None:
        """Take what only this process has of the table's events, and commit."""
        source = self._sources.get(fed.source_name)
        last = () if source is None else source.last_events(fed.table.name)
        if commits and fed.is_running:
            self._attempt(fed, partial(self._take_last, last))

    def _take_last(self, batches: Iterable[EventBatch], fed: _Fed) -> None:
        for batch in batches:
            self._take(batch, fed)
            if fed.feed.is_due(self.clock()):
                self._flush(fed)
        self._flush(fed)

    def _hand_over(self, is_left: Callable[[str], bool], commits: bool) -> None:
        names = [each for each in self._fed if is_left(each)]
        for name in names:
            self._give_up(name, commits=commits)
        if commits:
            self.settle(names)

    def _give_up(self, name: str, *, commits: bool) -> None:
        fed = self._fed.pop(name)
        self._observed_at = None
        self._finish(fed, commits=commits)
        self._halt(fed, 0.0)
        fed.feed.close()

    def _halt(self, fed: _Fed, not_before: float) -> None:
        """Read the table's source no longer; what is in memory is dropped when it begins again."""
        source = fed.source_name
        for partition in fed.sources:
            readers = self._by_source[source, partition]
            readers.remove(fed)
            if readers:
                # It may have been rewound for this table.
                position = min(each.feed.position[partition] for each in readers)
                self._sources[source].assign({partition: position})
            else:
                self._sources[source].unassign([partition])
        fed.sources, fed.is_running, fed.not_before = set(), False, not_before

    def _attempt(self, fed: _Fed, work: Callable[[_Fed], object]) -> None:
        """Do something for the table; an error halts it for a time."""
        try:
            work(fed)
        except Exception as error:
            fed.failures += 1
            seconds = min(_FIRST_RETRY * 2 ** min(fed.failures - 1, 20), _LONGEST_RETRY)
            self._halt(fed, self.clock() + seconds)
            # Not for a topic that is not there: then the cluster has answered.
            if isinstance(error, KafkaError) and error.__cause__ is not None:
                self._leave_alone(fed.source_name)
            if self.observer is not None:
                self.observer.failed(fed.table.name)
                self._observed_at = None
            fed.error = error.message if isinstance(error, HudisqlError) else _told(error)
            self.console.warning(f"{fed.table.name}: {_told(error)}; the next attempt is in {seconds:.0f} s")

    def _observe(self) -> None:
        """Tell the observer how the tables are, if it is time to."""
        if self.observer is None:
            return
        now = self.clock()
        if self._observed_at is not None and now - self._observed_at < _OBSERVED_SECONDS:
            return
        self._observed_at = now
        tables = [self._view_of(each) for each in self._fed.values()]
        self.observer.looked(WorkerView(tables, self._paused, self.ownership.is_settled))

    def _view_of(self, fed: _Fed) -> OwnedTable:
        feed, error = fed.feed, None if fed.is_running else fed.error
        state = FeedState.STARTING if error is None else FeedState.FAILED
        if fed.is_running:
            state = FeedState.RUNNING
        return OwnedTable(fed.table.name, state, self._lag_of(fed), feed.memory, feed.index_bytes, error)

    def _lag_of(self, fed: _Fed) -> int | None:
        """The events that no commit has yet, as far as the source's last answers say."""
        if not fed.is_running:
            return None
        source = self._source_of(fed)
        lag, committed = 0, fed.feed.committed
        for partition in fed.sources:
            left = source.events_left(partition, committed[partition])
            if left is None:
                return None
            lag += left
        return lag

    def _has_caught_up(self) -> bool:
        """True if each table has taken all that its topic had when its end was reached, or has failed."""
        return all(
            each.ended >= each.sources if each.is_running else each.failures > 0
            for each in self._fed.values()
        )


def _told(error: Exception) -> str:
    """The error as a line for people."""
    if not isinstance(error, HudisqlError):
        return f"{type(error).__name__}: {error}"
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _fail(error: HudisqlError, _fed: _Fed) -> None:
    raise error
