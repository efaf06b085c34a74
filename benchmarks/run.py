"""Sets hudisql beside Apache Hudi 0.15 and plain Spark: bootstrap, reads, sizes, memory.

`python -m benchmarks.run` makes TPC-H lineitem, bootstraps it with hudisql and with Hudi, rewrites it with
Spark, then reads all three. Everything runs once to warm the session up before it is measured; results are
compared before any time is believed. Writes docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import events, lineitem
from benchmarks.engines import (
    Cost,
    HudisqlEngine,
    RealHudiEngine,
    Rows,
    measured,
    start_hudisql,
    start_real_hudi,
)
from benchmarks.full_record import STEP as FULL_RECORD
from benchmarks.full_record import rewrite_theirs
from benchmarks.lineitem import make_lineitem
from benchmarks.memory import measure_task_memory
from benchmarks.reads import READS, Read
from benchmarks.report import UUID_KEYS, Report, Sizes, render_report

ROOT = Path(__file__).resolve().parent.parent
BOOTSTRAP_INSTANT = "00000000000001"
FULL_BOOTSTRAP_INSTANT = "00000000000002"
READ_RUNS = 5
TABLE = "bench.lineitem"
# Apache Hudi looks for null keys only, and compares nothing afterwards.
AS_THE_REAL_HUDI = "key_check => 'nulls', verify => false"
KEYS_UNIQUE = "hudisql, keys unique"
AS_FULL_RECORD = f"{AS_THE_REAL_HUDI}, mode => 'full_record'"
CHECKED = {
    KEYS_UNIQUE: "key_check => 'unique', verify => false",
    "hudisql, keys unique and verified": "key_check => 'unique', verify => true",
}
EVENTS_TABLE = "bench.events"
EVENTS_SUMMARY = (
    "SELECT count(*) AS n, min(_hoodie_record_key) AS first, max(_hoodie_record_key) AS last, "
    "sum(amount) AS amount FROM {}"
)


@dataclass(frozen=True)
class Source:
    """Parquet files to bootstrap, and the columns that Hudi is told of."""

    directory: Path
    key_columns: tuple[str, ...]
    precombine: str


@dataclass(frozen=True)
class Options:
    """What to measure: scale factor of TPC-H, number of files, cores and memory of each Spark.

    `only`: the one part to measure, of a benchmark that has parts; its page is then left as it is.
    """

    scale_factor: float
    files: int
    cores: int
    memory: str
    directory: Path
    output: Path
    only: str | None = None


class UnequalResultsError(AssertionError):
    """Two engines gave different rows: no time is worth reporting."""


def run_benchmarks(options: Options) -> Report:
    """Run everything and return what was measured. Raises UnequalResultsError."""
    scale, files = options.scale_factor, options.files
    source = make_lineitem(options.directory, scale_factor=scale, files=files)
    keyed_by_lines = Source(source, lineitem.KEY_COLUMNS, lineitem.PRECOMBINE_COLUMN)
    keyed_by_uuids = Source(
        events.make_events(options.directory, scale_factor=scale, files=files),
        events.KEY_COLUMNS,
        events.PRECOMBINE_COLUMN,
    )
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch_name:
        scratch = Path(scratch_name)
        # One engine at a time: two JVMs would take memory and cores from each other.
        ours, our_rows = _run_hudisql(options, keyed_by_lines, keyed_by_uuids, scratch)
        theirs, their_rows = _run_real_hudi(options, keyed_by_lines, keyed_by_uuids, scratch)
        _compare(our_rows, their_rows)
        memory = measure_task_memory(source, scratch / "memory")
        return Report(
            scale_factor=options.scale_factor,
            files=len(list(source.glob("*.parquet"))),
            cores=options.cores,
            rows=int(our_rows["rows"][0][0] or 0),
            source_bytes=_bytes_of(source.glob("*.parquet")),
            uuid_rows=int(our_rows[UUID_KEYS][0][0] or 0),
            costs={**ours, **theirs},
            sizes={
                "hudisql": _sizes(scratch / "hudisql-table"),
                "Hudi 0.15": _sizes(scratch / "hudi-table"),
                f"hudisql {FULL_RECORD}": _sizes(scratch / "hudisql-full", FULL_BOOTSTRAP_INSTANT),
                f"Hudi 0.15 {FULL_RECORD}": _sizes(scratch / "hudi-full", FULL_BOOTSTRAP_INSTANT),
                f"hudisql, {UUID_KEYS}": _sizes(scratch / "hudisql-events"),
                f"Hudi 0.15, {UUID_KEYS}": _sizes(scratch / "hudi-events"),
                "rewrite": Sizes(files=0, bytes=_bytes_of((scratch / "rewritten").glob("*.parquet"))),
            },
            task_memory=memory,
        )


Costs = dict[tuple[str, str], Cost]
Results = dict[str, Rows]


def _run_hudisql(options: Options, source: Source, uuids: Source, scratch: Path) -> tuple[Costs, Results]:
    engine = start_hudisql(scratch / "hudisql", cores=options.cores, memory=options.memory)
    try:
        costs: Costs = {("hudisql", "start-up"): engine.start_cost}
        costs["hudisql", "bootstrap"] = _second_of(
            engine, lambda target: _bootstrap_ours(engine, source, target), scratch / "hudisql-table"
        )[1]
        for name, settings in CHECKED.items():
            costs[name, "bootstrap"] = _second_of(
                engine,
                lambda target, settings=settings: _bootstrap_ours(engine, source, target, settings),
                scratch / "checked",
            )[1]
            shutil.rmtree(scratch / "checked")
        costs["rewrite", "bootstrap"] = _second_of(
            engine, lambda target: engine.rewrite(str(source.directory), str(target)), scratch / "rewritten"
        )[1]
        costs["hudisql", FULL_RECORD] = _second_of(
            engine,
            lambda target: _bootstrap_ours(engine, source, target, AS_FULL_RECORD),
            scratch / "hudisql-full",
        )[1]
        path = scratch / "hudisql-table"
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        engine.sql(f"CALL hive_sync(table => '{TABLE}', path => '{path}')")
        engine.view("plain", str(source.directory))
        results: Results = {"rows": engine.spark("SELECT count(*) FROM plain")}
        results[UUID_KEYS] = _bootstrap_our_uuids(engine, uuids, scratch, costs)
        for read in READS:
            plain = read.statement("plain", with_meta=False)
            hudi = read.statement(TABLE, with_meta=True)
            plain_rows, costs["plain, Spark 4", read.name] = _warm(
                engine, lambda text=plain: engine.spark(text)
            )
            rows, costs["hudisql", read.name] = _warm(engine, lambda text=hudi: engine.sql(text))
            _check(f"hudisql and plain Spark: {read.name}", _data_of(rows, read), plain_rows)
            results[read.name] = rows
        return costs, results
    finally:
        engine.close()


def _bootstrap_our_uuids(engine: HudisqlEngine, source: Source, scratch: Path, costs: Costs) -> Rows:
    """Add what UUID keys cost to `costs`; returns the table's summary."""
    path = scratch / "hudisql-events"
    costs["hudisql", UUID_KEYS] = _second_of(
        engine, lambda target: _bootstrap_ours(engine, source, target), path
    )[1]
    costs[KEYS_UNIQUE, UUID_KEYS] = _second_of(
        engine,
        lambda target: _bootstrap_ours(engine, source, target, CHECKED[KEYS_UNIQUE]),
        scratch / "checked",
    )[1]
    shutil.rmtree(scratch / "checked")
    engine.sql(f"CALL hive_sync(table => '{EVENTS_TABLE}', path => '{path}')")
    return engine.sql(EVENTS_SUMMARY.format(EVENTS_TABLE))


def _run_real_hudi(options: Options, source: Source, uuids: Source, scratch: Path) -> tuple[Costs, Results]:
    engine = start_real_hudi(scratch / "hudi", cores=options.cores, memory=options.memory)
    try:
        costs: Costs = {("Hudi 0.15", "start-up"): engine.start_cost}
        costs["Hudi 0.15", "bootstrap"] = _second_of(
            engine, lambda target: _bootstrap_theirs(engine, source, target), scratch / "hudi-table"
        )[1]
        costs["Hudi 0.15", FULL_RECORD] = _second_of(
            engine,
            lambda target: rewrite_theirs(engine, source.directory, target, _their_options(source)),
            scratch / "hudi-full",
        )[1]
        _compare_full_records(engine, scratch)
        engine.view("hudi", str(scratch / "hudi-table"), "hudi")
        engine.view("plain", str(source.directory), "parquet")
        results: Results = {"rows": engine.sql("SELECT count(*) FROM hudi")}
        path = scratch / "hudi-events"
        costs["Hudi 0.15", UUID_KEYS] = _second_of(
            engine, lambda target: _bootstrap_theirs(engine, uuids, target), path
        )[1]
        engine.view("events", str(path), "hudi")
        results[UUID_KEYS] = engine.sql(EVENTS_SUMMARY.format("events"))
        for read in READS:
            plain = read.statement("plain", with_meta=False)
            hudi = read.statement("hudi", with_meta=True)
            plain_rows, costs["plain, Spark 3.5", read.name] = _warm(
                engine, lambda text=plain: engine.sql(text)
            )
            rows, costs["Hudi 0.15", read.name] = _warm(engine, lambda text=hudi: engine.sql(text))
            _check(f"Hudi and plain Spark: {read.name}", _data_of(rows, read), plain_rows)
            results[read.name] = rows
        return costs, results
    finally:
        engine.close()


def _bootstrap_ours(
    engine: HudisqlEngine, source: Source, target: Path, settings: str = AS_THE_REAL_HUDI
) -> Rows:
    return engine.sql(
        f"CALL bootstrap_table(table => 'bench.{target.name.replace('-', '_')}', "
        f"source => '{source.directory}', record_key => '{','.join(source.key_columns)}', "
        f"precombine => '{source.precombine}', "
        f"target_path => '{target}', sync => false, {settings})"
    )


def _bootstrap_theirs(engine: RealHudiEngine, source: Source, target: Path) -> Rows:
    return engine.bootstrap(str(source.directory), str(target), _their_options(source))


def _their_options(source: Source) -> dict[str, str]:
    return {
        "hoodie.table.name": "lineitem",
        "hoodie.datasource.write.recordkey.field": ",".join(source.key_columns),
        "hoodie.datasource.write.precombine.field": source.precombine,
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.metadata.enable": "false",
    }


def _compare_full_records(engine: RealHudiEngine, scratch: Path) -> None:
    """Apache Hudi reads both rewritten tables: rows, keys and sums must be equal."""
    statement = (
        "SELECT count(*), count(DISTINCT _hoodie_record_key), sum(l_quantity), sum(l_extendedprice), "
        "sum(length(l_comment)), min(l_shipdate), max(l_shipdate) FROM {}"
    )
    found = []
    for name in ("hudisql", "hudi"):
        engine.view(f"{name}_full", str(scratch / f"{name}-full"), "hudi")
        found.append(engine.sql(statement.format(f"{name}_full")))
    _check("full-record tables of hudisql and Hudi", *found)


def _second_of(
    engine: HudisqlEngine | RealHudiEngine, action: Callable[[Path], Rows], target: Path
) -> tuple[Rows, Cost]:
    """The cost of writing `target` when another like it was written before in the same session."""
    warm_up = target.with_name(f"{target.name}-warm-up")
    action(warm_up)
    shutil.rmtree(warm_up)
    return measured(engine, lambda: action(target))


def _warm(engine: HudisqlEngine | RealHudiEngine, action: Callable[[], Rows]) -> tuple[Rows, Cost]:
    """The cost of a read that was done once before: the median of some runs, since one may be unlucky."""
    rows = action()
    costs = [measured(engine, action)[1] for _ in range(READ_RUNS)]
    return rows, sorted(costs, key=lambda cost: cost.cpu)[READ_RUNS // 2]


def _compare(ours: Results, theirs: Results) -> None:
    for name, rows in ours.items():
        _check(f"hudisql and Hudi: {name}", rows, theirs[name])


def _check(what: str, left: Rows, right: Rows) -> None:
    if left != right:
        raise UnequalResultsError(f"{what}: {left} and {right}")


def _data_of(rows: Rows, read: Read) -> Rows:
    return [row[: len(read.data)] for row in rows]


def _sizes(table: Path, instant: str = BOOTSTRAP_INSTANT) -> Sizes:
    files = [path for path in table.rglob("*.parquet") if instant in path.name]
    return Sizes(files=len(files), bytes=_bytes_of(files))


def _bytes_of(paths: object) -> int:
    return sum(path.stat().st_size for path in paths)  # type: ignore[attr-defined]


def parse_options(description: str, output: Path, parts: Sequence[str] = ()) -> Options:
    """The command line of a benchmark; `output` is the page it writes by default, `parts` can be chosen."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scale-factor", type=float, default=1.0, help="TPC-H scale factor (1: 6 M rows)")
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--cores", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--memory", default="2g", help="driver memory of each Spark")
    parser.add_argument(
        "--directory", type=Path, default=_default_directory(), help="data, kept between runs"
    )
    parser.add_argument("--output", type=Path, default=output)
    if parts:
        parser.add_argument("--only", choices=parts, help="measure this part, print it and write no page")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    return Options(**vars(given))


def main() -> int:
    """Measure, write the page, and fail if a goal is missed by more than the page can explain."""
    options = parse_options(__doc__ or "", ROOT / "docs" / "benchmarks.md")
    page = render_report(run_benchmarks(options))
    options.output.write_text(page)
    print(page)
    return 0


def _default_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hudisql" / "benchmarks"


if __name__ == "__main__":
    sys.exit(main())
