"""What statements cost on a table of the size of RFC-12's example: 250,000 files in 3,500 partitions.

`python -m benchmarks.statement_scale` makes the source (20 rows a file), bootstraps it with sync and
verification, and runs statements one after the other, in a process of its own. The driver's requests to the
store are counted, each as one to an object store. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import replace_part
from benchmarks.process_tree import peak_resident_bytes, reset_peak
from benchmarks.scale import (
    EXAMPLE_FILES,
    EXAMPLE_PARTITIONS,
    ask_clock,
    java_child,
    make_source,
    option_parser,
    run_apart,
)
from tests.requests.counted_requests import LISTINGS, LOOKS, counted_requests

ROWS_A_FILE: Final = 20
HEAP: Final = "1g"
MERGED_PARTITIONS, MERGED_ROWS = 300, 900
TITLE: Final = "Scale: statements on a table of the size of RFC-12's example"
DAY: Final = "dt = '0003'"


@dataclass(frozen=True)
class Step:
    """CPU seconds of all processes, seconds by the clock, the driver's requests by kind, and the peaks of
    resident bytes of the driver's Python and the JVM."""

    cpu: float
    wall: float
    listings: int
    looks: int
    others: int
    python_peak: int
    java_peak: int


def steps_of(source: Path, target: Path, changes: Path) -> dict[str, str]:
    """The statements by their names in the page."""
    bootstrap = (
        f"CALL bootstrap_table(table => 'scale.t', source => '{source}', record_key => 'id',"
        f" target_path => '{target}'"
    )
    merge = (
        f"MERGE INTO scale.t AS t USING (SELECT * FROM parquet.`{changes}`) AS s"
        " ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    return {
        "bootstrap_table, dry run": f"{bootstrap}, dry_run => true)",
        "bootstrap_table, synced and verified": f"{bootstrap})",
        "SELECT count(*), max(amount)": "SELECT count(*), max(amount) FROM scale.t",
        "SELECT of one partition": f"SELECT count(*), max(amount) FROM scale.t WHERE {DAY}",
        "EXPLAIN of one partition": f"EXPLAIN SELECT amount FROM scale.t WHERE {DAY}",
        "SHOW PARTITIONS": "SHOW PARTITIONS scale.t",
        "UPDATE of a row of one partition": f"UPDATE scale.t SET amount = 0 WHERE {DAY} AND id = 70",
        "INSERT of a row": "INSERT INTO scale.t VALUES (-1, 1.0, 'new', '0003')",
        f"MERGE of {MERGED_ROWS} rows in {MERGED_PARTITIONS} partitions": merge,
        "run_clean, nothing to delete": "CALL run_clean(table => 'scale.t', retain_commits => 1)",
        "DELETE of one partition": "DELETE FROM scale.t WHERE dt = '0004'",
        "hive_sync": "CALL hive_sync(table => 'scale.t')",
        "UPDATE of a row by its key alone": "UPDATE scale.t SET amount = 0 WHERE id = 71",
    }


def make_changes(path: Path, files: int, partitions: int) -> Path:
    """Rows of the source with another amount, in `MERGED_PARTITIONS` of its partitions."""
    rng = np.random.default_rng(1)
    chosen = rng.choice(np.arange(5, partitions), min(MERGED_PARTITIONS, partitions - 5), replace=False)
    numbers = np.resize(chosen, MERGED_ROWS) + partitions * rng.integers(0, files // partitions, MERGED_ROWS)
    ids = np.unique(numbers) * ROWS_A_FILE + 7
    columns = {
        "id": ids,
        "amount": ids / 8,
        "name": pa.array(ids % 97).cast(pa.string()),
        "dt": [f"{number % partitions:04d}" for number in ids // ROWS_A_FILE],
    }
    pq.write_table(pa.table(columns), path)
    return path


def measure(directory: Path, files: int, partitions: int, cores: int) -> dict[str, Step]:
    """Measure the statements in this process; `directory` is scratch."""
    import hudisql
    from hudisql.catalog.embedded import embedded_metastore_status
    from hudisql.console import SilentConsole

    conf = {"spark.master": f"local[{cores}]", "spark.ui.enabled": "false", "spark.driver.memory": HEAP}
    source = make_source(directory / "source", files, ROWS_A_FILE, partitions)
    changes = make_changes(directory / "changes.parquet", files, partitions)
    warehouse = str(directory / "warehouse")
    with hudisql.connect(warehouse=warehouse, conf=conf, console=SilentConsole()) as session:
        session.sql("CREATE DATABASE scale")
        warm = make_source(directory / "warm", 8, ROWS_A_FILE, 2)
        session.sql(f"CALL bootstrap_table(table => 'scale.warm', source => '{warm}', record_key => 'id')")
        session.sql("UPDATE scale.warm SET amount = 0 WHERE id = 3")
        processes = java_child(os.getpid()), embedded_metastore_status(warehouse).server_pid or os.getpid()
        steps = {}
        for name, text in steps_of(source, directory / "table", changes).items():
            steps[name] = _measured(session, text, directory, *processes)
            print(name, steps[name], file=sys.stderr, flush=True)
        # One row was inserted, one partition of whole files was deleted.
        (total,) = session.sql("SELECT count(*) AS n FROM scale.t").rows
        deleted = len(range(4, files, partitions)) * ROWS_A_FILE
        assert total.n == files * ROWS_A_FILE + 1 - deleted
        return steps


def _measured(session: Any, text: str, directory: Path, java: int, metastore: int) -> Step:
    reset_peak(os.getpid())
    reset_peak(java)
    cpu, wall = ask_clock(metastore), time.perf_counter()
    # The metastore's own files below the warehouse are no requests of statements.
    with counted_requests(directory / "source", directory / "table") as requests:
        session.sql(text).rows  # noqa: B018 - runs the statement
    seconds, counts = time.perf_counter() - wall, requests.counts()
    listings, looks = (sum(counts.get(name, 0) for name in names) for names in (LISTINGS, LOOKS))
    return Step(
        ask_clock(metastore) - cpu,
        seconds,
        listings,
        looks,
        len(requests) - listings - looks,
        peak_resident_bytes(os.getpid()),
        peak_resident_bytes(java),
    )


def render(steps: dict[str, Step], files: int, partitions: int, cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.statement_scale` on {cores} cores and local disks: {files:,}"
        f" files of {ROWS_A_FILE} rows in {partitions:,} partitions, statements one after the other in one"
        f" session, a heap of at most {HEAP}. CPU time is that of driver, JVM, tasks and metastore together."
        " Requests are the driver's; those of its tasks come on top: on S3 two for each file that a query"
        " reads, four for each file of a bootstrap (tests/requests). A listing here is of one directory; on"
        " S3 a page of 1,000 keys lists several, so that all directories of this table need some 250.",
        "",
        "| statement | CPU, s | by the clock, s | listings | looks at a file | other requests |"
        " driver's Python, peak, MB | JVM, peak, MB |",
        "|--|" + "--:|" * 7,
    ]
    lines += [
        f"| {name} | {step.cpu:.1f} | {step.wall:.1f} | {step.listings:,} | {step.looks:,} |"
        f" {step.others:,} | {step.python_peak / 1e6:.0f} | {step.java_peak / 1e6:.0f} |"
        for name, step in steps.items()
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    parser = option_parser(__doc__, (EXAMPLE_FILES,))
    parser.add_argument("--partitions", type=int, default=EXAMPLE_PARTITIONS)
    options = parser.parse_args(arguments)
    if options.measure:
        directory, *numbers = json.loads(options.measure)
        steps = measure(Path(directory), *numbers)
        print(json.dumps({name: asdict(step) for name, step in steps.items()}))
        return
    (files,) = map(int, options.sizes.split(","))
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        told = [directory, files, options.partitions, options.cores]
        answer = run_apart("benchmarks.statement_scale", told)
    steps = {name: Step(**step) for name, step in answer.items()}
    replace_part(options.output, TITLE, render(steps, files, options.partitions, options.cores))


if __name__ == "__main__":
    main()
