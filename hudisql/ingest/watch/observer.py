"""What a worker tells of its tables, and who is told. The worker knows this protocol alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_buffer import BufferedEvents
from hudisql.write.execution.commit_files import WriteResult


class FeedState(StrEnum):
    """What a worker does with a table that it owns."""

    RUNNING = "running"
    STARTING = "starting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CommittedEvents:
    """A commit of a worker: its rows, the events that they came from, and what is left.

    `offsets` are the next ones of each source partition, `seconds` is how long the commit took with what
    follows it, `lag` counts the events that no commit has yet (None: not known).
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
    """All tables of a worker, and the paused ones of the metastore, which it has left alone.

    `is_settled`: it is known what this worker owns.
    """

    tables: Collection[OwnedTable] = ()
    paused: Collection[str] = ()
    is_settled: bool = False


class IngestObserver(Protocol):
    """Is told what a worker does, in the worker's thread: what it does must not take long."""

    def committed(self, commit: CommittedEvents) -> None:
        """A commit was made."""

    def failed(self, table: str) -> None:
        """A table failed, and is left alone for a time."""

    def looked(self, view: WorkerView) -> None:
        """The tables as they are; called every few seconds, and soon after tables came or went."""


class Observers:
    """Tells several observers."""

    def __init__(self, observers: Iterable[IngestObserver]) -> None:
        self._observers = tuple(observers)

    def committed(self, commit: CommittedEvents) -> None:
        """A commit was made."""
        for each in self._observers:
            each.committed(commit)

    def failed(self, table: str) -> None:
        """A table failed."""
        for each in self._observers:
            each.failed(table)

    def looked(self, view: WorkerView) -> None:
        """The tables as they are."""
        for each in self._observers:
            each.looked(view)
