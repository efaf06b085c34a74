"""The split point's estimate on simulated arrival patterns: what share of writes comes after the split.

`python -m benchmarks.ingest_split` simulates partitions whose rows arrive with a delay drawn from a pattern,
at most 60 days, and asks for a split point twice: with 20 days of one partition seen (power fit), and with 12
closed partitions (their quantile). The share is that of a further partition of the pattern. Writes its part
of docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.pages import replace_part
from hudisql.ingest.split.estimate import QUIET_PART, Days, SplitPoint, estimate_split_point, split_day

ROOT: Final = Path(__file__).resolve().parent.parent
TITLE: Final = "Split point"
GOAL: Final = 0.03
HORIZON: Final = 60
ROWS: Final = 100_000
CLOSED: Final = 12
SEEN_DAYS: Final = 20
TRIALS: Final = 40

Delays = npt.NDArray[np.float64]
Pattern = Callable[[np.random.Generator, int], Delays]


def _exponential(mean: float) -> Pattern:
    return lambda random, rows: random.exponential(mean, rows)


def _zipf(exponent: float) -> Pattern:
    # Truncated at the horizon: rows of day d (from 1) are in proportion to d ** -exponent.
    weights = np.arange(1, HORIZON + 1) ** -exponent
    shares = weights / weights.sum()
    return lambda random, rows: random.choice(HORIZON, rows, p=shares).astype(np.float64)


def _mixed(random: np.random.Generator, rows: int) -> Delays:
    late = rows // 10
    uniform = random.uniform(0, HORIZON, late)
    return np.concatenate([random.exponential(1.0, rows - late), uniform])


def _backfilled(random: np.random.Generator, rows: int) -> Delays:
    """15 % of the rows come at once, on some day from 10 to 50."""
    late = rows * 15 // 100
    return np.concatenate([random.exponential(2.0, rows - late), np.full(late, random.uniform(10, 50))])


PATTERNS: Final[Mapping[str, Pattern]] = {
    "exp2": _exponential(2),
    "exp7": _exponential(7),
    "zipf1.5": _zipf(1.5),
    "zipf1.1": _zipf(1.1),
    "mix": _mixed,
    "backfill": _backfilled,
}


@dataclass(frozen=True)
class Outcome:
    """Medians over the trials: split day, the right day, and the share of rows after the split."""

    pattern: str
    method: str
    day: float
    right_day: float
    late_share: float


def simulate_partition(pattern: Pattern, random: np.random.Generator, rows: int = ROWS) -> Days:
    """The rows of one partition by day, up to the horizon."""
    days = np.minimum(pattern(random, rows), HORIZON - 1).astype(int)
    return np.bincount(days, minlength=HORIZON).astype(np.float64)


def simulate(name: str, trials: int = TRIALS, seed: int = 7) -> list[Outcome]:
    """The split points of a pattern, by power fit and by closed partitions."""
    random = np.random.default_rng(seed)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(trials):
        target = simulate_partition(PATTERNS[name], random)
        closed = [simulate_partition(PATTERNS[name], random) for _ in range(CLOSED)]
        # Partitions begin a day after another; the youngest of the closed ones is old enough to count.
        quiet = int(HORIZON * QUIET_PART / (1 - QUIET_PART)) + 1
        aged = [np.concatenate([each, np.zeros(quiet + age)]) for age, each in enumerate(closed)]
        right = split_day(target)
        for point in (
            estimate_split_point([target[:SEEN_DAYS]]),
            estimate_split_point([*aged, target[:1]]),
        ):
            day = HORIZON if point.day is None else point.day
            found.setdefault(_name(point), []).append((day, right, _late_share(target, day)))
    medians = {method: np.median(np.array(each), axis=0) for method, each in found.items()}
    return [Outcome(name, method, *map(float, each)) for method, each in medians.items()]


def _name(point: SplitPoint) -> str:
    return str(point.method)


def _late_share(days: Days, day: int) -> float:
    return float(days[day:].sum() / days.sum())


def render(outcomes: list[Outcome]) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.ingest_split`: medians of {TRIALS} simulated partitions of {ROWS:,} rows that"
        f" arrive within {HORIZON} days; the split is asked for with {CLOSED} closed partitions, and with"
        f" {SEEN_DAYS} days of a single one. The right day is the first after which at most 2 % arrive.",
        "",
        "| arrivals | estimate by | split at day | right day | rows after the split | goal |",
        "|---|---|--:|--:|--:|---|",
    ]
    for each in outcomes:
        met = "met" if each.late_share <= GOAL else "**missed**"
        lines.append(
            f"| {each.pattern} | {each.method} | {each.day:.0f} | {each.right_day:.0f} | "
            f"{each.late_share:.1%} | ≤ {GOAL:.0%}: {met} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    outcomes = [each for name in PATTERNS for each in simulate(name, options.trials)]
    replace_part(options.output, TITLE, render(outcomes))


if __name__ == "__main__":
    main()
