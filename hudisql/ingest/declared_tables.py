"""The declared tables as a worker's last look found them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hudisql.console import Console
from hudisql.errors import HudisqlError
from hudisql.ingest.fed_table import IngestTable

# With many tables, looks for what is declared are further apart, so that they take this part of a core.
_LOOK_SHARE: Final = 0.005
_LONGEST_REFRESH: Final = 60.0


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
