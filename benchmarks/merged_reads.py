"""Snapshot reads of merge-on-read tables with one log record for every hundredth row, beside Hudi 0.15's.

`python -m benchmarks.merged_reads` bootstraps TPC-H lineitem twice (skeletons, and full records, whose base
files have the meta columns) and merges one row in a hundred into logs; hudisql and Apache Hudi then read the
same tables, and plain Spark their base files alone. Writes a part of docs/benchmarks-changes.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.changes import SPREAD, SUMMARY, make_batches
from benchmarks.engines import Cost, Engine, Rows, measured, start_hudisql, start_real_hudi
from benchmarks.lineitem import COLUMNS, KEY_COLUMNS, PRECOMBINE_COLUMN, make_lineitem
from benchmarks.pages import replace_part
from benchmarks.reads import META_AGGREGATES
from benchmarks.run import AS_THE_REAL_HUDI, ROOT, Options, UnequalResultsError, parse_options

TITLE: Final = "Snapshot reads of merge-on-read tables"
MODES: Final = {"bootstrapped": AS_THE_REAL_HUDI, "native": f"{AS_THE_REAL_HUDI}, mode => 'full_record'"}
RUNS: Final = 5
_MAXIMA: Final = ", ".join(f"max({column})" for column in COLUMNS)
QUERIES: Final = {
    "count(*)": "SELECT count(*) FROM {}",
    "two columns": "SELECT sum(l_quantity), max(l_shipdate) FROM {}",
    "two columns and the length of a third": SUMMARY.replace("count(DISTINCT _hoodie_record_key), ", ""),
    "a filter": "SELECT count(*) FROM {} WHERE l_shipdate >= date'1998-06-01' AND l_quantity < 10",
    "all data columns": f"SELECT {_MAXIMA} FROM {{}}",
    "all columns with the five meta columns": f"SELECT {_MAXIMA}, {', '.join(META_AGGREGATES)} FROM {{}}",
}
Costs = dict[tuple[str, str], Cost]


@dataclass(frozen=True)
class Results:
    """Of each table and query: the rows, and what they cost."""

    rows: dict[tuple[str, str], Rows]
    costs: Costs


def make_tables(options: Options, source: Path, directory: Path) -> dict[str, Path]:
    """Bootstrap the source in both modes and merge the batch; the tables' directories by mode."""
    batch = next(each for each in make_batches(source, directory / "batches") if each.name == SPREAD)
    engine = start_hudisql(directory / "make", cores=options.cores, memory=options.memory)
    condition = " AND ".join(f"t.{name} = s.{name}" for name in KEY_COLUMNS)
    try:
        engine.view("batch", str(batch.path))
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        for mode, settings in MODES.items():
            engine.sql(
                f"CALL bootstrap_table(table => 'bench.{mode}', source => '{source}', record_key => "
                f"'{','.join(KEY_COLUMNS)}', precombine => '{PRECOMBINE_COLUMN}', "
                f"target_path => '{directory / mode}', table_type => 'MERGE_ON_READ', {settings})"
            )
            engine.sql(
                f"MERGE INTO bench.{mode} t USING batch s ON {condition} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
    finally:
        engine.close()
    return {mode: directory / mode for mode in MODES}


def read_by_hudisql(
    options: Options, source: Path, tables: Mapping[str, Path], directory: Path
) -> tuple[Results, Results, Results]:
    """What hudisql reads, first and again, and what plain Spark reads of the base files (of the source, if
    bootstrapped)."""
    engine = start_hudisql(directory / "session", cores=options.cores, memory=options.memory)
    try:
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        for mode, path in tables.items():
            engine.sql(f"CALL hive_sync(table => 'bench.{mode}', path => '{path}')")
            engine.view(f"plain_{mode}", str(source if mode == "bootstrapped" else path))
        names = {mode: f"bench.{mode}" for mode in tables}
        first = _read_all(engine, engine.sql, names, before=engine.forget)
        again = _read_all(engine, engine.sql, names)
        plain = _read_all(engine, engine.spark, {mode: f"plain_{mode}" for mode in tables}, is_plain=True)
        return first, again, plain
    finally:
        engine.close()


def read_by_hudi(options: Options, tables: Mapping[str, Path], directory: Path) -> Results:
    """What Apache Hudi 0.15 reads."""
    engine = start_real_hudi(directory / "hudi", cores=options.cores, memory=options.memory)
    try:
        for mode, path in tables.items():
            engine.view(mode, str(path), "hudi")
        return _read_all(engine, engine.sql, {mode: mode for mode in tables})
    finally:
        engine.close()


def _read_all(
    engine: Engine,
    read: Callable[[str], Rows],
    names: Mapping[str, str],
    *,
    before: Callable[[], None] = lambda: None,
    is_plain: bool = False,
) -> Results:
    results = Results({}, {})
    for mode, name in names.items():
        for query, text in QUERIES.items():
            if is_plain and mode == "bootstrapped" and "_hoodie_" in text:
                continue
            statement = text.format(name)
            results.rows[mode, query] = read(statement)
            costs = []
            for _ in range(RUNS):
                before()
                costs.append(measured(engine, lambda text=statement: read(text))[1])
            results.costs[mode, query] = sorted(costs, key=lambda cost: cost.cpu)[RUNS // 2]
    return results


def render_part(options: Options, first: Results, again: Results, theirs: Results, plain: Results) -> str:
    """The part of the page of docs/."""
    lines = [
        f"# {TITLE}",
        "",
        "TPC-H lineitem in 24 files, `MERGE_ON_READ`, every hundredth row changed in a log file; "
        f"`local[{options.cores}]`. Both engines read the same tables and gave the same rows. CPU seconds of "
        f"whole process trees, the median of {RUNS} runs in a warm session. *First* matches the keys of log "
        "records and bases, as the first read of a table's state in a session does; *again* has the matches "
        "from the cache. *Plain* is Spark's read of the base files (of the source files, if bootstrapped), "
        "which takes no log record into account.",
        "Made by `python -m benchmarks.merged_reads`; the goal is half of Hudi's.",
        "",
        "| table | query | hudisql, first | again | Hudi 0.15 | plain | first, of Hudi's "
        "| again, of Hudi's |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (mode, query), mine in first.costs.items():
        base = plain.costs.get((mode, query))
        other, later = theirs.costs[mode, query], again.costs[mode, query]
        plainly = "" if base is None else f"{base.cpu:.2f}"
        lines.append(
            f"| {mode} | {query} | {mine.cpu:.2f} | {later.cpu:.2f} | {other.cpu:.2f} | {plainly} | "
            f"{mine.cpu / other.cpu:.2f} | {later.cpu / other.cpu:.2f} |"
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
