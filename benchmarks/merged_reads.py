"""Snapshot reads of merge-on-read tables with one log record for every hundredth row, beside Hudi 0.15's.

`python -m benchmarks.merged_reads` bootstraps TPC-H lineitem as skeletons and as full records, whose base
files have the meta columns, and merges one row in a hundred into logs; beside these stand tables without log
files, one of them with skeletons for half of the source files. hudisql and Apache Hudi then read the same
tables, and plain Spark their base files and the source. Writes a part of docs/benchmarks-changes.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.changes import SPREAD, SUMMARY, make_batches
from benchmarks.engines import (
    Cost,
    Engine,
    HudisqlEngine,
    Rows,
    measured,
    start_hudisql,
    start_real_hudi,
)
from benchmarks.lineitem import COLUMNS, KEY_COLUMNS, PRECOMBINE_COLUMN, make_lineitem
from benchmarks.pages import replace_part
from benchmarks.reads import META_AGGREGATES
from benchmarks.run import AS_THE_REAL_HUDI, ROOT, Options, UnequalResultsError, parse_options

TITLE: Final = "Snapshot reads of merge-on-read tables"
FULL_RECORD: Final = f"{AS_THE_REAL_HUDI}, mode => 'full_record'"
RUNS: Final = 3
_MAXIMA: Final = ", ".join(f"max({column})" for column in COLUMNS)
QUERIES: Final = {
    "count(*)": "SELECT count(*) FROM {}",
    "two columns": "SELECT sum(l_quantity), max(l_shipdate) FROM {}",
    "two columns and the length of a third": SUMMARY.replace("count(DISTINCT _hoodie_record_key), ", ""),
    "a filter": "SELECT count(*) FROM {} WHERE l_shipdate >= date'1998-06-01' AND l_quantity < 10",
    "all data columns": f"SELECT {_MAXIMA} FROM {{}}",
    "all columns with the five meta columns": f"SELECT {_MAXIMA}, {', '.join(META_AGGREGATES)} FROM {{}}",
}
ALL_COLUMNS: Final = tuple(QUERIES)[-2:]
BATCH: Final = "SELECT * FROM batch"
# Each source file holds a range of keys: these are rows of half of the files.
HALF_OF_BATCH: Final = f"{BATCH} WHERE l_orderkey <= (SELECT max(l_orderkey) / 2 FROM batch)"
SOURCE: Final = "source"


@dataclass(frozen=True)
class Table:
    """How a table is bootstrapped, which rows are merged into its log files, and what is read of it."""

    settings: str
    merged: str | None = None
    is_compacted: bool = False
    queries: tuple[str, ...] = tuple(QUERIES)

    @property
    def has_its_own_files(self) -> bool:
        """True if each base file is one that Spark can read for the table."""
        return self.settings == FULL_RECORD


TABLES: Final = {
    "bootstrapped": Table(AS_THE_REAL_HUDI, BATCH),
    "native": Table(FULL_RECORD, BATCH),
    "native_without_logs": Table(FULL_RECORD, queries=ALL_COLUMNS),
    "half_rewritten_without_logs": Table(AS_THE_REAL_HUDI, HALF_OF_BATCH, True, ALL_COLUMNS),
}
Costs = dict[tuple[str, str], Cost]


@dataclass(frozen=True)
class Results:
    """Of each table and query: the rows, and what they cost."""

    rows: dict[tuple[str, str], Rows]
    costs: Costs


def make_tables(options: Options, source: Path, directory: Path) -> dict[str, Path]:
    """Bootstrap and change the tables; their directories by name."""
    batch = next(each for each in make_batches(source, directory / "batches") if each.name == SPREAD)
    engine = start_hudisql(directory / "make", cores=options.cores, memory=options.memory)
    try:
        engine.view("batch", str(batch.path))
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        for name, table in TABLES.items():
            _make_table(engine, f"bench.{name}", table, source, directory / name)
    finally:
        engine.close()
    return {name: directory / name for name in TABLES}


def _make_table(engine: HudisqlEngine, name: str, table: Table, source: Path, path: Path) -> None:
    condition = " AND ".join(f"t.{column} = s.{column}" for column in KEY_COLUMNS)
    engine.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{source}', record_key => "
        f"'{','.join(KEY_COLUMNS)}', precombine => '{PRECOMBINE_COLUMN}', "
        f"target_path => '{path}', table_type => 'MERGE_ON_READ', {table.settings})"
    )
    if table.merged is not None:
        engine.sql(
            f"MERGE INTO {name} t USING ({table.merged}) s ON {condition} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    if table.is_compacted:
        engine.sql(
            f"CALL run_compaction(op => 'scheduleandexecute', table => '{name}', "
            "options => 'hoodie.compact.inline.max.delta.commits=1')"
        )


def read_by_hudisql(
    options: Options, source: Path, tables: Mapping[str, Path], directory: Path
) -> tuple[Results, Results, Results]:
    """What hudisql reads, first and again, and what plain Spark reads of the source and of base files."""
    engine = start_hudisql(directory / "session", cores=options.cores, memory=options.memory)
    try:
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        for name, path in tables.items():
            engine.sql(f"CALL hive_sync(table => 'bench.{name}', path => '{path}')")
        plain = {name: path for name, path in tables.items() if TABLES[name].has_its_own_files}
        for name, path in {**plain, SOURCE: source}.items():
            engine.view(f"plain_{name}", str(path))
        first, again, plainly = Results({}, {}), Results({}, {}), Results({}, {})
        for name, table in TABLES.items():
            for query in table.queries:
                text = QUERIES[query].format(f"bench.{name}")
                _read(engine, engine.sql, text, (name, query), first, before=engine.forget)
                _read(engine, engine.sql, text, (name, query), again)
                if name in plain:
                    _read(
                        engine, engine.spark, QUERIES[query].format(f"plain_{name}"), (name, query), plainly
                    )
        for query, text in QUERIES.items():
            if "_hoodie_" not in text:
                _read(engine, engine.spark, text.format(f"plain_{SOURCE}"), (SOURCE, query), plainly)
        return first, again, plainly
    finally:
        engine.close()


def read_by_hudi(options: Options, tables: Mapping[str, Path], directory: Path) -> Results:
    """What Apache Hudi 0.15 reads."""
    engine = start_real_hudi(directory / "hudi", cores=options.cores, memory=options.memory)
    try:
        results = Results({}, {})
        for name, path in tables.items():
            engine.view(name, str(path), "hudi")
            for query in TABLES[name].queries:
                _read(engine, engine.sql, QUERIES[query].format(name), (name, query), results)
        return results
    finally:
        engine.close()


def _read(
    engine: Engine,
    run: Callable[[str], Rows],
    statement: str,
    place: tuple[str, str],
    results: Results,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Run a statement once to warm up and then measure it."""
    results.rows[place] = run(statement)
    costs = []
    for _ in range(RUNS):
        before()
        costs.append(measured(engine, lambda: run(statement))[1])
    results.costs[place] = sorted(costs, key=lambda cost: cost.cpu)[RUNS // 2]


def render_part(options: Options, first: Results, again: Results, theirs: Results, plain: Results) -> str:
    """The part of the page of docs/."""
    lines = [
        f"# {TITLE}",
        "",
        "TPC-H lineitem in 24 files, `MERGE_ON_READ`, every hundredth row changed in a log file, but for the "
        "tables without logs; "
        f"`local[{options.cores}]`. Both engines read the same tables and gave the same rows. CPU seconds of "
        f"whole process trees, the median of {RUNS} runs in a warm session. *First* matches the keys of log "
        "records and bases, as the first read of a table's state in a session does; *again* has the matches "
        "from the cache. *Same files* is Spark's plain read of the very base files with the same columns, "
        "which takes no log record into account; *source* that of the source files (snappy, the base files "
        "are gzip), which have no meta columns. Half of the file groups of the last table are bootstrapped: "
        "their meta columns and data stand in two files.",
        "Made by `python -m benchmarks.merged_reads`; the goal is half of Hudi's, and of native file groups "
        "without logs at most 1.1 of plain parquet.",
        "",
        "| table | query | hudisql, first | again | Hudi 0.15 | same files | source | first, of Hudi's "
        "| again, of Hudi's | again, of same files |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (table, query), mine in first.costs.items():
        other, later = theirs.costs[table, query], again.costs[table, query]
        same = plain.costs.get((table, query))
        of_source = plain.costs.get((SOURCE, query)) or plain.costs[SOURCE, ALL_COLUMNS[0]]
        lines.append(
            f"| {table.replace('_', ' ')} | {query} | {mine.cpu:.2f} | {later.cpu:.2f} | {other.cpu:.2f} | "
            f"{'' if same is None else f'{same.cpu:.2f}'} | {of_source.cpu:.2f} | "
            f"{mine.cpu / other.cpu:.2f} | {later.cpu / other.cpu:.2f} | "
            f"{'' if same is None else f'{later.cpu / same.cpu:.2f}'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure and write the part of the page."""
    given = parse_options(__doc__ or "", ROOT / "docs" / "benchmarks-changes.md")
    source = make_lineitem(given.directory, scale_factor=given.scale_factor, files=given.files)
    with tempfile.TemporaryDirectory(dir=given.directory) as scratch_name:
        scratch = Path(scratch_name)
        tables = make_tables(given, source, scratch)
        first, again, plain = read_by_hudisql(given, source, tables, scratch)
        theirs = read_by_hudi(given, tables, scratch)
    different = [
        each for each, rows in theirs.rows.items() if first.rows[each] != rows or again.rows[each] != rows
    ]
    if different:
        raise UnequalResultsError(f"hudisql and Apache Hudi read other rows: {different}")
    part = render_part(given, first, again, theirs, plain)
    replace_part(given.output, TITLE, part)
    print(part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
