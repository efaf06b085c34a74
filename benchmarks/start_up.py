"""What a command takes from its start to its end, in a process of its own, beside plain `spark-sql`.

`python -m benchmarks.start_up [--before CHECKOUT]`: a small Hudi table, an embedded metastore that runs
already, three rounds in which each command runs once. CPU seconds are user and system time of all processes
that the command has started, also of those that end after it; the metastore is not among them. The first run
writes the archive of Spark's classes and is not counted. `--before` measures two commands with another
checkout, too. Writes a part of docs/benchmarks-latency.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from benchmarks.pages import replace_part
from benchmarks.run import ROOT
from hudisql.catalog.embedded import start_embedded_metastore, stop_embedded_metastore

TITLE: Final = "Start of a command"
ROUNDS: Final = 3
_PR_SET_CHILD_SUBREAPER: Final = 36
_MADE: Final = (
    "CREATE TABLE trips (id INT, rider STRING, city STRING) USING hudi PARTITIONED BY (city) "
    "TBLPROPERTIES (primaryKey = 'id'); INSERT INTO trips VALUES (1, 'a', 'x'), (2, 'b', 'y'); "
    "UPDATE trips SET rider = 'c' WHERE id = 1; SELECT * FROM trips ORDER BY id"
)
SPARK_SQL: Final = "spark-sql -e 'SELECT 1'"
WITHOUT_ARCHIVE: Final = "hudisql -e 'SELECT 1', without the archive"
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    WITHOUT_ARCHIVE: ("-e", "SELECT 1"),
    **{
        f'hudisql -e "{text}"': ("-e", text)
        for text in (
            "SELECT 1",
            "SELECT count(*) FROM trips",
            "SHOW TABLES",
            "DESCRIBE trips",
            "CALL show_commits(table => 'trips')",
            "CALL run_clean(table => 'trips', dry_run => true)",
            "CALL help()",
            "SELEC 1",
        )
    },
    "hudisql config": ("config",),
    "hudisql --version": ("--version",),
}
# Others that start Spark took as long before.
COMPARED: Final = ('hudisql -e "SELECT 1"', 'hudisql -e "SHOW TABLES"')


@dataclass(frozen=True)
class Taken:
    """CPU seconds, and seconds by the clock until the command has ended."""

    cpu: float
    seconds: float


def median(runs: list[Taken]) -> Taken:
    """The medians of several runs."""
    return Taken(statistics.median(run.cpu for run in runs), statistics.median(run.seconds for run in runs))


def run(command: list[str], directory: Path, checkout: Path, cache: Path) -> Taken:
    """Run a command and wait for all processes that it leaves behind."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=False)
    seconds = time.monotonic() - began
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds)


def measure(directory: Path, checkouts: list[Path]) -> dict[str, list[Taken]]:
    """The medians of each command, a value for each checkout."""
    warehouse, cache, empty = directory / "warehouse", directory / "cache", directory / "empty"
    hudisql = [sys.executable, "-m", "hudisql", "--warehouse", str(warehouse)]
    run([*hudisql, "-e", _MADE], directory, checkouts[0], cache)
    spark_sql = [str(Path(pyspark.__file__).parent / "bin" / "spark-sql"), "-e", "SELECT 1"]
    runs: dict[str, list[list[Taken]]] = {name: [[] for _ in checkouts] for name in (SPARK_SQL, *COMMANDS)}
    for _ in range(ROUNDS):
        runs[SPARK_SQL][0].append(run(spark_sql, directory, checkouts[0], empty))
        for name, arguments in COMMANDS.items():
            for at, checkout in enumerate(checkouts if name in COMPARED else checkouts[:1]):
                cached = empty if name == WITHOUT_ARCHIVE else cache
                runs[name][at].append(run([*hudisql, *arguments], directory, checkout, cached))
    return {name: [median(taken) for taken in values if taken] for name, values in runs.items()}


def render(found: dict[str, list[Taken]]) -> str:
    """The part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.start_up`: each command in a process of its own, `local[*]` on "
        f"{os.cpu_count()} cores, the median of {ROUNDS} runs. CPU seconds are those of all processes but "
        "the embedded metastore, which runs already. *Before*: hudisql without the archive of Spark's "
        "classes ([settings](settings.md#other-environment-variables)), when SHOW, DESCRIBE and CALL started "
        "Spark. Compare CPU seconds: those by the clock depend on what else runs on the machine, whose load "
        f"average was {os.getloadavg()[2]:.0f}.",
        "",
        "| command | CPU s | s by the clock | CPU s before | s before |",
        "|---|---|---|---|---|",
    ]
    for name, values in found.items():
        cells = [f"{number:.2f}" for taken in values for number in (taken.cpu, taken.seconds)]
        lines.append(f"| `{name}` | {' | '.join([*cells, *[''] * (4 - len(cells))])} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure and write the part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout of hudisql to compare with")
    before = parser.parse_args().before
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "warehouse").mkdir()
        start_embedded_metastore(directory / "warehouse")
        # From now on processes that outlive their parent are this one's children, and counted.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            found = measure(directory, [ROOT, *([before.resolve()] if before else [])])
        finally:
            stop_embedded_metastore(directory / "warehouse")
    page = render(found)
    replace_part(ROOT / "docs" / "benchmarks-latency.md", TITLE, page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
