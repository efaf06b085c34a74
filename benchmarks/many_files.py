"""Statements on a bootstrapped table of many files, by hudisql and by Apache Hudi.

`python -m benchmarks.many_files` bootstraps 10,000 files of 20 rows in 500 partitions twice, as a table of
version 6 without a metadata table for Hudi 0.15 and as one of version 9 with files, statistics and record
index for Hudi 1.2. hudisql and Hudi then run the same statements on the same table, each once before it is
measured, and have to agree on the rows. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
from benchmarks.statement_scale import ROWS_A_FILE

FILES: Final = 10_000
PARTITIONS: Final = 500
MEMORY: Final = "3g"
TITLE: Final = "Scale: statements on many files beside Apache Hudi"
DAY: Final = "0003"
CHANGED_ID: Final = 3 * ROWS_A_FILE + 7
CHANGED_AMOUNT: Final = 1e9
READ_DAY: Final = "SELECT of one partition"
READ_ALL: Final = "SELECT of all rows"
READ_KEY: Final = "SELECT of a record key"
UPSERT: Final = "upsert of one row"
READS: Final = {
    READ_DAY: f"SELECT count(*), max(amount) FROM {{}} WHERE dt = '{DAY}'",
    READ_ALL: "SELECT count(*), max(amount) FROM {}",
    READ_KEY: f"SELECT count(*), max(dt) FROM {{}} WHERE _hoodie_record_key = '{CHANGED_ID}'",
}


@dataclass(frozen=True)
class Opponent:
    """A version of Apache Hudi, the table that hudisql makes for it, and the settings of its session."""

    version: str
    arguments: str
    queries: tuple[str, ...]
    reads: Mapping[str, str]
    writes: Mapping[str, str]
    description: str


OPPONENTS: Final = (
    Opponent(
        "0.15.0",
        "",
        # A filter on a meta column fails in 0.15: it leaves out rows of the skeleton alone.
        (READ_DAY, READ_ALL),
        {},
        {"hoodie.metadata.enable": "false"},
        "version 6, without a metadata table",
    ),
    Opponent(
        "1.2.0",
        ", table_version => 9, indexes => 'record_index'",
        (READ_DAY, READ_ALL, READ_KEY),
        {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"},
        {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.global.record.level.index.enable": "true",
            "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
            "hoodie.write.table.version": "9",
        },
        "version 9, with a metadata table and its record index",
    ),
)


def run_ours(
    engine: HudisqlEngine, source: Path, table: Path, opponent: Opponent, rows_a_day: int
) -> dict[str, Cost]:
    """Bootstrap the table and run the statements by hudisql; the table is left as it was bootstrapped."""
    engine.sql("DROP TABLE IF EXISTS many")
    engine.sql(
        f"CALL bootstrap_table(table => 'many', source => '{source}', record_key => 'id',"
        f" precombine => 'amount', target_path => '{table}', verify => false{opponent.arguments})"
    )
    merge = (
        f"MERGE INTO many AS t USING (SELECT {CHANGED_ID}L AS id, {CHANGED_AMOUNT}D AS amount,"
        f" 'changed' AS name, '{DAY}' AS dt) AS s ON t.id = s.id AND t.dt = s.dt"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    return dict(_steps(engine, "many", lambda: engine.sql(merge), table, rows_a_day, opponent.queries))


def run_theirs(engine: RealHudiEngine, table: Path, opponent: Opponent, rows_a_day: int) -> dict[str, Cost]:
    """The same by Apache Hudi."""
    row = pa.table({"id": [CHANGED_ID], "amount": [CHANGED_AMOUNT], "name": ["changed"], "dt": [DAY]})
    options = {
        "hoodie.table.name": "many",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "amount",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        **opponent.writes,
    }

    def upsert() -> Rows:
        engine.oracle.upsert(row, str(table), options)
        return []

    engine.view("many", str(table), options=opponent.reads)
    return dict(_steps(engine, "many", upsert, table, rows_a_day, opponent.queries, opponent.reads))


def _steps(
    engine: HudisqlEngine | RealHudiEngine,
    name: str,
    upsert: Callable[[], Rows],
    table: Path,
    rows_a_day: int,
    queries: Sequence[str],
    reads: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Cost]]:
    """Each read for the second time, and the upsert on a table that was put back after the first."""
    for step in queries:
        statement = READS[step].format(name)
        first = engine.sql(statement)
        rows, cost = measured(engine, lambda statement=statement: engine.sql(statement))  # type: ignore[misc]
        assert rows == first
        yield step, cost
    kept = table.with_name("kept")
    for is_measured in (False, True):
        shutil.copytree(table, kept)
        _, cost = measured(engine, upsert)
        if isinstance(engine, RealHudiEngine):
            engine.view(name, str(table), options=reads)
        (row,) = engine.sql(READS[READ_DAY].format(name))
        assert (int(row[0] or 0), float(row[1] or 0)) == (rows_a_day, CHANGED_AMOUNT), row
        shutil.rmtree(table)
        kept.rename(table)
        if is_measured:
            yield UPSERT, cost


def render(
    results: Sequence[tuple[Opponent, dict[str, Cost], dict[str, Cost]]],
    files: int,
    partitions: int,
    cores: int,
) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.many_files` on {cores} cores and local disks: {files:,} files"
        f" of {ROWS_A_FILE} rows in {partitions} partitions, bootstrapped by hudisql, copy-on-write. Each"
        " statement ran once before in its session. CPU time is that of the whole process tree; the upsert is"
        " `MERGE` against the DataFrame writer's.",
        "",
        "| table | statement | hudisql, CPU s | Apache Hudi, CPU s | hudisql : Hudi | hudisql, s | Hudi, s |",
        "|--|--|--:|--:|--:|--:|--:|",
    ]
    for opponent, ours, theirs in results:
        lines += [
            f"| {opponent.description} (Hudi {opponent.version}) | {step} | {compared(own, theirs[step])} |"
            for step, own in ours.items()
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    options = option_parser(__doc__, (FILES,)).parse_args(arguments)
    (files,) = map(int, options.sizes.split(","))
    partitions = min(PARTITIONS, files // 4)
    rows_a_day = len(range(int(DAY), files, partitions)) * ROWS_A_FILE
    results = []
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        directory = Path(scratch)
        source = make_source(directory / "source", files, ROWS_A_FILE, partitions)
        for opponent in OPPONENTS:
            table = directory / f"table-{opponent.version}"
            with closing(start_hudisql(directory, cores=options.cores, memory=MEMORY)) as engine:
                ours = run_ours(engine, source, table, opponent, rows_a_day)
            session = directory / f"session-{opponent.version}"
            with closing(
                start_real_hudi(session, cores=options.cores, memory=MEMORY, version=opponent.version)
            ) as engine:
                theirs = run_theirs(engine, table, opponent, rows_a_day)
            results.append((opponent, ours, theirs))
            print(opponent.version, ours, theirs, file=sys.stderr, flush=True)
    replace_part(options.output, TITLE, render(results, files, partitions, options.cores))


if __name__ == "__main__":
    main()
