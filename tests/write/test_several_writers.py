"""Several processes write to a table that names no lock: what was acknowledged is there, exactly once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hudisql.format.table_properties import COPY_ON_WRITE, MERGE_ON_READ
from tests.oracle.line_process import LineProcess
from tests.write.several_writers import SERVICES, Writers, make_table, start_launcher

OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
CASES = {
    "cow_6": (COPY_ON_WRITE, 6, 2, {}),
    "mor_6": (MERGE_ON_READ, 6, 4, {}),
    "cow_9": (COPY_ON_WRITE, 9, 4, {}),
    "mor_9": (MERGE_ON_READ, 9, 3, {}),
    "cow_6_optimistic": (COPY_ON_WRITE, 6, 4, OPTIMISTIC),
    "mor_9_optimistic": (MERGE_ON_READ, 9, 3, OPTIMISTIC),
}


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LineProcess]:
    with closing(start_launcher(tmp_path)) as started:
        yield started


def test_two_processes_that_name_no_lock_lose_no_commit(tmp_path: Path, launcher: LineProcess) -> None:
    make_table(tmp_path / "t", COPY_ON_WRITE, 6)
    writers = Writers(launcher, tmp_path / "t", tmp_path / "events", commits=6)
    try:
        for number in range(2):
            writers.start(number)
        writers.wait()
    finally:
        writers.end()
    counts = writers.check()
    assert (counts["acknowledged"], counts["unknown"]) == (12, 0)
    assert not (tmp_path / "t" / ".hoodie" / "lock").exists()


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
def test_no_acknowledged_commit_vanishes_while_writers_are_killed_and_stopped(
    tmp_path: Path, launcher: LineProcess, case: str
) -> None:
    table_type, version, processes, settings = CASES[case]
    seconds = int(os.environ.get("HUDISQL_WRITERS_SECONDS", "600")) / len(CASES)
    seed = int(os.environ.get("HUDISQL_WRITERS_SEED", str(random.randrange(1 << 30))))
    chance = random.Random(seed)
    make_table(tmp_path / "t", table_type, version)
    writers = Writers(launcher, tmp_path / "t", tmp_path / "events", {**SERVICES, **settings})
    try:
        for number in range(processes):
            writers.start(number)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(chance.uniform(0.5, 4))
            writers.disturb(chance)
    finally:
        writers.end()
    counts = writers.check()
    print(f"{case}: {processes} writers, {seconds:.0f} s, seed {seed}: {dict(counts)}")
    assert counts["acknowledged"] > 0
