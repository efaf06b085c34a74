"""What planning costs with and without a metadata table, what keeping one costs, and how large it is.

`python -m benchmarks.metadata_scale` bootstraps files of 20 rows as a table of version 9 with a record
index, each size in a process of its own, and plans the same queries with `hoodie.metadata.enable` on and off.
Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from benchmarks.pages import replace_part
from benchmarks.scale import make_source, option_parser, run_apart
from benchmarks.statement_scale import DAY, HEAP, ROWS_A_FILE
from tests.requests.counted_requests import counted_requests

# Files and partitions; the second one is RFC-12's example.
SIZES: Final = {10_000: 500, 250_000: 3_500}
TITLE: Final = "Scale: a metadata table by its number of files"
QUERIES: Final = {
    "all rows": "SELECT amount FROM scale.t",
    "one partition": f"SELECT amount FROM scale.t WHERE {DAY}",
    "a filter on a column": "SELECT name FROM scale.t WHERE amount < 10",
    "a record key": "SELECT amount FROM scale.t WHERE id = 71",
}
CHANGE: Final = "UPDATE scale.t SET amount = amount + 1 WHERE id = 71"
ADDITION: Final = "ALTER TABLE scale.t ADD COLUMNS (added BIGINT)"


@dataclass(frozen=True)
class Planning:
    """CPU seconds of the driver's Python and its requests for the plan of one query."""

    query: str
    by_metadata: bool
    cpu: float
    requests: int


@dataclass(frozen=True)
class Measurement:
    """One table: plans, milliseconds of CPU for the metadata table's part of a change and of an added column,
    the number of columns with statistics, and bytes by index."""

    files: int
    partitions: int
    plans: list[Planning]
    change_ms: float
    addition_ms: float
    columns: int
    stored: dict[str, int]


def measure(directory: Path, files: int, partitions: int, cores: int) -> Measurement:
    """Measure one table in this process; `directory` is scratch."""
    import hudisql
    from hudisql.console import SilentConsole

    conf = {"spark.master": f"local[{cores}]", "spark.ui.enabled": "false", "spark.driver.memory": HEAP}
    source, table = make_source(directory / "source", files, ROWS_A_FILE, partitions), directory / "table"
    warehouse = str(directory / "warehouse")
    with hudisql.connect(warehouse=warehouse, conf=conf, console=SilentConsole()) as session:
        session.sql("CREATE DATABASE scale")
        session.sql(
            f"CALL bootstrap_table(table => 'scale.t', source => '{source}', record_key => 'id',"
            f" target_path => '{table}', table_version => 9, indexes => 'record_index', verify => false,"
            " sync => false)"
        )
        session.sql(f"CREATE TABLE scale.t USING hudi LOCATION '{table}'")
        stored = _bytes_by_index(table)
        plans = []
        for by_metadata in (False, True):
            session.sql(f"SET hoodie.metadata.enable = {str(by_metadata).lower()}")
            for name, query in QUERIES.items():
                session.sql(f"EXPLAIN {query}").rows  # noqa: B018 - warms up
                with counted_requests(source, table) as requests:
                    cpu = time.process_time()
                    session.sql(f"EXPLAIN {query}").rows  # noqa: B018 - runs the statement
                    plans.append(Planning(name, by_metadata, time.process_time() - cpu, len(requests)))
                print(plans[-1], file=sys.stderr, flush=True)
        session.sql(CHANGE)
        with _timed_maintenance() as seconds:
            session.sql(CHANGE)
        columns = _columns_with_statistics(table)
        with _timed_maintenance() as of_addition:
            session.sql(ADDITION)
        assert _columns_with_statistics(table) == columns + 1
        assert "record_index" in (table / ".hoodie" / "hoodie.properties").read_text()
        change, addition = (sum(each) * 1e3 for each in (seconds, of_addition))
        return Measurement(files, partitions, plans, change, addition, columns, stored)


@contextmanager
def _timed_maintenance() -> Iterator[list[float]]:
    """The CPU seconds of this process in the two parts of a commit that keep the metadata table."""
    from hudisql.write.transaction import commit

    seconds: list[float] = []

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            cpu = time.process_time()
            try:
                return work(*arguments)
            finally:
                seconds.append(time.process_time() - cpu)

        return run

    with (
        mock.patch.object(commit, "prepare_commit", timed(commit.prepare_commit)),
        mock.patch.object(commit, "write_commit", timed(commit.write_commit)),
    ):
        yield seconds
    assert seconds, "the commit has not asked for the metadata table's part"


def _bytes_by_index(table: Path) -> dict[str, int]:
    indexes = [path for path in (table / ".hoodie" / "metadata").iterdir() if not path.name.startswith(".")]
    return {
        index.name: sum(file.stat().st_size for file in index.iterdir() if "hfile" in file.name)
        for index in indexes
    }


def _columns_with_statistics(table: Path) -> int:
    definitions = json.loads((table / ".hoodie" / ".index_defs" / "index.json").read_text())
    return len(definitions["indexDefinitions"]["column_stats"]["sourceFields"])


def render(sizes: Sequence[Measurement], cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.metadata_scale` on {cores} cores and local disks: files of"
        f" {ROWS_A_FILE} rows, bootstrapped as a copy-on-write table of version 9 with a record index."
        " `EXPLAIN` of each query, which ran once before in its session: CPU time of the driver's Python, and"
        " its requests.",
        "",
        "| files | partitions | plan of a query for | listed: CPU, s | requests |"
        " by the metadata table: CPU, s | requests |",
        "|--:|--:|--|" + "--:|" * 4,
    ]
    for size in sizes:
        for name in QUERIES:
            listed, looked_up = (
                next(plan for plan in size.plans if plan.query == name and plan.by_metadata is by_metadata)
                for by_metadata in (False, True)
            )
            lines.append(
                f"| {size.files:,} | {size.partitions:,} | {name} | {listed.cpu:.2f} | {listed.requests:,} |"
                f" {looked_up.cpu:.2f} | {looked_up.requests:,} |"
            )
    lines += [
        "",
        f"The metadata table's part of `{CHANGE}` and of `{ADDITION}`, by CPU time of the driver's Python,"
        " and the bytes of its indexes after the bootstrap. Statistics are of the columns of the table and of"
        " three meta columns:",
        "",
        "| files | columns with statistics | deltacommit, CPU ms | of an added column |"
        " `files`, bytes a file | `column_stats`, bytes a file | and column |"
        " `partition_stats`, bytes a partition | and column |"
        " `record_index`, bytes a key |",
        "|" + "--:|" * 10,
    ]
    lines += [
        f"| {size.files:,} | {size.columns} | {size.change_ms:.0f} | {size.addition_ms:.0f} |"
        f" {size.stored['files'] / size.files:.0f} |"
        f" {size.stored['column_stats'] / size.files:.0f} |"
        f" {size.stored['column_stats'] / size.files / size.columns:.0f} |"
        f" {size.stored['partition_stats'] / size.partitions:.0f} |"
        f" {size.stored['partition_stats'] / size.partitions / size.columns:.0f} |"
        f" {size.stored['record_index'] / (size.files * ROWS_A_FILE):.0f} |"
        for size in sizes
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    options = option_parser(__doc__, tuple(SIZES)).parse_args(arguments)
    if options.measure:
        directory, *numbers = json.loads(options.measure)
        print(json.dumps(asdict(measure(Path(directory), *numbers))))
        return
    sizes = []
    for files in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            partitions = SIZES.get(files, max(1, files // 20))
            answer = run_apart("benchmarks.metadata_scale", [directory, files, partitions, options.cores])
        plans = [Planning(**plan) for plan in answer.pop("plans")]
        sizes.append(Measurement(plans=plans, **answer))
        print(sizes[-1], file=sys.stderr, flush=True)
    replace_part(options.output, TITLE, render(sizes, options.cores))


if __name__ == "__main__":
    main()
