"""A worker: owns tables, reads their sources, and commits their events when they are due.

Events are taken and committed in one thread; more cores are used by more workers. A table that fails is left
for a time that doubles, and the other tables go on. Knows tables by a protocol, and neither SQL text nor the
metastore.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from hudisql.console import Console
from hudisql.errors import HudisqlError, KafkaError
from hudisql.ingest.event_source import EventSource, Polled
from hudisql.ingest.fed_table import DeclaredTables, FedTable, IngestTable, WaitingTable
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.ingest.ownership import Ownership
from hudisql.ingest.source_readers import SourceReaders
from hudisql.ingest.table_commits import TableCommits, describe
from hudisql.ingest.watch.observer import FeedState, IngestObserver, Observers, OwnedTable, WorkerView

_POLL_SECONDS: Final = 0.1
_FIRST_RETRY: Final = 1.0
_LONGEST_RETRY: Final = 300.0
_KNOWN_SECONDS: Final = 0.1
_OBSERVED_SECONDS: Final = 5.0
# A worker that begins with a thousand tables reads and commits those that have begun in between.
_STARTING_SECONDS: Final = 1.0


class IngestWorker:
    """`tables` gives the declared tables; `owner` is the worker's name.

    The other parameters are those of DeclaredTables, SourceReaders and TableCommits. `settle` waits for what
    other threads do after commits to tables that are left.
    """

    def __init__(
        self,
        tables: Callable[[], Sequence[IngestTable]],
        ownership: Ownership,
        console: Console,
        stop: threading.Event,
        owner: str,
        *,
        memory: int = 512 << 20,
        refresh_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        observer: IngestObserver | None = None,
        open_source: Callable[[str], EventSource] = KafkaSource,
        is_compacting: Callable[[str], bool] = lambda _table: False,
        settle: Callable[[Collection[str]], None] = lambda _tables: None,
    ) -> None:
        self._declared = DeclaredTables(tables, console, clock, refresh_seconds, is_compacting)
        observer = observer or Observers(())
        self._sources = SourceReaders(open_source, console, clock)
        self._commits = TableCommits(self._sources, observer, console, clock, memory)
        self._ownership = ownership
        self._console = console
        self._stop = stop
        self._owner = owner
        self._clock = clock
        self._observer = observer
        self._settle = settle
        self._running: dict[str, FedTable] = {}
        self._waiting: dict[str, WaitingTable] = {}
        self._observed_at: float | None = None

    def run(self, *, until_caught_up: bool = False) -> bool:
        """Work until `stop` is set, then commit what is in memory; False if a table has failed at the end.

        With `until_caught_up` it ends when all events are committed that the topics had when it came to their
        ends.
        """
        self._ownership.hand_over = self._hand_over
        try:
            while not self._stop.is_set():
                self._refresh()
                self._poll()
                self._commits.flush_due(self._attempt)
                self._observe()
                if until_caught_up and self._ownership.is_settled and self._has_caught_up():
                    break
            self._sources.stop()
            for table in self._tables():
                self._finish(table)
            if until_caught_up:
                self._split_all()
            return not any(waiting.failures for waiting in self._waiting.values())
        finally:
            self._settle([table.name for table in self._tables()])
            self._ownership.close()
            self._sources.close()
            for fed in self._running.values():
                fed.feed.close()

    def _tables(self) -> list[IngestTable]:
        running = [fed.table for fed in self._running.values()]
        return running + [waiting.table for waiting in self._waiting.values()]

    def _refresh(self) -> None:
        """Take tables that are this worker's, and give up those that are not any more."""
        if self._declared.is_refresh_due:
            if self._running:
                # Tables that were lost meanwhile are dropped: the look commits those that it gives up.
                self._ownership.owned(self._declared.candidates)
            began = time.thread_time()
            self._look_for_declarations()
            cost = time.thread_time() - began
            self._give_up_undeclared()
            began = time.thread_time()
            for fed in self._sources.with_changed_partitions(self._running.values()):
                self._begin_again(fed)
            self._declared.refreshed(cost + time.thread_time() - began)
        age = self._declared.age
        owned = self._ownership.owned(self._declared.candidates)
        new = (owned & self._declared.running.keys()) - self._running.keys() - self._waiting.keys()
        if new and age >= _KNOWN_SECONDS:
            # They may have been paused since, before their last owner has left them.
            self._look_for_declarations()
            self._give_up_undeclared()
            new &= self._declared.running.keys()
        for name in sorted(new):
            self._waiting[name] = WaitingTable(self._declared.running[name])
            self._observed_at = None
        self._start_waiting()

    def _look_for_declarations(self) -> None:
        paused = self._declared.paused
        self._declared.look()
        if self._declared.paused != paused:
            self._observed_at = None

    def _give_up_undeclared(self) -> None:
        """Give tables up whose declaration is gone, or another one."""
        left = [
            table.name
            for table in self._tables()
            if (declared := self._declared.running.get(table.name)) is None
            or declared.declaration != table.declaration
        ]
        for name in left:
            self._give_up(name, commits=True)
        self._settle(left)

    def _start_waiting(self) -> None:
        """Start tables for a time; the others' turn comes with the next look.

        Those that have failed least come first: tables that go on failing keep no other one waiting.
        """
        began = self._clock()
        for waiting in sorted(self._waiting.values(), key=lambda table: (table.failures, table.not_before)):
            if began >= max(waiting.not_before, self._sources.reachable_from(waiting.table)):
                self._start(waiting)
            if self._clock() - began >= _STARTING_SECONDS:
                break

    def _start(self, waiting: WaitingTable) -> None:
        try:
            feed = waiting.table.feed(self._owner).open()
        except Exception as error:
            self._failed(waiting.table, waiting.failures, error)
            return
        fed = FedTable(waiting.table, feed, waiting.failures)
        del self._waiting[fed.name]
        self._running[fed.name] = fed
        self._attempt(fed, self._sources.add)
        if not fed.is_halted:
            self._commits.add(fed)

    def _poll(self) -> None:
        if not self._sources.is_reading:
            self._stop.wait(_POLL_SECONDS)
        for source, polled in self._sources.poll(_POLL_SECONDS):
            self._take(source, polled)

    def _take(self, source: str, polled: Polled) -> None:
        for batch in polled.batches:
            for fed in self._sources.readers(source, batch.source):
                self._attempt(fed, partial(self._commits.take, batch))
        for partition in polled.ended:
            for fed in self._sources.readers(source, partition):
                fed.ended.add(partition)
        for partition in polled.lost:
            for fed in self._sources.readers(source, partition):
                self._begin_again(fed)
        for partition, error in polled.failed.items():
            for fed in self._sources.readers(source, partition):
                self._attempt(fed, partial(_fail, error))

    def _begin_again(self, fed: FedTable) -> None:
        """Commit what is in memory, and go on from there."""
        self._attempt(fed, self._commits.flush)
        if not fed.is_halted:
            self._halt(fed)
            self._waiting[fed.name] = WaitingTable(fed.table, fed.failures, self._clock())

    def _attempt(self, fed: FedTable, work: Callable[[FedTable], object]) -> None:
        """Do something for the table; after an error it waits for its next start."""
        try:
            work(fed)
        except Exception as error:
            self._halt(fed)
            self._failed(fed.table, fed.failures, error)

    def _halt(self, fed: FedTable) -> None:
        """Read the table's source no longer, and drop what is in memory."""
        del self._running[fed.name]
        fed.is_halted = True
        self._sources.remove(fed)
        try:
            fed.feed.close()
        except Exception as error:
            # Other tables go on, and the next start of this one builds new indexes.
            self._console.warning(f"{fed.name}: the indexes cannot be closed: {describe(error)}")

    def _failed(self, table: IngestTable, failures: int, error: Exception) -> None:
        seconds = min(_FIRST_RETRY * 2 ** min(failures, 20), _LONGEST_RETRY)
        # Not for a topic that is not there: then the cluster has answered.
        if isinstance(error, KafkaError) and error.__cause__ is not None:
            self._sources.leave_alone(table.declaration.source_name)
        self._observer.failed(table.name)
        self._observed_at = None
        reason = error.message if isinstance(error, HudisqlError) else describe(error)
        self._waiting[table.name] = WaitingTable(table, failures + 1, self._clock() + seconds, reason)
        self._console.warning(f"{table.name}: {describe(error)}; the next attempt is in {seconds:.0f} s")

    def _finish(self, table: IngestTable, *, commits: bool = True) -> None:
        """Take what only this process has of the table's events, and commit."""
        last = self._sources.last_events(table)
        fed = self._running.get(table.name)
        if commits and fed is not None:
            self._attempt(fed, partial(self._commits.take_last, last))

    def _split_all(self) -> None:
        for fed in list(self._running.values()):
            while not fed.is_halted and fed.feed.wants_split and not self._stop.is_set():
                self._attempt(fed, self._commits.split)

    def _hand_over(self, is_left: Callable[[str], bool], commits: bool) -> None:
        names = [table.name for table in self._tables() if is_left(table.name)]
        for name in names:
            self._give_up(name, commits=commits)
        if commits:
            self._settle(names)

    def _give_up(self, name: str, *, commits: bool) -> None:
        owned = self._running.get(name) or self._waiting[name]
        self._observed_at = None
        self._finish(owned.table, commits=commits)
        fed = self._running.get(name)
        if fed is not None:
            self._halt(fed)
        self._waiting.pop(name, None)

    def _observe(self) -> None:
        """Show the observer the tables, if it is time to."""
        now = self._clock()
        if self._observed_at is not None and now - self._observed_at < _OBSERVED_SECONDS:
            return
        self._observed_at = now
        tables = [self._view_of_running(fed) for fed in self._running.values()]
        tables += [_view_of_waiting(waiting) for waiting in self._waiting.values()]
        self._observer.looked(WorkerView(tables, self._declared.paused, self._ownership.is_settled))

    def _view_of_running(self, fed: FedTable) -> OwnedTable:
        lag = self._sources.lag_of(fed)
        return OwnedTable(fed.name, FeedState.RUNNING, lag, fed.feed.memory, fed.feed.index_bytes)

    def _has_caught_up(self) -> bool:
        """True if each table has taken all that its topic had when its end was reached, or has failed."""
        return all(fed.ended >= fed.partitions for fed in self._running.values()) and all(
            waiting.failures for waiting in self._waiting.values()
        )


def _view_of_waiting(waiting: WaitingTable) -> OwnedTable:
    state = FeedState.STARTING if waiting.error is None else FeedState.FAILED
    return OwnedTable(waiting.table.name, state, None, 0, 0, waiting.error)


def _fail(error: HudisqlError, _fed: FedTable) -> None:
    raise error
