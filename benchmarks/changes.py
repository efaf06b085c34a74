"""Changes side by side: upserts over all files and into one, and a bulk load, by hudisql and by Hudi 0.15.

`python -m benchmarks.changes` bootstraps TPC-H lineitem with both engines and gives each the same rows: one
in a hundred of all, then 5,000 that lie in one file, then all of them (an overwrite against bulk_insert).
The real Hudi reads both tables and compares rows and sums before any time is believed. Writes
docs/benchmarks-changes.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from benchmarks.run import AS_THE_REAL_HUDI, ROOT, Options, UnequalResultsError, parse_options

Costs = dict[str, Cost]
SUMMARY = (
    "SELECT count(*), count(DISTINCT _hoodie_record_key), sum(l_quantity), sum(l_extendedprice), "
    "sum(length(l_comment)) FROM {}"
)
SPREAD, SMALL, BULK = (
    "1 % upsert over all files",
    "upsert of 5,000 rows into one file",
    "bulk load of all rows",
)
GOALS = {SPREAD: 5.0, SMALL: 2.0, BULK: 2.0}


@dataclass(frozen=True)
class Batch:
    """Rows to upsert and where they lie as parquet."""

    name: str
    path: Path
    rows: int


def make_batches(source: Path, folder: Path) -> tuple[Batch, Batch]:
    """One row in a hundred with another quantity, and 5,000 rows of the first file."""
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(source.glob("*.parquet"))
    spread = pa.concat_tables([_every(pq.read_table(file), 100) for file in files])
    small = pq.read_table(files[0]).slice(0, 5000)
    batches = []
    for name, rows in ((SPREAD, spread), (SMALL, small)):
        path = folder / f"{len(batches)}.parquet"
        quantity = pc.cast(pc.add(rows["l_quantity"], pa.scalar(1)), rows["l_quantity"].type)
        changed = rows.set_column(rows.schema.get_field_index("l_quantity"), "l_quantity", quantity)
        pq.write_table(changed, path, store_decimal_as_integer=False, coerce_timestamps="us")
        batches.append(Batch(name, path, rows.num_rows))
    return batches[0], batches[1]


def _every(rows: pa.Table, step: int) -> pa.Table:
    return rows.take(pa.array(range(0, rows.num_rows, step)))


def run_ours(options: Options, source: Path, batches: Sequence[Batch], folder: Path) -> Costs:
    """Bootstrap, upsert by MERGE, overwrite; each upsert is done twice, and measured the second time."""
    engine = start_hudisql(folder / "session", cores=options.cores, memory=options.memory)
    try:
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        engine.sql(
            f"CALL bootstrap_table(table => 'bench.t', source => '{source}', record_key => "
            f"'{','.join(KEY_COLUMNS)}', precombine => '{PRECOMBINE_COLUMN}', "
            f"target_path => '{folder / 'table'}', {AS_THE_REAL_HUDI})"
        )
        engine.view("plain", str(source))
        costs = {}
        for number, batch in enumerate(batches):
            engine.view(f"batch{number}", str(batch.path))
            costs[batch.name] = _second_time(engine, folder, lambda number=number: _merge(engine, number))
        shutil.copytree(folder / "table", folder / "upserted")
        costs[BULK] = measured(engine, lambda: engine.sql("INSERT OVERWRITE bench.t SELECT * FROM plain"))[1]
        return costs
    finally:
        engine.close()


def run_theirs(options: Options, source: Path, batches: Sequence[Batch], folder: Path, ours: Path) -> Costs:
    """The same by the real Hudi: bootstrap, upsert by its DataFrame writer, bulk_insert into a new table.

    Raises UnequalResultsError if its tables and ours do not hold the same.
    """
    engine = start_real_hudi(folder / "session", cores=options.cores, memory=options.memory)
    settings = {
        "hoodie.table.name": "lineitem",
        "hoodie.datasource.write.recordkey.field": ",".join(KEY_COLUMNS),
        "hoodie.datasource.write.precombine.field": PRECOMBINE_COLUMN,
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.metadata.enable": "false",
    }
    table = folder / "table"
    try:
        engine.bootstrap(str(source), str(table), settings)
        costs = {}
        for batch in batches:
            rows = pq.read_table(batch.path)
            costs[batch.name] = _second_time(
                engine, folder, lambda rows=rows: _write(engine, rows, table, settings)
            )
        _compare(engine, table, ours / "upserted")
        costs[BULK] = measured(engine, lambda: _bulk_insert(engine, source, folder / "bulk", settings))[1]
        _compare(engine, folder / "bulk", ours / "table")
        return costs
    finally:
        engine.close()


def _second_time(engine: HudisqlEngine | RealHudiEngine, folder: Path, action: Callable[[], Rows]) -> Cost:
    """The cost of the action on a table on which it was done once before and taken back."""
    table, kept = folder / "table", folder / "kept"
    shutil.copytree(table, kept)
    action()
    shutil.rmtree(table)
    kept.rename(table)
    return measured(engine, action)[1]


def _merge(engine: HudisqlEngine, number: int) -> Rows:
    condition = " AND ".join(f"t.{name} = s.{name}" for name in KEY_COLUMNS)
    return engine.sql(
        f"MERGE INTO bench.t t USING batch{number} s ON {condition} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _write(engine: RealHudiEngine, rows: pa.Table, path: Path, settings: dict[str, str]) -> Rows:
    engine.oracle.upsert(rows, str(path), settings)
    return []


def _bulk_insert(engine: RealHudiEngine, source: Path, path: Path, settings: dict[str, str]) -> Rows:
    chosen = {"hoodie.datasource.write.operation": "bulk_insert", **settings}
    engine.oracle.request(
        "save", path=str(path), options=chosen, mode="overwrite", input=str(source), format="hudi"
    )
    return []


def _compare(engine: RealHudiEngine, theirs: Path, ours: Path) -> None:
    engine.view("theirs", str(theirs), "hudi")
    engine.view("ours", str(ours), "hudi")
    left, right = (engine.sql(SUMMARY.format(name)) for name in ("theirs", "ours"))
    if left != right:
        raise UnequalResultsError(f"Hudi's table {left} and ours {right}")


def render_page(options: Options, rows: int, ours: Costs, theirs: Costs) -> str:
    """The page of docs/."""
    lines = [
        "# Benchmarks of changes",
        "",
        f"TPC-H lineitem, {rows:,} rows in {options.files} files, copy-on-write, bootstrapped by each; "
        f"`local[{options.cores}]`, gzip. CPU seconds of whole process trees, second run in a warm session.",
        "Made by `python -m benchmarks.changes`; the real Hudi compared both tables' rows and sums.",
        "",
        "| | hudisql CPU s (wall) | Hudi 0.15 CPU s (wall) | ratio | goal |",
        "|---|---|---|---|---|",
    ]
    for name, goal in GOALS.items():
        mine, other = ours[name], theirs[name]
        ratio = other.cpu / mine.cpu
        met = "met" if ratio >= goal else "missed"
        lines.append(
            f"| {name} | {mine.cpu:.1f} ({mine.wall:.1f}) | {other.cpu:.1f} ({other.wall:.1f}) | "
            f"{ratio:.1f} × | {goal:g} ×: {met} |"
        )
    lines += [
        "",
        "The upserts are `MERGE INTO … ON key WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *` "
        "against the DataFrame writer's upsert; the bulk load is `INSERT OVERWRITE` against `bulk_insert`.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure and write the page."""
    given = parse_options(__doc__ or "", ROOT / "docs" / "benchmarks-changes.md")
    source = make_lineitem(given.folder, scale_factor=given.scale_factor, files=given.files)
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch_name:
        scratch = Path(scratch_name)
        batches = make_batches(source, scratch / "batches")
        ours = run_ours(given, source, batches, scratch / "ours")
        theirs = run_theirs(given, source, batches, scratch / "theirs", scratch / "ours")
    rows = sum(pq.read_metadata(file).num_rows for file in source.glob("*.parquet"))
    page = render_page(given, rows, ours, theirs)
    given.output.write_text(page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
