"""What publishing as Iceberg costs by the number of files: the first publication, one after a commit, reads.

`python -m benchmarks.iceberg_scale` bootstraps tables of 1,000, 10,000 and 250,000 files of 20 rows, each in
a process of its own, publishes them, changes three files and publishes again, then merges rows of many
partitions and lets DuckDB and hudisql read the table. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.pages import replace_part
from benchmarks.process_tree import peak_resident_bytes, reset_peak
from benchmarks.scale import (
    EXAMPLE_FILES,
    EXAMPLE_PARTITIONS,
    PARTITIONS,
    ask_clock,
    make_source,
    option_parser,
    run_apart,
)
from benchmarks.statement_scale import MERGED_ROWS, ROWS_A_FILE, make_changes
from sql.demo_duckdb import connect_duckdb
from tests.requests.counted_requests import counted_requests

SIZES: Final = (1_000, 10_000, EXAMPLE_FILES)
HEAP: Final = "1g"
TITLE: Final = "Scale: publishing a table as Iceberg"
FIRST: Final = "first publication"
SMALL: Final = "after an UPDATE of 3 files"
LARGE: Final = f"after a MERGE of {MERGED_ROWS} rows"
NOTHING: Final = "nothing to publish"
DUCKDB: Final = "SELECT by DuckDB"
HUDISQL: Final = "SELECT by hudisql"
_QUERY: Final = "count(*), sum(amount), max(name), count(DISTINCT dt)"


@dataclass(frozen=True)
class Step:
    """CPU seconds of all processes and of the driver's Python, seconds by the clock, the driver's requests,
    bytes written below `.hoodie/iceberg`, and the peak of the driver's Python in bytes."""

    cpu: float
    driver: float
    wall: float
    requests: int
    written: int
    python_peak: int


def measure(directory: Path, files: int, partitions: int, cores: int) -> dict[str, Step]:
    """Measure one size in this process; `directory` is scratch."""
    import hudisql
    from hudisql.catalog.embedded import embedded_metastore_status
    from hudisql.console import SilentConsole

    conf = {"spark.master": f"local[{cores}]", "spark.ui.enabled": "false", "spark.driver.memory": HEAP}
    source, warm = directory / "source", directory / "warm"
    make_source(source, files, ROWS_A_FILE, partitions)
    make_source(warm, 8, ROWS_A_FILE, 2)
    changes = make_changes(directory / "changes.parquet", files, partitions)
    warehouse = str(directory / "warehouse")
    with hudisql.connect(warehouse=warehouse, conf=conf, console=SilentConsole()) as session:
        session.sql("CREATE DATABASE scale")
        for name in ("warm", "source"):
            session.sql(
                f"CALL bootstrap_table(table => 'scale.{name}', source => '{directory / name}', "
                f"record_key => 'id', target_path => '{directory}/{name}_table', verify => false)"
            )
        _sync(session, "warm")
        session.sql("UPDATE scale.warm SET amount = 0 WHERE id = 3")
        _sync(session, "warm")
        metastore = embedded_metastore_status(warehouse).server_pid or os.getpid()
        days = [f"{number:04d}" for number in (1, 2, 3)]
        ids = [number * ROWS_A_FILE + 7 for number in (1, 2, 3)]
        chosen = " OR ".join(f"dt = '{day}' AND id = {row}" for day, row in zip(days, ids, strict=True))
        merge = (
            f"MERGE INTO scale.source AS t USING (SELECT * FROM parquet.`{changes}`) AS s"
            " ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET *"
        )
        steps: dict[str, Step] = {}
        for name, statement in (
            (FIRST, None),
            (SMALL, f"UPDATE scale.source SET amount = 0 WHERE {chosen}"),
            (LARGE, merge),
            (NOTHING, None),
        ):
            if statement is not None:
                session.sql(statement)
            result = "already published" if name == NOTHING else "published"
            steps[name] = _measured(directory, metastore, lambda: _sync(session, "source"), result)
        steps[DUCKDB] = _measured(directory, metastore, lambda: _by_duckdb(directory), None)
        query = f"SELECT {_QUERY} FROM scale.source"
        steps[HUDISQL] = _measured(
            directory, metastore, lambda: tuple(session.sql(query).rows[0]), _by_duckdb(directory)
        )
        return steps


def _sync(session: Any, name: str) -> str:
    [row] = session.sql(f"CALL sync_iceberg(table => 'scale.{name}')").rows
    return str(row.result)


def _by_duckdb(directory: Path) -> tuple[Any, ...]:
    metadata = directory / "source_table/.hoodie/iceberg/metadata"
    version = (metadata / "version-hint.text").read_text()
    with connect_duckdb() as connection:
        file = metadata / f"v{version}.metadata.json"
        row = connection.execute(f"SELECT {_QUERY} FROM iceberg_scan('{file}')").fetchone()
    assert row is not None
    return tuple(row)


def _measured(directory: Path, metastore: int, work: Callable[[], Any], expected: Any) -> Step:
    table = directory / "source_table"
    before = _bytes_below(table / ".hoodie/iceberg")
    reset_peak(os.getpid())
    cpu, driver, wall = ask_clock(metastore), time.process_time(), time.perf_counter()
    with counted_requests(directory / "source", table) as requests:
        result = work()
    seconds, own = time.perf_counter() - wall, time.process_time() - driver
    step = Step(
        ask_clock(metastore) - cpu,
        own,
        seconds,
        len(requests),
        sum(size for path, size in _bytes_below(table / ".hoodie/iceberg").items() if path not in before),
        peak_resident_bytes(os.getpid()),
    )
    print(step, result, file=sys.stderr, flush=True)
    assert expected is None or result == expected
    return step


def _bytes_below(directory: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in directory.rglob("*") if path.is_file()}


def render(sizes: dict[int, dict[str, Step]], cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.iceberg_scale` on {cores} cores and local disks: files of"
        f" {ROWS_A_FILE} rows and four columns in {PARTITIONS} partitions ({EXAMPLE_FILES:,} files in"
        f" {EXAMPLE_PARTITIONS:,}), a copy-on-write table, a heap of at most {HEAP}, each size in a process"
        " of its own. CPU time is that of driver, JVM, tasks and metastore together; requests are those of"
        " the driver."
        f" The query is `SELECT {_QUERY}`; both give the same row. DuckDB runs in the driver.",
        "",
        "| files | what | CPU, s | of it the driver's Python, s | by the clock, s | requests | written, kB |"
        " driver's Python, peak, MB |",
        "|--:|--|" + "--:|" * 6,
    ]
    for files, steps in sizes.items():
        lines += [
            f"| {files:,} | {name} | {step.cpu:.2f} | {step.driver:.2f} | {step.wall:.1f} |"
            f" {step.requests:,} | {step.written / 1e3:,.0f} | {step.python_peak / 1e6:.0f} |"
            for name, step in steps.items()
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes and write this benchmark's part of the page."""
    options = option_parser(__doc__, SIZES).parse_args(arguments)
    if options.measure:
        directory, *numbers = json.loads(options.measure)
        steps = measure(Path(directory).resolve(), *numbers)
        print(json.dumps({name: asdict(step) for name, step in steps.items()}))
        return
    sizes = {}
    for files in (int(size) for size in options.sizes.split(",")):
        partitions = EXAMPLE_PARTITIONS if files >= EXAMPLE_FILES else PARTITIONS
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            answer = run_apart("benchmarks.iceberg_scale", [directory, files, partitions, options.cores])
        sizes[files] = {name: Step(**step) for name, step in answer.items()}
    replace_part(options.output, TITLE, render(sizes, options.cores))


if __name__ == "__main__":
    main()
