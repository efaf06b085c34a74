"""Changes side by side, by hudisql and by Hudi 0.15: upserts over all files and into one, MERGE, bulk load.

`python -m benchmarks.changes` bootstraps TPC-H lineitem with both engines, copy-on-write and merge-on-read,
and gives each the same rows. Apache Hudi reads both tables after every step and compares rows and sums
before any time is believed. Writes docs/benchmarks-changes.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.engines import (
    Cost,
    HudisqlEngine,
    RealHudiEngine,
    Rows,
    measured,
    start_hudisql,
    start_real_hudi,
)
from benchmarks.lineitem import KEY_COLUMNS, PRECOMBINE_COLUMN, make_lineitem
from benchmarks.pages import replace_part
from benchmarks.run import AS_THE_REAL_HUDI, ROOT, Options, UnequalResultsError, parse_options

TITLE: Final = "Benchmarks of changes"
SUMMARY: Final = (
    "SELECT count(*), count(DISTINCT _hoodie_record_key), sum(l_quantity), sum(l_extendedprice), "
    "sum(length(l_comment)) FROM {}"
)
TABLE_TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")
SPREAD: Final = "1 % upsert over all files"
SPREAD_GZIP: Final = "the same, hudisql too writes gzip"
SMALL: Final = "upsert of 5,000 rows into one file"
HALVES: Final = "1 % of rows, half updates, half inserts"
READ: Final = "snapshot read after the upsert"
BULK: Final = "bulk load of all rows"
Case = tuple[str, str]
Costs = dict[Case, Cost]
Result = TypeVar("Result")
GOALS: Final[dict[Case, float | None]] = {
    ("COPY_ON_WRITE", SPREAD): 5.0,
    ("COPY_ON_WRITE", SPREAD_GZIP): None,
    ("COPY_ON_WRITE", SMALL): 2.0,
    ("COPY_ON_WRITE", HALVES): None,
    ("COPY_ON_WRITE", BULK): 2.2,
    ("MERGE_ON_READ", SPREAD): 4.0,
    ("MERGE_ON_READ", READ): None,
}


@dataclass(frozen=True)
class Batch:
    """Rows to upsert and where they lie as parquet."""

    name: str
    path: Path


def make_batches(source: Path, directory: Path) -> tuple[Batch, ...]:
    """One row in a hundred, 5,000 rows of the first file, and one in a hundred with every other key new."""
    directory.mkdir(parents=True, exist_ok=True)
    files = sorted(source.glob("*.parquet"))
    spread = pa.concat_tables([_every(pq.read_table(file), 100) for file in files])
    small = pq.read_table(files[0]).slice(0, 5000)
    return tuple(
        _write_batch(directory, name, _changed(rows))
        for name, rows in ((SPREAD, spread), (SMALL, small), (HALVES, _half_new(spread)))
    )


def _every(rows: pa.Table, step: int) -> pa.Table:
    return rows.take(pa.array(range(0, rows.num_rows, step)))


def _half_new(rows: pa.Table) -> pa.Table:
    offsets = pa.array([1_000_000_000 * (number % 2) for number in range(rows.num_rows)], pa.int64())
    return _with(rows, "l_orderkey", pc.add(rows["l_orderkey"], offsets))


def _changed(rows: pa.Table) -> pa.Table:
    return _with(rows, "l_quantity", pc.add(rows["l_quantity"], pa.scalar(1)))


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    values = pc.cast(values, rows[name].type)
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _write_batch(directory: Path, name: str, rows: pa.Table) -> Batch:
    path = directory / f"{len(list(directory.iterdir()))}.parquet"
    pq.write_table(rows, path, store_decimal_as_integer=False, coerce_timestamps="us")
    return Batch(name, path)


def run_ours(options: Options, source: Path, batches: Sequence[Batch], directory: Path) -> Costs:
    """Bootstrap, upsert by MERGE, read, overwrite; each action ran once before and was rolled back."""
    engine = start_hudisql(directory / "session", cores=options.cores, memory=options.memory)
    try:
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        engine.view("plain", str(source))
        costs: Costs = {}
        for table_type in TABLE_TYPES:
            name, path = f"bench.{table_type}", directory / table_type
            engine.sql(
                f"CALL bootstrap_table(table => '{name}', source => '{source}', record_key => "
                f"'{','.join(KEY_COLUMNS)}', precombine => '{PRECOMBINE_COLUMN}', "
                f"target_path => '{path}', table_type => '{table_type}', {AS_THE_REAL_HUDI})"
            )
            for number, batch in enumerate(batches):
                engine.view(f"batch{number}", str(batch.path))
                if (table_type, batch.name) not in GOALS:
                    continue
                action = _merging(engine, name, number)
                if (table_type, batch.name) == ("COPY_ON_WRITE", SPREAD):
                    costs[table_type, SPREAD_GZIP] = _with_gzip(engine, path, action)
                costs[table_type, batch.name] = _second_time(engine, path, action)
                shutil.copytree(path, directory / f"{table_type}-{number}")
                if (table_type, READ) in GOALS and batch.name == SPREAD:
                    costs[table_type, READ] = _read(engine, name)
        overwrite = "INSERT OVERWRITE bench.copy_on_write SELECT * FROM plain"
        engine.sql("SET hoodie.combine.before.insert = false")  # as Apache Hudi's DataFrame writer
        costs["COPY_ON_WRITE", BULK] = _second_run(engine, lambda: engine.sql(overwrite))
        return costs
    finally:
        engine.close()


def run_theirs(
    options: Options, source: Path, batches: Sequence[Batch], directory: Path, ours: Path
) -> Costs:
    """The same by Apache Hudi: bootstrap, upsert by its DataFrame writer, bulk_insert into a new table.

    Raises UnequalResultsError if its tables and ours do not hold the same.
    """
    engine = start_real_hudi(directory / "session", cores=options.cores, memory=options.memory)
    settings = {
        "hoodie.table.name": "lineitem",
        "hoodie.datasource.write.recordkey.field": ",".join(KEY_COLUMNS),
        "hoodie.datasource.write.precombine.field": PRECOMBINE_COLUMN,
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.metadata.enable": "false",
    }
    try:
        costs: Costs = {}
        for table_type in TABLE_TYPES:
            path = directory / table_type
            typed = {**settings, "hoodie.datasource.write.table.type": table_type}
            engine.bootstrap(str(source), str(path), typed)
            for number, batch in enumerate(batches):
                if (table_type, batch.name) not in GOALS:
                    continue
                action = _upserting(engine, pq.read_table(batch.path), path, typed)
                costs[table_type, batch.name] = _second_time(engine, path, action)
                costs.setdefault((table_type, SPREAD_GZIP), costs[table_type, batch.name])
                compare_tables(engine, path, ours / f"{table_type}-{number}")
                if (table_type, READ) in GOALS and batch.name == SPREAD:
                    costs[table_type, READ] = _read(engine, "theirs")
        load = directory / "bulk"
        costs["COPY_ON_WRITE", BULK] = _second_run(
            engine, lambda: _bulk_insert(engine, source, load, settings)
        )
        compare_tables(engine, load, ours / "COPY_ON_WRITE")
        return costs
    finally:
        engine.close()


def _second_time(engine: HudisqlEngine | RealHudiEngine, table: Path, action: Callable[[], Rows]) -> Cost:
    """The cost of the action on a table on which it was run once before and rolled back."""
    _undone(table, action)
    return measured(engine, action)[1]


def _with_gzip(engine: HudisqlEngine, table: Path, action: Callable[[], Rows]) -> Cost:
    """The cost of the action where files are written in gzip; the table's directory is put back."""
    engine.sql("SET hoodie.parquet.compression.codec = gzip")
    cost = _undone(table, lambda: _second_time(engine, table, action))
    engine.sql("RESET hoodie.parquet.compression.codec")
    return cost


def _undone(table: Path, action: Callable[[], Result]) -> Result:
    """What the action returns; the table's directory is put back as it was."""
    kept = table.with_name(f"{table.name}-kept-{len(list(table.parent.iterdir()))}")
    shutil.copytree(table, kept)
    result = action()
    shutil.rmtree(table)
    kept.rename(table)
    return result


def _read(engine: HudisqlEngine | RealHudiEngine, name: str) -> Cost:
    text = SUMMARY.format(name).replace("count(DISTINCT _hoodie_record_key), ", "")
    engine.sql(text)
    if isinstance(engine, HudisqlEngine):
        engine.forget()
    return measured(engine, lambda: engine.sql(text))[1]


def _second_run(engine: HudisqlEngine | RealHudiEngine, action: Callable[[], Rows]) -> Cost:
    """The cost of an action that may be repeated as it is, in a session that has done it once."""
    action()
    return measured(engine, action)[1]


def _merging(engine: HudisqlEngine, name: str, number: int) -> Callable[[], Rows]:
    condition = " AND ".join(f"t.{name} = s.{name}" for name in KEY_COLUMNS)
    return lambda: engine.sql(
        f"MERGE INTO {name} t USING batch{number} s ON {condition} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _upserting(
    engine: RealHudiEngine, rows: pa.Table, path: Path, settings: dict[str, str]
) -> Callable[[], Rows]:
    def upsert() -> Rows:
        engine.oracle.upsert(rows, str(path), settings)
        return []

    return upsert


def _bulk_insert(engine: RealHudiEngine, source: Path, path: Path, settings: dict[str, str]) -> Rows:
    chosen = {"hoodie.datasource.write.operation": "bulk_insert", **settings}
    engine.oracle.request(
        "save", path=str(path), options=chosen, mode="overwrite", input=str(source), format="hudi"
    )
    return []


def compare_tables(engine: RealHudiEngine, theirs: Path, ours: Path, query: str = SUMMARY) -> None:
    """Raise UnequalResultsError if Apache Hudi reads other rows from our table by `query` of a table `{}`."""
    engine.view("theirs", str(theirs), "hudi")
    engine.view("ours", str(ours), "hudi")
    left, right = (engine.sql(query.format(name)) for name in ("theirs", "ours"))
    if left != right:
        raise UnequalResultsError(f"Hudi's table {left} and ours {right}")


def render_page(options: Options, rows: int, ours: Costs, theirs: Costs) -> str:
    """The page of docs/."""
    lines = [
        f"# {TITLE}",
        "",
        f"TPC-H lineitem, {rows:,} rows in {options.files} files, bootstrapped by each; "
        f"`local[{options.cores}]`. Hudi writes gzip, its default; hudisql keeps the source's snappy in "
        "bootstrapped file groups and writes gzip in the bulk load. CPU seconds of whole process trees, "
        "second run in a warm session.",
        "Made by `python -m benchmarks.changes`; after each step Apache Hudi compared both tables' rows "
        "and sums.",
        "",
        "| table | change | hudisql CPU s (wall) | Hudi 0.15 CPU s (wall) | ratio | goal |",
        "|---|---|---|---|---|---|",
    ]
    for (table_type, name), goal in GOALS.items():
        mine, other = ours[table_type, name], theirs[table_type, name]
        ratio = other.cpu / mine.cpu
        verdict = "" if goal is None else f"{goal:g} ×: {'met' if ratio >= goal else 'missed'}"
        lines.append(
            f"| {table_type.lower()} | {name} | {mine.cpu:.1f} ({mine.wall:.1f}) | "
            f"{other.cpu:.1f} ({other.wall:.1f}) | {ratio:.1f} × | {verdict} |"
        )
    lines += [
        "",
        "The upserts are `MERGE INTO … ON key WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *` "
        "against the DataFrame writer's upsert; the bulk load is `INSERT OVERWRITE` against `bulk_insert`.",
        "A MERGE reads the key columns of what can match, then rewrites 24 files (or appends to logs): most "
        "of the time of the upserts is compression and parquet encoding.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure and write the page."""
    given = parse_options(__doc__ or "", ROOT / "docs" / "benchmarks-changes.md")
    source = make_lineitem(given.directory, scale_factor=given.scale_factor, files=given.files)
    with tempfile.TemporaryDirectory(dir=given.directory) as scratch_name:
        scratch = Path(scratch_name)
        batches = make_batches(source, scratch / "batches")
        ours = run_ours(given, source, batches, scratch / "ours")
        theirs = run_theirs(given, source, batches, scratch / "theirs", scratch / "ours")
    rows = sum(pq.read_metadata(file).num_rows for file in source.glob("*.parquet"))
    page = render_page(given, rows, ours, theirs)
    replace_part(given.output, TITLE, page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
