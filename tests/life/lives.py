"""Random lives one after the other, each of a seed of its own, and the report of all of them."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable
from itertools import count

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.life.steps import LifeFailedError, StepCounts

MOST_FAILURES = 5
SEED = "HUDISQL_LIFE_SEED"


def first_seed() -> int:
    """The seed of the first life, by the environment, else any."""
    return int(os.environ.get(SEED) or random.randrange(1_000_000))


def run_lives(
    make_machine: Callable[[int], type[RuleBasedStateMachine]],
    counts: StepCounts,
    report: Callable[[str], None],
    *,
    seed_of_first: int,
    length: int,
    is_enough: Callable[[], bool],
    phases: tuple[Phase, ...] = (Phase.generate,),
) -> None:
    """Live lives of up to `length` steps until it `is_enough`, and report what happened in them.

    The machine of each life is made by its seed. A life that fails does not keep the others from being
    lived. Raises BaseExceptionGroup of all failures.
    """
    failures: list[BaseException] = []
    begun = time.monotonic()
    for number in count(seed_of_first):
        if is_enough() or len(failures) == MOST_FAILURES:
            break
        counts.lives += 1
        try:
            run_life(make_machine(number), number, length, phases)
        except (LifeFailedError, Exception) as error:
            error.add_note(f"repeat it with {SEED}={number}")
            failures.append(error)
            print("".join(traceback.format_exception(error)), flush=True)
        seconds = time.monotonic() - begun
        print(f"life {counts.lives} (seed {number}): {counts.total:,} steps in {seconds:,.0f} s", flush=True)
    report(
        f"{counts.lives:,} lives, {counts.total:,} steps, seeds {seed_of_first} to "
        f"{seed_of_first + counts.lives - 1}, {len(failures)} failures\n{counts.table()}"
    )
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} lives failed", failures)


def run_life(
    machine: type[RuleBasedStateMachine], number: int, length: int, phases: tuple[Phase, ...]
) -> None:
    """Live the one life of this seed."""
    chosen = settings(
        max_examples=1,
        stateful_step_count=length,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(seed(number)(machine), settings=chosen)
