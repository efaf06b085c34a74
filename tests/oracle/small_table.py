"""A table of a few rows that Apache Hudi makes, and that hudisql and Apache Hudi then change in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.newer_tables import WITHOUT_SKIPPING

SCHEMA = pa.schema([("id", pa.int32()), ("seq", pa.int64()), ("note", pa.string()), ("dt", pa.string())])
Row = tuple[int, int, str, str]


@dataclass
class TableInTurn:
    """The table at `path`, in hudisql's session called `name`; `notes` are what its rows must hold, by id.

    `oracle` writes it with the `options`, and reads it unless there is another `reader`.
    """

    oracle: HudiOracle
    session: Any
    path: str
    name: str
    options: Mapping[str, str]
    reader: HudiOracle | None = None
    notes: dict[int, str] = field(default_factory=dict)

    def theirs(self, *rows: Row, options: Mapping[str, str] | None = None) -> None:
        """Apache Hudi upserts the rows."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
        self.oracle.upsert(table, self.path, {**self.options, **(options or {})})

    def ours(self, statement: str) -> None:
        """hudisql runs the statement, in which `{t}` stands for the table."""
        self.session.sql(statement.format(t=self.name))

    def check(self, **changes: str | None) -> pa.Table:
        """Both read the same rows, those of `notes` with the changes (`k1=None`: the row 1 is gone)."""
        for key, note in changes.items():
            self.notes.pop(int(key[1:]), None)
            if note is not None:
                self.notes[int(key[1:])] = note
        theirs = (self.reader or self.oracle).read(self.path, options=WITHOUT_SKIPPING)
        ours = self.session.sql(f"SELECT * FROM {self.name}").arrow()
        assert_same_rows(ours, theirs.select(ours.schema.names), sort_by=["id"])
        found = sorted(zip(theirs["id"].to_pylist(), theirs["note"].to_pylist(), strict=True))
        assert found == sorted(self.notes.items())
        return ours


def new_table_in_turn(
    oracle: HudiOracle,
    session: Any,
    path: str,
    name: str,
    options: Mapping[str, str],
    reader: HudiOracle | None = None,
) -> TableInTurn:
    """The table with the rows 0 to 8, of partition `d<id % 3>`, `seq` 1 and the note `first`."""
    made = TableInTurn(oracle, session, path, name, {"hoodie.table.name": name, **options}, reader)
    made.theirs(*((number, 1, "first", f"d{number % 3}") for number in range(9)))
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    made.notes |= dict.fromkeys(range(9), "first")
    return made
