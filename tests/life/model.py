"""What a table should hold: its rows in memory, as of every commit.

The simplest thing that can be right: a dictionary of rows by id for each instant. It knows neither files
nor Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Values = Mapping[str, Any]
"""A row's values by column name."""
Rows = Mapping[int, Values]


@dataclass(frozen=True)
class State:
    """A table's columns with their types, its rows, and the instant time of the commit that wrote each."""

    columns: Mapping[str, str]
    rows: Rows = field(default_factory=dict)
    written: Mapping[int, str] = field(default_factory=dict)

    def as_read(self) -> dict[int, tuple[str, Values]]:
        """Commit time and values of each row."""
        return {id_: (self.written[id_], row) for id_, row in self.rows.items()}

    def ids(self, day: str) -> set[int]:
        """The ids of a partition's rows."""
        return {id_ for id_, row in self.rows.items() if row["dt"] == day}


Change = Callable[[State, str], State]
"""Gives the state after a commit, of the state before it and its instant time."""


def put(rows: Iterable[Values]) -> Change:
    """Insert rows, or replace those with their ids."""
    given = {row["id"]: row for row in rows}

    def change(state: State, instant_time: str) -> State:
        empty = dict.fromkeys(state.columns)
        new = {id_: {**empty, **row} for id_, row in given.items()}
        written = dict.fromkeys(given, instant_time)
        return replace(state, rows={**state.rows, **new}, written={**state.written, **written})

    return change


def assign(ids: Collection[int], **values: Any) -> Change:
    """Set columns of the rows of these ids that there are."""

    def change(state: State, instant_time: str) -> State:
        rows = [{**state.rows[id_], **values} for id_ in ids if id_ in state.rows]
        return put(rows)(state, instant_time)

    return change


def remove(chosen: Callable[[Values], bool]) -> Change:
    """Delete the rows that are chosen by their values."""

    def change(state: State, _instant_time: str) -> State:
        kept = {id_: row for id_, row in state.rows.items() if not chosen(row)}
        return replace(state, rows=kept, written={id_: state.written[id_] for id_ in kept})

    return change


def both(first: Change, second: Change) -> Change:
    """One change after the other in one commit."""
    return lambda state, instant_time: second(first(state, instant_time), instant_time)


def add_column(name: str, kind: str) -> Change:
    """A new column without values."""

    def change(state: State, _instant_time: str) -> State:
        rows = {id_: {**row, name: None} for id_, row in state.rows.items()}
        return replace(state, columns={**state.columns, name: kind}, rows=rows)

    return change


def widen_column(name: str, kind: str) -> Change:
    """A column of another type that holds its values, too."""

    def change(state: State, _instant_time: str) -> State:
        return replace(state, columns={**state.columns, name: kind})

    return change


def nothing(state: State, _instant_time: str) -> State:
    """What a statement changes that commits no rows."""
    return state


def rewrite(columns: Mapping[str, str]) -> Change:
    """What a table service changes: its files have the columns of the time when it is run, not planned."""

    def change(state: State, instant_time: str) -> State:
        for name, kind in columns.items():
            altered = widen_column if name in state.columns else add_column
            state = altered(name, kind)(state, instant_time)
        return state

    return change


class History:
    """The states of a table by instant time."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._before = State(columns)
        self._states: dict[str, State] = {}

    def __contains__(self, instant_time: str) -> bool:
        return instant_time in self._states

    @property
    def instants(self) -> list[str]:
        """The instant times, oldest first."""
        return sorted(self._states)

    @property
    def latest(self) -> State:
        """The state after all commits."""
        return self.as_of("9")

    def as_of(self, instant_time: str) -> State:
        """The state after the commits up to that instant time."""
        known = [each for each in self.instants if each <= instant_time]
        return self._states[known[-1]] if known else self._before

    def commit(self, instant_time: str, change: Change) -> None:
        """Add the state after a commit; states of later commits stay as they are."""
        self._states[instant_time] = change(self.as_of(instant_time), instant_time)

    def undo(self, instant_times: Collection[str]) -> None:
        """Forget commits that were rolled back, the latest ones."""
        for each in instant_times:
            del self._states[each]
