"""Statements that change a table, each with what it changes of the model.

Ids are unique in the table: a row that is written stays in its partition, unless the statement moves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import hypothesis.strategies as some

from tests.life.model import (
    Change,
    State,
    Values,
    add_column,
    assign,
    both,
    put,
    remove,
    widen_column,
)

DAYS = ("2024-03-01", "2024-03-02")
MOST_COLUMNS = 8

ids = some.sets(some.integers(0, 19), min_size=1, max_size=6)
days = some.sampled_from(DAYS)
numbers = some.integers(0, 99)

Statement = tuple[str, Change]
"""A text, `{t}` being the table, and its change."""


@dataclass(frozen=True)
class Statements:
    """Statements for a table in this state; rows that they write get `ts`, greater than all before."""

    state: State
    ts: int

    def rows(self, chosen: Iterable[int], day: str, number: int, *, keeps_days: bool = True) -> list[Values]:
        """New rows of these ids, in the partition that they are in if there they are."""
        state = self.state
        added = dict.fromkeys(list(state.columns)[5:], number)
        return [
            {
                "id": id_,
                "note": None if (id_ + number) % 5 == 0 else f"n{number}",
                "price": float(number + id_),
                "ts": self.ts,
                "dt": state.rows[id_]["dt"] if keeps_days and id_ in state.rows else day,
                **added,
            }
            for id_ in sorted(chosen)
        ]

    def insert(self, chosen: set[int], day: str, number: int) -> Statement:
        new = self.rows(chosen, day, number)
        return f"INSERT INTO {{t}} ({self._names()}) {self._select(new)}", put(new)

    def update(self, chosen: set[int], number: int) -> Statement:
        text = f"UPDATE {{t}} SET price = {number}.5, note = 'u{number}' WHERE id IN ({_listed(chosen)})"
        return text, assign(chosen, price=number + 0.5, note=f"u{number}")

    def move(self, chosen: set[int], day: str) -> Statement:
        text = f"UPDATE {{t}} SET dt = '{day}', ts = {self.ts} WHERE id IN ({_listed(chosen)})"
        return text, assign(chosen, dt=day, ts=self.ts)

    def delete(self, chosen: set[int]) -> Statement:
        return f"DELETE FROM {{t}} WHERE id IN ({_listed(chosen)})", remove(lambda row: row["id"] in chosen)

    def merge(self, chosen: set[int], deleted: set[int], day: str, number: int) -> Statement:
        new = self.rows(chosen, day, number)
        gone = deleted & set(self.state.rows) & chosen
        text = (
            f"MERGE INTO {{t}} t USING ({self._select(new)}) s ON t.id = s.id "
            f"WHEN MATCHED AND s.id IN ({_listed(gone | {-1})}) THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        kept = [row for row in new if row["id"] not in gone]
        return text, both(put(kept), remove(lambda row: row["id"] in gone))

    def overwrite_partition(self, chosen: set[int], day: str, number: int) -> Statement:
        """Of the ids those that are in no other partition."""
        elsewhere = set(self.state.rows) - self.state.ids(day)
        new = self.rows(chosen - elsewhere, day, number, keeps_days=False)
        names = [name for name in self.state.columns if name != "dt"]
        text = (
            f"INSERT OVERWRITE {{t}} PARTITION (dt = '{day}') ({', '.join(names)}) {self._select(new, names)}"
        )
        return text, both(remove(lambda row: row["dt"] == day), put(new))

    def overwrite_table(self, chosen: set[int], day: str, number: int) -> Statement:
        new = self.rows(chosen, day, number, keeps_days=False)
        text = f"INSERT OVERWRITE {{t}} ({self._names()}) {self._select(new)}"
        return text, both(remove(lambda _: True), put(new))

    def truncate(self) -> Statement:
        return "TRUNCATE TABLE {t}", remove(lambda _: True)

    def drop_partition(self, day: str) -> Statement:
        text = f"ALTER TABLE {{t}} DROP IF EXISTS PARTITION (dt = '{day}')"
        return text, remove(lambda row: row["dt"] == day)

    def add_column(self, kind: str) -> Statement:
        name = next(name for number in count(5) if (name := f"c{number}") not in self.state.columns)
        return f"ALTER TABLE {{t}} ADD COLUMNS ({name} {kind})", add_column(name, kind)

    def widen_column(self) -> Statement | None:
        """The first column that is an INT becomes a BIGINT."""
        for name, kind in self.state.columns.items():
            if kind == "INT":
                return f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE BIGINT", widen_column(name, "BIGINT")
        return None

    def any_of_rows(self, remainder: int | None = None) -> Any:
        """A strategy of changes of rows; of those ids only that have a remainder by 2."""

        def keep(chosen: set[int]) -> set[int]:
            return chosen if remainder is None else {2 * (id_ // 2) + remainder for id_ in chosen}

        chosen = ids.map(keep)
        return some.one_of(
            some.builds(self.insert, chosen, days, numbers),
            some.builds(self.update, chosen, numbers),
            some.builds(self.delete, chosen),
            some.builds(self.merge, chosen, chosen, days, numbers),
        )

    def any(self) -> Any:
        """A strategy of all that can be done at this state."""
        strategies = [
            self.any_of_rows(),
            some.builds(self.move, ids, days),
            some.builds(self.overwrite_table, ids, days, numbers),
            some.builds(self.drop_partition, days),
        ]
        if len(self.state.columns) < MOST_COLUMNS:
            strategies.append(some.builds(self.add_column, some.sampled_from(("INT", "BIGINT"))))
        if (widened := self.widen_column()) is not None:
            strategies.append(some.just(widened))
        return some.one_of(*strategies)

    def _names(self) -> str:
        return ", ".join(self.state.columns)

    def _select(self, rows: list[Values], names: Iterable[str] | None = None) -> str:
        """The rows as literals of a query."""
        types = {name: self.state.columns[name] for name in names or self.state.columns}
        listed = [
            ", ".join(f"CAST({_literal(row[name])} AS {kind}) AS {name}" for name, kind in types.items())
            for row in rows
        ]
        if not rows:
            empty = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in types.items())
            return f"SELECT {empty} WHERE false"
        return " UNION ALL ".join(f"SELECT {each}" for each in listed)


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)
