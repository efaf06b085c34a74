"""Bootstrapped tables of many partitions, small in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.session import Session
from tests.requests.counted_requests import Requests, counted_requests

FILES = 2
ROWS = 3


@dataclass
class WideTable:
    """A table of `partitions` days, each with two or other files of three rows; ids are k0, k1 … in order."""

    session: Session
    name: str
    path: str
    source: str
    partitions: int

    def day(self, number: int) -> str:
        """The value of the partition column `dt` of this partition."""
        return day(number)

    def requests(self, text: str) -> tuple[Requests, list[tuple[Any, ...]]]:
        """The driver's requests of the statement, `{t}` being the table, and its rows."""
        with counted_requests(self.path, self.source) as requests:
            rows = [tuple(row) for row in self.session.sql(text.replace("{t}", self.name)).rows]
        return requests, rows


def day(number: int) -> str:
    """The date of the partition with this number."""
    return str(date(2015, 1, 1) + timedelta(number))


def write_wide_source(source: Path, partitions: int, *, by_month: bool = False, files: int = FILES) -> None:
    """The source of a wide table, by the column `dt`; with `by_month` by `y`, `m` and `d`."""
    for number in range(partitions):
        year, month, date_of_month = day(number).split("-")
        path = f"y={year}/m={month}/d={date_of_month}" if by_month else f"dt={day(number)}"
        directory = source / path
        directory.mkdir(parents=True)
        for file in range(files):
            first = (number * files + file) * ROWS
            ids = range(first, first + ROWS)
            rows = pa.table(
                {
                    "id": [f"k{each}" for each in ids],
                    "seq": pa.array(ids, pa.int64()),
                    "price": [float(each) for each in ids],
                }
            )
            pq.write_table(rows, directory / f"part-{file}.parquet")


@contextmanager
def wide_table(
    session: Session,
    name: str,
    directory: Path,
    partitions: int,
    table_type: str = "COPY_ON_WRITE",
    *,
    by_month: bool = False,
    arguments: str = "",
    files: int = FILES,
) -> Iterator[WideTable]:
    """The bootstrapped table, dropped at the end; `by_month` as in `write_wide_source`.

    `arguments` are further ones of the bootstrap.
    """
    source, path = directory / f"{name}_source", directory / name
    write_wide_source(source, partitions, by_month=by_month, files=files)
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{source}', record_key => 'id',"
        f" precombine => 'seq', table_type => '{table_type}', target_path => '{path}'"
        f"{', ' if arguments else ''}{arguments})"
    )
    try:
        yield WideTable(session, name, str(path), str(source), partitions)
    finally:
        session.sql(f"DROP TABLE {name}")
