"""The tables of a worker: those that its last look found declared, and those that it feeds or will start."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hudisql.console import Console
from hudisql.errors import HudisqlError
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.offsets import SourcePartition
from hudisql.ingest.table_feed import OpenFeed, TableFeed

# With many tables, looks for what is declared are further apart, so that they take this part of a core.
_LOOK_SHARE: Final = 0.005
_LONGEST_REFRESH: Final = 60.0


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


@dataclass(eq=False)
class FedTable:
    """A table whose events are read; `ended` are those of its source partitions whose end was reached."""

    table: IngestTable
    feed: OpenFeed
    failures: int = 0
    partitions: set[SourcePartition] = field(default_factory=set)
    ended: set[SourcePartition] = field(default_factory=set)
    is_halted: bool = False

    @property
    def name(self) -> str:
        """`database.name`."""
        return self.table.name

    @property
    def source_name(self) -> str:
        """The source of its events."""
        return self.table.declaration.source_name


@dataclass(frozen=True)
class WaitingTable:
    """A table to start at the time `not_before`.

    It has failed `failures` times since its last commit, at last with `error`.
    """

    table: IngestTable
    failures: int = 0
    not_before: float = 0.0
    error: str | None = None


@dataclass
class DeclaredTables:
    """Looks for declarations every `refresh_seconds`, with many tables at most every minute.

    `running` are the tables to feed. `candidates` also has paused tables on which another process works for
    this worker, as `is_compacting` says: they stay the worker's. `paused` are the other paused ones.
    """

    find_tables: Callable[[], Sequence[IngestTable]]
    console: Console
    clock: Callable[[], float]
    refresh_seconds: float
    is_compacting: Callable[[str], bool]
    running: Mapping[str, IngestTable] = field(default_factory=dict)
    candidates: Mapping[str, IngestTable] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    _refreshed_at: float | None = None
    _look_cost: float = 0.0

    @property
    def age(self) -> float:
        """The seconds since the end of the last refresh; infinite before the first one."""
        return math.inf if self._refreshed_at is None else self.clock() - self._refreshed_at

    @property
    def is_refresh_due(self) -> bool:
        """True if it is time for a refresh."""
        pause = max(self.refresh_seconds, min(self._look_cost / _LOOK_SHARE, _LONGEST_REFRESH))
        return self.age >= pause

    def refreshed(self, cost: float) -> None:
        """A refresh has ended that took `cost` seconds of a core: the pause begins now."""
        self._look_cost = cost
        self._refreshed_at = self.clock()

    def look(self) -> None:
        """Look for the declarations. Raises HudisqlError at the first look; a later failure is a warning."""
        try:
            tables = self.find_tables()
        except HudisqlError as error:
            if self._refreshed_at is None:
                raise
            self.console.warning(f"declarations cannot be looked up, and stay as they are: {error.message}")
            return
        self.running = {table.name: table for table in tables if not table.declaration.is_paused}
        paused = {table.name: table for table in tables if table.declaration.is_paused}
        compacting = {name: table for name, table in paused.items() if self.is_compacting(name)}
        self.candidates = {**self.running, **compacting}
        self.paused = frozenset(paused) - set(compacting)
