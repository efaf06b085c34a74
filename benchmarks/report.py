"""The benchmark's page: what was measured as markdown, with the goals beside it. Values in, text out."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from benchmarks.engines import Cost
from benchmarks.full_record import STEP, FullRecordCost, describe_full_record
from benchmarks.memory import TaskMemory
from benchmarks.reads import READS

BOOTSTRAP_GOAL = 5.0
BYTES_PER_ROW_GOAL = 10.0
MEGABYTE = 1_000_000
UUID_KEYS = "UUID keys"


@dataclass(frozen=True)
class Sizes:
    """Number and total bytes of the files that were written."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Report:
    """Everything measured in one run; `costs` by engine and step."""

    scale_factor: float
    files: int
    cores: int
    rows: int
    source_bytes: int
    uuid_rows: int
    costs: Mapping[tuple[str, str], Cost]
    sizes: Mapping[str, Sizes]
    task_memory: Sequence[TaskMemory]


def render_report(report: Report) -> str:
    """The page."""
    return "\n".join(
        [
            *_heading(report),
            *_bootstrap(report),
            *_uuid_keys(report),
            *_full_record(report),
            *_reads(report),
            *_memory(report),
            "",
        ]
    )


def _heading(report: Report) -> Iterable[str]:
    yield "# Benchmarks"
    yield ""
    yield (
        f"`make bench`: TPC-H lineitem, scale factor {report.scale_factor:g}: {report.rows:,} rows, "
        f"{report.files} files, {report.source_bytes / MEGABYTE:,.0f} MB, keys sorted, snappy, decimals as "
        "FIXED_LEN_BYTE_ARRAY (what Hive 2.3 and Apache Hudi get right). Record key: l_orderkey, "
        "l_linenumber."
    )
    yield ""
    yield (
        "CPU seconds are user + system of the whole process tree (JVM and Python workers). Every step ran "
        "once to warm the session up; then its second run is shown, of reads the median of the next five. "
        "Start-up stands apart. Results of all engines "
        "were compared and are equal. Both sides read and write the same codec and physical types."
    )
    yield ""
    yield (
        f"Machine: {platform.machine()}, {os.cpu_count()} cores of which {report.cores} used, Python "
        f"{platform.python_version()}, PySpark {version('pyspark')} (hudisql, plain), PySpark 3.5 with Hudi "
        f"0.15.0, pyarrow {version('pyarrow')}."
    )
    yield ""


def _bootstrap(report: Report) -> Iterable[str]:
    ours = report.costs["hudisql", "bootstrap"]
    hudi = report.costs["Hudi 0.15", "bootstrap"]
    yield "## Bootstrap"
    yield ""
    yield "| | CPU s | wall s | written MB | bytes a row | start-up CPU s |"
    yield "|---|---|---|---|---|---|"
    for label, engine, size in (
        ("hudisql `bootstrap_table`, null keys looked for as Hudi does", "hudisql", "hudisql"),
        ("the same, `key_check => 'unique'`", "hudisql, keys unique", "hudisql"),
        (
            "the same, and `verify => true` (both are the default)",
            "hudisql, keys unique and verified",
            "hudisql",
        ),
        ("Hudi 0.15, metadata only", "Hudi 0.15", "Hudi 0.15"),
        ("plain Spark rewrite", "rewrite", "rewrite"),
    ):
        cost, written = report.costs[engine, "bootstrap"], report.sizes[size].bytes
        start = report.costs.get((engine, "start-up"))
        yield (
            f"| {label} | {cost.cpu:.1f} | {cost.wall:.1f} | {written / MEGABYTE:.1f} | "
            f"{written / report.rows:.1f} | {f'{start.cpu:.1f}' if start else 'as hudisql'} |"
        )
    yield ""
    ratio = hudi.cpu / ours.cpu
    row_bytes = report.sizes["hudisql"].bytes / report.rows
    goal = f"goal: {BOOTSTRAP_GOAL:g} ×): {_met(ratio >= BOOTSTRAP_GOAL)}"
    yield f"- {ratio:.1f} × fewer CPU seconds than Hudi's ({goal}"
    smaller = report.sizes["hudisql"].bytes <= report.sizes["Hudi 0.15"].bytes
    yield f"- skeletons with filters no larger than Hudi's: {_met(smaller)}"
    yield (
        f"- {row_bytes:.1f} bytes a row (goal: at most {BYTES_PER_ROW_GOAL:g} for sorted keys): "
        f"{_met(row_bytes <= BYTES_PER_ROW_GOAL)}"
    )
    yield ""


def _full_record(report: Report) -> Iterable[str]:
    ours, theirs = (
        FullRecordCost(report.costs[engine, STEP], sizes.files, sizes.bytes)
        for engine in ("hudisql", "Hudi 0.15")
        for sizes in (report.sizes[f"{engine} {STEP}"],)
    )
    return describe_full_record(ours, theirs)


def _uuid_keys(report: Report) -> Iterable[str]:
    yield "### UUID keys"
    yield ""
    yield (
        f"{report.uuid_rows:,} events in {report.files} files. The key is a random UUID: it neither "
        "compresses nor ascends, and the key ranges of all files overlap. Second runs, as above."
    )
    yield ""
    yield "| | CPU s | wall s | written MB | bytes a row |"
    yield "|---|---|---|---|---|"
    for label, engine, size in (
        ("hudisql `bootstrap_table`, null keys looked for as Hudi does", "hudisql", "hudisql"),
        ("the same, `key_check => 'unique'`", "hudisql, keys unique", "hudisql"),
        ("Hudi 0.15, metadata only", "Hudi 0.15", "Hudi 0.15"),
    ):
        cost, written = report.costs[engine, UUID_KEYS], report.sizes[f"{size}, {UUID_KEYS}"].bytes
        yield (
            f"| {label} | {cost.cpu:.1f} | {cost.wall:.1f} | {written / MEGABYTE:.1f} | "
            f"{written / report.uuid_rows:.1f} |"
        )
    yield ""
    ours, hudi = report.costs["hudisql", UUID_KEYS], report.costs["Hudi 0.15", UUID_KEYS]
    goal = f"goal: {BOOTSTRAP_GOAL:g} ×): {_met(hudi.cpu / ours.cpu >= BOOTSTRAP_GOAL)}"
    yield f"- {hudi.cpu / ours.cpu:.1f} × fewer CPU seconds than Hudi's ({goal}"
    smaller = report.sizes[f"hudisql, {UUID_KEYS}"].bytes <= report.sizes[f"Hudi 0.15, {UUID_KEYS}"].bytes
    yield f"- skeletons with filters no larger than Hudi's: {_met(smaller)}"
    yield ""


def _reads(report: Report) -> Iterable[str]:
    yield "## Reads"
    yield ""
    yield (
        "CPU seconds (wall seconds). The ratio is to plain parquet read by the same Spark. Plain parquet has "
        "no meta columns: there, the same statement without them."
    )
    yield ""
    yield "| read | plain, Spark 4 | hudisql | ratio | goal | plain, Spark 3.5 | Hudi 0.15 | ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    for read in READS:
        plain, ours = report.costs["plain, Spark 4", read.name], report.costs["hudisql", read.name]
        old_plain, hudi = report.costs["plain, Spark 3.5", read.name], report.costs["Hudi 0.15", read.name]
        ratio = ours.cpu / plain.cpu
        goal = "–" if read.goal is None else f"≤ {read.goal:g}: {_met(ratio <= read.goal)}"
        yield (
            f"| {read.name} | {_pair(plain)} | {_pair(ours)} | {ratio:.2f} | {goal} | "
            f"{_pair(old_plain)} | {_pair(hudi)} | {hudi.cpu / old_plain.cpu:.2f} |"
        )
    yield ""


def _memory(report: Report) -> Iterable[str]:
    yield "## Memory of one task"
    yield ""
    yield "Peak resident MB of a process that writes one file's skeleton, then reads the slice, all columns."
    yield ""
    yield "| row groups | rows | file MB | imports alone | skeleton written | slice read |"
    yield "|---|---|---|---|---|---|"
    for task in report.task_memory:
        peaks = (task.idle, task.after_write, task.after_read)
        shown = " | ".join(f"{peak / MEGABYTE:.0f}" for peak in peaks)
        yield f"| {task.row_groups} | {task.rows:,} | {task.file_bytes / MEGABYTE:.0f} | {shown} |"


def _pair(cost: Cost) -> str:
    return f"{cost.cpu:.2f} ({cost.wall:.2f})"


def _met(met: bool) -> str:
    return "met" if met else "**missed**"
