"""Stores the states of a worker's tables in its group, for `hudisql ingest status` and `drain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hudisql.ingest.kafka.group_state import FAILED, PAUSED
from hudisql.ingest.watch.observer import CommittedEvents, WorkerView


class ReportsStates(Protocol):
    """An ownership that publishes the states of tables."""

    def report(self, states: Mapping[str, str]) -> None:
        """The state of each table: a word, or `failed: ` and the reason."""


class GroupReports:
    """An observer that reports the states of tables."""

    def __init__(self, ownership: ReportsStates) -> None:
        self._ownership = ownership

    def committed(self, commit: CommittedEvents) -> None:
        """Do nothing."""

    def failed(self, table: str) -> None:
        """Do nothing: the next look reports it."""

    def looked(self, view: WorkerView) -> None:
        """Report the states. A paused table is reported once the worker has given it up."""
        states = dict.fromkeys(view.paused, PAUSED)
        for table in view.tables:
            states[table.name] = table.state if table.error is None else f"{FAILED}: {table.error}"
        self._ownership.report(states)
