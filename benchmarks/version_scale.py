"""Planning by the table version: tables of versions 6 and 9 with up to 10,000 files and 5,000 instants.

`python -m benchmarks.version_scale` makes the same table (`benchmarks.long_timelines`) in each version,
copy-on-write and merge-on-read, and plans reads of it: first with all instants on the active timeline, then
with all but 20 of them archived by hudisql. Planning is the driver's Python alone: no Spark is started, and
no data file is opened. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.long_timelines import LongTimeline, make_table
from benchmarks.pages import replace_part
from benchmarks.scale import option_parser, run_apart

SIZES: Final = (500, 5_000)
"""Numbers of instants; a table has two files for each."""
PARTITIONS: Final = 500
TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")
VERSIONS: Final = (6, 9)
KEPT: Final = 20
REPEATS: Final = 3
TITLE: Final = "Scale: planning by the table version"
NOW, FIRST, RECENT, HALF, PAST, ARCHIVING = (
    "all rows, now",
    "all rows, now, in a new process",
    "changes of the last 100 commits",
    "changes of one half",
    "the state of the middle commit",
    "archiving, 20 stay",
)
STEPS: Final = (FIRST, NOW, RECENT, HALF, PAST)
WHERE: Final = {"active": "on the timeline", "archived": "all but 20 archived"}


@dataclass(frozen=True)
class Measurement:
    """Of one table the driver's CPU seconds by step, before and after archiving, and what was planned."""

    table_type: str
    version: int
    instants: int
    active: Mapping[str, float]
    archived: Mapping[str, float]
    archiving: float
    found: Mapping[str, Any]


def shape_of(table_type: str, version: int, instants: int) -> LongTimeline:
    """A table with two files for each instant."""
    is_merged = table_type == "MERGE_ON_READ"
    groups = instants // 2 if is_merged else instants
    return LongTimeline(groups, PARTITIONS, instants, table_type, version, has_rows=False)


def measure(directory: Path, table_type: str, version: int, instants: int) -> Measurement:
    """Measure one table in this process; `directory` is scratch."""
    from hudisql.services.archive.archive_action import archive_instants
    from hudisql.storage import Storage
    from hudisql.table.hudi_table import open_table

    shape = shape_of(table_type, version, instants)
    path = str(make_table(directory / "table", shape))
    make_table(directory / "warm", shape_of(table_type, version, 20))
    _planned(str(directory / "warm"), shape_of(table_type, version, 20))
    active, found = _planned(path, shape)
    table = open_table(Storage(), path)
    commits = list(table.timeline.commits)
    begun = time.process_time()
    archive_instants(table, commits[:-KEPT], lambda: None)
    archiving = time.process_time() - begun
    archived, still_found = _planned(path, shape)
    assert still_found[NOW] == found[NOW]
    return Measurement(table_type, version, instants, active, archived, archiving, found)


def _planned(path: str, shape: LongTimeline) -> tuple[dict[str, float], dict[str, Any]]:
    """CPU seconds of each plan, the median of some but for the first, and what each found."""
    from hudisql.read.scan.incremental import incremental_read
    from hudisql.storage import Storage
    from hudisql.table.files.snapshot import load_file_slices
    from hudisql.table.history.timeline_window import timeline_window
    from hudisql.table.hudi_table import HudiTable, open_table

    def slices(table: HudiTable, as_of: str | None = None) -> list[Any]:
        return [
            (each.partition_path, each.file_id, each.base_instant_time, len(each.log_files))
            for each in load_file_slices(table, as_of=as_of)
        ]

    def changes(table: HudiTable, first: int) -> int:
        begin = shape.instant_time(first)[:-5] + "45000"
        window = timeline_window(table, begin, policy="BLOCK")
        return len(incremental_read(table, window).groups.versions)

    middle, last = shape.commits // 2, shape.commits - 1
    works: dict[str, Callable[[HudiTable], Any]] = {
        NOW: slices,
        RECENT: lambda table: changes(table, max(last - 100, 0)),
        HALF: lambda table: changes(table, middle),
        PAST: lambda table: slices(table, shape.instant_time(middle)),
    }
    costs: dict[str, float] = {}
    found: dict[str, Any] = {}
    for name, work in works.items():
        seconds = []
        for _ in range(REPEATS):
            begun = time.process_time()
            found[name] = work(open_table(Storage(), path))
            seconds.append(time.process_time() - begun)
        if name == NOW:
            costs[FIRST] = seconds[0]
        costs[name] = median(seconds)
    return costs, found


def measure_apart(table_type: str, version: int, instants: int, scratch: Path) -> Measurement:
    """Measure one table in a process of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        return Measurement(
            **run_apart("benchmarks.version_scale", [directory, table_type, version, instants])
        )


def render(measured: Sequence[Measurement]) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.version_scale`: CPU milliseconds of the driver's Python, the"
        f" median of {REPEATS}; {PARTITIONS} partitions, two files for each instant. The log files of a"
        " merge-on-read table are older than a compaction's base files, or newer, in equal parts. A new"
        " process has nothing of the history in memory.",
        "",
        "| table | instants | files | where | step | version 6, ms | version 9, ms | 9 : 6 |",
        "|--|--:|--:|--|--|--:|--:|--:|",
    ]
    tables = {(each.table_type, each.instants): {} for each in measured}
    for each in measured:
        tables[each.table_type, each.instants][each.version] = each
    for (table_type, instants), by_version in tables.items():
        if len(by_version) < len(VERSIONS):
            continue
        six, nine = (by_version[version] for version in VERSIONS)
        assert six.found == nine.found, (table_type, instants)
        head = f"| {table_type} | {instants:,} | {2 * instants:,} |"
        for member, where in WHERE.items():
            before, after = getattr(six, member), getattr(nine, member)
            lines += [f"{head} {where} | {_compared(name, before[name], after[name])}" for name in STEPS]
        lines.append(f"{head} | {_compared(ARCHIVING, six.archiving, nine.archiving)}")
    return "\n".join(lines) + "\n"


def _compared(step: str, six: float, nine: float) -> str:
    return f"{step} | {six * 1e3:.0f} | {nine * 1e3:.0f} | {nine / six:.2f} |"


def main() -> None:
    """Measure all tables and write their part of the page."""
    parser = option_parser(__doc__, SIZES)
    options = parser.parse_args()
    if options.measure:
        directory, *rest = json.loads(options.measure)
        print(json.dumps(asdict(measure(Path(directory), *rest))))
        return
    measured = []
    for table_type in TYPES:
        for instants in options.sizes.split(","):
            for version in VERSIONS:
                measured.append(measure_apart(table_type, version, int(instants), options.directory))
            replace_part(options.output, TITLE, render(measured))


if __name__ == "__main__":
    main()
