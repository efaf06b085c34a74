"""How a change grows with the number of files: MERGE and upsert on tables of 1,000 to 10,000 small files.

`python -m benchmarks.change_scale` bootstraps the tables of `benchmarks.scale`, copy-on-write and
merge-on-read, each in a process of its own, changes 1 % of the rows (one in every file), then those of one
partition, and asks driver and JVM for the memory of each step. Writes its part of docs/benchmarks-scale.md.
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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import replace_part
from benchmarks.process_tree import peak_resident_bytes, reset_peak
from benchmarks.scale import (
    PARTITIONS,
    ROWS_A_FILE,
    ask_clock,
    java_child,
    make_source,
    option_parser,
    run_apart,
)

SIZES: Final = (1_000, 10_000)
TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")
MERGE_ALL: Final = "MERGE, a row of every file"
UPSERT_ALL: Final = "upsert, a row of every file"
MERGE_ONE: Final = "MERGE, one partition"
STEPS: Final = (MERGE_ALL, UPSERT_ALL, MERGE_ONE)
HEAP: Final = "2g"
TITLE: Final = "Scale: a change by its number of files"


@dataclass(frozen=True)
class Step:
    """CPU seconds of all processes, seconds by the clock, files written; peak resident bytes of the driver's
    Python and the JVM during the step, and bytes that live on the JVM's heap after it."""

    cpu: float
    wall: float
    files: int
    python_peak: int
    java_peak: int
    java_heap: int


@dataclass(frozen=True)
class Measurement:
    """One table: its steps, and the driver's Python and live heap before them."""

    table_type: str
    files: int
    python_before: int
    heap_before: int
    steps: dict[str, Step]


def make_changes(path: Path, files: int, partitions: int) -> Path:
    """A row of every file of `make_source`, with another amount."""
    numbers = np.arange(files)
    ids = numbers * ROWS_A_FILE + 7
    columns = {
        "id": ids,
        "amount": ids / 8,
        "name": pa.array(ids % 97).cast(pa.string()),
        "dt": [f"{number % partitions:04d}" for number in numbers],
    }
    pq.write_table(pa.table(columns), path)
    return path


def measure(directory: Path, table_type: str, files: int, cores: int) -> Measurement:
    """Measure one table in this process; `directory` is scratch."""
    import hudisql
    from hudisql.catalog.embedded import embedded_metastore_status
    from hudisql.console import SilentConsole

    conf = {
        "spark.master": f"local[{cores}]",
        "spark.ui.enabled": "false",
        "spark.driver.memory": HEAP,
    }
    warehouse = str(directory / "warehouse")
    with hudisql.connect(warehouse=warehouse, conf=conf, console=SilentConsole()) as session:
        session.sql("CREATE DATABASE scale")
        for name, number, partitions in (("warm", 8, 2), ("t", files, PARTITIONS)):
            source = make_source(directory / name, number, ROWS_A_FILE, partitions)
            session.sql(
                f"CALL bootstrap_table(table => 'scale.{name}', source => '{source}', record_key => 'id', "
                f"table_type => '{table_type}', target_path => '{directory / f'{name}_table'}')"
            )
        changes = {
            name: make_changes(directory / f"{name}_changes.parquet", number, partitions)
            for name, number, partitions in (("warm", 8, 2), ("t", files, PARTITIONS))
        }
        merge = (
            "MERGE INTO scale.{} t USING (SELECT * FROM parquet.`{}` WHERE {}) s "
            "ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        session.sql(merge.format("warm", changes["warm"], "true"))
        java = java_child(os.getpid())
        metastore = embedded_metastore_status(warehouse).server_pid or os.getpid()

        def upsert() -> int:
            return session.write(session.spark.read.parquet(str(changes["t"])), "scale.t", "upsert").files

        def sql(where: str) -> Callable[[], int]:
            return lambda: session.sql(merge.format("t", changes["t"], where)).rows[0].files_written

        works: dict[str, Callable[[], int]] = {
            MERGE_ALL: sql("true"),
            UPSERT_ALL: upsert,
            MERGE_ONE: sql("dt = '0003'"),
        }
        reset_peak(os.getpid())
        python_before, heap_before = peak_resident_bytes(os.getpid()), _live_heap(session)
        steps = {}
        for name, work in works.items():
            reset_peak(os.getpid())
            reset_peak(java)
            cpu, wall = ask_clock(metastore), time.perf_counter()
            written = work()
            seconds = time.perf_counter() - wall
            steps[name] = Step(
                ask_clock(metastore) - cpu,
                seconds,
                written,
                peak_resident_bytes(os.getpid()),
                peak_resident_bytes(java),
                _live_heap(session),
            )
            print(name, steps[name], file=sys.stderr)
            assert written == (files // PARTITIONS if name == MERGE_ONE else files), name
        (total,) = session.sql("SELECT count(*) AS n, count(DISTINCT id) AS d FROM scale.t").rows
        assert (total.n, total.d) == (files * ROWS_A_FILE, files * ROWS_A_FILE)
        return Measurement(table_type, files, python_before, heap_before, steps)


def _live_heap(session: Any) -> int:
    """Bytes on the JVM's heap that a collection leaves."""
    lang = session.spark._jvm.java.lang
    lang.System.gc()
    return int(lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def measure_apart(table_type: str, files: int, cores: int, scratch: Path) -> Measurement:
    """Measure one table in a process of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        answer = run_apart("benchmarks.change_scale", [directory, table_type, files, cores])
    answer["steps"] = {name: Step(**step) for name, step in answer["steps"].items()}
    return Measurement(**answer)


def render(measured: Sequence[Measurement], cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.change_scale` on {cores} cores, each table in a process of its"
        f" own: bootstrapped, {ROWS_A_FILE} rows a file, {PARTITIONS} partitions, steps one after the other,"
        f" a heap of at most {HEAP}. CPU time is that of driver, JVM, tasks and metastore together. The JVM"
        " runs the tasks, too, and gives back little of what it once took: what it needs is the heap that a"
        " collection leaves.",
        "",
        "| table | files | step | files written | CPU, s | ms a file | by the clock, s |"
        " driver's Python before → peak, MB | JVM's live heap before → after, MB | JVM resident, peak, MB |",
        "|--|--:|--|" + "--:|" * 7,
    ]
    for each in measured:
        python, heap = each.python_before, each.heap_before
        for name in STEPS:
            step = each.steps[name]
            lines.append(
                f"| {each.table_type} | {each.files:,} | {name} | {step.files:,} | {step.cpu:.1f} |"
                f" {step.cpu / step.files * 1e3:.1f} | {step.wall:.0f} |"
                f" {python / 1e6:.0f} → {step.python_peak / 1e6:.0f} |"
                f" {heap / 1e6:.0f} → {step.java_heap / 1e6:.0f} | {step.java_peak / 1e6:.0f} |"
            )
            heap = step.java_heap
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all tables and write their part of the page."""
    parser = option_parser(__doc__, SIZES)
    parser.add_argument("--types", default=",".join(TYPES))
    options = parser.parse_args()
    if options.measure:
        directory, *rest = json.loads(options.measure)
        print(json.dumps(asdict(measure(Path(directory), *rest))))
        return
    measured = []
    for table_type in options.types.split(","):
        for files in options.sizes.split(","):
            measured.append(measure_apart(table_type, int(files), options.cores, options.directory))
            replace_part(options.output, TITLE, render(measured, options.cores))


if __name__ == "__main__":
    main()
