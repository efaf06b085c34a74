"""How long small statements take: two rows in a table of two files, by hudisql and by Hudi 0.15.

`python -m benchmarks.latency` makes the same small table in both engines by SQL, with Spark's own default of
shuffle partitions, and runs each statement several times in a warm session. Each engine has a Hive Metastore
of its own, of the same kind, and syncs the table there after each commit, as both do by default. Both
sessions have run one Spark job, and CREATE DATABASE and CREATE TABLE, before the first INSERT is timed.

Seconds by the clock, and CPU seconds of all processes but the metastores, are medians; of the first INSERT of
a session the one run that there is. For hudisql Spark's jobs and tasks are counted, too. Writes a part of
docs/benchmarks-latency.md; `benchmarks.start_up` measures commands as whole processes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.engines import (
    COMMON_SPARK_SETTINGS,
    HudisqlEngine,
    RealHudiEngine,
    measured,
    start_hudisql,
    start_real_hudi,
)
from benchmarks.pages import replace_part
from benchmarks.run import ROOT, Options, UnequalResultsError, parse_options
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import acquire_embedded_metastore
from hudisql.catalog.sync_changes import LAST_COMMIT_PROPERTY

TITLE: Final = "Latency of small statements"
ROUNDS: Final = 5
TABLE: Final = "latency.trips"
COLUMNS: Final = "id BIGINT, rider STRING, fare DOUBLE, ts BIGINT, city STRING"
# As a user's session has it: 200 shuffle partitions, adaptive execution.
SETTINGS: Final = {**COMMON_SPARK_SETTINGS, "spark.sql.shuffle.partitions": "200"}
FIRST_INSERT: Final = "first INSERT of the session"
STATEMENTS: Final = {
    "INSERT VALUES": "INSERT INTO {} VALUES ({n}1, 'a', 1.0, {n}, 'x'), ({n}2, 'b', 2.0, {n}, 'y')",
    "UPDATE": "UPDATE {} SET fare = fare + {n} WHERE id = 1",
    # Without the partition column in its source Hudi 0.15's MERGE finds no row.
    "MERGE": "MERGE INTO {} t USING (SELECT 2L AS id, {n}.0D AS fare, {n}L AS ts, 'y' AS city) s "
    "ON t.id = s.id AND t.city = s.city WHEN MATCHED THEN UPDATE SET fare = s.fare, ts = s.ts",
    "DELETE": "DELETE FROM {} WHERE id = {n}1",
    "SELECT": "SELECT count(*), sum(fare) FROM {} WHERE ts < {n}",
}


@dataclass(frozen=True)
class Latency:
    """Median seconds of a statement by the clock and of CPU, the Spark jobs and tasks of its last run."""

    seconds: float
    cpu: float = 0.0
    jobs: int = 0
    tasks: int = 0


Latencies = dict[str, Latency]


def make_table(sql: Callable[[str], object], table: str) -> None:
    """A table with an ordering column, two partitions and one file in each."""
    sql("CREATE DATABASE IF NOT EXISTS latency")
    sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING hudi PARTITIONED BY (city) "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'cow')"
    )


def run_ours(options: Options, directory: Path) -> tuple[Latencies, list[tuple[str | None, ...]]]:
    """hudisql's seconds, jobs and tasks, and the rows that are left in the table."""
    with _metastore(directory):
        engine = start_hudisql(directory, cores=options.cores, memory=options.memory, settings=SETTINGS)
        try:
            return _run(engine, lambda: engine.jobs())
        finally:
            engine.close()


def run_theirs(options: Options, directory: Path) -> tuple[Latencies, list[tuple[str | None, ...]]]:
    """The same of Hudi 0.15. Raises UnequalResultsError if it did not sync the table."""
    with _metastore(directory) as uri:
        engine = start_real_hudi(
            directory, cores=options.cores, memory=options.memory, settings=SETTINGS, metastore_uri=uri
        )
        try:
            found = _run(engine, dict)
        finally:
            engine.close()
        with MetastoreClient(uri) as client:
            entry = client.get_table(*TABLE.split("."))
        if entry is None or LAST_COMMIT_PROPERTY not in entry.parameters:
            raise UnequalResultsError("Hudi did not sync its table")
        return found


@contextmanager
def _metastore(directory: Path) -> Iterator[str]:
    """The URI of a metastore for the warehouse below `directory`, which runs beside the engine."""
    metastore = acquire_embedded_metastore(str(directory / "warehouse"))
    try:
        yield metastore.uri
    finally:
        metastore.release()


def _run(
    engine: HudisqlEngine | RealHudiEngine, count: Callable[[], dict[int, int]]
) -> tuple[Latencies, list[tuple[str | None, ...]]]:
    make_table(engine.sql, TABLE)
    first = STATEMENTS["INSERT VALUES"].format(TABLE, n=0)
    found = {FIRST_INSERT: _measure(engine, [first], count)}
    for name, text in STATEMENTS.items():
        rounds = [text.format(TABLE, n=number) for number in range(1, ROUNDS + 2)]
        engine.sql(rounds[0])
        found[name] = _measure(engine, rounds[1:], count)
    rows = engine.sql(f"SELECT id, rider, fare, ts, city FROM {TABLE} ORDER BY id")
    return found, rows


def _measure(
    engine: HudisqlEngine | RealHudiEngine, texts: Sequence[str], count: Callable[[], dict[int, int]]
) -> Latency:
    costs = []
    before: dict[int, int] = {}
    for text in texts:
        before = count()
        costs.append(measured(engine, lambda text=text: engine.sql(text))[1])  # type: ignore[misc]
    made = {job: tasks for job, tasks in count().items() if job not in before}
    wall = statistics.median(each.wall for each in costs)
    cpu = statistics.median(each.cpu for each in costs)
    return Latency(wall, cpu, len(made), sum(made.values()))


def render_page(options: Options, ours: Latencies, theirs: Latencies) -> str:
    """The page of docs/."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.latency`: two rows a statement, a copy-on-write table of two partitions, "
        f"`local[{options.cores}]`, 200 shuffle partitions. Seconds by the clock, the median of {ROUNDS} "
        "runs in a warm session; both tables held the same rows afterwards. Each engine has a Hive "
        "Metastore of its own, of the same kind, and syncs the table there after each commit. Both sessions "
        "have run a Spark job, CREATE DATABASE and CREATE TABLE before the first INSERT is timed. CPU "
        "seconds are those of all processes but the metastores.",
        "",
        "| statement | hudisql s | Hudi 0.15 s | hudisql / Hudi | goal | CPU s | Hudi CPU s | Spark jobs "
        "| tasks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, mine in ours.items():
        ratio = mine.seconds / theirs[name].seconds
        goal = 1.0 if name == FIRST_INSERT else 0.5
        lines.append(
            f"| {name} | {mine.seconds:.2f} | {theirs[name].seconds:.2f} | {ratio:.2f} | "
            f"≤ {goal:g}: {'met' if ratio <= goal else '**missed**'} | {mine.cpu:.2f} | "
            f"{theirs[name].cpu:.2f} | {mine.jobs} | {mine.tasks} |"
        )
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure and write the page."""
    options = parse_options(__doc__ or "", ROOT / "docs" / "benchmarks-latency.md")
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch_name:
        scratch = Path(scratch_name)
        ours, our_rows = run_ours(options, scratch / "ours")
        theirs, their_rows = run_theirs(options, scratch / "theirs")
        if our_rows != their_rows:
            raise UnequalResultsError(f"hudisql's rows {our_rows} and Hudi's {their_rows}")
    page = render_page(options, ours, theirs)
    replace_part(options.output, TITLE, page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
