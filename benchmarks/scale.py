"""How a bootstrap grows with the number of files: plan, bootstrap, sync and first query, size after size.

`python -m benchmarks.scale` makes tables of 1,000, 3,000 and 10,000 small files in 500 partitions and one of
few large files, measures each in a process of its own with a warm session, and estimates from the cost per
file and per row what RFC-12's example would take. Writes docs/benchmarks-scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import replace_part
from benchmarks.process_tree import CpuClock, peak_resident_bytes, started_clock

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1_000, 3_000, 10_000)
PARTITIONS = 500
ROWS_A_FILE = 100
LARGE_FILES, ROWS_A_LARGE_FILE = 8, 1_000_000
TITLE = "Scale: a bootstrap by its number of files"
PHASES = ("plan", "bootstrap", "sync", "first query")
# RFC-12's example: a table of Uber's, bootstrapped by Hudi on 500 executor cores in about an hour.
EXAMPLE_ROWS, EXAMPLE_FILES, EXAMPLE_PARTITIONS, EXAMPLE_CORES = 60e9, 250_000, 3_500, 500


@dataclass(frozen=True)
class Phase:
    """CPU seconds of all processes and of the driver's Python alone, and seconds by the clock."""

    cpu: float
    driver: float
    wall: float


@dataclass(frozen=True)
class Measurement:
    """One size: its phases, and peak resident bytes of the driver's Python (before, after) and its JVM."""

    files: int
    rows: int
    phases: dict[str, Phase]
    python_before: int
    python_peak: int
    java_peak: int


def make_source(directory: Path, files: int, rows: int, partitions: int) -> Path:
    """Parquet files with unique keys, spread over `dt=` directories."""
    for number in range(files):
        path = directory / f"dt={number % partitions:04d}" / f"part-{number:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = np.arange(number * rows, (number + 1) * rows)
        table = pa.table({"id": ids, "amount": ids / 4, "name": pa.array(ids % 97).cast(pa.string())})
        pq.write_table(table, path, row_group_size=250_000)
    return directory


def measure(directory: Path, files: int, rows: int, partitions: int, cores: int) -> Measurement:
    """Measure one size in this process; `directory` is scratch."""
    import hudisql
    from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
    from hudisql.bootstrap.plan.request import BootstrapRequest
    from hudisql.bootstrap.run.plan_execution import run_bootstrap
    from hudisql.catalog.embedded import embedded_metastore_status
    from hudisql.catalog.sync import sync_table
    from hudisql.catalog.sync_entries import sync_options_from
    from hudisql.console import SilentConsole
    from hudisql.table.hudi_table import open_table

    source = make_source(directory / "source", files, rows, partitions)
    warm = make_source(directory / "warm", 8, 100, 2)
    conf = {"spark.master": f"local[{cores}]", "spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    warehouse = str(directory / "warehouse")
    with hudisql.connect(warehouse=warehouse, conf=conf, console=SilentConsole()) as session:
        context: Any = session.context
        session.sql("CREATE DATABASE scale")
        session.sql(f"CALL bootstrap_table(table => 'scale.warm', source => '{warm}', record_key => 'id')")
        session.sql("SELECT count(*), max(amount) FROM scale.warm").rows  # noqa: B018 - runs the query
        java = java_child(os.getpid())
        metastore = embedded_metastore_status(warehouse).server_pid or os.getpid()
        before = peak_resident_bytes(os.getpid())
        phases: dict[str, Phase] = {}

        def take(name: str, work: Callable[[], Any]) -> Any:
            cpu = ask_clock(metastore)
            driver, wall = time.process_time(), time.perf_counter()
            done = work()
            phases[name] = Phase(
                ask_clock(metastore) - cpu,
                time.process_time() - driver,
                time.perf_counter() - wall,
            )
            return done

        target = str(directory / "table")
        request = BootstrapRequest(
            database="scale",
            name="t",
            record_key=("id",),
            source_path=str(source),
            target_path=target,
            sync=False,
        )
        plan = take("plan", lambda: plan_bootstrap(context, request))
        take("bootstrap", lambda: run_bootstrap(context, plan))
        options = sync_options_from({})
        opened = open_table(context.storage, target)
        take("sync", lambda: sync_table(context.metastore, opened, "scale", "t", options))
        query = "SELECT count(*) AS n, max(amount) AS m FROM scale.t"
        (row,) = take("first query", lambda: session.sql(query).rows)
        assert (row.n, row.m) == (files * rows, (files * rows - 1) / 4)
        return Measurement(
            files,
            files * rows,
            phases,
            before,
            peak_resident_bytes(os.getpid()),
            peak_resident_bytes(java),
        )


def ask_clock(metastore: int) -> float:
    """CPU seconds of this process's tree and the metastore's, which the parent counts."""
    print(f"cpu {os.getpid()} {metastore}", flush=True)
    return float(input())


def java_child(pid: int) -> int:
    """The JVM that this Python has started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text().strip() == "java":
            return int(child)
    raise ProcessLookupError("no JVM below this process")


def measure_apart(files: int, rows: int, partitions: int, cores: int, scratch: Path) -> Measurement:
    """Measure one size in a process of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        answer = run_apart("benchmarks.scale", [directory, files, rows, partitions, cores])
    answer["phases"] = {name: Phase(**phase) for name, phase in answer["phases"].items()}
    return Measurement(**answer)


def run_apart(module: str, told: Sequence[Any]) -> dict[str, Any]:
    """What `python -m module --measure told` prints, which may `ask_clock`."""
    child = subprocess.Popen(
        [sys.executable, "-m", module, "--measure", json.dumps(told)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return _answer_clock(child)


def _answer_clock(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Tell the child its CPU seconds whenever it asks, until it gives its measurement."""
    assert child.stdin is not None
    assert child.stdout is not None
    clocks: dict[int, CpuClock] = {}
    with child, child.stdin, child.stdout:
        for line in child.stdout:
            if not line.startswith("cpu "):
                measured: dict[str, Any] = json.loads(line)
                break
            for pid in map(int, line.split()[1:]):
                if pid not in clocks:
                    clocks[pid] = started_clock(pid)
            print(sum(clock.seconds() for clock in clocks.values()), file=child.stdin, flush=True)
        else:
            raise ChildProcessError(f"the measuring process ended with {child.wait()}")
    for clock in clocks.values():
        clock.stop()
    return measured


def render(sizes: Sequence[Measurement], large: Measurement, cores: int) -> str:
    """The section for the benchmarks' page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.scale` on {cores} cores in a warm session, each size in a"
        f" process of its own: {ROWS_A_FILE} rows a file, {PARTITIONS} partitions, keys checked to be unique."
        " Milliseconds are CPU time per file, of driver, JVM, tasks and metastore together.",
        "",
        "| files | "
        + " | ".join(f"{name}, ms/file" for name in PHASES)
        + " | all, ms/file | by the clock, s |"
        " driver's Python before → peak, MB | its JVM, MB |",
        "|--:" * (len(PHASES) + 5) + "|",
    ]
    for each in sizes:
        phases = [each.phases[name] for name in PHASES]
        costs = [f"{phase.cpu / each.files * 1e3:.1f}" for phase in phases]
        total = sum(phase.cpu for phase in phases) / each.files * 1e3
        lines.append(
            f"| {each.files:,} | {' | '.join(costs)} | {total:.1f} | {sum(p.wall for p in phases):.0f} |"
            f" {each.python_before / 1e6:.0f} → {each.python_peak / 1e6:.0f} | {each.java_peak / 1e6:.0f} |"
        )
    return "\n".join([*lines, "", *_estimate(sizes, large)]) + "\n"


def _estimate(sizes: Sequence[Measurement], large: Measurement) -> list[str]:
    first, last = sizes[0], sizes[-1]
    taken = ("plan", "bootstrap")

    def slope(of: Callable[[Phase], float]) -> float:
        grown = sum(of(last.phases[name]) - of(first.phases[name]) for name in taken)
        return max(grown, 0.0) / (last.files - first.files)

    per_file, per_file_driver = slope(lambda phase: phase.cpu), slope(lambda phase: phase.driver)
    cpu = sum(large.phases[name].cpu for name in taken)
    per_row = max(cpu - large.files * per_file, 0.0) / large.rows
    sync = last.phases["sync"].wall / PARTITIONS
    python = (last.python_peak - first.python_peak) / (last.files - first.files)
    tasks = EXAMPLE_ROWS * per_row + EXAMPLE_FILES * (per_file - per_file_driver)
    driver = EXAMPLE_FILES * per_file_driver
    synced = EXAMPLE_PARTITIONS * sync
    minutes = (tasks / EXAMPLE_CORES + driver + synced) / 60
    return [
        "## RFC-12's example, on paper",
        "",
        f"A file costs {per_file * 1e3:.1f} CPU ms (the growth from {first.files:,} to {last.files:,} files),"
        f" of which {per_file_driver * 1e3:.2f} ms are the driver's Python; a row {per_row * 1e9:.0f} CPU ns"
        f" ({large.files} files of {large.rows // large.files:,} rows); a partition"
        f" {sync * 1e3:.1f} ms to sync.",
        "",
        f"{EXAMPLE_ROWS / 1e9:.0f} G rows in {EXAMPLE_FILES:,} files and {EXAMPLE_PARTITIONS:,} partitions on"
        f" {EXAMPLE_CORES} cores (RFC-12: about 1 h):",
        "",
        "| what | CPU s | by the clock, s |",
        "|--|--:|--:|",
        f"| rows, in tasks | {EXAMPLE_ROWS * per_row:,.0f} | {EXAMPLE_ROWS * per_row / EXAMPLE_CORES:,.0f} |",
        f"| files, in tasks and JVM | {tasks - EXAMPLE_ROWS * per_row:,.0f} |"
        f" {(tasks - EXAMPLE_ROWS * per_row) / EXAMPLE_CORES:,.0f} |",
        f"| files, on the driver alone | {driver:,.0f} | {driver:,.0f} |",
        f"| sync | | {synced:,.0f} |",
        f"| **together** | | **{minutes * 60:,.0f}** ({minutes:.1f} min) |",
        "",
        f"The driver's Python grows by {python / 1e3:.1f} kB a file, {EXAMPLE_FILES * python / 1e9:.1f} GB"
        " here. Not in it: an object store's answers (each file is opened twice and its skeleton put once, by"
        " tasks in parallel) and skew, if one partition's files are far larger than the others.",
    ]


def option_parser(description: str | None, sizes: Sequence[int]) -> argparse.ArgumentParser:
    """The options of a benchmark that writes its part of the page, by numbers of files."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sizes", default=",".join(str(size) for size in sizes))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-scale.md")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser


def main() -> None:
    """Measure all sizes and write the page."""
    options = option_parser(__doc__, SIZES).parse_args()
    if options.measure:
        directory, *numbers = json.loads(options.measure)
        print(json.dumps(asdict(measure(Path(directory), *numbers))))
        return
    sizes = []
    for files in (int(size) for size in options.sizes.split(",")):
        sizes.append(measure_apart(files, ROWS_A_FILE, PARTITIONS, options.cores, options.directory))
        print(sizes[-1], file=sys.stderr)
    large = measure_apart(LARGE_FILES, ROWS_A_LARGE_FILE, LARGE_FILES, options.cores, options.directory)
    print(large, file=sys.stderr)
    replace_part(options.output, TITLE, render(sizes, large, options.cores))


if __name__ == "__main__":
    main()
