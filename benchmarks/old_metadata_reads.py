"""Whether queries of Apache Hudi 0.15 profit from a metadata table on a table of version 6.

`python -m benchmarks.old_metadata_reads` bootstraps 10,000 files of 20 rows in 500 partitions as a table of
version 6 with a metadata table. Hudi 0.15 then runs the same queries over it, with and without the metadata
table, in turn in one session, once before they are measured. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.engines import RealHudiEngine, Rows, measured, start_hudisql, start_real_hudi
from benchmarks.many_files import DAY, FILES, MEMORY, PARTITIONS, READ_ALL, READ_DAY, READS
from benchmarks.pages import replace_part
from benchmarks.scale import make_source, option_parser
from benchmarks.statement_scale import ROWS_A_FILE
from tests.oracle.client import BY_LISTING, BY_METADATA

VERSION: Final = "0.15.0"
RUNS: Final = 3
PROFIT: Final = 0.8
TITLE: Final = "Scale: queries of Hudi 0.15 by a metadata table"
_FILTERED: Final = "SELECT count(*), max(name) FROM {} WHERE amount < 10"
QUERIES: Final = {
    READ_ALL: READS[READ_ALL],
    READ_DAY: READS[READ_DAY],
    "SELECT with a filter on a column": _FILTERED,
    "SELECT with a filter on a column, in one partition": f"{_FILTERED} AND dt = '{DAY}'",
}
VIEWS: Final = {"listed": BY_LISTING, "by_metadata": BY_METADATA}


def measure(engine: RealHudiEngine, table: Path, runs: int = RUNS) -> dict[str, tuple[float, float]]:
    """The CPU seconds of each query without and with the metadata table: the medians of `runs`."""
    results = {}
    for query, text in QUERIES.items():
        seconds: dict[str, list[float]] = {view: [] for view in VIEWS}
        found = set()
        for run in range(runs + 1):
            # Java gets faster from run to run: neither view is always the later one.
            for view in sorted(VIEWS, reverse=run % 2 == 0):
                rows, cost = measured(engine, partial(_run, engine, table, text, view))
                found.add(tuple(rows))
                print(query, view, f"{cost.cpu:.2f}", file=sys.stderr, flush=True)
                if run:
                    seconds[view].append(cost.cpu)
        assert len(found) == 1, found
        listed, by_metadata = (median(seconds[view]) for view in VIEWS)
        results[query] = listed, by_metadata
    return results


def _run(engine: RealHudiEngine, table: Path, text: str, view: str) -> Rows:
    """A view keeps the files that it has found: each query gets a new one."""
    engine.view(view, str(table), options=VIEWS[view])
    return engine.sql(text.format(view))


def render(results: dict[str, tuple[float, float]], files: int, partitions: int, cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.old_metadata_reads` on {cores} cores and local disks: {files:,}"
        f" files of {ROWS_A_FILE} rows in {partitions} partitions, bootstrapped by hudisql as a copy-on-write"
        " table of version 6 with a metadata table. Hudi 0.15 runs each query with"
        " `hoodie.metadata.enable=true` and data skipping, and without both, in turn, each time by a new"
        f" DataFrame, which lists the files again: CPU seconds of the whole process tree, the median of"
        f" {RUNS} runs after a first one. The rows are equal.",
        "",
        "| query | listed, CPU s | by the metadata table, CPU s | by metadata : listed |",
        "|--|--:|--:|--:|",
    ]
    for query, (listed, by_metadata) in results.items():
        lines.append(f"| {query} | {listed:.2f} | {by_metadata:.2f} | {by_metadata / listed:.2f} |")
    return "\n".join([*lines, "", _conclusion(results)]) + "\n"


def _conclusion(results: dict[str, tuple[float, float]]) -> str:
    ratios = {query: by_metadata / listed for query, (listed, by_metadata) in results.items()}
    faster = [query for query, ratio in ratios.items() if ratio <= PROFIT]
    slower = [query for query, ratio in ratios.items() if ratio >= 1 / PROFIT]
    return (
        f"Hudi 0.15 profits by a metadata table in {len(faster)} of {len(ratios)} queries"
        f"{_named(faster)}, and pays for it in {len(slower)}{_named(slower)}; the others differ by less"
        " than a fifth."
    )


def _named(queries: Sequence[str]) -> str:
    return f" ({', '.join(queries)})" if queries else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    options = option_parser(__doc__, (FILES,)).parse_args(arguments)
    (files,) = map(int, options.sizes.split(","))
    partitions = min(PARTITIONS, files // 4)
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        directory = Path(scratch)
        source, table = make_source(directory / "source", files, ROWS_A_FILE, partitions), directory / "table"
        with closing(start_hudisql(directory, cores=options.cores, memory=MEMORY)) as engine:
            engine.sql(
                f"CALL bootstrap_table(table => 'old', source => '{source}', record_key => 'id',"
                f" precombine => 'amount', target_path => '{table}', verify => false, sync => false,"
                " indexes => 'column_stats')"
            )
        session = directory / "session"
        with closing(start_real_hudi(session, cores=options.cores, memory=MEMORY, version=VERSION)) as engine:
            results = measure(engine, table)
    replace_part(options.output, TITLE, render(results, files, partitions, options.cores))


if __name__ == "__main__":
    main()
