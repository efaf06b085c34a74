"""Table services and past states side by side, by hudisql and by Hudi 0.15.

`python -m benchmarks.services` compacts and clusters TPC-H lineitem (bootstrapped, one row in a hundred
changed), cleans and archives a table of 1,000 commits, and reads past states and changes of tables with up to
10,000 file groups and 5,000 instants. Both engines get copies of the same tables; Apache Hudi reads what came
out of both and compares rows and sums before any time is believed. Writes docs/benchmarks-services.md; with
`--only clustering` (or another service) it measures that service alone and prints its line.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from benchmarks.changes import SUMMARY, compare_tables, make_batches
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
from benchmarks.long_timelines import LongTimeline, make_table
from benchmarks.pages import replace_part
from benchmarks.run import AS_THE_REAL_HUDI, ROOT, Options, UnequalResultsError, parse_options

TITLE: Final = "Benchmarks of table services and past states"
COMPACTION: Final = "compaction, a log record for every hundredth row"
CLUSTERING: Final = "clustering, sorted by one column"
CLEAN: Final = "clean of 1,000 commits, 10 retained"
ARCHIVE: Final = "archiving of 1,000 commits, 20 stay"
SERVICES: Final = {
    "compaction": COMPACTION,
    "clustering": CLUSTERING,
    "clean": CLEAN,
    "archiving": ARCHIVE,
}
REWRITES: Final = {COMPACTION: "MERGE_ON_READ", CLUSTERING: "COPY_ON_WRITE"}
CLEANED: Final = LongTimeline(groups=100, partitions=10, commits=1_000)
WARM: Final = LongTimeline(groups=20, partitions=5, commits=20)
PLANNED: Final = (LongTimeline(1_000, 500, 500), LongTimeline(10_000, 500, 5_000))
READS: Final = ("the state of the middle commit", "changes of the last 100 commits", "changes of one half")
PLAN: Final = "EXPLAIN of"
GOAL: Final = 4.0
WITHOUT_METADATA: Final = "hoodie.metadata.enable=false"
AT_ONCE: Final = f"{WITHOUT_METADATA},hoodie.compact.inline.max.delta.commits=1"
VERSIONS: Final = "SELECT count(*), sum(version), sum(id) FROM {}"
Costs = dict[str, Cost]


@dataclass(frozen=True)
class Measured:
    """The costs of one engine, and what its reads of past states returned."""

    costs: Costs
    rows: Mapping[str, Rows]


def make_rewritten_tables(options: Options, source: Path, directory: Path) -> None:
    """Bootstrap lineitem twice and change one row in a hundred, each table below its case's type."""
    engine = start_hudisql(directory / "session", cores=options.cores, memory=options.memory)
    batch = make_batches(source, directory / "batches")[0]
    condition = " AND ".join(f"t.{name} = s.{name}" for name in KEY_COLUMNS)
    try:
        engine.sql("CREATE DATABASE IF NOT EXISTS bench")
        engine.view("batch", str(batch.path))
        for table_type in REWRITES.values():
            engine.sql(
                f"CALL bootstrap_table(table => 'bench.{table_type}', source => '{source}', record_key => "
                f"'{','.join(KEY_COLUMNS)}', precombine => '{PRECOMBINE_COLUMN}', "
                f"target_path => '{directory / table_type}', table_type => '{table_type}', "
                f"{AS_THE_REAL_HUDI})"
            )
            engine.sql(
                f"MERGE INTO bench.{table_type} t USING batch s ON {condition} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
    finally:
        engine.close()


def service_calls(directory: Path, only: str | None) -> dict[str, tuple[Path, str]]:
    """For each service (or one alone) the table and the CALL; both engines take the same."""
    merged, sorted_, long = directory / "MERGE_ON_READ", directory / "COPY_ON_WRITE", directory / "long"
    calls = {
        COMPACTION: (
            merged,
            f"CALL run_compaction(op => 'scheduleandexecute', path => '{merged}', options => '{AT_ONCE}')",
        ),
        CLUSTERING: (
            sorted_,
            f"CALL run_clustering(path => '{sorted_}', op => 'scheduleAndExecute', order => 'l_partkey', "
            f"options => '{WITHOUT_METADATA}')",
        ),
        CLEAN: (
            long,
            "CALL run_clean(table => 'bench.long', clean_policy => 'KEEP_LATEST_COMMITS', "
            f"retain_commits => 10, options => '{WITHOUT_METADATA}')",
        ),
        ARCHIVE: (
            long,
            f"CALL archive_commits(path => '{long}', min_commits => 20, max_commits => 30, "
            "retain_commits => 10, enable_metadata => false)",
        ),
    }
    return calls if only is None else {SERVICES[only]: calls[SERVICES[only]]}


def run_services(engine: HudisqlEngine | RealHudiEngine, directory: Path, only: str | None) -> Costs:
    """The services on the tables below `directory`; each ran once before on a table that was put back."""
    engine.sql("CREATE DATABASE IF NOT EXISTS bench")
    engine.sql(f"CREATE TABLE bench.long USING hudi LOCATION '{directory / 'long'}'")
    costs: Costs = {}
    for name, (table, call) in service_calls(directory, only).items():
        kept = table.with_name(f"{table.name}-kept")
        shutil.copytree(table, kept)
        engine.sql(call)
        shutil.rmtree(table)
        kept.rename(table)
        costs[name] = measured(engine, partial(engine.sql, call))[1]
        print(name, costs[name], file=sys.stderr)
    return costs


def run_reads(
    read: Callable[[LongTimeline, str, str], Rows], engine: HudisqlEngine | RealHudiEngine
) -> Measured:
    """Plan, then do, each read of the tables of `PLANNED`, after the same reads of a small one."""
    costs: Costs = {}
    found: dict[str, Rows] = {}
    for shape in (WARM, *PLANNED):
        for name in READS:
            case = f"{name}|{shape.name}"
            costs[f"{PLAN} {case}"] = measured(engine, partial(read, shape, name, f"EXPLAIN {VERSIONS}"))[1]
            found[case], costs[case] = measured(engine, partial(read, shape, name, VERSIONS))
            print(case, costs[f"{PLAN} {case}"], costs[case], file=sys.stderr)
    return Measured(costs, found)


def _window(shape: LongTimeline, read: str) -> tuple[str, str]:
    """Begin (exclusive) and end (inclusive) of a read of changes; a past state has its end alone."""
    middle, last = shape.instant_time(shape.commits // 2), shape.instant_time(shape.commits - 1)
    if read == READS[1]:
        return shape.instant_time(max(shape.commits - 101, 0)), last
    return (middle, last) if read == READS[2] else ("", middle)


def _ours(options: Options, directory: Path, tables: Path) -> Measured:
    engine = start_hudisql(directory / "session", cores=options.cores, memory=options.memory)

    def read(shape: LongTimeline, name: str, query: str) -> Rows:
        begin, end = _window(shape, name)
        if begin:
            changes = f"hudi_table_changes('{tables / shape.name}', 'latest_state', '{begin}', '{end}')"
            return engine.sql(query.format(changes))
        return engine.sql(query.format(f"bench.{shape.name} TIMESTAMP AS OF '{end}'"))

    try:
        services = run_services(engine, directory, options.only)
        if options.only:
            return Measured(services, {})
        for shape in (WARM, *PLANNED):
            location = tables / shape.name
            engine.sql(f"CREATE TABLE bench.{shape.name} USING hudi LOCATION '{location}'")
        reads = run_reads(read, engine)
        return Measured({**services, **reads.costs}, reads.rows)
    finally:
        engine.close()


def _theirs(options: Options, directory: Path, tables: Path, ours: Path) -> Measured:
    engine = start_real_hudi(directory / "session", cores=options.cores, memory=options.memory)

    def read(shape: LongTimeline, name: str, query: str) -> Rows:
        begin, end = _window(shape, name)
        given = {"as.of.instant": end}
        if begin:
            given = {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": begin,
                "hoodie.datasource.read.end.instanttime": end,
            }
        given["hoodie.metadata.enable"] = "false"
        engine.oracle.view("t", str(tables / shape.name), options=given)
        return engine.sql(query.format("t"))

    try:
        services = run_services(engine, directory, options.only)
        for name, query in (*((each, SUMMARY) for each in REWRITES.values()), ("long", VERSIONS)):
            compare_tables(engine, directory / name, ours / name, query)
        if options.only:
            return Measured(services, {})
        reads = run_reads(read, engine)
        return Measured({**services, **reads.costs}, reads.rows)
    finally:
        engine.close()


def render_page(options: Options, rows: int, ours: Costs, theirs: Costs) -> str:
    """The page of docs/."""

    def line(title: str, case: str, goal: float | None) -> str:
        mine, other = ours[case], theirs[case]
        ratio = other.cpu / mine.cpu
        verdict = "" if goal is None else f"{goal:g} ×: {'met' if ratio >= goal else 'missed'}"
        return (
            f"| {title} | {mine.cpu:.1f} ({mine.wall:.1f}) | {other.cpu:.1f} ({other.wall:.1f}) | "
            f"{ratio:.1f} × | {verdict} |"
        )

    table = [
        "| service | hudisql CPU s (wall) | Hudi 0.15 CPU s (wall) | ratio | goal |",
        "|---|---|---|---|---|",
        *(line(name, name, GOAL if name in REWRITES else None) for name in SERVICES.values() if name in ours),
    ]
    if options.only:
        return "\n".join(table)
    lines = [
        f"# {TITLE}",
        "",
        f"Made by `python -m benchmarks.services`: TPC-H lineitem, {rows:,} rows in {options.files} files, "
        f"bootstrapped; tables of tiny base files with long timelines; `local[{options.cores}]`. CPU seconds "
        "of whole process trees; services in their second run, reads after the same reads of a small table. "
        "Apache Hudi read what both made and found the same rows and sums; the reads returned the same.",
        "",
        *table,
        "",
        "| read | hudisql CPU s (wall) | Hudi 0.15 CPU s (wall) | ratio | goal |",
        "|---|---|---|---|---|",
    ]
    for name in READS:
        for shape in PLANNED:
            title = f"{name}, {shape.groups:,} file groups, {shape.commits:,} commits"
            lines += [line(f"{verb}{title}", f"{verb}{name}|{shape.name}", None) for verb in (f"{PLAN} ", "")]
    return "\n".join([*lines, ""])


def _copy_tables(source: Path, directory: Path) -> Path:
    for name in (*REWRITES.values(), "long"):
        shutil.copytree(source / name, directory / name)
    return directory


def _check_reads(ours: Mapping[str, Rows], theirs: Mapping[str, Rows]) -> None:
    different = [(case, rows, theirs[case]) for case, rows in ours.items() if rows != theirs[case]]
    if different:
        raise UnequalResultsError(f"hudisql and Hudi read different rows: {different}")


def _make_long_tables(directory: Path, shapes: Sequence[LongTimeline]) -> Path:
    for shape in shapes:
        make_table(directory / shape.name, shape)
    return directory


def main() -> int:
    """Measure and write the page."""
    given = parse_options(__doc__ or "", ROOT / "docs" / "benchmarks-services.md", tuple(SERVICES))
    source = make_lineitem(given.directory, scale_factor=given.scale_factor, files=given.files)
    with tempfile.TemporaryDirectory(dir=given.directory) as scratch_name:
        scratch = Path(scratch_name)
        make_table(scratch / "made" / "long", CLEANED)
        make_rewritten_tables(given, source, scratch / "made")
        shapes = () if given.only else (WARM, *PLANNED)
        tables = _make_long_tables(scratch / "planned", shapes)
        ours_directory = _copy_tables(scratch / "made", scratch / "ours")
        ours = _ours(given, ours_directory, tables)
        theirs = _theirs(given, _copy_tables(scratch / "made", scratch / "theirs"), tables, ours_directory)
    _check_reads(ours.rows, theirs.rows)
    rows = sum(pq.read_metadata(file).num_rows for file in source.glob("*.parquet"))
    page = render_page(given, rows, ours.costs, theirs.costs)
    if not given.only:
        replace_part(given.output, TITLE, page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
