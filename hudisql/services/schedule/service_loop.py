"""Maintains many tables: runs due services, the most urgent first, repeatedly until it is stopped.

A table has one service at a time. After a service its table is checked again. A failed service is reported,
and retried after a delay that doubles; the other services and tables go on. Knows tables only by a protocol,
and neither SQL text nor the metastore.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from hudisql.console import Console
from hudisql.errors import HudisqlError
from hudisql.services.schedule.due_services import Service, ServiceState

_POLL_SECONDS: Final = 0.2
_LONGEST_BACKOFF: Final = 3600.0
_LOOKS_AT_ONCE: Final = 8
LOOK: Final = "look"
"""The errors of checking a table."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """The state of a table at a check: `signature` changes with its timeline."""

    signature: int
    states: tuple[ServiceState, ...]

    @property
    def changes_with_time(self) -> bool:
        """True if a later check may have another result although nothing was written."""
        return any(state.changes_with_time for state in self.states)


class MaintainedTable(Protocol):
    """A table that the loop maintains."""

    @property
    def name(self) -> str:
        """Its name in messages, unique among the tables."""

    def look(self) -> TableLook:
        """The services that are due now; cheap if nothing has changed. Raises HudisqlError."""

    def run(self, service: Service) -> str | None:
        """Run the service; what was done, None for nothing. Raises errors of hudisql and Spark."""


@dataclass(frozen=True, slots=True)
class _Due:
    table: MaintainedTable
    state: ServiceState
    signature: int

    @property
    def order(self) -> tuple[int, str]:
        return self.state.service.priority, self.table.name


@dataclass(slots=True)
class _Failure:
    attempts: int
    not_before: float


@dataclass
class ServiceLoop:
    """`tables` returns the tables, `cancel` ends Spark's jobs once `stop` is set.

    `interval` is the time between two checks of a table in seconds, `parallelism` the number of tables served
    at once.
    """

    tables: Callable[[], Sequence[MaintainedTable]]
    console: Console
    stop: threading.Event
    cancel: Callable[[], None]
    interval: float = 60.0
    parallelism: int = 2
    clock: Callable[[], float] = time.monotonic
    _without_effect: dict[tuple[str, Service], tuple[int, ServiceState]] = field(default_factory=dict)
    _failures: dict[tuple[str, str], _Failure] = field(default_factory=dict)
    _is_repeated: bool = True

    def run(self) -> None:
        """Check tables and run services until `stop` is set; the last one then ends or is rolled back."""
        with self._pools() as (looks, services):
            while not self.stop.is_set():
                started = self.clock()
                self._serve_all(looks, services)
                self.stop.wait(max(self.interval - (self.clock() - started), 0))

    def run_once(self) -> bool:
        """Check each table and run services until nothing is due; True if nothing has failed."""
        self._is_repeated = False
        with self._pools() as (looks, services):
            self._serve_all(looks, services)
        return not self._failures

    @contextmanager
    def _pools(self) -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
        with (
            ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="look") as looks,
            ThreadPoolExecutor(self.parallelism, thread_name_prefix="service") as services,
        ):
            yield looks, services

    def _serve_all(self, looks: ThreadPoolExecutor, services: ThreadPoolExecutor) -> None:
        waiting, looked_at = self._look_at_all(looks, ()), self.clock()
        running: dict[Future[_Due | None], str] = {}
        while running or (waiting and not self.stop.is_set()):
            while waiting and len(running) < self.parallelism and not self.stop.is_set():
                due = waiting.pop(min(waiting.values(), key=lambda candidate: candidate.order).table.name)
                running[services.submit(self._serve, due)] = due.table.name
            if self._is_repeated and self.clock() - looked_at >= self.interval:
                # A service may run for hours: the other tables are served meanwhile.
                waiting |= self._look_at_all(looks, running.values())
                looked_at = self.clock()
            done, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            if self.stop.is_set():
                self.cancel()
            for future in done:
                name, following = running.pop(future), future.result()
                if following is not None:
                    waiting[name] = following

    def _look_at_all(self, looks: ThreadPoolExecutor, busy: Collection[str]) -> dict[str, _Due]:
        """The due services of each table that has none running."""
        tables = [table for table in self.tables() if table.name not in busy]
        return {due.table.name: due for due in looks.map(self._next_due, tables) if due is not None}

    def _serve(self, due: _Due) -> _Due | None:
        """Run the service; then check its table again."""
        table, service = due.table, due.state.service
        self._without_effect[table.name, service] = (due.signature, due.state)
        started = self.clock()
        try:
            said = table.run(service)
        except Exception as error:
            self._report(table.name, service, error)
        else:
            self._failures.pop((table.name, service), None)
            if said is not None:
                took = f"{self.clock() - started:.1f} s"
                self.console.info(f"{table.name}: {service} ({due.state.reason}): {said}, in {took}")
        return self._next_due(table)

    def _next_due(self, table: MaintainedTable) -> _Due | None:
        """The most urgent service that is due on the table and can have an effect."""
        if self.stop.is_set() or self._waits(table.name, LOOK):
            return None
        try:
            look = table.look()
        except Exception as error:
            self._report(table.name, LOOK, error)
            return None
        self._failures.pop((table.name, LOOK), None)
        self._report_unknown(table.name, look.states)
        for state in look.states:
            is_new = self._without_effect.get((table.name, state.service)) != (look.signature, state)
            if state.is_due and is_new and not self._waits(table.name, state.service):
                return _Due(table, state, look.signature)
        return None

    def _report_unknown(self, name: str, states: Sequence[ServiceState]) -> None:
        """Warn of services whose state is unknown, once for each reason."""
        by_reason = {state.reason: state for state in reversed(states) if state.error is not None}
        for state in by_reason.values():
            if state.error is not None and not self._waits(name, state.service):
                self._report(name, state.service, state.error)

    def _waits(self, name: str, service: str) -> bool:
        failure = self._failures.get((name, service))
        return failure is not None and self.clock() < failure.not_before

    def _report(self, name: str, service: str, error: Exception) -> None:
        """Warn of the failure, and record when the next attempt may start."""
        if self.stop.is_set():
            self.console.info(f"{name}: the {service} was stopped; the next run repeats it")
            return
        known = self._failures.get((name, service))
        attempts = 1 if known is None else known.attempts + 1
        seconds = min(self.interval * 2 ** min(attempts - 1, 20), _LONGEST_BACKOFF)
        self._failures[name, service] = _Failure(attempts, self.clock() + seconds)
        # Services without an effect may have one after a failure.
        for other in Service:
            if other == service:
                self._without_effect.pop((name, other), None)
        text = error.message if isinstance(error, HudisqlError) else f"{type(error).__name__}: {error}"
        first = next(iter(text.strip().splitlines()), type(error).__name__)
        hint = f" ({error.hint})" if isinstance(error, HudisqlError) and error.hint else ""
        then = f"; the next attempt is in {seconds:.0f} s" if self._is_repeated else ""
        self.console.warning(f"{name}: {service} failed: {first}{hint}{then}")
