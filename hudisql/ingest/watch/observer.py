"""The events and views that a worker gives its observers, and the base of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_buffer import BufferedEvents
from hudisql.write.execution.commit_files import WriteResult


class FeedState(StrEnum):
    """The state of a table that a worker owns."""

    RUNNING = "running"
    STARTING = "starting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CommittedEvents:
    """A commit of a worker: its rows, the events that they came from, and what is left.

    `offsets` are the next ones of each source partition, `seconds` is the duration of the commit and of the
    work after it, `lag` counts the events that are not committed yet (None if unknown).
    """

    table: str
    result: WriteResult
    events: BufferedEvents
    offsets: Mapping[SourcePartition, int]
    seconds: float
    lag: int | None


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table that a worker owns, as it is now; `memory` and `index_bytes` are bytes.

    `error` is the reason of a failure from which the table has not recovered.
    """

    name: str
    state: FeedState
    lag: int | None
    memory: int
    index_bytes: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """All tables of a worker, and the paused tables of the metastore that it has left.

    `is_settled` is True once the tables of this worker are known.
    """

    tables: Collection[OwnedTable] = ()
    paused: Collection[str] = ()
    is_settled: bool = False


class IngestObserver:
    """Gets what a worker does, in the worker's thread: its methods must return quickly.

    Here they do nothing.
    """

    def committed(self, commit: CommittedEvents) -> None:
        """A commit was made."""

    def failed(self, table: str) -> None:
        """A table failed; the worker tries again later."""

    def looked(self, view: WorkerView) -> None:
        """The worker has these tables now; called every few seconds, and soon after changes."""


class Observers(IngestObserver):
    """Calls several observers."""

    def __init__(self, observers: Iterable[IngestObserver]) -> None:
        self._observers = tuple(observers)

    def committed(self, commit: CommittedEvents) -> None:
        """A commit was made."""
        for observer in self._observers:
            observer.committed(commit)

    def failed(self, table: str) -> None:
        """A table failed."""
        for observer in self._observers:
            observer.failed(table)

    def looked(self, view: WorkerView) -> None:
        """The worker has these tables now."""
        for observer in self._observers:
            observer.looked(view)
