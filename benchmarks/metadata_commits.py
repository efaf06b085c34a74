"""What small commits pay for a metadata table, its compactions included.

`python -m benchmarks.metadata_commits` bootstraps 10,000 files of 20 rows as copy-on-write tables of versions
6 and 9 with a record index, each in a process of its own, and changes one row 60 times. After each commit
queries for other record keys are planned. Writes its part of docs/benchmarks-scale.md.
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
from statistics import mean, median
from typing import Any, Final
from unittest import mock

from benchmarks.pages import replace_part
from benchmarks.scale import make_source, option_parser, run_apart
from benchmarks.statement_scale import HEAP, ROWS_A_FILE
from tests.requests.counted_requests import counted_requests

FILES: Final = 10_000
PARTITIONS: Final = 500
COMMITS: Final = 60
PLANS: Final = 3
VERSIONS: Final = (6, 9)
TITLE: Final = "Scale: small commits into a table with a metadata table"
_PARTS: Final = ("prepare_metadata_table", "prepare_commit", "write_commit", "write_clean")


@dataclass(frozen=True)
class Commit:
    """One commit: CPU seconds of the driver's Python for the metadata table, of it those of the compaction,
    and of the plan of a query afterwards with its requests and the most log files of a file group."""

    cpu: float
    compaction: float | None
    plan: float
    requests: int
    log_files: int


def measure(directory: Path, version: int, files: int, partitions: int, cores: int) -> list[Commit]:
    """Measure the commits of one table in this process; `directory` is scratch."""
    import hudisql
    from hudisql.console import SilentConsole

    conf = {"spark.master": f"local[{cores}]", "spark.ui.enabled": "false", "spark.driver.memory": HEAP}
    source, table = make_source(directory / "source", files, ROWS_A_FILE, partitions), directory / "table"
    warehouse, rows = str(directory / "warehouse"), files * ROWS_A_FILE
    with hudisql.connect(warehouse=warehouse, conf=conf, console=SilentConsole()) as session:
        session.sql("CREATE DATABASE scale")
        session.sql(
            f"CALL bootstrap_table(table => 'scale.t', source => '{source}', record_key => 'id',"
            f" target_path => '{table}', table_version => {version}, indexes => 'record_index',"
            " verify => false, sync => false)"
        )
        session.sql(f"CREATE TABLE scale.t USING hudi LOCATION '{table}'")
        session.sql("SET hoodie.metadata.enable = true")
        commits = []
        for number in range(COMMITS + 1):
            with timed_parts() as seconds:
                session.sql(f"UPDATE scale.t SET amount = {number} WHERE id = {number * 7_919 % rows}")
            spent = [sum(seconds[part]) for part in _PARTS]
            plans = []
            for again in range(PLANS):
                key = (number * PLANS + again) * 104_729 % rows
                with counted_requests(source, table) as requests:
                    cpu = time.process_time()
                    session.sql(f"EXPLAIN SELECT amount FROM scale.t WHERE id = {key}").rows  # noqa: B018
                    plans.append(time.process_time() - cpu)
            compaction = spent[0] if seconds["_compact_group"] else None
            commits.append(
                Commit(sum(spent), compaction, median(plans), len(requests), _log_files(session, table))
            )
            print(version, number, commits[-1], file=sys.stderr, flush=True)
        assert "record_index" in (table / ".hoodie" / "hoodie.properties").read_text()
        # The first one warms up.
        return commits[1:]


@contextmanager
def timed_parts() -> Iterator[dict[str, list[float]]]:
    """The CPU seconds of this process in the parts of commits that keep the metadata table, by name."""
    from hudisql.services.clean import clean_action
    from hudisql.write.metadata_table import metadata_compaction
    from hudisql.write.transaction import commit

    seconds: dict[str, list[float]] = {}

    def timed(module: Any, name: str) -> Any:
        work: Callable[..., Any] = getattr(module, name)
        taken = seconds.setdefault(name, [])

        def run(*arguments: Any) -> Any:
            cpu = time.process_time()
            try:
                return work(*arguments)
            finally:
                taken.append(time.process_time() - cpu)

        return mock.patch.object(module, name, run)

    with (
        timed(commit, "prepare_metadata_table"),
        timed(commit, "prepare_commit"),
        timed(commit, "write_commit"),
        timed(clean_action, "write_clean"),
        timed(metadata_compaction, "_compact_group"),
    ):
        yield seconds
    assert seconds["write_commit"], "the commit has not asked for the metadata table's part"


def _log_files(session: Any, table: Path) -> int:
    """The most log files of the latest slice of a file group of the metadata table."""
    from hudisql.table.hudi_table import open_table
    from hudisql.table.metadata_table.metadata_table import find_metadata_table

    metadata = find_metadata_table(open_table(session.context.storage, str(table)))
    return max(len(each.log_files) for index in metadata.indexes for each in metadata.latest_slices(index))


def render(commits: dict[int, list[Commit]], files: int, partitions: int, cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.metadata_commits` on {cores} cores and local disks: {files:,}"
        f" files of {ROWS_A_FILE} rows in {partitions} partitions, bootstrapped as copy-on-write tables with"
        f" a record index; then {COMMITS} times `UPDATE` of one row by its record key. CPU time is that of"
        " the driver's Python for the metadata table alone, also of the clean after the commit, which"
        " writes a deltacommit, too; a compaction is part of the commit that runs it."
        f" Between commits `EXPLAIN` of {PLANS} queries for other record keys, the median of each time.",
        "",
        "| table version | a commit without compaction, CPU ms | compactions | the largest, CPU ms |"
        " a commit on average with its share, CPU ms |",
        "|--:|--:|--:|--:|--:|",
    ]
    for version, taken in commits.items():
        compactions = [each.compaction for each in taken if each.compaction is not None]
        lines.append(
            f"| {version} | {median(each.cpu for each in taken if each.compaction is None) * 1e3:.0f} |"
            f" {len(compactions)} | {max(compactions, default=0) * 1e3:.0f} |"
            f" {mean(each.cpu for each in taken) * 1e3:.0f} |"
        )
    lines += [
        "",
        "| table version | plan of a query for a record key | most log files of a file group | CPU, ms |"
        " requests |",
        "|--:|--|--:|--:|--:|",
    ]
    for version, taken in commits.items():
        for label, found in _around_compactions(taken).items():
            lines.append(
                f"| {version} | {label} | {max(each.log_files for each in found)} |"
                f" {median(each.plan for each in found) * 1e3:.0f} | {max(each.requests for each in found)} |"
            )
    return "\n".join(lines) + "\n"


def _around_compactions(commits: Sequence[Commit]) -> dict[str, list[Commit]]:
    """The commits whose plans come right before a compaction and right after one."""
    at = [number for number, commit in enumerate(commits) if number and commit.compaction is not None]
    return {
        "before a compaction": [commits[number - 1] for number in at],
        "after it": [commits[number] for number in at],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    options = option_parser(__doc__, (FILES,)).parse_args(arguments)
    if options.measure:
        directory, *numbers = json.loads(options.measure)
        measured = measure(Path(directory), *numbers)
        print(json.dumps({"commits": [asdict(commit) for commit in measured]}))
        return
    (files,) = map(int, options.sizes.split(","))
    partitions = min(PARTITIONS, files // 4)
    commits = {}
    for version in VERSIONS:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            told = [directory, version, files, partitions, options.cores]
            answer = run_apart("benchmarks.metadata_commits", told)
        commits[version] = [Commit(**commit) for commit in answer["commits"]]
    replace_part(options.output, TITLE, render(commits, files, partitions, options.cores))


if __name__ == "__main__":
    main()
