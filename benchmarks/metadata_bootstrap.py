"""What the indexes of a metadata table add to a bootstrap.

`python -m benchmarks.metadata_bootstrap` bootstraps TPC-H lineitem, whose keys are sorted and have two
columns, and events with random UUIDs as keys, 12 million rows in 20 files each: without a metadata table, and
with more and more of its indexes. The bootstraps run in turn, three times after a first one; the median of
each counts. Writes its part of docs/benchmarks-scale.md.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import pyarrow.parquet as pq

from benchmarks import events, lineitem
from benchmarks.engines import HudisqlEngine, measured, start_hudisql
from benchmarks.pages import replace_part
from benchmarks.scale import option_parser

KEYS: Final = 12_000_000
KEYS_PER_SCALE_FACTOR: Final = 6_000_000
FILES: Final = 20
PARTITIONS: Final = 5
RUNS: Final = 3
MEMORY: Final = "3g"
SHARE_GOAL: Final = 0.15
SPEED_GOAL: Final = 2e6
TITLE: Final = "Scale: a metadata table's share of a bootstrap"


@dataclass(frozen=True)
class Variant:
    """A bootstrap: its arguments, the indexes that it makes, and the variant that it is compared with."""

    name: str
    arguments: str
    indexes: frozenset[str]
    before: str | None = None


_NONE, _LISTED, _STATISTICS, _KEYS = "6", "6, column_stats", "9", "9, record_index"
VARIANTS: Final = (
    Variant(_NONE, "table_version => 6", frozenset()),
    Variant(
        _LISTED,
        "table_version => 6, indexes => 'column_stats'",
        frozenset({"files", "column_stats"}),
        _NONE,
    ),
    Variant(
        _STATISTICS,
        "table_version => 9",
        frozenset({"files", "column_stats", "partition_stats"}),
        _NONE,
    ),
    Variant(
        _KEYS,
        "table_version => 9, indexes => 'record_index'",
        frozenset({"files", "column_stats", "partition_stats", "record_index"}),
        _STATISTICS,
    ),
)


@dataclass(frozen=True)
class Source:
    """Parquet files in partitions, their record key, and how many there are of it."""

    label: str
    directory: Path
    record_key: str
    precombine: str
    keys: int


def make_sources(directory: Path, keys: int) -> list[Source]:
    """lineitem and events; their files are made once below `directory`."""
    scale_factor = keys / KEYS_PER_SCALE_FACTOR
    lines = lineitem.make_lineitem(directory, scale_factor=scale_factor, files=FILES)
    uuids = events.make_events(directory, scale_factor=scale_factor, files=FILES)
    return [
        _partitioned(
            "lineitem, keys of two columns", lines, lineitem.KEY_COLUMNS, lineitem.PRECOMBINE_COLUMN
        ),
        _partitioned("events, UUID keys", uuids, events.KEY_COLUMNS, events.PRECOMBINE_COLUMN),
    ]


def _partitioned(label: str, directory: Path, key: tuple[str, ...], precombine: str) -> Source:
    """The same files by other names, in directories of partitions."""
    target = directory.with_name(f"{directory.name}-in-{PARTITIONS}")
    shutil.rmtree(target, ignore_errors=True)
    files = sorted(directory.glob("*.parquet"))
    for number, file in enumerate(files):
        partition = target / f"part={number * PARTITIONS // len(files)}"
        partition.mkdir(parents=True, exist_ok=True)
        os.link(file, partition / file.name)
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    return Source(label, target, ",".join(key), precombine, rows)


def measure(engine: HudisqlEngine, source: Source, scratch: Path, runs: int = RUNS) -> dict[str, float]:
    """The CPU seconds of each variant: the median of `runs` after a first one."""
    seconds: dict[str, list[float]] = {variant.name: [] for variant in VARIANTS}
    for run in range(runs + 1):
        for variant in VARIANTS:
            cpu = _bootstrap(engine, source, variant, scratch / "table")
            print(source.label, variant.name, f"{cpu:.2f}", file=sys.stderr, flush=True)
            if run:
                seconds[variant.name].append(cpu)
    return {name: median(taken) for name, taken in seconds.items()}


def _bootstrap(engine: HudisqlEngine, source: Source, variant: Variant, target: Path) -> float:
    _, cost = measured(
        engine,
        lambda: engine.sql(
            f"CALL bootstrap_table(table => 't', source => '{source.directory}',"
            f" record_key => '{source.record_key}', precombine => '{source.precombine}',"
            f" target_path => '{target}', sync => false, verify => false, {variant.arguments})"
        ),
    )
    made = {path.name for path in (target / ".hoodie" / "metadata").glob("[!.]*")}
    assert made == variant.indexes, made
    shutil.rmtree(target)
    return cost.cpu


def render(results: Sequence[tuple[Source, dict[str, float]]], runs: int, cores: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"Measured with `python -m benchmarks.metadata_bootstrap` on {cores} cores and local disks: {FILES}"
        f" files in {PARTITIONS} partitions, copy-on-write, keys checked to be unique, not verified, not"
        f" synced. CPU time is that of the whole process tree, the median of {runs} runs after a first one,"
        " all variants in turn. What is added is added to a bootstrap of version 6 without a metadata table;"
        " by a record index, to the one of version 9 without it.",
        "",
        "| source | keys | table version | metadata table | CPU, s | added, s | added : before |"
        " million keys/s and core |",
        "|--|--:|--:|--|" + "--:|" * 4,
    ]
    for source, seconds in results:
        for variant in VARIANTS:
            indexes = ", ".join(f"`{index}`" for index in sorted(variant.indexes)) or "none"
            cells = [source.label, f"{source.keys:,}", variant.name.partition(",")[0], indexes]
            cells += [f"{seconds[variant.name]:.2f}", *_added(source, variant, seconds)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(_goals(source, seconds) for source, seconds in results)]) + "\n"


def _added(source: Source, variant: Variant, seconds: dict[str, float]) -> list[str]:
    if variant.before is None:
        return ["", "", ""]
    before = seconds[variant.before]
    added = seconds[variant.name] - before
    speed = f"{source.keys / added / 1e6:.1f}" if "record_index" in variant.indexes else ""
    return [f"{added:.2f}", f"{added / before:.2f}", speed]


def _goals(source: Source, seconds: dict[str, float]) -> str:
    added = seconds[_KEYS] - seconds[_STATISTICS]
    share, speed = added / seconds[_KEYS], source.keys / added
    return (
        f"- {source.label}: the record index is {share:.0%} of its bootstrap (goal: at most"
        f" {SHARE_GOAL:.0%}): {_met(share <= SHARE_GOAL)}; {speed / 1e6:.1f} million keys a second and core"
        f" (goal: at least {SPEED_GOAL / 1e6:.0f}): {_met(speed >= SPEED_GOAL)}"
    )


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write this benchmark's part of the page."""
    options = option_parser(__doc__, (KEYS,)).parse_args(arguments)
    (keys,) = map(int, options.sizes.split(","))
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        directory = Path(scratch)
        sources = make_sources(options.directory, keys)
        with closing(start_hudisql(directory, cores=options.cores, memory=MEMORY)) as engine:
            results = [(source, measure(engine, source, directory)) for source in sources]
    replace_part(options.output, TITLE, render(results, RUNS, options.cores))


if __name__ == "__main__":
    main()
