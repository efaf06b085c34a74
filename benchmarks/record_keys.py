"""Upserts by record key into a table of many keys, by hudisql and by Apache Hudi 1.2, with a record index.

`python -m benchmarks.record_keys` bootstraps 100 files as a merge-on-read table of version 9 whose metadata
table has a record index. hudisql and Hudi then upsert the same rows into the same table, each once before it
is measured: one row, and 10,000 rows in all files. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.engines import (
    Cost,
    HudisqlEngine,
    RealHudiEngine,
    Rows,
    compared,
    measured,
    start_hudisql,
    start_real_hudi,
)
from benchmarks.pages import replace_part
from benchmarks.scale import make_source, option_parser

KEYS: Final = 100_000_000
FILES: Final = 100
PARTITIONS: Final = 10
MEMORY: Final = "3g"
VERSION: Final = "1.2.0"
TITLE: Final = "Scale: upserts by record key into many keys beside Apache Hudi"
HUDI_OPTIONS: Final = {
    "hoodie.table.name": "keys",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "amount",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.write.table.version": "9",
}


@dataclass(frozen=True)
class Upsert:
    """Stored rows at equal distances get a new amount."""

    rows: int
    keys: int

    @property
    def label(self) -> str:
        """The line's name on the page."""
        return "one row" if self.rows == 1 else f"{self.rows:,} rows in all files"

    def ids(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The record keys."""
        return np.arange(self.rows, dtype=np.int64) * (self.keys // self.rows) + 7

    def days(self) -> list[str]:
        """The partition of each row."""
        return [f"{number:04d}" for number in self.ids() // (self.keys // FILES) % PARTITIONS]

    def insert(self, amount: float) -> str:
        """The statement of hudisql."""
        step, rows_a_file = self.keys // self.rows, self.keys // FILES
        return (
            f"INSERT INTO keys SELECT id, {amount}D AS amount, 'changed' AS name,"
            f" lpad(cast(id div {rows_a_file} % {PARTITIONS} AS string), 4, '0') AS dt"
            f" FROM (SELECT id * {step} + 7 AS id FROM range({self.rows}))"
        )

    def batch(self, amount: float) -> pa.Table:
        """The rows for Hudi's DataFrame writer."""
        columns = {"id": self.ids(), "amount": np.full(self.rows, amount), "name": ["changed"] * self.rows}
        return pa.table({**columns, "dt": self.days()})


def run_ours(engine: HudisqlEngine, source: Path, table: Path, keys: int) -> dict[str, Cost]:
    """Bootstrap the table, then upsert by hudisql."""
    _, bootstrap = measured(
        engine,
        lambda: engine.sql(
            f"CALL bootstrap_table(table => 'keys', source => '{source}', record_key => 'id',"
            f" precombine => 'amount', table_type => 'MERGE_ON_READ', target_path => '{table}',"
            " verify => false, table_version => 9, indexes => 'record_index')"
        ),
    )
    print("bootstrap", bootstrap, file=sys.stderr, flush=True)
    engine.sql("SET hoodie.spark.sql.insert.into.operation = upsert")
    engine.sql("SET hoodie.index.type = RECORD_INDEX")
    return dict(_steps(engine, lambda upsert, amount: engine.sql(upsert.insert(amount)), keys, 1e9))


def run_theirs(engine: RealHudiEngine, table: Path, keys: int) -> dict[str, Cost]:
    """The same upserts by Apache Hudi."""

    def upsert(rows: Upsert, amount: float) -> Rows:
        engine.oracle.upsert(rows.batch(amount), str(table), HUDI_OPTIONS)
        return []

    return dict(_steps(engine, upsert, keys, 2e9))


def _steps(
    engine: HudisqlEngine | RealHudiEngine, upsert: Callable[[Upsert, float], Rows], keys: int, amount: float
) -> Iterator[tuple[str, Cost]]:
    for rows in (1, 10_000):
        change = Upsert(rows, keys)
        upsert(change, amount)
        _, cost = measured(engine, lambda change=change: upsert(change, amount + 1))  # type: ignore[misc]
        print(type(engine).__name__, change.label, cost, file=sys.stderr, flush=True)
        yield change.label, cost


def check(engine: HudisqlEngine, keys: int, amount: float) -> None:
    """No key has a second row, and the upserted ones have the last amount."""
    (row,) = engine.sql(f"SELECT count(*), count_if(amount = {amount}D) FROM keys")
    changed = len(np.union1d(Upsert(1, keys).ids(), Upsert(10_000, keys).ids()))
    assert [int(value or 0) for value in row] == [keys, changed], row


def render(ours: dict[str, Cost], theirs: dict[str, Cost], keys: int, cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.record_keys` on {cores} cores and local disks: {keys:,} keys in"
        f" {FILES} files and {PARTITIONS} partitions, bootstrapped by hudisql as a merge-on-read table of"
        " version 9 with a record index. Both engines upsert by this index, hudisql by `INSERT INTO` with"
        f" `hoodie.spark.sql.insert.into.operation=upsert`, Hudi {VERSION} by its DataFrame writer; each"
        " upsert ran once before in its session. CPU time is that of the whole process tree.",
        "",
        "| upsert | hudisql, CPU s | Apache Hudi, CPU s | hudisql : Hudi | hudisql, s | Hudi, s |",
        "|--|--:|--:|--:|--:|--:|",
    ]
    lines += [f"| {step} | {compared(own, theirs[step])} |" for step, own in ours.items()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    options = option_parser(__doc__, (KEYS,)).parse_args(arguments)
    (keys,) = map(int, options.sizes.split(","))
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        directory = Path(scratch)
        source = make_source(directory / "source", FILES, keys // FILES, PARTITIONS)
        table = directory / "table"
        with closing(start_hudisql(directory, cores=options.cores, memory=MEMORY)) as engine:
            ours = run_ours(engine, source, table, keys)
        session = directory / "session"
        with closing(start_real_hudi(session, cores=options.cores, memory=MEMORY, version=VERSION)) as engine:
            theirs = run_theirs(engine, table, keys)
        with closing(start_hudisql(directory, cores=options.cores, memory=MEMORY)) as engine:
            check(engine, keys, 2e9 + 1)
    replace_part(options.output, TITLE, render(ours, theirs, keys, options.cores))


if __name__ == "__main__":
    main()
