"""A small bootstrapped table that tests of changes copy and change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.paths.file_names import parse_base_file_name
from hudisql.session import Session
from tests.opened import open_at

ROWS = 30
DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")


@dataclass
class ChangedTable:
    """A table of 30 rows in three partitions, with ids k00 to k29, seq 0 to 29 and price = seq."""

    session: Session
    name: str
    path: str

    def run(self, text: str) -> dict[str, Any]:
        """Run the statement, `{t}` being the table; gives its row without instant and bytes."""
        row = self.session.sql(text.replace("{t}", self.name)).rows[0].asDict()
        counts = {name.removeprefix("rows_"): value for name, value in row.items() if value}
        return {name: value for name, value in counts.items() if name not in ("instant", "bytes_written")}

    def rows(self, columns: str = "id, seq, price, dt", where: str = "true") -> list[tuple[Any, ...]]:
        """The table's rows in the order of their ids."""
        text = f"SELECT {columns} FROM {self.name} WHERE {where} ORDER BY id"
        return [tuple(row) for row in self.session.sql(text).rows]

    def seqs(self, where: str = "true") -> list[int]:
        """The seq of the rows, in the order of their ids."""
        return [row[0] for row in self.rows("seq", where)]

    def instants(self) -> list[str]:
        """The timeline's completed instants."""
        table = open_at(self.path)
        return [f"{each.timestamp} {each.action}" for each in table.timeline.completed]

    def orphans(self) -> list[str]:
        """Base files of instants that never completed."""
        completed = {each.split()[0] for each in self.instants()}
        names = [path.name for path in Path(self.path).rglob("*.parquet")]
        parsed = [(name, parse_base_file_name(name)) for name in names]
        return [name for name, found in parsed if found is None or found.instant_time not in completed]


@contextmanager
def setting(session: Session, key: str, value: str) -> Iterator[None]:
    """A setting of the session that ends with the context."""
    session.sql(f"SET {key} = {value}")
    try:
        yield
    finally:
        session.sql(f"RESET {key}")


@contextmanager
def own_database(session: Session, name: str) -> Iterator[None]:
    """A database that goes with all its tables; their files stay."""
    session.sql(f"CREATE DATABASE {name}")
    yield
    for table in session.context.metastore.list_tables(name):
        entry = session.context.metastore.get_table(name, table)
        # Some go with others.
        kind = "VIEW" if entry is not None and entry.is_view else "TABLE"
        session.sql(f"DROP {kind} IF EXISTS {name}.{table}")
    session.sql(f"DROP DATABASE {name}")


def database_fixture(
    name: str, scope: Literal["function", "module"] = "function", autouse: bool = False
) -> Any:
    """A fixture that makes such a database and gives its name."""

    @pytest.fixture(scope=scope, autouse=autouse)
    def database(session: Session) -> Iterator[str]:
        with own_database(session, name):
            yield name

    return database


def write_source(directory: Path) -> Path:
    """The source's files, one a day."""
    for number, day in enumerate(DAYS):
        numbers = range(number * 10, number * 10 + 10)
        place = directory / f"dt={day}"
        place.mkdir(parents=True)
        rows = pa.table(
            {
                "id": [f"k{n:02d}" for n in numbers],
                "seq": pa.array(numbers, pa.int64()),
                "price": pa.array([Decimal(n) for n in numbers], pa.decimal128(12, 2)),
                "st": pa.array([{"a": n, "b": f"s{n}"} for n in numbers]),
                "tags": pa.array([[f"t{n}", None] for n in numbers]),
                "at": pa.array([n * 1_000_000 for n in numbers], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(rows, place / "part-0.parquet", store_decimal_as_integer=False, row_group_size=4)
    return directory
