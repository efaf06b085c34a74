"""Full-record bootstrap side by side: `mode => 'full_record'` and Hudi 0.15's full-record selector.

Both write all rows of the source anew, gzip, into files of up to 120 MB. One table each, the second of two
in a warm session; the rows of both are compared by counts and sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines import Cost, RealHudiEngine, Rows

FULL_RECORD_GOAL = 3.0
STEP = "full-record bootstrap"
MEGABYTE = 1_000_000
_SELECTOR = "org.apache.hudi.client.bootstrap.selector.FullRecordBootstrapModeSelector"
_PROVIDER = "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider"


@dataclass(frozen=True)
class FullRecordCost:
    """What one side took and wrote."""

    cost: Cost
    files: int
    bytes: int


def rewrite_theirs(engine: RealHudiEngine, source: Path, target: Path, options: dict[str, str]) -> Rows:
    """Bootstrap the source by Apache Hudi, all rows rewritten."""
    return engine.bootstrap(
        str(source),
        str(target),
        {
            **options,
            "hoodie.bootstrap.mode.selector": _SELECTOR,
            "hoodie.bootstrap.full.input.provider": _PROVIDER,
        },
    )


def describe_full_record(ours: FullRecordCost, theirs: FullRecordCost) -> Iterable[str]:
    """The section of the benchmarks' page."""
    yield "## Full-record bootstrap"
    yield ""
    yield "| | CPU s | wall s | files | written MB |"
    yield "|---|---|---|---|---|"
    for label, side in (("hudisql `mode => 'full_record'`", ours), ("Hudi 0.15, full record", theirs)):
        yield (
            f"| {label} | {side.cost.cpu:.1f} | {side.cost.wall:.1f} | {side.files} | "
            f"{side.bytes / MEGABYTE:.1f} |"
        )
    yield ""
    ratio = theirs.cost.cpu / ours.cost.cpu
    met = "met" if ratio >= FULL_RECORD_GOAL else "missed"
    yield f"- {ratio:.1f} × fewer CPU seconds than Hudi's (goal: {FULL_RECORD_GOAL:g} ×): {met}"
    yield ""
