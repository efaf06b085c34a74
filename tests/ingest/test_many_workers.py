"""Many workers and tables under load, while workers are killed, stopped, ended and added: each event once."""

from __future__ import annotations

import signal
import time
from random import Random

import pytest

from hudisql.ingest.kafka.group_ownership import SESSION_MILLISECONDS
from tests.ingest.fed_tables import FedTable, FedTables
from tests.ingest.test_worker_group import is_taken, owner, produce_everywhere
from tests.ingest.worker_processes import WorkerProcess, WorkerServer
from tests.processes import wait_for

pytestmark = [pytest.mark.hms, pytest.mark.kafka, pytest.mark.soak]

GROUP = "many"
# Longer than a session: a worker that slept so long has lost its tables.
SLEEP_SECONDS = 8.0
# The lock of a worker that was killed while it held it expires after a minute.
LONGEST_SECONDS = 1800.0


def disturb(running: list[WorkerProcess], workers: WorkerServer, random: Random) -> str:
    """Kill, end or stop a worker; a killed or ended one is replaced by a new one. What was done."""
    chosen = running.pop(random.randrange(len(running)))
    what = random.choice(["kill", "kill", "stop", "end"])
    if what == "stop":
        chosen.signal(signal.SIGSTOP)
        time.sleep(SLEEP_SECONDS)
        chosen.signal(signal.SIGCONT)
        running.append(chosen)
    else:
        chosen.signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
        assert chosen.end(LONGEST_SECONDS) in (0, 1, -signal.SIGKILL), chosen.said()
        running.append(workers.start(group=GROUP))
    return what


@pytest.mark.parametrize(("processes", "count", "rounds"), [(4, 16, 6), (8, 200, 20), (8, 1_000, 8)])
def test_workers_that_come_and_go_lose_and_repeat_nothing(
    tables: FedTables, workers: WorkerServer, processes: int, count: int, rounds: int
) -> None:
    random = Random(13)
    made: list[FedTable] = [
        tables.make(
            f"many{processes}_{number}", "cow" if number % 4 == 0 else "mor", partitions=1, flush_seconds=1.0
        )
        for number in range(count)
    ]
    running = [workers.start(group=GROUP) for _ in range(processes)]
    done = []
    for number in range(rounds):
        produce_everywhere(made, number)
        time.sleep(random.uniform(0.5, 5))
        done.append(disturb(running, workers, random))
    wait_for(lambda: all(map(is_taken, made)), "".join(each.said() for each in running), LONGEST_SECONDS)
    for each in running:
        each.signal(signal.SIGTERM)
    for each in running:
        assert each.end(LONGEST_SECONDS) in (0, 1), each.said()
    for table in made:
        table.check()
    assert {"kill", "stop", "end"} <= set(done)


def test_tables_of_a_worker_that_is_ended_move_at_once(tables: FedTables, workers: WorkerServer) -> None:
    made = [tables.make(f"moved{number}", partitions=1, flush_seconds=0.1) for number in range(8)]
    running = [workers.start(group="moved") for _ in range(2)]
    rounds = iter(range(1_000))

    def owners() -> set[int]:
        produce_everywhere(made, next(rounds))
        wait_for(lambda: all(map(is_taken, made)), "".join(each.said() for each in running), LONGEST_SECONDS)
        return {owner(each) for each in made}

    wait_for(lambda: len(owners()) == 2, "both own tables", LONGEST_SECONDS)
    ended, other = running
    moving = [each for each in made if owner(each) == ended.pid]
    began = time.monotonic()
    owners()
    usual = time.monotonic() - began
    began = time.monotonic()
    ended.signal(signal.SIGTERM)
    produce_everywhere(moving, next(rounds))
    wait_for(lambda: all(map(is_taken, moving)), other.said(), LONGEST_SECONDS)
    seconds = time.monotonic() - began
    print(f"{len(moving)} tables moved in {seconds:.1f} s; a round of all without that takes {usual:.1f} s")
    assert ended.end() == 0, ended.said()
    # A worker that died would be missed after the group's session only.
    assert seconds < usual + SESSION_MILLISECONDS / 1000
    assert owners() == {other.pid}
